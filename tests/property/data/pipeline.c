/* Random pipelines against a sequential model: the same elements for 1, 2 and 8 workers, over several epochs, and
 * after a resume at any element, in another pipeline with another number of workers.
 *
 * The model works on lists: each stage is a function from the list of its input's elements in an epoch to its own.
 * An element is one number, or the numbers of a batch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <headroom/data.h>
#include "base/hash.h"
#include "base/random.h"
#include "test.h"

enum { STAGES = 6, LIST = 4096 };

typedef enum kind { TAKE, SKIP, SHARD, WHOLE, REPEAT, SHUFFLE, MAP, FILTER, PREFETCH, KINDS } kind;

typedef struct made {
    kind kind;
    int64_t a, b;
} made;

typedef struct plan {
    int64_t count; /* of the range */
    bool stream;   /* a stream callback instead of the range */
    int stages;
    made stage[STAGES];
    int64_t batch; /* 0: none */
    bool drop;
} plan;

typedef struct list {
    int64_t at[LIST];
    uint64_t count;
} list;

/* ---- the model ---- */

static void model(const plan *p, int upto, uint64_t epoch, list *out) {
    if (upto == 0) {
        out->count = (uint64_t)p->count;
        for (uint64_t i = 0; i < out->count; i++) {
            out->at[i] = (int64_t)i;
        }
        return;
    }
    const made *m = &p->stage[upto - 1];
    if (m->kind == REPEAT) {
        list *one = malloc(sizeof *one);
        out->count = 0;
        for (uint64_t k = 0; k < (uint64_t)m->a; k++) {
            model(p, upto - 1, epoch * (uint64_t)m->a + k, one);
            for (uint64_t i = 0; i < one->count && out->count < LIST; i++) {
                out->at[out->count++] = one->at[i];
            }
        }
        free(one);
        return;
    }
    list *in = malloc(sizeof *in);
    model(p, upto - 1, epoch, in);
    out->count = 0;
    switch (m->kind) {
    case TAKE:
        for (uint64_t i = 0; i < in->count && i < (uint64_t)m->a; i++) {
            out->at[out->count++] = in->at[i];
        }
        break;
    case SKIP:
        for (uint64_t i = (uint64_t)m->a; i < in->count; i++) {
            out->at[out->count++] = in->at[i];
        }
        break;
    case SHARD:
        for (uint64_t i = 0; i < in->count; i++) {
            if (i % (uint64_t)m->a == (uint64_t)m->b) {
                out->at[out->count++] = in->at[i];
            }
        }
        break;
    case WHOLE:
        memcpy(out, in, sizeof *out);
        out->count -= out->count % (uint64_t)m->a;
        break;
    case MAP:
        for (uint64_t i = 0; i < in->count; i++) {
            out->at[out->count++] = in->at[i] * 3 + m->a;
        }
        break;
    case FILTER:
        for (uint64_t i = 0; i < in->count; i++) {
            if (in->at[i] % 3 != 0) {
                out->at[out->count++] = in->at[i];
            }
        }
        break;
    case SHUFFLE: {
        bool random = !p->stream;
        for (int k = 0; k < upto - 1; k++) {
            random = random && (p->stage[k].kind <= WHOLE || p->stage[k].kind == SHUFFLE);
        }
        const uint64_t seed = hri_hash_u64((uint64_t)m->b);
        if (random) {
            const hri_shuffle s =
                hri_shuffle_make(seed ^ hri_hash_u64(epoch >> 32), (uint32_t)epoch, in->count);
            for (uint64_t i = 0; i < in->count; i++) {
                out->at[out->count++] = in->at[hri_shuffle_at(&s, i)];
            }
            break;
        }
        int64_t buffer[64];
        uint64_t held = 0, taken = 0;
        for (;;) {
            while (held < (uint64_t)m->a && taken < in->count) {
                buffer[held++] = in->at[taken++];
            }
            if (held == 0) {
                break;
            }
            hri_random r =
                hri_random_at(seed, (uint32_t)epoch, HRI_RANDOM_NODE_SHUFFLE, (uint32_t)out->count);
            const uint64_t k = hri_random_below(&r, held);
            out->at[out->count++] = buffer[k];
            buffer[k] = buffer[--held];
        }
        break;
    }
    default:
        memcpy(out, in, sizeof *out);
        break;
    }
    free(in);
}

