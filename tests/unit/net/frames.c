/* What another rank sends, changed on the way: recordings of exchanges and of the star are cut, turned, repeated and lengthened, with
 * checksums that are wrong or right again, and given to the functions that read them in a run.  Nothing is written outside of what was
 * expected, nothing is allocated, and what was not as sent ends the run with a sentence.
 *
 * 100,000 frames; HEADROOM_TEST_ALL=1: 1,000,000. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/fault.h"
#include "net/mesh.h"
#include "test.h"

enum { EPOCH = 7, MOST = 600, GUARD = 64, TAPE = 4096, PIECES = 3 };

typedef struct tape {
    hri_stream base;
    unsigned char bytes[TAPE];
    size_t frames[2 * PIECES + 1], count; /* where each frame begins; the last one: the end */
    size_t used, at;
    uint64_t *random;
} tape;

static int64_t swallow(hri_stream *s, const void *data, size_t bytes) {
    (void)s, (void)data;
    return (int64_t)bytes;
}

/* In pieces of any length, as sockets give them. */
static int64_t play(hri_stream *s, void *data, size_t bytes) {
    tape *t = (tape *)s;
    const size_t left = t->used - t->at, some = 1 + test_random(t->random) % 200;
    size_t n = left < bytes ? left : bytes;
    n = n < some ? n : some;
    memcpy(data, t->bytes + t->at, n);
    t->at += n;
    return (int64_t)n;
}

static const hri_stream_ops ops = {.send = swallow, .receive = play};

/* ---- recordings ---- */

static void put_frame(tape *t, hri_frame f, const unsigned char *payload) {
    f.epoch = EPOCH;
    f.payload_crc = hri_crc32c(0, payload, f.bytes);
    t->frames[t->count++] = t->used;
    hri_frame_encode(&f, t->bytes + t->used);
    memcpy(t->bytes + t->used + HRI_FRAME_BYTES, payload, f.bytes);
    t->used += HRI_FRAME_BYTES + f.bytes;
    t->frames[t->count] = t->used;
}

/* An exchange of so many bytes in up to PIECES frames. */
static void record_data(tape *t, const unsigned char *payload, uint64_t total) {
    uint64_t at = 0;
    do {
        const uint64_t left = total - at;
        const int last = left < 2 || t->count + 1 == PIECES || test_random(t->random) % 2;
        const uint64_t bytes = last ? left : 1 + test_random(t->random) % (left - 1);
        put_frame(t,
                  (hri_frame){.kind = HRI_FRAME_DATA,
                              .from = 1,
                              .number = 1,
                              .offset = at,
                              .bytes = bytes,
                              .total = total},
                  payload + at);
        at += bytes;
    } while (at < total);
}

static void record_star(tape *t) {
    unsigned char payload[HRI_END_BYTES] = {0};
    hri_net_end end = {.rank = 1, .status = HR_E_IO, .text = "no such file"};
    const int last = (int)(test_random(t->random) % 3);
    put_frame(t, (hri_frame){.kind = HRI_FRAME_BEAT, .from = 1, .number = 1}, payload);
    put_frame(t,
              (hri_frame){.kind = HRI_FRAME_SHARE, .from = 1, .number = 1, .bytes = 8, .total = 8},
              payload);
    if (last == 0) {
        put_frame(t, (hri_frame){.kind = HRI_FRAME_BYE, .from = 1}, payload);
    } else {
        hri_end_pack(&end, payload);
        put_frame(t,
                  (hri_frame){.kind = last == 1 ? HRI_FRAME_CAUSE : HRI_FRAME_END,
                              .from = 1,
                              .bytes = HRI_END_BYTES,
                              .total = HRI_END_BYTES},
                  payload);
    }
}

/* ---- changes ---- */

static void set_crc(unsigned char *head) {
    const uint32_t crc = hri_crc32c(0, head, 60);
    for (int i = 0; i < 4; i++) {
        head[60 + i] = (unsigned char)(crc >> (8 * i));
    }
}

