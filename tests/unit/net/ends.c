/* A rank that fails while the ranks meet or begin is told in its own words, whatever the others see of it first: here one rank
 * speaks the protocol by hand, says its reason at a stage of the meeting, and closes before, while or after rank 0 writes. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc32c.h"
#include "net/meeting.h"
#include "net/net.h"
#include "net/stream.h"
#include "test.h"

#define SECOND UINT64_C(1000000000)
#define REASON "no such file: data.npy"

typedef enum stage {
    GREETED,      /* says so and closes before rank 0 writes */
    DEAF,         /* rank 0's write fails first, the words come later */
    TABLE_READ,   /* after rank 0 has written */
    CONNECTED,    /* in place of being ready */
    READY,        /* a connection ends first, the words come later */
    RINGS_PASSED, /* the same, when the others have begun */
    SHARED,       /* with its last words before them */
    STAGES
} stage;

static const char *const stage_names[STAGES] = {
    "greeted", "deaf", "table read", "connected", "ready", "rings passed", "shared"};

typedef struct told {
    hr_status status;
    char text[512];
} told;

static hri_net_options options_of(const char *wire, uint32_t rank, uint32_t size, const char *run) {
    hri_net_options o = {.wire = wire,
                         .who = {.rank = rank, .size = size},
                         .meet_ns = 5 * SECOND,
                         .deadline_ns = 5 * SECOND};
    snprintf(o.who.run, sizeof o.who.run, "%s", run);
    return o;
}

/* What an honest rank hears. */
static void honest(const hri_net_options *o, told *t) {
    hri_prose why = {""};
    hri_net *net = NULL;
    hri_net_end end = {.text = ""};
    unsigned char all[4 * 3];
    t->status = hri_net_open(o, &net, &why);
    snprintf(t->text, sizeof t->text, "%s", why.text);
    for (int i = 0; i < 2 && t->status == HR_OK; i++) {
        t->status = hri_net_share(net, "abcd", 4, all);
        if (t->status != HR_OK) {
            hri_net_cause(net, &end);
            snprintf(t->text, sizeof t->text, "share %d: %s", i, end.text);
        }
    }
    hri_net_close(net);
}

static void say_reason(int fd, const hri_meeting *m) {
    char text[128];
    snprintf(text, sizeof text, "rank %u: " REASON, m->rank);
    hri_end_send(fd, m->epoch, m->rank, HR_E_IO, text);
}

static hr_status read_members(hri_meeting *m) {
    for (uint32_t i = 0; i < m->size; i++) {
        unsigned char record[HRI_MEMBER_BYTES];
        hri_frame f;
        if (hri_frame_receive(m->control[0], &f, record, sizeof record,
                              hri_clock_ns() + 5 * SECOND) != HR_OK ||
            hri_member_decode(record, &m->members[i]) != HR_OK) {
            return HR_E_FORMAT;
        }
        m->epoch = f.epoch;
        memcpy(m->key, m->members[i].key, sizeof m->key);
    }
    return HR_OK;
}

static hr_status connect_all(hri_meeting *m, const hri_member *own) {
    hr_status status = HR_OK;
    hri_prose why = {""};
    hri_member peer;
    const uint64_t until = hri_clock_ns() + 5 * SECOND;
    for (uint32_t i = 0; i < m->rank && status == HR_OK; i++) {
        status = hri_socket_connect(m->members[i].link, until, &m->links[i], &why);
        status =
            status == HR_OK ? hri_greet(m->links[i], true, m, own, &peer, until, &why) : status;
    }
    return status;
}

static hr_status begin(hri_meeting *m) {
    const hri_frame f = {.kind = HRI_FRAME_TABLE, .from = m->rank, .number = m->size};
    hri_frame got;
    char nothing[1];
    const uint64_t until = hri_clock_ns() + 5 * SECOND;
    const hr_status status = hri_frame_send(m->control[0], &f, NULL, until);
    return status == HR_OK ? hri_frame_receive(m->control[0], &got, nothing, 0, until) : status;
}

