/* The broker with a card of numbers: the ledger alone, and the daemon spoken to as our own trainings would. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/daemon.h"
#include "broker/door.h"
#include "broker/grants.h"
#include "broker/serve.h"
#include "test.h"

#define GIB ((uint64_t)1 << 30)
static const unsigned char card[16] = {7};

/* ---- the ledger ---- */

static hri_grants *ledger(void) {
    static hri_grants l;
    hri_grants_init(&l);
    CHECK_EQ(hri_grants_device_find(&l, card, 8 * GIB), 0);
    return &l;
}

static hri_grants_job *job_of(hri_grants *l, uint64_t bytes, uint32_t flags) {
    hri_grants_job *job = hri_grants_job_open(l, "job", flags, 1, 1);
    CHECK(job);
    job->limit_bytes[0] = bytes;
    return job;
}

TEST(broker, jobs_enter_in_the_order_of_asking) {
    hri_grants *l = ledger();
    hri_grants_job *a = job_of(l, 5 * GIB, 0), *b = job_of(l, 5 * GIB, 0),
                   *c = job_of(l, 2 * GIB, 0);
    CHECK_EQ(hri_grants_job_enter(l, a), HRI_SAID_OK);
    CHECK_EQ(hri_grants_job_enter(l, b), HRI_SAID_AGAIN);
    CHECK_EQ(hri_grants_job_enter(l, c), HRI_SAID_AGAIN); /* it would fit, and stands behind b */
    hri_grants_job_leave(l, a);
    CHECK_EQ(hri_grants_job_enter(l, b), HRI_SAID_OK);
    CHECK_EQ(hri_grants_job_enter(l, c), HRI_SAID_OK);
    CHECK(hri_grants_check(l));
    CHECK_EQ(hri_grants_job_enter(l, job_of(l, 9 * GIB, 0)), HRI_SAID_LIMIT);
}

/* One who does not wait, asking before the end of another was read; and one who is refused, when nothing comes back. */
TEST(broker, what_is_on_its_way_back_is_not_refused) {
    static hri_broker b;
    b = (hri_broker){.grants = ledger()};
    hri_caller callers[3] = {{.pid = 1}, {.pid = 2}, {.pid = 3}};
    hri_caller *const list[] = {&callers[0], &callers[1], &callers[2]};
    hri_wire w;
    for (int i = 0; i < 3; i++) {
        w = hri_wire_make(HRI_VERB_JOB);
        CHECK_EQ(hri_serve_question(&b, &callers[i], &w, 1000), 1);
        w = hri_wire_make(HRI_VERB_WISH);
        memcpy(w.uuid, card, 16);
        w.limit_bytes = 5 * GIB;
        CHECK_EQ(hri_serve_question(&b, &callers[i], &w, 1000), 1);
        CHECK_EQ(w.said, HRI_SAID_OK);
        w = hri_wire_make(HRI_VERB_ENTER);
        CHECK_EQ(hri_serve_question(&b, &callers[i], &w, 1000), i == 0);
    }
    CHECK_EQ(hri_serve_turn(&b, list, 3, &w, 1001), -1);
    hri_serve_end(&b, &callers[0]);
    CHECK_EQ(hri_serve_turn(&b, list, 3, &w, 1002), 1);
    CHECK_EQ(w.said, HRI_SAID_OK);
    CHECK_EQ(hri_serve_turn(&b, list, 3, &w, 1003), -1);
    CHECK_EQ(hri_serve_turn(&b, list, 3, &w, 3000), 2);
    CHECK_EQ(w.said, HRI_SAID_AGAIN);
    CHECK_EQ(hri_serve_turn(&b, list, 3, &w, 3001), -1);
}

