/* Ranks that are processes, over shared memory and TCP: what arrives, and what the others are told when one ends, stops, fails or
 * never comes. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/net.h"
#include "net_rounds.h"
#include "test.h"

enum { LARGE = 3 << 20, MS = 1000000 };

typedef enum odd_work {
    NOTHING,
    DIES,
    STOPS,
    FAILS,
    LEAVES,
    SLEEPS,
    STAYS_AWAY,
    OTHER_LENGTH
} odd_work;

typedef struct report {
    hr_status opened, status;
    hri_net_end end;
    hri_net_stats stats;
    uint64_t took_ns;
    char why[512];
} report;

typedef struct world {
    report of[NET_MOST];
    pid_t pids[NET_MOST];
} world;

static world *the_world(void) {
    world *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(w != MAP_FAILED);
    return w;
}

/* More than one frame, more than a ring, two exchanges at once. */
static hr_status large(hri_net *net, bool other_length) {
    const uint32_t me = hri_net_rank(net), size = hri_net_size(net);
    unsigned char *memory = malloc((size_t)4 * LARGE);
    if (!memory) {
        return HR_E_NOMEM_HOST;
    }
    uint64_t tickets[2];
    hr_status status = HR_OK;
    for (int k = 0; k < 2 && status == HR_OK; k++) {
        unsigned char *out = memory + (size_t)k * 2 * LARGE, *in = out + LARGE;
        hri_net_range to[NET_MOST] = {{0}}, from[NET_MOST] = {{0}};
        for (uint32_t i = 0; i < LARGE; i++) {
            out[i] = (unsigned char)(i * 7 + i / 1000 + me + (uint32_t)k);
        }
        to[(me + 1) % size] = (hri_net_range){out, LARGE - (other_length && me == 1 ? 5 : 0)};
        from[(me + size - 1) % size] = (hri_net_range){in, LARGE};
        status = hri_net_exchange(net, to, from, &tickets[k]);
    }
    status = status == HR_OK ? hri_net_wait(net, tickets[1], 0) : status;
    for (int k = 0; k < 2 && status == HR_OK; k++) {
        const unsigned char *in = memory + (size_t)k * 2 * LARGE + LARGE;
        const uint32_t from = (me + size - 1) % size;
        for (uint32_t i = 0; i < LARGE && status == HR_OK; i++) {
            status = in[i] == (unsigned char)(i * 7 + i / 1000 + from + (uint32_t)k)
                         ? HR_OK
                         : HR_E_INTERNAL;
        }
    }
    free(memory);
    return status;
}

static void rank_main(world *w, hri_net_options o, odd_work work, int rounds) {
    report *r = &w->of[o.who.rank];
    hri_prose why = {0};
    hri_net *net = NULL;
    const uint64_t begun = hri_clock_ns();
    if (work == STAYS_AWAY) {
        _exit(0);
    }
    r->opened = hri_net_open(&o, &net, &why);
    snprintf(r->why, sizeof r->why, "%s", why.text);
    if (r->opened != HR_OK) {
        r->took_ns = hri_clock_ns() - begun;
        _exit(0);
    }
    for (int round = 0; round < rounds && r->status == HR_OK; round++) {
        if (round == 3 && work != NOTHING) {
            if (work == DIES || work == STOPS) {
                raise(work == DIES ? SIGKILL : SIGSTOP);
            } else if (work == FAILS) {
                hri_net_stop(net, HR_E_IO, "the disk is full");
            } else if (work == LEAVES) {
                break;
            } else if (work == SLEEPS) {
                usleep(2000000);
            }
        }
        r->status = net_round(net, round);
    }
    hri_net_get_stats(net, &r->stats);
    r->status = r->status == HR_OK && work != LEAVES ? large(net, work == OTHER_LENGTH) : r->status;
    hri_net_cause(net, &r->end);
    r->took_ns = hri_clock_ns() - begun;
    hri_net_close(net);
    _exit(0);
}

/* Nobody hangs: the case has a time-out, and stopped ranks are killed here. */
static world *ranks(const char *wire, uint32_t size, int odd, odd_work work, hri_net_options o) {
    world *w = the_world();
    o.wire = wire;
    o.who.size = size;
    snprintf(o.who.run, sizeof o.who.run, "test-%d", (int)getpid());
    for (uint32_t i = 0; i < size; i++) {
        const pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            o.who.rank = i;
            rank_main(w, o, (int)i == odd || work == OTHER_LENGTH ? work : NOTHING, 10);
        }
        w->pids[i] = pid;
    }
    for (uint32_t i = 0; i < size; i++) {
        if ((int)i != odd) {
            CHECK_EQ(waitpid(w->pids[i], NULL, 0), w->pids[i]);
        }
    }
    if (odd >= 0) {
        kill(w->pids[odd], SIGKILL);
        waitpid(w->pids[odd], NULL, 0);
    }
    return w;
}

static void check_whole(const char *wire, uint32_t size, hri_net_options o) {
    world *w = ranks(wire, size, -1, NOTHING, o);
    for (uint32_t i = 0; i < size; i++) {
        CHECK_STR(w->of[i].why, "");
        CHECK_OK(w->of[i].opened);
        CHECK_OK(w->of[i].status);
    }
    munmap(w, sizeof *w);
}

