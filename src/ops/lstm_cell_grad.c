/* lstm_cell_grad(gates, c, next, dh [, dnext]) -> dgates, dc: the gradient of lstm_cell; without dnext nothing flows from the
 * state behind it. */
#include "ops/common/cell.h"

static hr_status lstm_cell_grad_infer(hri_infer *c) {
    const hr_status status = hri_cell_infer(c, 1, (const int[]){4, 1, 1, 1, 1});
    if (status == HR_OK) {
        c->out[0] = c->in[0];
        c->out[1] = c->in[1];
    }
    return status;
}

static void step(const hri_cell_at *a) {
    const float in = hri_cell_sigmoid(hri_cell_get(a, 0, 0));
    const float keep = hri_cell_sigmoid(hri_cell_get(a, 0, 1));
    const float g = hri_tanh(hri_cell_get(a, 0, 2));
    const float out = hri_cell_sigmoid(hri_cell_get(a, 0, 3));
    const float before = hri_cell_get(a, 1, 0), t = hri_tanh(hri_cell_get(a, 2, 0));
    const float dh = hri_cell_get(a, 3, 0);
    const float d =
        dh * out * (1.0f - t * t) + (a->c->sig->in_count > 4 ? hri_cell_get(a, 4, 0) : 0.0f);
    hri_cell_put(a, 0, 0, d * g * in * (1.0f - in));
    hri_cell_put(a, 0, 1, d * before * keep * (1.0f - keep));
    hri_cell_put(a, 0, 2, d * in * (1.0f - g * g));
    hri_cell_put(a, 0, 3, dh * t * out * (1.0f - out));
    hri_cell_put(a, 1, 0, d * keep);
}

static hr_status lstm_cell_grad_host(const hri_call *c) {
    return hri_cell_host(c, 1, step);
}

static hr_status lstm_cell_grad_cuda(const hri_gpu_call *c) {
    return hri_cell_launch(c, 1, "lstm_cell_grad");
}

static const hri_case lstm_cell_grad_cases[] = {
    {"odd", "f32[3,20] f32[3,5] f32[3,5] f32[3,5] f32[3,5]", .batched = 31},
    {"the last step", "f32[3,20] f32[3,5] f32[3,5] f32[3,5]"},
    {"many", "f32[20,516] f32[20,129] f32[20,129] f32[20,129] f32[20,129]"},
    {"bf16", "bf16[3,20] bf16[3,5] bf16[3,5] bf16[3,5]"},
    {"f16", "f16[3,20] f16[3,5] f16[3,5] f16[3,5] f16[3,5]"},
    {"other rows", "f32[3,20] f32[3,5] f32[3,5] f32[2,5]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_lstm_cell_grad = {
    .name = "lstm_cell_grad",
    .formula = "d = dnext + dh s(o) (1 - tanh(next)^2), dc = d s(f), dgates = d by each gate",
    .in_min = 4,
    .in_max = 5,
    .out_count = 2,
    .infer = lstm_cell_grad_infer,
    .host = {.run = lstm_cell_grad_host},
    .cases = HRI_CASES(lstm_cell_grad_cases),
};

const hri_kernel hri_kernel_cuda_lstm_cell_grad = {.launch = lstm_cell_grad_cuda};
