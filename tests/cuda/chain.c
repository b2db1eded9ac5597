/* Chains of element-wise steps as one kernel: the bits of the steps one by one, whatever the types, shapes and places. */
#include "kernel_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/op.h"
#include "ref.h"

enum { PLACE = 64 << 10 }; /* bytes of each tensor's place in the block */

static hr_addr place(const bench *b, uint32_t i) {
    return b->block.addr + (hr_addr)i * PLACE;
}

static void put_at(bench *b, uint32_t i, const void *from, uint64_t bytes) {
    CHECK_LE(bytes, PLACE);
    CHECK_OK(hr_copy(b->queue, place(b, i), host_addr(from), bytes));
    CHECK_OK(hr_queue_sync(b->queue));
}

static void get_at(bench *b, uint32_t i, void *to, uint64_t bytes) {
    CHECK_OK(hr_copy(b->queue, host_addr(to), place(b, i), bytes));
    CHECK_OK(hr_queue_sync(b->queue));
}

/* One step of a test: the op, its attributes, and where its inputs are (>= 0 operands, < 0 earlier steps). */
typedef struct step {
    const char *op, *attributes;
    int32_t in[3];
    int stored;
} step;

typedef struct made {
    hri_sig sig;
    hri_attr attr;
    hr_meta in[3], out;
} made;

static void make(const step *s, const hr_meta *operands, const hr_meta *results, made *m) {
    memset(m, 0, sizeof *m);
    const hr_op *op = hri_op_find(s->op);
    CHECK(op && op->scalar);
    CHECK_OK(hri_attr_parse(op, s->attributes, &m->attr, NULL));
    for (uint32_t i = 0; i < op->scalar->arity; i++) {
        m->in[i] = s->in[i] < 0 ? results[-1 - s->in[i]] : operands[s->in[i]];
    }
    hri_infer infer = {
        .attr = &m->attr, .in_count = op->scalar->arity, .in = m->in, .out = &m->out};
    CHECK_OK(op->infer(&infer));
    m->sig = (hri_sig){.op = op,
                       .attr = &m->attr,
                       .in_count = op->scalar->arity,
                       .out_count = 1,
                       .in = m->in,
                       .out = &m->out};
}

/* Runs the steps one by one and as a chain; compares what the chain stores. */
static void compare(bench *b, const char *operand_text, const step *steps, uint32_t count) {
    hr_meta operands[HRI_IN_MAX], results[16];
    made *all = calloc(count, sizeof *all);
    const uint32_t operand_count = ref_parse(operand_text, operands);
    uint64_t state = test_seed();
    unsigned char *data = calloc(1, PLACE), *one = calloc(1, PLACE), *chain = calloc(1, PLACE);
    CHECK(all && data && one && chain);
    hri_chain_operand at[HRI_IN_MAX];
    hri_chain_step chained[16];
    for (uint32_t i = 0; i < operand_count; i++) {
        for (int64_t k = 0, n = hr_shape_count(&operands[i].shape); k < n; k++) {
            ref_store(operands[i].type, data, k,
                      (double)(test_random(&state) >> 11) * 0x1p-52 - 1.0);
        }
        put_at(b, i, data, hr_meta_bytes(&operands[i]));
        at[i] = (hri_chain_operand){place(b, i), &operands[i]};
    }
    for (uint32_t k = 0; k < count; k++) {
        make(&steps[k], operands, results, &all[k]);
        results[k] = all[k].out;
        chained[k] = (hri_chain_step){.sig = &all[k].sig};
        memcpy(chained[k].in, steps[k].in, sizeof chained[k].in);
        /* One by one: every result has a place of its own. */
        hr_addr in[3] = {0}, out = place(b, 7 + k);
        for (uint32_t i = 0; i < all[k].sig.in_count; i++) {
            in[i] = steps[k].in[i] < 0 ? place(b, 7 + (uint32_t)(-1 - steps[k].in[i]))
                                       : place(b, (uint32_t)steps[k].in[i]);
        }
        CHECK_OK(
            hri_op_launch(&(hri_gpu_call){.gpu = b->gpu,
                                          .kernel = hri_kernel_for(&hri_kernels_cuda, &all[k].sig),
                                          .sig = &all[k].sig,
                                          .in = in,
                                          .out = &out}));
    }
    for (uint32_t k = 0; k < count; k++) {
        if (!steps[k].stored) {
            continue;
        }
        for (uint32_t i = 0; i < count; i++) {
            chained[i].out = i == k ? place(b, 15) : 0;
        }
        CHECK_OK(hri_chain_launch(b->gpu, at, operand_count, chained, k + 1));
        const uint64_t bytes = hr_meta_bytes(&results[k]);
        get_at(b, 7 + k, one, bytes);
        get_at(b, 15, chain, bytes);
        test_count_check();
        if (memcmp(one, chain, bytes) != 0) {
            test_fail(__FILE__, __LINE__, "%s: step %u (%s) has other bits in a chain",
                      operand_text, k, steps[k].op);
        }
    }
    free(all);
    free(data);
    free(one);
    free(chain);
}