/* Its piece and its end in one write: rank 0 has the share, and then the end, before its caller wakes. */
static void share_and_end(const hri_meeting *m) {
    unsigned char both[HRI_FRAME_BYTES + 4 + HRI_FRAME_BYTES + HRI_END_BYTES];
    hri_net_end end = {.rank = (int32_t)m->rank, .status = HR_E_IO, .text = REASON};
    unsigned char *const last = both + HRI_FRAME_BYTES + 4;
    hri_end_pack(&end, last + HRI_FRAME_BYTES);
    memcpy(both + HRI_FRAME_BYTES, "abcd", 4);
    hri_frame f = {.kind = HRI_FRAME_SHARE,
                   .from = m->rank,
                   .epoch = m->epoch,
                   .number = 1,
                   .bytes = 4,
                   .total = 4,
                   .payload_crc = hri_crc32c(0, both + HRI_FRAME_BYTES, 4)};
    hri_frame_encode(&f, both);
    f = (hri_frame){.kind = HRI_FRAME_CAUSE,
                    .from = m->rank,
                    .epoch = m->epoch,
                    .bytes = HRI_END_BYTES,
                    .total = HRI_END_BYTES,
                    .payload_crc = hri_crc32c(0, last + HRI_FRAME_BYTES, HRI_END_BYTES)};
    hri_frame_encode(&f, last);
    usleep(100000); /* rank 0 waits in the share */
    (void)!hri_socket_send_all(m->control[0], both, sizeof both, hri_clock_ns() + SECOND);
}

static void close_links(hri_meeting *m) {
    for (uint32_t i = 0; i < m->size; i++) {
        if (m->links[i] >= 0) {
            close(m->links[i]);
            m->links[i] = -1;
        }
    }
    usleep(150000);
}

/* The rank that fails, by hand. */
static int failing(const hri_net_options *o, stage at) {
    hri_meeting m;
    hri_member own, host;
    hri_prose why = {""};
    char place[HRI_PLACE_BYTES];
    hri_stream *streams[3] = {0};
    const uint64_t until = hri_clock_ns() + 5 * SECOND;
    if (hri_meeting_prepare(o, o->wire, &m, &own, place, &why) != HR_OK ||
        hri_socket_connect(place, until, &m.control[0], &why) != HR_OK ||
        hri_greet(m.control[0], true, &m, &own, &host, until, &why) != HR_OK) {
        return 1;
    }
    if (at == DEAF) {
        (void)!shutdown(m.control[0], SHUT_RD);
        usleep(150000);
    }
    if (at >= TABLE_READ && read_members(&m) != HR_OK) {
        return 2;
    }
    if (at >= CONNECTED && connect_all(&m, &own) != HR_OK) {
        return 3;
    }
    if (at >= READY && begin(&m) != HR_OK) {
        return 4;
    }
    for (uint32_t i = 0; at >= RINGS_PASSED && strcmp(o->wire, "shm") == 0 && i < m.rank; i++) {
        if (hri_stream_shm(m.links[i], true, 0, until, &streams[i], &why) != HR_OK) {
            return 5;
        }
        m.links[i] = -1; /* the stream's now */
    }
    if (at == READY || at == RINGS_PASSED) {
        for (uint32_t i = 0; i < m.rank; i++) {
            if (streams[i]) {
                streams[i]->ops->close(streams[i]);
            }
        }
        close_links(&m);
    }
    if (at == SHARED) {
        share_and_end(&m);
    } else {
        say_reason(m.control[0], &m);
    }
    return 0; /* what is open ends with the process */
}