/* ---- the pipeline ---- */

static hr_status map_fn(void *user, const hr_element *input, hr_emit *emit) {
    void *data;
    const hr_meta meta = {.type = HR_TYPE_I64};
    const int64_t value = *(const int64_t *)hr_element_find(input, "value")->data;
    if (value % 7 == 0) {
        usleep(100); /* some take longer: order must not follow */
    }
    const hr_status status = hr_emit_field(emit, "value", &meta, &data);
    if (status == HR_OK) {
        *(int64_t *)data = value * 3 + *(const int64_t *)user;
    }
    return status;
}

static int filter_fn(void *user, const hr_element *e) {
    (void)user;
    return *(const int64_t *)hr_element_find(e, "value")->data % 3 != 0;
}

static hr_status source_fn(void *user, uint64_t epoch, uint64_t index, hr_emit *emit) {
    (void)epoch;
    if (index >= (uint64_t) * (const int64_t *)user) {
        return HR_E_EOF;
    }
    void *data;
    const hr_meta meta = {.type = HR_TYPE_I64};
    const hr_status status = hr_emit_field(emit, "value", &meta, &data);
    if (status == HR_OK) {
        *(int64_t *)data = (int64_t)index;
    }
    return status;
}

static void words(const plan *p, char *text, size_t size) {
    static const char *const names[] = {"take",    "skip", "shard",  "whole",   "repeat",
                                        "shuffle", "map",  "filter", "prefetch"};
    int n = snprintf(text, size, "%s:%lld", p->stream ? "stream" : "range", (long long)p->count);
    for (int i = 0; i < p->stages; i++) {
        n += snprintf(text + n, size - (size_t)n, " | %s(%lld,%lld)", names[p->stage[i].kind],
                      (long long)p->stage[i].a, (long long)p->stage[i].b);
    }
    snprintf(text + n, size - (size_t)n, " | batch(%lld,drop=%d)", (long long)p->batch, p->drop);
}

static hr_pipeline *build(plan *p, uint32_t workers) {
    hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 4 << 20, .workers = workers};
    const hr_meta meta = {.type = HR_TYPE_I64};
    const char *const names[] = {"value"};
    const hr_map_options mo = {
        .size = sizeof mo, .outputs = &meta, .names = names, .output_count = 1};
    hr_pipeline *q;
    CHECK_OK(hr_pipeline_create(&o, &q));
    if (p->stream) {
        CHECK_OK(hr_pipeline_callback(q, source_fn, &p->count, HR_COUNT_UNKNOWN, &mo));
    } else {
        char text[64];
        snprintf(text, sizeof text, "range:%lld", (long long)p->count);
        CHECK_OK(hr_pipeline_add(q, text));
    }
    for (int i = 0; i < p->stages; i++) {
        made *m = &p->stage[i];
        char text[96] = "";
        switch (m->kind) {
        case TAKE:
            snprintf(text, sizeof text, "take(%lld)", (long long)m->a);
            break;
        case SKIP:
            snprintf(text, sizeof text, "skip(%lld)", (long long)m->a);
            break;
        case SHARD:
            snprintf(text, sizeof text, "shard(%lld,index=%lld)", (long long)m->a, (long long)m->b);
            break;
        case WHOLE:
            snprintf(text, sizeof text, "whole(%lld)", (long long)m->a);
            break;
        case REPEAT:
            snprintf(text, sizeof text, "repeat(%lld)", (long long)m->a);
            break;
        case SHUFFLE:
            snprintf(text, sizeof text, "shuffle(%lld,seed=%lld)", (long long)m->a,
                     (long long)m->b);
            break;
        case PREFETCH:
            snprintf(text, sizeof text, "prefetch(%lld)", (long long)m->a);
            break;
        case MAP:
            CHECK_OK(hr_pipeline_map(q, map_fn, &m->a, &mo));
            break;
        default:
            CHECK_OK(hr_pipeline_filter(q, filter_fn, NULL, NULL));
            break;
        }
        if (text[0]) {
            CHECK_OK(hr_pipeline_add(q, text));
        }
    }
    if (p->batch) {
        char text[64];
        snprintf(text, sizeof text, "batch(%lld,drop=%s)", (long long)p->batch,
                 p->drop ? "on" : "off");
        CHECK_OK(hr_pipeline_add(q, text));
    }
    const hr_status status = hr_pipeline_build(q);
    if (status != HR_OK) {
        hr_error error;
        hr_pipeline_error(q, &error);
        test_fail(__FILE__, __LINE__, "%s", error.message);
    }
    return q;
}

