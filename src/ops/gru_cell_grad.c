/* gru_cell_grad(x, y, h, dnext) -> dx, dy, dh: the gradient of gru_cell. */
#include "ops/common/cell.h"

static hr_status gru_cell_grad_infer(hri_infer *c) {
    const hr_status status = hri_cell_infer(c, 2, (const int[]){3, 3, 1, 1});
    if (status == HR_OK) {
        c->out[0] = c->in[0];
        c->out[1] = c->in[1];
        c->out[2] = c->in[2];
    }
    return status;
}

static void step(const hri_cell_at *a) {
    const float yn = hri_cell_get(a, 1, 2), d = hri_cell_get(a, 3, 0);
    const float r = hri_cell_sigmoid(hri_cell_get(a, 0, 0) + hri_cell_get(a, 1, 0));
    const float z = hri_cell_sigmoid(hri_cell_get(a, 0, 1) + hri_cell_get(a, 1, 1));
    const float n = hri_tanh(hri_cell_get(a, 0, 2) + r * yn);
    const float dn = d * (1.0f - z) * (1.0f - n * n), dr = dn * yn * r * (1.0f - r);
    const float dz = d * (hri_cell_get(a, 2, 0) - n) * z * (1.0f - z);
    for (uint32_t k = 0; k < 2; k++) {
        hri_cell_put(a, k, 0, dr);
        hri_cell_put(a, k, 1, dz);
        hri_cell_put(a, k, 2, k ? dn * r : dn);
    }
    hri_cell_put(a, 2, 0, d * z);
}

static hr_status gru_cell_grad_host(const hri_call *c) {
    return hri_cell_host(c, 2, step);
}

static hr_status gru_cell_grad_cuda(const hri_gpu_call *c) {
    return hri_cell_launch(c, 2, "gru_cell_grad");
}

static const hri_case gru_cell_grad_cases[] = {
    {"odd", "f32[3,15] f32[3,15] f32[3,5] f32[3,5]", .batched = 15},
    {"many", "f32[20,387] f32[20,387] f32[20,129] f32[20,129]"},
    {"bf16", "bf16[3,15] bf16[3,15] bf16[3,5] bf16[3,5]"},
    {"f16", "f16[3,15] f16[3,15] f16[3,5] f16[3,5]"},
    {"other rows", "f32[3,15] f32[3,15] f32[3,5] f32[2,5]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_gru_cell_grad = {
    .name = "gru_cell_grad",
    .formula = "dn = dnext (1 - z) (1 - n^2), dz = dnext (h - n) z (1 - z), dr = dn yn r (1 - r)",
    .in_min = 4,
    .in_max = 4,
    .out_count = 3,
    .infer = gru_cell_grad_infer,
    .host = {.run = gru_cell_grad_host},
    .cases = HRI_CASES(gru_cell_grad_cases),
};

const hri_kernel hri_kernel_cuda_gru_cell_grad = {.launch = gru_cell_grad_cuda};