static void check_stage(const char *wire, uint32_t size, stage at) {
    char run[64];
    snprintf(run, sizeof run, "ends-%d-%s-%u-%d", (int)getpid(), wire, size, (int)at);
    told *all =
        mmap(NULL, 3 * sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(all != MAP_FAILED);
    pid_t pids[3];
    for (uint32_t i = 0; i < size; i++) {
        const hri_net_options o = options_of(wire, i, size, run);
        pids[i] = fork();
        CHECK(pids[i] >= 0);
        if (pids[i] == 0 && i == size - 1) {
            _exit(failing(&o, at));
        }
        if (pids[i] == 0) {
            honest(&o, &all[i]);
            _exit(0);
        }
    }
    for (uint32_t i = 0; i < size; i++) {
        int code = 0;
        CHECK_EQ(waitpid(pids[i], &code, 0), pids[i]);
        CHECK_EQ(code, 0);
    }
    for (uint32_t i = 0; i + 1 < size; i++) {
        /* Rank 0 may have heard of it and left before another rank came to greet it. */
        const int late =
            at == GREETED && i > 0 && strstr(all[i].text, "rank 0 could not be reached");
        if (!late && (all[i].status != HR_E_PEER || !strstr(all[i].text, REASON))) {
            test_fail(__FILE__, __LINE__, "%s, %u ranks, %s: rank %u says %s", wire, size,
                      stage_names[at], i, all[i].text);
        }
        if (at == SHARED) { /* what all had shared was still given out */
            CHECK(strncmp(all[i].text, "share 1", 7) == 0);
        }
    }
    munmap(all, 3 * sizeof *all);
}

TEST(net_ends, the_reason_of_a_rank_that_fails_is_told_at_every_stage) {
    for (int at = GREETED; at < STAGES; at++) {
        check_stage("shm", 2, (stage)at);
        check_stage("tcp", 2, (stage)at);
    }
}

TEST(net_ends, also_when_another_rank_sees_its_end_first) {
    for (int at = GREETED; at < SHARED; at++) {
        check_stage(at % 2 ? "tcp" : "shm", 3, (stage)at);
    }
}

/* Rank 2 has failed, and rank 0 has heard of it, before rank 1 is started: rank 0 waits a moment for it, and tells it. */
static int tell_late(int attempt) {
    char run[64];
    snprintf(run, sizeof run, "ends-%d-late-%d", (int)getpid(), attempt);
    told *all =
        mmap(NULL, 2 * sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(all != MAP_FAILED);
    const uint32_t order[] = {0, 2, 1};
    pid_t pids[3];
    int code = 0;
    for (uint32_t i = 0; i < 3; i++) {
        const hri_net_options o = options_of("tcp", order[i], 3, run);
        if (order[i] == 1) {
            CHECK_EQ(waitpid(pids[1], &code, 0), pids[1]);
            CHECK_EQ(code, 0);
            usleep(400000);
        }
        pids[i] = fork();
        CHECK(pids[i] >= 0);
        if (pids[i] == 0 && order[i] == 2) {
            _exit(failing(&o, GREETED));
        }
        if (pids[i] == 0) {
            honest(&o, &all[order[i]]);
            _exit(0);
        }
    }
    for (uint32_t i = 0; i < 3; i += 2) {
        CHECK_EQ(waitpid(pids[i], &code, 0), pids[i]);
        CHECK_EQ(code, 0);
    }
    CHECK(all[0].status == HR_E_PEER && strstr(all[0].text, REASON));
    CHECK_STATUS(all[1].status, HR_E_PEER);
    const int heard = strstr(all[1].text, REASON) != NULL;
    munmap(all, 2 * sizeof *all);
    return heard;
}

TEST(net_ends, a_rank_that_comes_late_hears_the_reason) {
    int heard = 0; /* a machine under load may take longer than rank 0 waits */
    for (int i = 0; i < 5 && !heard; i++) {
        heard = tell_late(i);
    }
    CHECK(heard);
}

/* A rank that declines waits until rank 0 is there. */
TEST(net_ends, a_rank_that_declines_is_heard_by_one_that_comes_later) {
    char run[64];
    snprintf(run, sizeof run, "ends-%d-later", (int)getpid());
    const pid_t other = fork();
    CHECK(other >= 0);
    if (other == 0) {
        const hri_net_options o = options_of("shm", 1, 2, run);
        hri_net_decline(&o, REASON, 5 * SECOND);
        _exit(0);
    }
    usleep(150000);
    told t = {0};
    const hri_net_options o = options_of("shm", 0, 2, run);
    honest(&o, &t);
    CHECK_STATUS(t.status, HR_E_PEER);
    CHECK(strstr(t.text, REASON));
    int code = 0;
    CHECK_EQ(waitpid(other, &code, 0), other);
    CHECK_EQ(code, 0);
}