static const step three[] = {{"add", NULL, {0, 1}, 0},
                             {"gelu", "approximate=tanh", {-1}, 1},
                             {"mul", NULL, {-2, 2}, 1},
                             {"affine", "scale=0.3,shift=-1", {-3}, 1}};

TEST_TIMEOUT(chain, has_the_bits_of_its_steps, 300) {
    static const char *const shapes[] = {
        "f32[7,33] f32[7,33] f32[7,33]",  "bf16[8,64] bf16[64] bf16[8,64]",
        "f16[3,5,16] f16[5,1] f16[1]",    "bf16[129] bf16[] bf16[129]",
        "f32[4,6,8] f32[4,1,8] f32[6,1]", "f16[2,9] f16[9] f16[2,1]",
    };
    bench b;
    bench_open(&b);
    bench_gpu(&b);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        compare(&b, shapes[i], three, 4);
    }
    /* A product and a sum, which a compiler would like to make one operation of. */
    static const step both[] = {{"mul", NULL, {0, 1}, 0}, {"add", NULL, {-1, 2}, 1}};
    compare(&b, "f32[1000] f32[1000] f32[1000]", both, 2);
    bench_close(&b);
}

TEST(chain, may_lie_over_an_operand_of_its_shape) {
    bench b;
    float x[300], y[300];
    const hr_meta meta = {.type = HR_TYPE_F32, .shape = {.rank = 1, .dim = {300}}};
    const step steps[] = {{"add", NULL, {0, 0}, 1}, {"relu", NULL, {-1}, 1}};
    hr_meta results[2];
    made all[2];
    bench_open(&b);
    bench_gpu(&b);
    for (int i = 0; i < 300; i++) {
        x[i] = (float)(i - 150);
    }
    put_at(&b, 0, x, sizeof x);
    for (uint32_t k = 0; k < 2; k++) {
        make(&steps[k], &meta, results, &all[k]);
        results[k] = all[k].out;
    }
    const hri_chain_operand at = {place(&b, 0), &meta};
    const hri_chain_step chained[] = {{.sig = &all[0].sig, .in = {0, 0}},
                                      {.sig = &all[1].sig, .in = {-1}, .out = place(&b, 0)}};
    CHECK_OK(hri_chain_launch(b.gpu, &at, 1, chained, 2));
    get_at(&b, 0, y, sizeof y);
    for (int i = 0; i < 300; i++) {
        CHECK(y[i] == (x[i] > 0 ? 2 * x[i] : 0));
    }
    bench_close(&b);
}

/* A program of random steps over six places: four whole tensors, a row and one number.  Results go to whole ones. */
enum { STEPS = 10, WHOLES = 4, PLACES = 6 };

typedef struct program {
    made made[STEPS];
    hr_addr in[STEPS][3], out[STEPS];
    hri_gpu_call calls[STEPS];
} program;

