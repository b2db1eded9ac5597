/* A layer is an op or two; its gradient reads what a real one would: inputs, outputs, or both. */
#include "random_problem.h"

#include <stdio.h>

#include "test.h"

typedef struct layer {
    uint32_t in[3], in_count, weight, out, extra, op;
    uint8_t reads_in, reads_out;
} layer;

typedef struct builder {
    hri_problem *p;
    uint64_t *random;
    uint32_t grad[512]; /* by value: its gradient so far, or NONE */
} builder;

static uint32_t pick(builder *b, uint32_t n) {
    return (uint32_t)(test_random(b->random) % n);
}

static uint32_t value(builder *b, uint64_t bytes, hri_role role) {
    char name[32];
    uint32_t v;
    snprintf(name, sizeof name, "v%u", b->p->value_count);
    const hri_problem_value new = {.name = name, .bytes = bytes, .role = (uint8_t)role};
    CHECK_OK(hri_problem_add_value(b->p, &new, &v));
    CHECK(v < 512);
    b->grad[v] = HRI_PROBLEM_NONE;
    return v;
}

static uint64_t some_bytes(builder *b) {
    const uint64_t kinds[] = {64, 1000, 4096, 20000, 65536, 0};
    return pick(b, 40) == 0 ? 0 : kinds[pick(b, 5)] * (1 + pick(b, 3));
}

/* Which inputs an output may overwrite: now and then those of equal bytes. */
static uint64_t overwrites(builder *b, const uint32_t *in, uint32_t count, uint32_t out) {
    uint64_t mask = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (b->p->values[in[i]].bytes == b->p->values[out].bytes && pick(b, 3) > 0) {
            mask |= (uint64_t)1 << i;
        }
    }
    return mask;
}

static uint32_t op(builder *b, hri_problem_phase phase, const uint32_t *in, uint32_t in_count,
                   const hri_problem_output *out, uint32_t out_count) {
    const double time = 1 + pick(b, 100);
    const hri_problem_variant variants[2] = {{"fast", time, pick(b, 3) ? 0 : some_bytes(b)},
                                             {"slow", time * 2, 0}};
    char name[32];
    uint32_t n;
    snprintf(name, sizeof name, "op%u", b->p->op_count);
    const hri_problem_op new = {.name = name,
                                .kind = "any",
                                .phase = (uint8_t)phase,
                                .once = pick(b, 12) == 0,
                                .in_count = in_count,
                                .out_count = out_count,
                                .variant_count = 1 + pick(b, 2),
                                .in = in,
                                .out = out,
                                .variants = variants};
    CHECK_OK(hri_problem_add_op(b->p, &new, &n));
    return n;
}

static void forward(builder *b, layer *layers, uint32_t at, uint32_t count, problem_shape shape,
                    uint32_t input) {
    layer *l = &layers[at];
    *l = (layer){.extra = HRI_PROBLEM_NONE, .weight = HRI_PROBLEM_NONE};
    l->in[l->in_count++] = at ? layers[at - 1].out : input;
    if (shape == SHAPE_RESIDUAL && at >= 3 && at % 3 == 0) {
        l->in[l->in_count++] = layers[at - 3].out;
    } else if (shape == SHAPE_UNET && at > count / 2) {
        l->in[l->in_count++] = layers[count - 1 - at].out;
    } else if (shape == SHAPE_ANY && at && pick(b, 2)) {
        l->in[l->in_count++] = layers[pick(b, at)].out; /* perhaps the same one twice */
    }
    uint32_t in[4] = {l->in[0], l->in[1], l->in[2]}, n = l->in_count;
    if (pick(b, 3)) {
        l->weight = value(b, some_bytes(b), HRI_ROLE_PERSISTENT);
        in[n++] = l->weight;
    }
    const uint64_t bytes = pick(b, 3) ? b->p->values[l->in[0]].bytes : some_bytes(b);
    l->out = value(b, bytes, HRI_ROLE_MADE);
    hri_problem_output out[2] = {{.value = l->out, .overwrite = overwrites(b, in, n, l->out)}};
    if (pick(b, 4) == 0) {
        l->extra = value(b, 64, HRI_ROLE_MADE);
        out[1].value = l->extra;
    }
    l->op = op(b, HRI_PROBLEM_FORWARD, in, n, out, l->extra == HRI_PROBLEM_NONE ? 1 : 2);
    l->reads_in = pick(b, 3) > 0;
    l->reads_out = pick(b, 2) > 0;
}

