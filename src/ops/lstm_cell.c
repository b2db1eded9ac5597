/* lstm_cell(gates, c) -> h, next: one step of a long short-term memory, behind its products.
 *
 *   gates (N, 4 H), the sum of both products and biases: input, forget, candidate, output, as torch has them   c (N, H)
 *   next = s(forget) c + s(input) tanh(candidate),   h = s(output) tanh(next),   s the sigmoid
 *
 * A layer is a product over all places, then a small product and this op for each.  The gradient keeps gates, c and next;
 * what sigmoid and tanh give is made again. */
#include <headroom/ops.h>

#include "ops/common/cell.h"

static hr_status lstm_cell_infer(hri_infer *c) {
    const hr_status status = hri_cell_infer(c, 1, (const int[]){4, 1});
    if (status == HR_OK) {
        c->out[0] = c->out[1] = c->in[1];
    }
    return status;
}

static void lstm_cell_grad(hri_grad *c) {
    const hr_value dnext = c->dout[1];
    const hr_value dh = c->dout[0] != HR_NONE ? c->dout[0] : hr_affine(c->g, dnext, 0.0, 0.0);
    const hr_value in[] = {c->in[0], c->in[1], c->out[1], dh, dnext};
    const hr_value dgates = hri_node(c->g, "lstm_cell_grad", in, dnext != HR_NONE ? 5 : 4, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        if (HRI_NEEDS(c, i)) {
            c->din[i] = hr_graph_output(c->g, dgates, i);
        }
    }
}

static void step(const hri_cell_at *a) {
    const float in = hri_cell_sigmoid(hri_cell_get(a, 0, 0));
    const float keep = hri_cell_sigmoid(hri_cell_get(a, 0, 1));
    const float g = hri_tanh(hri_cell_get(a, 0, 2));
    const float out = hri_cell_sigmoid(hri_cell_get(a, 0, 3));
    const float next = keep * hri_cell_get(a, 1, 0) + in * g;
    hri_cell_put(a, 0, 0, out * hri_tanh(next));
    hri_cell_put(a, 1, 0, next);
}

static hr_status lstm_cell_host(const hri_call *c) {
    return hri_cell_host(c, 1, step);
}

static hr_status lstm_cell_cuda(const hri_gpu_call *c) {
    return hri_cell_launch(c, 1, "lstm_cell");
}

static void lstm_cell_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 30.0 * (double)hr_shape_count(&s->in[1].shape);
}

static const hri_case lstm_cell_cases[] = {
    {"odd", "f32[3,20] f32[3,5]", .low = -3, .high = 3, .batched = 3},
    {"one", "f32[1,4] f32[1,1]"},
    {"none", "f32[0,8] f32[0,2]"},
    {"many", "f32[20,516] f32[20,129]", .flags = HRI_CASE_NO_GRAD},
    {"bf16", "bf16[3,20] bf16[3,5]"},
    {"f16", "f16[3,20] f16[3,5]"},
    {"three gates", "f32[3,15] f32[3,5]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_lstm_cell = {
    .name = "lstm_cell",
    .formula = "next = s(f) c + s(i) tanh(g), h = s(o) tanh(next)",
    .in_min = 2,
    .in_max = 2,
    .out_count = 2,
    .infer = lstm_cell_infer,
    .grad = lstm_cell_grad,
    .keeps = {{.in = 3, .out = 2}, {.in = 3, .out = 2}},
    .overwrite = {2, 2},
    .cost = lstm_cell_cost,
    .host = {.run = lstm_cell_host},
    .cases = HRI_CASES(lstm_cell_cases),
};

const hri_kernel hri_kernel_cuda_lstm_cell = {.launch = lstm_cell_cuda};
