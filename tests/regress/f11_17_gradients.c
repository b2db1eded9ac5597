/* A forgotten gradient passed the conformance tests (a gradient that is not there was skipped), ids were never negative, and
 * nobody but a test called hri_op_keeps.  tests/conformance compares all of that now; here is what it stands on. */
#include <headroom/headroom.h>

#include <string.h>

#include "graph/graph.h"
#include "ref.h"
#include "test.h"

/* The gradients of all real inputs but one; HRI_IN_MAX: of all.  Which of them there are is checked. */
static hr_status differentiate_case(const hr_op *op, const hri_case *c, uint32_t left_out,
                                    hr_error *error) {
    hr_meta metas[HRI_IN_MAX];
    hr_value in[HRI_IN_MAX], wrt[HRI_IN_MAX], grads[HRI_IN_MAX], loss = HR_NONE;
    uint32_t which[HRI_IN_MAX];
    size_t n = 0;
    hr_graph *g;
    const uint32_t count = ref_parse(c->in, metas);
    CHECK_OK(hr_graph_create(&g));
    for (uint32_t i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "in%u", i);
        in[i] = hr_graph_param(g, name, metas[i].type, metas[i].shape, hr_init_constant(0));
        if (hr_type_is_real(metas[i].type) && i != left_out) {
            which[n] = i;
            wrt[n++] = in[i];
        }
    }
    const hr_value y = hr_graph_node(g, op->name, in, count, c->attributes);
    for (uint32_t k = 0; k < op->out_count; k++) {
        const hr_value out = hr_graph_output(g, y, k);
        const hr_meta meta = hr_graph_meta(g, out);
        if (hr_type_is_real(meta.type) && !(op->aux >> k & 1)) {
            hr_value sum = hr_sum(g, out, NULL, 0);
            sum = meta.type == HR_TYPE_F32 ? sum : HRI_NODE(g, "cast", NULL, sum);
            loss = loss == HR_NONE ? sum : hr_add(g, loss, sum);
        }
    }
    if (loss == HR_NONE || !n) { /* whole numbers alone */
        hr_graph_destroy(g);
        return HR_OK;
    }
    const hr_status status = hr_graph_differentiate(g, loss, HR_NONE, wrt, n, grads);
    if (status != HR_OK) {
        hr_graph_error(g, error);
    }
    for (size_t i = 0; i < n && status == HR_OK; i++) {
        test_count_check();
        if ((grads[i] == HR_NONE) != (op->no_grad >> which[i] & 1)) {
            test_fail(__FILE__, __LINE__, "%s, case \"%s\": input %u has %s gradient", op->name,
                      c->name, which[i], grads[i] == HR_NONE ? "no" : "a");
        }
    }
    hr_graph_destroy(g);
    return status;
}

/* Every real input of every op with a gradient has one, or the descriptor says why not, or the op refuses it in words that
 * name the op (with these attributes): then the others have theirs. */
static void check_case(const hr_op *op, const hri_case *c) {
    hr_error error = {.code = HR_OK}, other;
    const hr_status status = differentiate_case(op, c, HRI_IN_MAX, &error);
    const int said = status == HR_E_UNSUPPORTED && strstr(error.message, op->name);
    for (uint32_t i = 0; i < HRI_IN_MAX && said; i++) {
        if (differentiate_case(op, c, i, &other) == HR_OK) {
            return;
        }
    }
    if (status != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s, case \"%s\": %s", op->name, c->name, error.message);
    }
}

TEST(f11_17, every_real_input_has_a_gradient_or_is_named) {
    for (size_t i = 0; hr_ops[i]; i++) {
        for (const hri_case *c = hr_ops[i]->cases; hr_ops[i]->grad && c->name; c++) {
            if (!(c->flags & HRI_CASE_BAD)) {
                check_case(hr_ops[i], c);
            }
        }
    }
}

TEST(f11_17, ops_that_ignore_ids_have_cases_with_negative_ones) {
    static const char *const names[] = {"cross_entropy",
                                        "cross_entropy_grad",
                                        "linear_cross_entropy",
                                        "linear_cross_entropy_grad",
                                        "linear_cross_entropy_train",
                                        "accuracy"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int some = 0, all = 0;
        for (const hri_case *c = hri_op_find(names[i])->cases; c->name; c++) {
            some += c->negative == 1;
            all += c->negative == 2;
        }
        CHECK(some && all);
    }
}

/* ---- a rule that keeps more than it says ---- */

static hr_status like_infer(hri_infer *c) {
    c->out[0] = c->in[0];
    return HR_OK;
}

static void greedy_grad(hri_grad *c) {
    c->din[0] = HRI_NODE(c->g, "mul", NULL, c->dout[0], c->in[0]);
}

static hr_status no_kernel(const hri_call *c) {
    (void)c;
    return HR_E_UNSUPPORTED;
}

static hr_status differentiate(const hr_op *op) {
    hr_graph *g;
    CHECK_OK(hr_graph_create(&g));
    const hri_attr attr = {0};
    const hr_value x = hr_graph_param(g, "x", HR_TYPE_F32, hr_shape_1(3), hr_init_constant(1.0));
    const hr_value y = hri_graph_add(g, op, &x, 1, &attr);
    hr_value grad = HR_NONE;
    const hr_status status =
        hr_graph_differentiate(g, hr_sum(g, y, NULL, 0), HR_NONE, &x, 1, &grad);
    hr_error error;
    hr_graph_error(g, &error);
    CHECK(status == HR_OK ? grad != HR_NONE : strstr(error.message, "greedy") != NULL);
    hr_graph_destroy(g);
    return status;
}

TEST(f11_17, differentiation_holds_a_rule_to_what_its_descriptor_keeps) {
    hr_op op = {.name = "greedy",
                .formula = "y = x",
                .in_min = 1,
                .in_max = 1,
                .out_count = 1,
                .infer = like_infer,
                .grad = greedy_grad,
                .host = {.run = no_kernel}};
    CHECK_STATUS(differentiate(&op), HR_E_INTERNAL);
    op.keeps[0].in = 1;
    CHECK_OK(differentiate(&op));
}