TEST(net_mesh, shared_memory_carries_every_pair) {
    check_whole("shm", 2, (hri_net_options){0});
    check_whole("shm", 3, (hri_net_options){.ring_bytes = 4096});
    check_whole("auto", 8, (hri_net_options){0});
}

TEST(net_mesh, tcp_carries_every_pair) {
    check_whole("tcp", 2, (hri_net_options){0});
    check_whole("tcp", 5, (hri_net_options){0});
}

/* The others, who end with HR_E_PEER, name the rank in these words. */
static void check_named(const char *wire, odd_work work, int odd, uint64_t deadline_ms,
                        const char *words) {
    world *w = ranks(wire, 4, odd, work, (hri_net_options){.deadline_ns = deadline_ms * MS});
    for (uint32_t i = 0; i < 4; i++) {
        if ((int)i != odd) {
            CHECK_STR(w->of[i].why, "");
            CHECK_STATUS(w->of[i].status, HR_E_PEER);
            CHECK_EQ(w->of[i].end.rank, odd);
            if (!strstr(w->of[i].end.text, words)) {
                test_fail(__FILE__, __LINE__, "%s", w->of[i].end.text);
            }
            CHECK_LE(w->of[i].took_ns, (deadline_ms + 4000) * MS);
        }
    }
    munmap(w, sizeof *w);
}

TEST(net_mesh, a_killed_rank_is_named_at_once) {
    check_named("shm", DIES, 2, 60000, "ended in exchange");
    check_named("tcp", DIES, 2, 60000, "ended in exchange");
    check_named("shm", DIES, 0, 60000, "rank 0 (");
    check_named("tcp", DIES, 0, 60000, "rank 0 (");
}

TEST(net_mesh, a_stopped_rank_is_named_within_the_deadline) {
    check_named("shm", STOPS, 1, 1500, "has not answered for");
    check_named("tcp", STOPS, 3, 1500, "has not answered for");
    check_named("shm", STOPS, 0, 1500, "has not answered for");
}

TEST(net_mesh, a_failure_of_one_reaches_all) {
    check_named("shm", FAILS, 1, 60000, "the disk is full");
    check_named("tcp", FAILS, 0, 60000, "the disk is full");
}

TEST(net_mesh, one_that_leaves_while_others_go_on_is_named) {
    check_named("shm", LEAVES, 2, 60000, "has ended its run");
}

TEST(net_mesh, a_slow_rank_is_waited_for_and_shown) {
    world *w = ranks("shm", 3, 1, SLEEPS, (hri_net_options){.deadline_ns = 1500 * MS});
    CHECK_OK(w->of[0].status);
    CHECK_OK(w->of[2].status);
    CHECK_EQ(w->of[0].stats.slowest, 1);
    CHECK(w->of[2].stats.slowest_ns > 1500 * MS);
    munmap(w, sizeof *w);
}

TEST(net_mesh, other_lengths_end_the_run_with_both_numbers) {
    world *w = ranks("shm", 2, -1, OTHER_LENGTH, (hri_net_options){0});
    CHECK_STATUS(w->of[0].status, HR_E_PEER);
    CHECK_STATUS(w->of[1].status, HR_E_PEER);
    CHECK(strstr(w->of[0].end.text, "sends 3145723 bytes where rank 0 expects 3145728"));
    munmap(w, sizeof *w);
}

TEST(net_mesh, a_rank_that_never_comes_is_named) {
    const hri_net_options o = {.meet_ns = 300 * MS};
    world *w = ranks("shm", 3, 2, STAYS_AWAY, o);
    CHECK_STATUS(w->of[0].opened, HR_E_PEER);
    CHECK_STR(w->of[0].why, "rank 2 did not connect within 0 s (2 of 3 have)");
    CHECK_STATUS(w->of[1].opened, HR_E_PEER);
    munmap(w, sizeof *w);
    w = ranks("tcp", 2, 0, STAYS_AWAY, o);
    CHECK_STATUS(w->of[1].opened, HR_E_PEER);
    CHECK(strstr(w->of[1].why, "rank 0 could not be reached"));
    munmap(w, sizeof *w);
}

TEST(net_mesh, a_meeting_that_others_can_reach_needs_a_token) {
    hri_net_options o = {.wire = "tcp", .who = {.size = 2, .meet = "192.0.2.1:4711"}};
    hri_prose why = {0};
    hri_net *net = NULL;
    CHECK_STATUS(hri_net_open(&o, &net, &why), HR_E_INVALID);
    CHECK(strstr(why.text, "HEADROOM_TOKEN_FILE"));
    o.wire = "shm";
    o.open = true;
    CHECK_STATUS(hri_net_open(&o, &net, &why), HR_E_INVALID);
    CHECK(strstr(why.text, "one machine"));
    o.wire = "carrier pigeon";
    CHECK_STATUS(hri_net_open(&o, &net, &why), HR_E_UNSUPPORTED);
}
