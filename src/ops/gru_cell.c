/* gru_cell(x, y, h) -> next: one step of a gated recurrent unit, behind its products.
 *
 *   x, y (N, 3 H), the products of the input and of the state with their biases: reset, update, candidate   h (N, H)
 *   r = s(xr + yr),   z = s(xz + yz),   n = tanh(xn + r yn),   next = (1 - z) n + z h,   s the sigmoid (as torch has it)
 *
 * The gradient keeps x, y and h, and makes r, z and n again. */
#include "ops/common/cell.h"

static hr_status gru_cell_infer(hri_infer *c) {
    const hr_status status = hri_cell_infer(c, 2, (const int[]){3, 3, 1});
    if (status == HR_OK) {
        c->out[0] = c->in[2];
    }
    return status;
}

static void gru_cell_grad(hri_grad *c) {
    const hr_value dx =
        HRI_NODE(c->g, "gru_cell_grad", NULL, c->in[0], c->in[1], c->in[2], c->dout[0]);
    for (uint32_t i = 0; i < 3; i++) {
        if (HRI_NEEDS(c, i)) {
            c->din[i] = hr_graph_output(c->g, dx, i);
        }
    }
}

static void step(const hri_cell_at *a) {
    const float r = hri_cell_sigmoid(hri_cell_get(a, 0, 0) + hri_cell_get(a, 1, 0));
    const float z = hri_cell_sigmoid(hri_cell_get(a, 0, 1) + hri_cell_get(a, 1, 1));
    const float n = hri_tanh(hri_cell_get(a, 0, 2) + r * hri_cell_get(a, 1, 2));
    hri_cell_put(a, 0, 0, (1.0f - z) * n + z * hri_cell_get(a, 2, 0));
}

static hr_status gru_cell_host(const hri_call *c) {
    return hri_cell_host(c, 2, step);
}

static hr_status gru_cell_cuda(const hri_gpu_call *c) {
    return hri_cell_launch(c, 2, "gru_cell");
}

static void gru_cell_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 25.0 * (double)hr_shape_count(&s->in[2].shape);
}

static const hri_case gru_cell_cases[] = {
    {"odd", "f32[3,15] f32[3,15] f32[3,5]", .low = -3, .high = 3, .batched = 7},
    {"one", "f32[1,3] f32[1,3] f32[1,1]"},
    {"none", "f32[0,6] f32[0,6] f32[0,2]"},
    {"many", "f32[20,387] f32[20,387] f32[20,129]", .flags = HRI_CASE_NO_GRAD},
    {"bf16", "bf16[3,15] bf16[3,15] bf16[3,5]"},
    {"f16", "f16[3,15] f16[3,15] f16[3,5]"},
    {"four gates", "f32[3,20] f32[3,20] f32[3,5]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_gru_cell = {
    .name = "gru_cell",
    .formula = "next = (1 - z) tanh(xn + r yn) + z h",
    .in_min = 3,
    .in_max = 3,
    .out_count = 1,
    .infer = gru_cell_infer,
    .grad = gru_cell_grad,
    .keeps = {{.in = 7}, {.in = 7}, {.in = 7}},
    .overwrite = {4},
    .cost = gru_cell_cost,
    .host = {.run = gru_cell_host},
    .cases = HRI_CASES(gru_cell_cases),
};

const hri_kernel hri_kernel_cuda_gru_cell = {.launch = gru_cell_cuda};