static void write_program(bench *b, uint64_t *state, const hr_meta *metas, program *p) {
    static const step kinds[] = {{"add", NULL, {0, 1}, 0},
                                 {"mul", NULL, {0, 1}, 0},
                                 {"sub", NULL, {0, 1}, 0},
                                 {"relu", NULL, {0}, 0},
                                 {"affine", "scale=0.5,shift=0.25", {0}, 0}};
    for (uint32_t k = 0; k < STEPS; k++) {
        const step *kind = &kinds[test_random(state) % 5];
        const uint32_t from[2] = {(uint32_t)(test_random(state) % WHOLES),
                                  (uint32_t)(test_random(state) % PLACES)};
        const hr_meta operands[2] = {metas[from[0]], metas[from[1]]};
        make(kind, operands, NULL, &p->made[k]);
        p->in[k][0] = place(b, from[0]);
        p->in[k][1] = place(b, from[1]);
        p->out[k] = place(b, (uint32_t)(test_random(state) % WHOLES));
        p->calls[k] = (hri_gpu_call){.gpu = b->gpu,
                                     .kernel = hri_kernel_for(&hri_kernels_cuda, &p->made[k].sig),
                                     .sig = &p->made[k].sig,
                                     .in = p->in[k],
                                     .out = &p->out[k]};
    }
}

TEST_TIMEOUT(chain, leaves_memory_as_the_calls_one_by_one_do, 300) {
    hr_meta metas[HRI_IN_MAX];
    bench b;
    bench_open(&b);
    bench_gpu(&b);
    CHECK_EQ(ref_parse("bf16[6,40] bf16[6,40] bf16[6,40] bf16[6,40] bf16[40] bf16[1]", metas),
             PLACES);
    const size_t bytes = PLACES * PLACE;
    unsigned char *before = calloc(1, bytes), *one = calloc(1, bytes), *many = calloc(1, bytes);
    program *p = calloc(1, sizeof *p);
    CHECK(before && one && many && p);
    uint64_t state = test_seed();
    uint32_t longest = 0;
    for (uint32_t i = 0; i < PLACES; i++) {
        for (int64_t k = 0; k < hr_shape_count(&metas[i].shape); k++) {
            ref_store(HR_TYPE_BF16, before + i * PLACE, k,
                      (double)(test_random(&state) >> 11) * 0x1p-52 - 1.0);
        }
    }
    for (int round = 0; round < 6; round++) {
        hri_chain chain;
        write_program(&b, &state, metas, p);
        for (uint32_t k = 0; k < STEPS; k++) {
            const uint32_t n = hri_chain_find(&p->calls[k], STEPS - k, &chain);
            longest = n > longest ? n : longest;
        }
        bench_put(&b, before, bytes);
        for (uint32_t k = 0; k < STEPS; k++) {
            CHECK_OK(hri_op_launch(&p->calls[k]));
        }
        bench_get(&b, one, bytes);
        bench_put(&b, before, bytes);
        CHECK_OK(hri_op_launch_many(p->calls, STEPS));
        bench_get(&b, many, bytes);
        CHECK(memcmp(one, many, bytes) == 0);
    }
    CHECK(longest > 3); /* the calls did go together */
    free(before);
    free(one);
    free(many);
    free(p);
    bench_close(&b);
}

TEST(chain, refuses_what_is_none) {
    bench b;
    const hr_meta meta = {.type = HR_TYPE_F32, .shape = {.rank = 1, .dim = {300}}};
    const hr_meta small = {.type = HR_TYPE_BF16, .shape = {.rank = 1, .dim = {300}}};
    const step relu = {"relu", NULL, {0}, 1};
    made m;
    bench_open(&b);
    bench_gpu(&b);
    make(&relu, &meta, NULL, &m);
    const hri_chain_operand at = {place(&b, 0), &meta}, other = {place(&b, 0), &small};
    const hri_chain_step later = {.sig = &m.sig, .in = {-1}, .out = place(&b, 1)};
    const hri_chain_step good = {.sig = &m.sig, .in = {0}, .out = place(&b, 1)};
    CHECK_STATUS(hri_chain_launch(b.gpu, &at, 1, &later, 1), HR_E_UNSUPPORTED);
    CHECK_STATUS(hri_chain_launch(b.gpu, &at, 0, &good, 1), HR_E_UNSUPPORTED);
    CHECK_STATUS(hri_chain_launch(b.gpu, &other, 1, &good, 1), HR_E_UNSUPPORTED);
    CHECK_STATUS(hri_chain_launch(b.gpu, &at, 1, &good, 0), HR_E_UNSUPPORTED);
    bench_close(&b);
}
