/* min_max(x): the least and the greatest number of x and 0: what a learned range is made of.
 *
 *   x f32 (...)   y f32 (2)
 *
 * Of parts of a batch the least of the least is that of the batch, in any order, to the bit: the state that it goes into
 * (range_move) takes parts one after the other, and the batch may be split.  NaN is passed over. */
#include "ops/common/launch.h"

enum { CHUNK = 16384, MOST = 1024 };

static hr_status min_max_infer(hri_infer *c) {
    if (c->in[0].type != HR_TYPE_F32) {
        return hri_infer_fail(c, "the input is %s, not f32", hr_type_name(c->in[0].type));
    }
    c->out[0] = (hr_meta){HR_TYPE_F32, hr_shape_1(2)};
    return HR_OK;
}

typedef struct task {
    const float *x;
    float *seen; /* by worker */
} task;

static void min_max_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    float least = t->seen[2 * worker], most = t->seen[2 * worker + 1];
    for (uint64_t i = begin; i < end; i++) {
        least = t->x[i] < least ? t->x[i] : least;
        most = t->x[i] > most ? t->x[i] : most;
    }
    t->seen[2 * worker] = least;
    t->seen[2 * worker + 1] = most;
}

static uint64_t min_max_workspace(const hri_sig *s, uint32_t threads) {
    (void)s;
    return (uint64_t)(threads ? threads : 1) * 2 * sizeof(float);
}

static hr_status min_max_host(const hri_call *c) {
    const uint32_t threads = hri_threads_count(c->threads);
    task t = {c->in[0], c->workspace};
    float *y = c->out[0];
    for (uint32_t i = 0; i < 2 * threads; i++) {
        t.seen[i] = 0.0f;
    }
    hri_threads_range(c->threads, (uint64_t)hr_shape_count(&c->sig->in[0].shape), CHUNK,
                      min_max_range, &t);
    y[0] = y[1] = 0.0f;
    for (uint32_t i = 0; i < threads; i++) {
        y[0] = t.seen[2 * i] < y[0] ? t.seen[2 * i] : y[0];
        y[1] = t.seen[2 * i + 1] > y[1] ? t.seen[2 * i + 1] : y[1];
    }
    return HR_OK;
}

HRI_CU(fake_quantize);

static uint32_t blocks_of(const hri_sig *s) {
    const int64_t blocks = hri_launch_up(hr_shape_count(&s->in[0].shape), CHUNK);
    return (uint32_t)hri_launch_max(1, hri_launch_min(blocks, MOST));
}

static uint64_t min_max_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    (void)gpu;
    (void)variant;
    return blocks_of(s) * 2 * sizeof(float);
}

static hr_status min_max_cuda(const hri_gpu_call *c) {
    hr_addr x = c->in[0], seen = c->workspace, y = c->out[0];
    int64_t count = hr_shape_count(&c->sig->in[0].shape), blocks = blocks_of(c->sig);
    const hri_gpu_grid many = {.x = (uint32_t)blocks, .threads = 256},
                       one = {.x = 1, .threads = 256};
    const hr_status status = hri_gpu_launch(c->gpu, &hri_cu_fake_quantize, "", "min_max", &many,
                                            HRI_GPU_ARGS(&x, &seen, &count));
    return status == HR_OK ? hri_gpu_launch(c->gpu, &hri_cu_fake_quantize, "", "min_max_all", &one,
                                            HRI_GPU_ARGS(&seen, &y, &blocks))
                           : status;
}

static hri_samples min_max_samples(const hri_sig *s, uint32_t batched) {
    (void)s;
    (void)batched;
    return HRI_SAMPLES_FOLDED;
}

static const hri_case min_max_cases[] = {
    {"some", "f32[7,33]"},
    {"many", "f32[5,40001]", .low = -9, .high = 100},
    {"above 0", "f32[99]", .low = 1, .high = 2},
    {"below 0", "f32[99]", .low = -2, .high = -1},
    {"one", "f32[]"},
    {"nothing", "f32[0,3]"},
    {"small type", "bf16[7]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_min_max = {
    .name = "min_max",
    .formula = "y = min(x, 0), max(x, 0) over all elements",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .infer = min_max_infer,
    .aux = 1,
    .no_grad = 1,
    .samples = min_max_samples,
    .host = {.run = min_max_host, .workspace = min_max_workspace},
    .cases = HRI_CASES(min_max_cases),
};

const hri_kernel hri_kernel_cuda_min_max = {
    .launch = min_max_cuda,
    .launch_workspace = min_max_cuda_workspace,
};
