/* A thousand callers with wrong proofs are refused, and one that knows the token is let in. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/meeting.h"
#include "test.h"

enum { WRONG = 1000, HELLO_BYTES = HRI_MEMBER_BYTES + HRI_NONCE_BYTES };

/* What is wrong with the proof. */
typedef enum fault {
    A_BIT,  /* one of 256 is turned */
    NOISE,  /* random bytes */
    TOKEN,  /* another token */
    ROLE,   /* that of who is called: an answer sent back */
    RUN,    /* of another run */
    RANK,   /* of another rank than it said */
    SIZE,   /* of a group of another size */
    NONCES, /* one nonce for both */
    OLD,    /* the right proof of the connection before */
    FAULTS
} fault;

typedef struct caller {
    int fd;
    fault kind;
    uint64_t random;
    const hri_meeting *m;
    unsigned char old[HRI_SHA256_BYTES]; /* kept from call to call */
    int was_answered;                    /* with a proof of the other side */
} caller;

static void spoil(caller *c, const unsigned char *mine, const unsigned char *theirs,
                  unsigned char out[HRI_SHA256_BYTES]) {
    unsigned char key[HRI_TOKEN_BYTES];
    memcpy(key, c->m->key, sizeof key);
    key[5] = (unsigned char)(key[5] ^ (c->kind == TOKEN ? 1 : 0));
    const hri_proof_of of = {.caller = c->kind != ROLE,
                             .caller_nonce = mine,
                             .called_nonce = c->kind == NONCES ? mine : theirs,
                             .rank = c->kind == RANK ? 2 : 1,
                             .size = c->kind == SIZE ? 4 : 3,
                             .run = c->kind == RUN ? "proof-" : c->m->run};
    unsigned char right[HRI_SHA256_BYTES];
    hri_proof_make(key, &of, right);
    memcpy(out, c->kind == OLD ? c->old : right, HRI_SHA256_BYTES);
    memcpy(c->old, right, HRI_SHA256_BYTES);
    if (c->kind == A_BIT) {
        const uint64_t bit = test_random(&c->random) % (8 * HRI_SHA256_BYTES);
        out[bit / 8] = (unsigned char)(out[bit / 8] ^ (1u << bit % 8));
    }
    for (int i = 0; c->kind == NOISE && i < HRI_SHA256_BYTES; i++) {
        out[i] = (unsigned char)test_random(&c->random);
    }
}

/* The protocol by hand, as far as the other side goes. */
static void *call(void *user) {
    caller *c = user;
    const uint64_t until = hri_clock_ns() + UINT64_C(10000000000);
    unsigned char mine[HELLO_BYTES] = {0}, theirs[HELLO_BYTES], proof[HRI_SHA256_BYTES];
    const hri_member own = {.rank = 1, .size = 3};
    hri_member_encode(&own, mine);
    for (int i = 0; i < HRI_NONCE_BYTES; i++) {
        mine[HRI_MEMBER_BYTES + i] = (unsigned char)test_random(&c->random);
    }
    hri_frame f = {.kind = HRI_FRAME_HELLO, .from = 1, .bytes = sizeof mine};
    c->was_answered = 0;
    if (hri_frame_send(c->fd, &f, mine, until) == HR_OK &&
        hri_frame_receive(c->fd, &f, theirs, sizeof theirs, until) == HR_OK) {
        spoil(c, mine + HRI_MEMBER_BYTES, theirs + HRI_MEMBER_BYTES, proof);
        f = (hri_frame){.kind = HRI_FRAME_PROOF, .from = 1, .bytes = sizeof proof};
        unsigned char answer[512];
        c->was_answered = hri_frame_send(c->fd, &f, proof, until) == HR_OK &&
                          hri_frame_receive(c->fd, &f, answer, sizeof answer, until) == HR_OK &&
                          f.kind == HRI_FRAME_PROOF;
    }
    close(c->fd);
    return NULL;
}

/* One caller at the door of rank 0. */
static hr_status greet(const hri_meeting *m, caller *c, hri_member *peer, hri_prose *why) {
    int ends[2];
    pthread_t thread;
    const hri_member own = {.size = 3};
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    c->fd = ends[1];
    CHECK(pthread_create(&thread, NULL, call, c) == 0);
    const uint64_t until = hri_clock_ns() + UINT64_C(10000000000);
    const hr_status status = hri_greet(ends[0], false, m, &own, peer, until, why);
    close(ends[0]);
    CHECK(pthread_join(thread, NULL) == 0);
    return status;
}

TEST(net_proof, a_thousand_wrong_ones_are_refused_and_a_right_one_is_not) {
    hri_meeting m = {.size = 3, .run = "proofs"};
    caller c = {.m = &m, .random = test_seed()};
    int refused = 0;
    for (int i = 0; i < HRI_TOKEN_BYTES; i++) {
        m.key[i] = (unsigned char)test_random(&c.random);
    }
    for (int i = 0; i < WRONG; i++) {
        hri_member peer = {.rank = 77};
        hri_prose why = {""};
        c.kind = (fault)(i % FAULTS);
        CHECK_STATUS(greet(&m, &c, &peer, &why), HR_E_INVALID);
        CHECK(strstr(why.text, "the token or the name of the run does not match") != NULL);
        CHECK(peer.rank == 77 && !c.was_answered); /* who knows nothing learns nothing */
        refused++;
    }
    hri_member peer = {0};
    hri_prose why = {""};
    c.kind = FAULTS;
    CHECK_OK(greet(&m, &c, &peer, &why));
    CHECK(peer.rank == 1 && peer.size == 3 && c.was_answered);
    printf("    %d wrong proofs refused, 1 right one accepted\n", refused);
}
