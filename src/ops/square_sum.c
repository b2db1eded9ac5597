/* square_sum(x0, x1, ...) = the sum of the squares of all elements of all inputs, a scalar f32.
 *
 * For the norm of many gradients, which may have any real types and shapes.  The sum is taken in double over fixed
 * chunks, so the result does not depend on the threads.  It is not finite exactly when an element is not (or when the
 * sum itself is beyond f32), which is the finite check of loss scaling too. */
#include "graph/half.h"
#include "ops/common/launch.h"
#include "ops/common/squares.h"

enum { CHUNK = HRI_SLICE_CHUNK };

typedef struct job {
    const hri_call *c;
    uint32_t input;
    double *sums; /* of this input's chunks */
} job;

static void square_sum_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const job *j = arg;
    const hr_type type = j->c->sig->in[j->input].type;
    const void *x = j->c->in[j->input];
    double sum = 0.0;
    (void)worker;
    if (type == HR_TYPE_F32) {
        sum = hri_squares_f32((const float *)x + begin, end - begin);
    } else {
        for (uint64_t i = begin; i < end; i++) {
            const double v = (double)(type == HR_TYPE_BF16 ? hri_from_bf16(((const hri_bf16 *)x)[i])
                                                           : hri_from_f16(((const hri_f16 *)x)[i]));
            sum += v * v;
        }
    }
    j->sums[begin / CHUNK] = sum;
}

static uint64_t count_of(const hri_sig *s, uint32_t i) {
    return (uint64_t)hr_shape_count(&s->in[i].shape);
}

static hr_status square_sum_host(const hri_call *c) {
    double *sums = c->workspace;
    uint64_t used = 0;
    for (uint32_t i = 0; i < c->sig->in_count; i++) {
        job j = {c, i, sums + used};
        hri_threads_range(c->threads, count_of(c->sig, i), CHUNK, square_sum_range, &j);
        used += hri_chunk_count(count_of(c->sig, i), CHUNK);
    }
    *(float *)c->out[0] = (float)hri_sum(sums, used);
    return HR_OK;
}

static uint64_t square_sum_workspace(const hri_sig *s, uint32_t threads) {
    uint64_t chunks = 0;
    (void)threads;
    for (uint32_t i = 0; i < s->in_count; i++) {
        chunks += hri_chunk_count(count_of(s, i), CHUNK);
    }
    return chunks * sizeof(double);
}

/* ---- on a GPU ---- */

HRI_CU(square_sum);

enum { THREADS = 256, PIECE = 16384, FINISH = 1024 };

/* As in square_sum.cu. */
typedef struct table {
    uint64_t count;
    struct {
        hr_addr at;
        int64_t count;
        uint32_t first, type;
    } tensor[HRI_IN_MAX];
} table;

static uint64_t square_sum_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    uint64_t pieces = 0;
    (void)gpu;
    (void)variant;
    for (uint32_t i = 0; i < s->in_count; i++) {
        pieces += (uint64_t)hri_launch_up((int64_t)count_of(s, i), PIECE);
    }
    return pieces * sizeof(float);
}

static hr_status square_sum_cuda(const hri_gpu_call *c) {
    table t = {.count = 0};
    uint32_t blocks = 0;
    hr_addr sums = c->workspace, out = c->out[0];
    for (uint32_t i = 0; i < c->sig->in_count; i++) {
        const int64_t n = (int64_t)count_of(c->sig, i);
        const hr_type type = c->sig->in[i].type;
        if (n) {
            t.tensor[t.count].at = c->in[i];
            t.tensor[t.count].count = n;
            t.tensor[t.count].first = blocks;
            t.tensor[t.count++].type = (type == HR_TYPE_F32    ? 0u
                                        : type == HR_TYPE_BF16 ? 1u
                                                               : 2u) +
                                       (hri_launch_wide(c->in[i]) ? 0u : 4u);
            blocks += hri_launch_blocks(n, PIECE);
        }
    }
    if (blocks) {
        const hr_status status = hri_gpu_launch(c->gpu, &hri_cu_square_sum, NULL, "pieces",
                                                &(hri_gpu_grid){.x = blocks, .threads = THREADS},
                                                HRI_GPU_ARGS(&t, &sums));
        if (status != HR_OK) {
            return status;
        }
    }
    int64_t pieces = blocks;
    return hri_gpu_launch(c->gpu, &hri_cu_square_sum, NULL, "finish",
                          &(hri_gpu_grid){.x = 1, .threads = FINISH},
                          HRI_GPU_ARGS(&sums, &out, &pieces));
}

static hr_status square_sum_infer(hri_infer *c) {
    for (uint32_t i = 0; i < c->in_count; i++) {
        if (!hr_type_is_real(c->in[i].type)) {
            return hri_infer_fail(c, "input %u is %s, not a floating-point type", i,
                                  hr_type_name(c->in[i].type));
        }
    }
    c->out[0] = (hr_meta){.type = HR_TYPE_F32};
    return HR_OK;
}

static hri_samples square_sum_samples(const hri_sig *s, uint32_t batched) {
    const uint32_t all = (1u << s->in_count) - 1u;
    return !batched ? HRI_SAMPLES_APART : batched == all ? HRI_SAMPLES_SUM : HRI_SAMPLES_COUPLED;
}

static void square_sum_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 0.0;
    for (uint32_t i = 0; i < s->in_count; i++) {
        cost->flops += 2.0 * (double)count_of(s, i);
    }
}

static const hri_case square_sum_cases[] = {
    {"one", "f32[7,33]", .flags = HRI_CASE_NO_GRAD, .batched = 1},
    {"chunks", "f32[40001]", .flags = HRI_CASE_NO_GRAD},
    {"many of many types", "f32[3,5] bf16[7] f16[2,2,2] f32[] f32[0]", .flags = HRI_CASE_NO_GRAD},
    {"sixteen",
     "f32[1] f32[2] f32[3] f32[4] f32[5] f32[6] f32[7] f32[8] f32[9] f32[10] f32[11] "
     "f32[12] f32[13] f32[14] f32[15] f32[16]",
     .flags = HRI_CASE_NO_GRAD},
    {"empty", "f32[0]", .flags = HRI_CASE_NO_GRAD},
    {"long ones", "bf16[40001] f16[20000] f32[17000] bf16[9]", .flags = HRI_CASE_NO_GRAD},
    {"integers", "f32[3] i32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_square_sum = {
    .name = "square_sum",
    .formula = "y = sum x0^2 + sum x1^2 + ...",
    .in_min = 1,
    .in_max = HRI_IN_MAX,
    .out_count = 1,
    .infer = square_sum_infer,
    .samples = square_sum_samples,
    .cost = square_sum_cost,
    .host = {.run = square_sum_host, .workspace = square_sum_workspace},
    .cases = HRI_CASES(square_sum_cases),
};

const hri_kernel hri_kernel_cuda_square_sum = {
    .launch = square_sum_cuda,
    .launch_workspace = square_sum_cuda_workspace,
};