/* Takes at most `most` elements and checks them against the list from *at on; false at the end of the epoch. */
static bool follow(const plan *p, hr_pipeline *q, const list *want, uint64_t *at, uint64_t most,
                   const char *what) {
    for (uint64_t i = 0; i < most; i++) {
        hr_element *e;
        const hr_status status = hr_pipeline_next(q, &e);
        if (status == HR_E_EOF) {
            return false;
        }
        CHECK_OK(status);
        const hr_field *f = hr_element_find(e, "value");
        const uint64_t n = p->batch ? (uint64_t)f->meta.shape.dim[0] : 1;
        for (uint64_t k = 0; k < n; k++, ++*at) {
            const int64_t got = ((const int64_t *)f->data)[k];
            if (*at >= want->count || got != want->at[*at]) {
                char text[512];
                words(p, text, sizeof text);
                test_fail(__FILE__, __LINE__, "%s: %s: element %llu is %lld, not %lld", text, what,
                          (unsigned long long)*at, (long long)got,
                          *at < want->count ? (long long)want->at[*at] : -1LL);
            }
        }
        hr_element_unref(e);
    }
    return true;
}

static uint64_t whole(const plan *p, uint64_t count) {
    return p->batch && p->drop ? count / (uint64_t)p->batch * (uint64_t)p->batch : count;
}

static plan draw(uint64_t *seed) {
    plan p = {.count = (int64_t)(test_random(seed) % 120), .stream = test_random(seed) % 4 == 0};
    p.stages = (int)(test_random(seed) % (STAGES + 1));
    int64_t repeats = 1;
    for (int i = 0; i < p.stages; i++) {
        made *m = &p.stage[i];
        m->kind = (kind)(test_random(seed) % KINDS);
        m->a = 1 + (int64_t)(test_random(seed) % 40);
        m->b = (int64_t)(test_random(seed) % 1000);
        if (m->kind == SHARD) {
            m->a = 1 + m->a % 4;
            m->b %= m->a;
        } else if (m->kind == REPEAT) {
            m->a = repeats > 8 ? 1 : m->a % 3 + 1;
            repeats *= m->a;
        } else if (m->kind == PREFETCH) {
            m->a = 1 + m->a % 4;
        }
    }
    p.batch = test_random(seed) % 2 ? 1 + (int64_t)(test_random(seed) % 9) : 0;
    p.drop = test_random(seed) % 2;
    return p;
}

TEST_TIMEOUT(pipeline, follows_the_model_for_any_number_of_workers, 120) {
    static const uint32_t workers[] = {1, 2, 8};
    uint64_t seed = test_seed();
    list *want = malloc(sizeof *want);
    for (int round = 0; round < 120; round++) {
        plan p = draw(&seed);
        for (int w = 0; w < 3; w++) {
            hr_pipeline *q = build(&p, workers[w]);
            for (uint64_t epoch = 0; epoch < 2; epoch++) {
                model(&p, p.stages, epoch, want);
                uint64_t at = 0;
                CHECK(!follow(&p, q, want, &at, UINT64_MAX, "in order"));
                CHECK_EQ(at, whole(&p, want->count));
                CHECK_OK(hr_pipeline_rewind(q));
            }
            hr_pipeline_destroy(q);
        }
    }
    free(want);
}