/* Adds `more` to the gradient of v. */
static void accumulate(builder *b, uint32_t v, uint32_t more) {
    if (b->grad[v] == HRI_PROBLEM_NONE) {
        b->grad[v] = more;
        return;
    }
    const uint32_t in[2] = {b->grad[v], more};
    const uint32_t sum = value(b, b->p->values[v].bytes, HRI_ROLE_MADE);
    const hri_problem_output out = {.value = sum, .overwrite = 1};
    op(b, HRI_PROBLEM_BACKWARD, in, 2, &out, 1);
    b->grad[v] = sum;
}

static void backward(builder *b, const layer *l) {
    uint32_t in[8], n = 0;
    in[n++] = b->grad[l->out];
    for (uint32_t i = 0; l->reads_in && i < l->in_count; i++) {
        in[n++] = l->in[i];
    }
    if (l->reads_out) {
        in[n++] = l->out;
    }
    if (l->extra != HRI_PROBLEM_NONE) {
        in[n++] = l->extra;
    }
    const uint32_t without = n;
    if (l->weight != HRI_PROBLEM_NONE) {
        in[n++] = l->weight;
    }
    for (uint32_t i = 0; i < l->in_count; i++) {
        const uint32_t d = value(b, b->p->values[l->in[i]].bytes, HRI_ROLE_MADE);
        const hri_problem_output out = {.value = d, .overwrite = overwrites(b, in, n, d)};
        const uint32_t g = op(b, HRI_PROBLEM_BACKWARD, in, n, &out, 1);
        if (!l->reads_out && !b->p->ops[l->op].once && g % 2) { /* it can write the output again */
            b->p->ops[g].beside = l->op + 1;
            b->p->ops[g].beside_share = (g / 2 % 5) / 4.0;
        }
        accumulate(b, l->in[i], d);
    }
    if (l->weight != HRI_PROBLEM_NONE) {
        const uint32_t d = value(b, b->p->values[l->weight].bytes, HRI_ROLE_MADE);
        const hri_problem_output out = {.value = d};
        op(b, HRI_PROBLEM_BACKWARD, in, without, &out, 1);
        b->grad[l->weight] = d;
    }
}

static void update(builder *b, const layer *l) {
    if (l->weight == HRI_PROBLEM_NONE) {
        return;
    }
    const uint32_t in[2] = {l->weight, b->grad[l->weight]};
    const uint32_t next = value(b, b->p->values[l->weight].bytes, HRI_ROLE_MADE);
    const hri_problem_output out = {.value = next, .updates = 1};
    op(b, HRI_PROBLEM_UPDATE, in, 2, &out, 1);
}

void random_problem(uint64_t *random, problem_shape shape, uint32_t count, hri_problem *out) {
    builder b = {.p = out, .random = random};
    layer layers[40];
    hri_prose why = {{0}};
    CHECK(count <= 40);
    hri_problem_init(out, (uint64_t)1 << (4 * (1 + test_random(random) % 2)));
    const uint32_t input = value(&b, 1 + some_bytes(&b), HRI_ROLE_INPUT);
    for (uint32_t i = 0; i < count; i++) {
        forward(&b, layers, i, count, shape, input);
    }
    const uint32_t seed = value(&b, b.p->values[layers[count - 1].out].bytes, HRI_ROLE_CONSTANT);
    b.grad[layers[count - 1].out] = seed;
    out->values[layers[count - 1].out].result = 1;
    out->values[layers[pick(&b, count)].out].result = 1;
    for (uint32_t i = count; i-- > 0;) {
        if (b.grad[layers[i].out] != HRI_PROBLEM_NONE) {
            backward(&b, &layers[i]);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        update(&b, &layers[i]);
    }
    if (pick(&b, 2)) {
        out->memories[0].out_bytes_per_ns = 200 * (1 + pick(&b, 4));
        out->memories[0].in_bytes_per_ns = 200 * (1 + pick(&b, 4));
        out->memories[0].latency_ns = 1;
        out->copies_block = pick(&b, 3) == 0;
        out->copy_drag = out->copies_block ? 0 : 0.125 * (double)pick(&b, 3);
    }
    if (hri_problem_finish(out, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.text);
    }
}