/* A field of a head gets a value that may mean something; its checksum is right again. */
static void set_field(tape *t, unsigned char *head) {
    static const struct {
        int at, bytes;
    } fields[] = {{0, 4},  {4, 1},  {5, 1},  {6, 2},  {8, 4},  {12, 4}, {16, 8},
                  {24, 4}, {28, 4}, {32, 8}, {40, 8}, {48, 8}, {56, 4}};
    const uint64_t values[] = {
        0,  1,         2,         UINT64_MAX, HRI_FRAME_MOST,        HRI_FRAME_MOST + 1,
        64, MOST + 1u, INT64_MAX, UINT32_MAX, test_random(t->random)};
    const size_t f = test_random(t->random) % (sizeof fields / sizeof *fields);
    const uint64_t value = values[test_random(t->random) % (sizeof values / sizeof *values)];
    for (int i = 0; i < fields[f].bytes; i++) {
        head[fields[f].at + i] = (unsigned char)(value >> (8 * i));
    }
    set_crc(head);
}

/* Moves what is behind `at` by `more` bytes, as far as there is room. */
static void stretch(tape *t, size_t at, size_t more) {
    if (t->used + more <= TAPE) {
        memmove(t->bytes + at + more, t->bytes + at, t->used - at);
        t->used += more;
    }
}

/* True: the checksums are right again, so that nobody can tell whether it was sent so. */
static bool change(tape *t) {
    const size_t k = test_random(t->random) % t->count, at = t->frames[k];
    const size_t bytes = t->frames[k + 1] - at, any = test_random(t->random) % t->used;
    /* Of frames that were cut off before only bits are left to turn. */
    switch (at + bytes <= t->used ? test_random(t->random) % 7 : 0) {
    case 0: /* one bit */
        t->bytes[any] = (unsigned char)(t->bytes[any] ^ (1u << test_random(t->random) % 8));
        return false;
    case 1:
        set_field(t, t->bytes + at);
        return true;
    case 2: /* cut off */
        t->used = any;
        return false;
    case 3: /* one frame is missing */
        memmove(t->bytes + at, t->bytes + at + bytes, t->used - at - bytes);
        t->used -= bytes;
        return false;
    case 4: /* one comes twice */
        stretch(t, at, bytes);
        return false;
    case 5: /* something between */
        stretch(t, any, 1 + test_random(t->random) % 80);
        return false;
    default: /* another payload, whose sum is right */
        if (bytes > HRI_FRAME_BYTES) {
            unsigned char *head = t->bytes + at;
            head[HRI_FRAME_BYTES] ^= 0x55;
            const uint32_t crc = hri_crc32c(0, head + HRI_FRAME_BYTES, bytes - HRI_FRAME_BYTES);
            for (int i = 0; i < 4; i++) {
                head[56 + i] = (unsigned char)(crc >> (8 * i));
            }
            set_crc(head);
        }
        return true;
    }
}

/* ---- rank 0 of two, without its thread ---- */

typedef struct desk {
    hri_mesh mesh;
    hri_member members[2];
    hri_mesh_talk talks[2];
    hri_mesh_link links[2];
    hri_mesh_piece pieces[4];
    hri_net_range to[2], from[2];
    unsigned char in[GUARD + MOST + GUARD], nothing[1];
} desk;

static void sit_down(desk *d, tape *t, uint64_t total) {
    memset(d, 0, sizeof *d);
    memset(d->in, 0xee, sizeof d->in);
    snprintf(d->members[1].name, sizeof d->members[1].name, "rank 1");
    d->to[0] = d->to[1] = d->from[0] = (hri_net_range){d->nothing, 0};
    d->from[1] = (hri_net_range){d->in + GUARD, total};
    d->talks[0].fd = d->talks[1].fd = -1;
    d->links[1] = (hri_mesh_link){.stream = &t->base, .out_number = 1, .in_number = 1};
    d->mesh = (hri_mesh){.m = {.size = 2, .epoch = EPOCH, .members = d->members},
                         .talks = d->talks,
                         .talk_count = 2,
                         .links = d->links,
                         .pieces = d->pieces,
                         .posted = 1,
                         .mutex = PTHREAD_MUTEX_INITIALIZER,
                         .moved = PTHREAD_COND_INITIALIZER};
    d->mesh.flights[1] = (hri_mesh_flight){.to = d->to, .from = d->from};
}

