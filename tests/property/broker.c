/* Random jobs at the broker's door against a model that only knows the rules: nobody comes in before somebody who asked
 * earlier for one of the same devices, what is reserved never exceeds a device, several devices are one grant, nobody waits past
 * the deadline, and everybody who could come in does. */
#include <string.h>

#include "broker/serve.h"
#include "test.h"

enum { DEVICES = 2, CALLERS = 12, ROUNDS = 400, SETTLE_MS = 250, STEP_MS = 10 };
#define CARD ((uint64_t)1000 << 20)

static int devices(void *user, hri_observed *out) {
    (void)user;
    for (int i = 0; i < DEVICES; i++) {
        out[i] = (hri_observed){.uuid = {(unsigned char)(i + 1)}, .total_bytes = CARD};
    }
    return DEVICES;
}

static int processes(void *user, const unsigned char uuid[16], hri_observed_process *out) {
    (void)user;
    (void)uuid;
    (void)out;
    return 0;
}

/* What a caller asked for, as the model knows it. */
typedef struct asked {
    enum { OUT, QUEUED, IN } state;
    uint64_t bytes[DEVICES];
    uint64_t order, until_ms;
} asked;

typedef struct world {
    hri_broker b;
    hri_caller callers[CALLERS];
    hri_caller *list[CALLERS];
    asked model[CALLERS];
    uint64_t now_ms, order, random;
} world;

static uint64_t draw(world *w, uint64_t below) {
    return test_random(&w->random) % below;
}

static uint64_t free_of(const world *w, int device) {
    uint64_t used = 0;
    for (int i = 0; i < CALLERS; i++) {
        used += w->model[i].state == IN ? w->model[i].bytes[device] : 0;
    }
    CHECK_LE(used, CARD);
    return CARD - used;
}

/* May this one come in, by the rules? */
static int may(const world *w, int i) {
    const asked *a = &w->model[i];
    for (int d = 0; d < DEVICES; d++) {
        if (a->bytes[d] > free_of(w, d)) {
            return 0;
        }
        for (int k = 0; k < CALLERS; k++) {
            const asked *o = &w->model[k];
            if (o->state == QUEUED && o->order < a->order && o->bytes[d] && a->bytes[d]) {
                return 0;
            }
        }
    }
    return 1;
}

static void came_in(world *w, int i) {
    CHECK(may(w, i));
    w->model[i].state = IN;
}

static void ask(world *w, int i) {
    asked *a = &w->model[i];
    hri_wire m = hri_wire_make(HRI_VERB_JOB);
    CHECK_EQ(hri_serve_question(&w->b, &w->callers[i], &m, w->now_ms), 1);
    CHECK_EQ(m.said, HRI_SAID_OK);
    const uint64_t which = 1 + draw(w, 3); /* the first, the second, both */
    for (int d = 0; d < DEVICES; d++) {
        a->bytes[d] = which >> d & 1 ? (1 + draw(w, 1000)) << 20 : 0;
        m = hri_wire_make(HRI_VERB_WISH);
        m.uuid[0] = (unsigned char)(d + 1);
        m.limit_bytes = a->bytes[d];
        CHECK_EQ(hri_serve_question(&w->b, &w->callers[i], &m, w->now_ms), 1);
        CHECK_EQ(m.said, HRI_SAID_OK);
    }
    m = hri_wire_make(HRI_VERB_ENTER);
    m.wait_ms = draw(w, 4) ? draw(w, 2000) : 0;
    a->state = QUEUED;
    a->order = ++w->order;
    a->until_ms = w->now_ms + (m.wait_ms > SETTLE_MS ? m.wait_ms : SETTLE_MS);
    if (hri_serve_question(&w->b, &w->callers[i], &m, w->now_ms)) {
        CHECK_EQ(m.said, HRI_SAID_OK); /* none is above a device */
        came_in(w, i);
    } else {
        CHECK(!may(w, i));
    }
}

static void leave(world *w, int i) {
    hri_serve_end(&w->b, &w->callers[i]);
    w->callers[i] = (hri_caller){.pid = 1000000000 + i, .started = 1};
    w->model[i] = (asked){.state = OUT};
}

static void turns(world *w) {
    hri_wire answer;
    int i;
    while ((i = hri_serve_turn(&w->b, w->list, CALLERS, &answer, w->now_ms)) >= 0) {
        CHECK_EQ(w->model[i].state, QUEUED);
        if (answer.said == HRI_SAID_OK) {
            came_in(w, i);
        } else {
            CHECK_EQ(answer.said, HRI_SAID_AGAIN);
            CHECK_LE(w->model[i].until_ms, w->now_ms); /* not before its time */
            leave(w, i);
        }
    }
    for (i = 0; i < CALLERS; i++) {
        if (w->model[i].state == QUEUED) {
            CHECK(!may(w, i));
            CHECK_LE(w->now_ms, w->model[i].until_ms + STEP_MS);
        }
    }
}

TEST(broker, jobs_come_in_by_the_rules_and_wait_no_longer_than_they_said) {
    static world w;
    static hri_grants grants;
    const hri_observer observer = {.devices = devices, .processes = processes};
    for (int seed = 0; seed < 4; seed++) {
        memset(&w, 0, sizeof w);
        hri_grants_init(&grants);
        w.b = (hri_broker){.grants = &grants, .observer = &observer};
        w.now_ms = 1000;
        w.random = test_seed() + (uint64_t)seed;
        for (int i = 0; i < CALLERS; i++) {
            w.callers[i] = (hri_caller){.pid = 1000000000 + i, .started = 1};
            w.list[i] = &w.callers[i];
        }
        for (int round = 0; round < ROUNDS; round++, w.now_ms += STEP_MS) {
            const int i = (int)draw(&w, CALLERS);
            if (w.model[i].state == OUT) {
                ask(&w, i);
            } else if (w.model[i].state == IN || draw(&w, 8) == 0) {
                leave(&w, i);
            }
            (void)hri_serve_look(&w.b, w.now_ms);
            turns(&w);
            CHECK(hri_grants_check(&grants));
        }
    }
}