TEST_TIMEOUT(pipeline, a_resume_at_any_element_continues_exactly, 120) {
    static const uint32_t workers[] = {1, 2, 8};
    uint64_t seed = test_seed() + 1;
    list *want = malloc(sizeof *want);
    for (int round = 0; round < 150; round++) {
        plan p = draw(&seed);
        const uint64_t epoch = test_random(&seed) % 3;
        model(&p, p.stages, epoch, want);
        hr_pipeline *q = build(&p, workers[test_random(&seed) % 3]);
        CHECK_OK(hr_pipeline_seek(q, epoch));
        uint64_t at = 0;
        /* Three cuts, each continued in a new pipeline. */
        for (int cut = 0; cut < 3; cut++) {
            (void)follow(&p, q, want, &at, test_random(&seed) % 40, "before the cut");
            void *state;
            size_t bytes;
            CHECK_OK(hr_pipeline_save(q, &state, &bytes));
            hr_pipeline_destroy(q);
            q = build(&p, workers[test_random(&seed) % 3]);
            const hr_status status = hr_pipeline_restore(q, state, bytes);
            if (status != HR_OK) {
                char text[512];
                words(&p, text, sizeof text);
                test_fail(__FILE__, __LINE__, "%s: restore at %llu gave %s", text,
                          (unsigned long long)at, hr_status_name(status));
            }
            hr_pipeline_state_free(state);
        }
        CHECK(!follow(&p, q, want, &at, UINT64_MAX, "behind the cut"));
        CHECK_EQ(at, whole(&p, want->count));
        CHECK_OK(hr_pipeline_rewind(q));
        model(&p, p.stages, epoch + 1, want);
        at = 0;
        CHECK(!follow(&p, q, want, &at, UINT64_MAX, "the epoch after"));
        hr_pipeline_destroy(q);
    }
    free(want);
}

TEST_TIMEOUT(pipeline, without_order_the_same_elements_come_once_each, 60) {
    for (uint32_t workers = 1; workers <= 8; workers *= 2) {
        int64_t add = 1;
        hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 1 << 20, .workers = workers};
        hr_map_options mo = {.size = sizeof mo, .output_bytes = 8, .unordered = 1};
        char seen[500] = {0};
        hr_pipeline *q;
        void *state = NULL;
        size_t bytes = 0;
        for (int part = 0; part < 2; part++) {
            CHECK_OK(hr_pipeline_create(&o, &q));
            CHECK_OK(hr_pipeline_add(q, "range:500"));
            CHECK_OK(hr_pipeline_map(q, map_fn, &add, &mo));
            CHECK_OK(hr_pipeline_build(q));
            if (part == 1) {
                CHECK_OK(hr_pipeline_restore(q, state, bytes));
                hr_pipeline_state_free(state);
            }
            hr_element *e;
            for (int i = 0; part == 1 || i < 123; i++) {
                const hr_status status = hr_pipeline_next(q, &e);
                if (status == HR_E_EOF) {
                    break;
                }
                CHECK_OK(status);
                const int64_t v = *(const int64_t *)hr_element_find(e, "value")->data;
                CHECK_EQ((v - 1) % 3, 0);
                CHECK(v >= 1 && (v - 1) / 3 < 500);
                CHECK_EQ(seen[(v - 1) / 3]++, 0);
                hr_element_unref(e);
            }
            if (part == 0) {
                CHECK_OK(hr_pipeline_save(q, &state, &bytes));
                o.workers = 3;
            }
            hr_pipeline_destroy(q);
        }
        for (int i = 0; i < 500; i++) {
            CHECK_EQ(seen[i], 1);
        }
    }
}