TEST(broker, processes_of_a_job_share_its_host_memory_and_the_dead_have_none) {
    hri_grants *l = ledger();
    hri_grants_job *job = job_of(l, 2 * GIB, 0);
    job->spill_limit_bytes = 3 * GIB;
    CHECK_EQ(hri_grants_job_enter(l, job), HRI_SAID_OK);
    hri_grants_process *p = hri_grants_process_open(l, job->id, "p", 10, 1);
    hri_grants_process *q = hri_grants_process_open(l, job->id, "q", 11, 1);
    CHECK_EQ(hri_grants_spill(l, p, 0, 2 * GIB), HRI_SAID_OK);
    CHECK_EQ(hri_grants_spill(l, q, 0, 2 * GIB), HRI_SAID_LIMIT);
    CHECK_EQ(q->spilled_bytes[0], 0);
    CHECK_EQ(hri_grants_spill(l, q, 0, GIB), HRI_SAID_OK);
    CHECK_EQ(hri_grants_spill(l, p, 0, 2 * GIB + 1), HRI_SAID_LIMIT);
    job->spill_limit_bytes = GIB; /* what goes back is never refused */
    CHECK_EQ(hri_grants_spill(l, p, 0, GIB), HRI_SAID_OK);
    hri_grants_process_died(p);
    CHECK_EQ(hri_grants_job_spilled(l, job), GIB);
    CHECK_EQ(hri_grants_spill(l, q, 0, 0), HRI_SAID_OK);
    CHECK_EQ(hri_grants_job_spilled(l, job), 0);
}

TEST(broker, leases_of_a_job_stay_inside_its_budget) {
    hri_grants *l = ledger();
    hri_grants_job *job = job_of(l, 2 * GIB, 0);
    CHECK_EQ(hri_grants_job_enter(l, job), HRI_SAID_OK);
    hri_grants_process *p = hri_grants_process_open(l, job->id, "p", 10, 1);
    hri_grants_process *q = hri_grants_process_open(l, job->id, "q", 11, 1);
    CHECK_EQ(hri_grants_lease(l, p, 0, 0, GIB / 4, GIB, GIB), HRI_SAID_OK);
    CHECK_LE(GIB + GIB / 4, p->granted_bytes[0]);
    CHECK_EQ(hri_grants_lease(l, q, 0, 0, 0, GIB, GIB), HRI_SAID_LIMIT);
    CHECK_EQ(q->granted_bytes[0], 0);
    hri_grants_process_died(p); /* counted until it is drained */
    CHECK_EQ(hri_grants_lease(l, q, 0, 0, 0, GIB, GIB), HRI_SAID_LIMIT);
    hri_grants_process_drained(l, p);
    CHECK_EQ(hri_grants_lease(l, q, 0, 0, 0, GIB, GIB), HRI_SAID_OK);
    CHECK(hri_grants_check(l));
}

TEST(broker, the_last_who_asked_gives_way_in_a_circle) {
    hri_grants *l = ledger();
    hri_grants_job *a = job_of(l, 6 * GIB, HRI_WIRE_OVERCOMMIT),
                   *b = job_of(l, 6 * GIB, HRI_WIRE_OVERCOMMIT);
    CHECK_EQ(hri_grants_job_enter(l, a), HRI_SAID_OK);
    CHECK_EQ(hri_grants_job_enter(l, b), HRI_SAID_OK);
    hri_grants_process *p = hri_grants_process_open(l, a->id, "p", 10, 1);
    hri_grants_process *q = hri_grants_process_open(l, b->id, "q", 11, 1);
    CHECK_EQ(hri_grants_lease(l, p, 0, 0, 0, 4 * GIB, 4 * GIB), HRI_SAID_OK);
    CHECK_EQ(hri_grants_lease(l, q, 0, 0, 0, 3 * GIB, 3 * GIB), HRI_SAID_OK);
    CHECK_EQ(hri_grants_lease(l, p, 0, 4 * GIB, 0, GIB * 3 / 2, GIB * 3 / 2), HRI_SAID_AGAIN);
    p->waiting = 1;
    p->order = 1;
    CHECK(hri_grants_deadlock(l) == NULL); /* q may still give back */
    q->waiting = 1;
    q->order = 2;
    CHECK(hri_grants_deadlock(l) == q);
}