static void check_guards(const desk *d, uint64_t total) {
    for (size_t i = 0; i < sizeof d->in; i++) {
        CHECK(d->in[i] == 0xee || (i >= GUARD && i < GUARD + total));
    }
}

static int exchange(desk *d, tape *t, const unsigned char *payload, uint64_t *seen) {
    const uint64_t total = test_random(t->random) % 4 ? test_random(t->random) % MOST : 0;
    record_data(t, payload, total);
    *seen += t->count;
    const int honest = test_random(t->random) % 16 == 0;
    int unseen = 0;
    for (uint64_t i = 1 + test_random(t->random) % 3; !honest && i > 0; i--) {
        unseen += t->used ? change(t) : 0;
    }
    sit_down(d, t, total);
    while (hri_mesh_pump(&d->mesh, 1, 1) && !d->mesh.ended) {
    }
    check_guards(d, total);
    const int whole = d->links[1].in_number == 2;
    CHECK(!honest || (whole && !d->mesh.ended));
    CHECK(!d->mesh.ended || (d->mesh.end.text[0] && d->mesh.end.rank == 1));
    CHECK(!whole || unseen || memcmp(d->in + GUARD, payload, total) == 0);
    return d->mesh.ended || !whole;
}

static int star(desk *d, tape *t, uint64_t *seen) {
    int ends[2], open = 1;
    record_star(t);
    *seen += t->count;
    const int honest = test_random(t->random) % 16 == 0;
    int unseen = 0;
    for (uint64_t i = 1 + test_random(t->random) % 3; !honest && i > 0; i--) {
        unseen += t->used ? change(t) : 0;
    }
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    sit_down(d, t, 0);
    d->talks[1].fd = ends[0];
    CHECK(write(ends[1], t->bytes, t->used) == (ssize_t)t->used);
    close(ends[1]);
    while (open && !d->mesh.ended) {
        hri_mesh_hear(&d->mesh, 1);
        open = d->talks[1].fd >= 0;
    }
    CHECK(!d->mesh.ended || d->mesh.end.text[0]);
    CHECK(!honest || d->mesh.ended || d->talks[1].bye);
    if (open) {
        close(ends[0]);
    }
    return d->mesh.ended || !d->talks[1].bye;
}

TEST_TIMEOUT(net_frames, changed_on_the_way_are_refused, 300) {
    static desk d;
    static tape t;
    uint64_t random = test_seed(), seen = 0, cases = 0, refused = 0;
    const uint64_t wanted = getenv("HEADROOM_TEST_ALL") ? 1000000 : 100000;
    unsigned char payload[MOST];
    for (int i = 0; i < MOST; i++) {
        payload[i] = (unsigned char)test_random(&random);
        payload[i] = payload[i] == 0xee ? 0 : payload[i];
    }
    hri_fault_set(HRI_FAULT_ALLOC, 1, 1); /* whoever allocates is seen */
    for (; seen < wanted; cases++) {
        t.used = t.at = t.count = 0;
        t.base.ops = &ops;
        t.random = &random;
        refused += (uint64_t)(cases % 10 ? exchange(&d, &t, payload, &seen) : star(&d, &t, &seen));
    }
    CHECK_EQ(hri_fault_delivered(), 0);
    hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
    CHECK(refused > cases / 2 && refused < cases);
    printf("    %llu frames in %llu messages, %llu refused or never whole\n",
           (unsigned long long)seen, (unsigned long long)cases, (unsigned long long)refused);
}
