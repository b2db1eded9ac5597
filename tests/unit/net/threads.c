/* Members of one process: what arrives, in which order, and how everybody learns of an end. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "net/net.h"
#include "net_rounds.h"
#include "test.h"

enum { MOST = NET_MOST, ROUNDS = 20 };

typedef struct member {
    hri_net *net;
    hr_status status;
    hri_net_end end;
    int work; /* what this member does */
} member;

static void *run(void *arg) {
    member *m = arg;
    if (m->work == 1) {
        hri_net_stop(m->net, HR_E_NOMEM_HOST, "no memory for part %d", 3);
        m->status = HR_OK;
    } else if (m->work == 2) {
        m->status = HR_OK; /* leaves at once */
    } else {
        m->status = net_rounds(m->net, ROUNDS);
        hri_net_cause(m->net, &m->end);
    }
    hri_net_close(m->net);
    return NULL;
}

static void group(uint32_t count, int odd, int work, member *members) {
    hri_net *nets[MOST];
    pthread_t threads[MOST];
    CHECK_OK(hri_net_open_threads(&(hri_net_options){.wire = "threads"}, count, nets, NULL));
    for (uint32_t i = 0; i < count; i++) {
        members[i] = (member){.net = nets[i], .work = (int)i == odd ? work : 0};
        CHECK_EQ(hri_net_rank(nets[i]), i);
        CHECK_EQ(hri_net_size(nets[i]), count);
    }
    for (uint32_t i = 0; i < count; i++) {
        CHECK(pthread_create(&threads[i], NULL, run, &members[i]) == 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
}

TEST(net_threads, every_pair_gets_its_own_bytes) {
    const uint32_t counts[] = {1, 2, 3, 4, 8};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        member members[MOST];
        group(counts[i], -1, 0, members);
        for (uint32_t k = 0; k < counts[i]; k++) {
            CHECK_OK(members[k].status);
        }
    }
}

TEST(net_threads, a_failure_of_one_reaches_all) {
    member members[MOST];
    group(4, 2, 1, members);
    for (uint32_t k = 0; k < 4; k++) {
        if (k != 2) {
            CHECK_STATUS(members[k].status, HR_E_PEER);
            CHECK_EQ(members[k].end.rank, 2);
            CHECK_EQ(members[k].end.status, HR_E_NOMEM_HOST);
            CHECK_STR(members[k].end.text, "rank 2: no memory for part 3");
        }
    }
}

TEST(net_threads, one_that_leaves_is_named) {
    member members[MOST];
    group(3, 1, 2, members);
    CHECK_STATUS(members[0].status, HR_E_PEER);
    CHECK_STR(members[2].end.text, "rank 1 has left the run");
}

static void *other_length(void *arg) {
    member *m = arg;
    unsigned char a[8] = {0}, b[8];
    const uint64_t bytes = hri_net_rank(m->net) == 1 ? 5 : 4;
    const hri_net_range to[2] = {{a, bytes}, {a, bytes}}, from[2] = {{b, bytes}, {b, bytes}};
    uint64_t ticket;
    m->status = hri_net_exchange(m->net, to, from, &ticket);
    m->status = m->status == HR_OK ? hri_net_wait(m->net, ticket, 0) : m->status;
    hri_net_cause(m->net, &m->end);
    hri_net_close(m->net);
    return NULL;
}

TEST(net_threads, other_lengths_end_the_run_with_both_numbers) {
    hri_net *nets[2];
    member members[2];
    pthread_t threads[2];
    CHECK_OK(hri_net_open_threads(&(hri_net_options){0}, 2, nets, NULL));
    for (int i = 0; i < 2; i++) {
        members[i] = (member){.net = nets[i]};
        CHECK(pthread_create(&threads[i], NULL, other_length, &members[i]) == 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        CHECK_STATUS(members[i].status, HR_E_PEER);
        CHECK(strstr(members[i].end.text, "5 bytes") || strstr(members[i].end.text, "4 bytes"));
    }
}

TEST(net_threads, a_wait_with_a_bound_names_the_slowest) {
    hri_net *nets[2];
    CHECK_OK(hri_net_open_threads(&(hri_net_options){0}, 2, nets, NULL));
    unsigned char a[4] = {1}, b[4];
    const hri_net_range to[2] = {{a, 4}, {a, 4}}, from[2] = {{b, 4}, {b, 4}};
    uint64_t ticket;
    CHECK_OK(hri_net_exchange(nets[0], to, from, &ticket));
    CHECK_STATUS(hri_net_wait(nets[0], ticket, 2000000), HR_E_AGAIN);
    CHECK_EQ(hri_net_slowest(nets[0]), 1);
    bool done = true;
    CHECK_OK(hri_net_test(nets[0], ticket, &done));
    CHECK(!done);
    hri_net_stop(nets[1], HR_E_CANCELLED, "enough");
    CHECK_STATUS(hri_net_wait(nets[0], ticket, 0), HR_E_PEER);
    hri_net_close(nets[0]);
    hri_net_close(nets[1]);
}