TEST(broker, a_restart_keeps_every_lease) {
    hri_grants *l = ledger();
    hri_grants_job *job = job_of(l, 2 * GIB, 0), *waits = job_of(l, 7 * GIB, 0);
    CHECK_EQ(hri_grants_job_enter(l, job), HRI_SAID_OK);
    CHECK_EQ(hri_grants_job_enter(l, waits), HRI_SAID_AGAIN);
    hri_grants_process *p = hri_grants_process_open(l, job->id, "p", 10, 1);
    CHECK_EQ(hri_grants_lease(l, p, 0, 0, 0, GIB, GIB), HRI_SAID_OK);
    CHECK(hri_grants_restore(l));
    CHECK(hri_grants_process_open(l, job->id, "p", 10, 1) == p); /* the same process again */
    CHECK_EQ(p->granted_bytes[0], GIB);
    CHECK_EQ(hri_grants_device_free(l, 0), 6 * GIB);
    CHECK_EQ(waits->state, HRI_GRANTS_FREE);
    l->processes[0].state = 99;
    CHECK(!hri_grants_restore(l)); /* a file of somebody else's making */
}

/* ---- the daemon ---- */

static int devices(void *user, hri_observed *out) {
    (void)user;
    out[0] = (hri_observed){.uuid = {7}, .total_bytes = 8 * GIB};
    return 1;
}

static int processes(void *user, const unsigned char uuid[16], hri_observed_process *out) {
    (void)user;
    (void)uuid;
    (void)out;
    return 0;
}

TEST(broker, two_of_ours_that_do_not_fit_together_come_one_after_the_other) {
    char folder[] = "/tmp/headroom-broker-XXXXXX";
    hri_prose why = {0};
    CHECK(mkdtemp(folder) != NULL);
    const pid_t daemon = fork();
    if (daemon == 0) {
        const hri_observer observer = {.devices = devices, .processes = processes};
        int lock = -1;
        _exit(hri_daemon_lock(folder, &lock, &why) == HR_OK &&
                      hri_daemon_run(lock, folder, &observer, 100, -1, &why) == HR_OK
                  ? 0
                  : 1);
    }
    hri_client a = {.fd = -1}, a_process = {.fd = -1}, b = {.fd = -1};
    for (int i = 0; i < 500 && hri_client_open(folder, &a, &why) != HR_OK; i++) {
        usleep(10000);
    }
    CHECK_OK(hri_client_open(folder, &a_process, &why));
    CHECK_OK(hri_client_open(folder, &b, &why));
    hri_door_job first = {.name = "first", .count = 1, .limits = {6 * GIB}};
    hri_door_job second = {.name = "second", .count = 1, .limits = {4 * GIB}};
    hri_door_job huge = {.name = "huge", .count = 1, .limits = {9 * GIB}};
    memcpy(first.uuids[0], card, 16);
    memcpy(second.uuids[0], card, 16);
    memcpy(huge.uuids[0], card, 16);
    CHECK_OK(hri_door_enter(&a, &first, 0, NULL, NULL));
    CHECK_OK(hri_door_join(&a_process, &first));
    CHECK_STATUS(hri_door_enter(&b, &second, 50, NULL, NULL), HR_E_AGAIN);
    hri_client_close(&a_process);
    hri_client_close(&a);
    hri_client_close(&b);
    CHECK_OK(hri_client_open(folder, &b, &why));
    second.id = 0;
    CHECK_OK(
        hri_door_enter(&b, &second, 5000, NULL, NULL)); /* the first has gone, and holds nothing */
    hri_client_close(&b);
    CHECK_OK(hri_client_open(folder, &b, &why));
    CHECK_STATUS(hri_door_enter(&b, &huge, 0, NULL, NULL), HR_E_LIMIT);
    hri_client_close(&b);
    kill(daemon, SIGKILL);
    CHECK(waitpid(daemon, NULL, 0) == daemon);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CHECK(system(command) == 0);
}
