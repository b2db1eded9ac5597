/* Every op, its cases: the host kernel against the oracle, the same bits on 1, 2 and 5 threads, at every level of
 * processor and over every input that the descriptor allows, the gradient against central differences in
 * double, what the gradient keeps against
 * what the descriptor says.  An op without cases, oracle or name fails. */
#include "op_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/interpret.h"

static const int nothing[HRI_OUT_MAX] = {-1, -1, -1, -1, -1, -1};

/* Rounding of the stored type, on top of the case's own tolerance. */
static double type_tolerance(hr_type type) {
    return type == HR_TYPE_BF16 ? 0x1p-8 : type == HR_TYPE_F16 ? 0x1p-11 : 0.0;
}

static double worst_type(const op_case *t) {
    double worst = 0.0;
    for (uint32_t i = 0; i < t->in_count; i++) {
        worst = fmax(worst, type_tolerance(t->in_meta[i].type));
    }
    return worst;
}

static void check_values(const op_case *t, const guarded *out) {
    const hri_sig *s = &t->node->sig;
    double *want[HRI_OUT_MAX];
    for (uint32_t k = 0; k < s->out_count; k++) {
        want[k] = calloc((size_t)hr_shape_count(&s->out[k].shape) + 1, sizeof(double));
    }
    const ref_call c = {s, (const double *const *)t->real, want, 7, 1, 0};
    CHECK(ref_run(&c));
    for (uint32_t k = 0; k < s->out_count; k++) {
        const int64_t n = hr_shape_count(&s->out[k].shape);
        const double tolerance = (t->c->tolerance > 0 ? t->c->tolerance : 1e-5) + 2 * worst_type(t);
        double largest = 1e-3;
        for (int64_t i = 0; i < n; i++) {
            largest = isfinite(want[k][i]) ? fmax(largest, fabs(want[k][i])) : largest;
        }
        for (int64_t i = 0; i < n; i++) {
            const double is = ref_load(s->out[k].type, out[k].data, i);
            const double allowed =
                op_case_allowed(t, s->out[k].type, tolerance, want[k][i], largest);
            test_count_check();
            if (is != want[k][i] && !(fabs(is - want[k][i]) <= allowed) &&
                !(isnan(is) && isnan(want[k][i]))) {
                FAIL_CASE(t, "output %u[%lld] is %.9g, wanted %.9g", k, (long long)i, is,
                          want[k][i]);
            }
        }
        free(want[k]);
    }
}

static void check_same(const op_case *t, const guarded *a, const guarded *b, const char *what) {
    for (uint32_t k = 0; k < t->node->sig.out_count; k++) {
        test_count_check();
        if (memcmp(a[k].data, b[k].data, a[k].bytes) != 0) {
            FAIL_CASE(t, "output %u has other bits %s", k, what);
        }
    }
}

static void check_threads(const op_case *t, const guarded *out) {
    static const uint32_t counts[] = {2, 5};
    for (size_t i = 0; i < 2; i++) {
        guarded more[HRI_OUT_MAX];
        char what[32];
        snprintf(what, sizeof what, "on %u threads", counts[i]);
        op_case_run(t, counts[i], nothing, more);
        check_same(t, out, more, what);
        op_case_free(t, more);
    }
}

/* What a processor with shorter vectors would compute. */
static void check_levels(op_case *t, const guarded *out) {
    for (t->below = 1; t->below < hri_op_levels(); t->below++) {
        guarded more[HRI_OUT_MAX];
        char what[48];
        snprintf(what, sizeof what, "%u levels below the best", t->below);
        op_case_run(t, 1, nothing, more);
        check_same(t, out, more, what);
        op_case_free(t, more);
    }
    t->below = 0;
}

static void check_overwrite(const op_case *t, const guarded *out) {
    const hri_sig *s = &t->node->sig;
    for (uint32_t k = 0; k < s->out_count; k++) {
        for (uint32_t i = 0; i < s->in_count; i++) {
            if (!hri_op_may_overwrite(s, k, i)) {
                continue;
            }
            int over[HRI_OUT_MAX];
            guarded more[HRI_OUT_MAX];
            char what[32];
            memcpy(over, nothing, sizeof over);
            over[k] = (int)i;
            snprintf(what, sizeof what, "over input %u", i);
            op_case_run(t, 2, over, more);
            check_same(t, out, more, what);
            op_case_free(t, more);
        }
    }
}

/* ---- gradients ---- */

/* The loss of a case: sum over real outputs of weight * output, the weights fixed by their index. */
static double weight_of(uint32_t k, int64_t i) {
    uint64_t state = (uint64_t)k << 40 ^ (uint64_t)i;
    return (double)(test_random(&state) >> 11) * 0x1p-52 - 1.0;
}

static int counts(const hri_sig *s, uint32_t k) {
    return hr_type_is_real(s->out[k].type) && !(s->op->aux >> k & 1);
}

static double loss_of(const op_case *t, double **real) {
    const hri_sig *s = &t->node->sig;
    double *out[HRI_OUT_MAX], loss = 0.0;
    for (uint32_t k = 0; k < s->out_count; k++) {
        out[k] = calloc((size_t)hr_shape_count(&s->out[k].shape) + 1, sizeof(double));
    }
    const ref_call c = {s, (const double *const *)real, out, 7, 1, 0};
    CHECK(ref_run(&c));
    for (uint32_t k = 0; k < s->out_count; k++) {
        for (int64_t i = 0, n = hr_shape_count(&s->out[k].shape); counts(s, k) && i < n; i++) {
            loss += weight_of(k, i) * out[k][i];
        }
        free(out[k]);
    }
    return loss;
}

/* The graph of that loss with its gradients; grads[i] is HR_NONE for inputs without. */
static hr_graph *gradient_graph(const op_case *t, hr_value *in, hr_value *grads) {
    const hri_sig *s = &t->node->sig;
    hr_graph *g;
    CHECK_OK(hr_graph_create(&g));
    hr_value wrt[HRI_IN_MAX], d[HRI_IN_MAX], loss = HR_NONE;
    size_t n = 0;
    for (uint32_t i = 0; i < t->in_count; i++) {
        char name[16];
        snprintf(name, sizeof name, "in%u", i);
        in[i] =
            hr_graph_param(g, name, t->in_meta[i].type, t->in_meta[i].shape, hr_init_constant(0));
        grads[i] = HR_NONE;
        if (hr_type_is_real(t->in_meta[i].type)) {
            wrt[n++] = in[i];
        }
    }
    const hr_value y = hr_graph_node(g, t->op->name, in, t->in_count, t->c->attributes);
    for (uint32_t k = 0; k < s->out_count; k++) {
        if (!counts(s, k)) {
            continue;
        }
        const int64_t count = hr_shape_count(&s->out[k].shape);
        float *w = calloc((size_t)count + 1, sizeof *w);
        for (int64_t i = 0; i < count; i++) {
            w[i] = (float)weight_of(k, i);
        }
        const hr_value weight = hr_graph_constant(g, HR_TYPE_F32, s->out[k].shape, w);
        free(w);
        const hr_value term =
            HRI_NODE(g, "sum", NULL, HRI_NODE(g, "mul", NULL, hr_graph_output(g, y, k), weight));
        loss = loss == HR_NONE ? term : HRI_NODE(g, "add", NULL, loss, term);
    }
    const hr_status status = hr_graph_differentiate(g, loss, HR_NONE, wrt, n, d);
    hr_error error;
    hr_graph_error(g, &error);
    if (status != HR_OK) {
        FAIL_CASE(t, "differentiating: %.900s", error.message);
    }
    for (uint32_t i = 0, k = 0; i < t->in_count; i++) {
        if (hr_type_is_real(t->in_meta[i].type)) {
            grads[i] = d[k++];
            if (grads[i] != HR_NONE) {
                hr_graph_result(g, grads[i], t->op->name);
            }
        }
    }
    CHECK_OK(hr_graph_freeze(g));
    return g;
}

/* grad NULL: the graph says that there is none, so differences must be 0. */
static void compare_gradient(const op_case *t, uint32_t i, const float *grad) {
    const int64_t n = hr_shape_count(&t->in_meta[i].shape);
    const double tolerance = t->c->grad_tolerance > 0 ? t->c->grad_tolerance : 1e-3;
    double largest = 1e-2;
    for (int64_t k = 0; k < n; k++) {
        largest = grad ? fmax(largest, fabs((double)grad[k])) : largest;
    }
    for (int64_t k = 0; k<n; k += n> 48 ? n / 37 : 1) {
        const double x = t->real[i][k], h = 1e-5;
        t->real[i][k] = x + h;
        const double up = loss_of(t, (double **)t->real);
        t->real[i][k] = x - h;
        const double down = loss_of(t, (double **)t->real);
        t->real[i][k] = x;
        const double want = (up - down) / (2 * h), is = grad ? (double)grad[k] : 0.0;
        test_count_check();
        if (!(fabs(is - want) <= op_case_allowed(t, HR_TYPE_F32, tolerance, want, largest))) {
            FAIL_CASE(t, "gradient of input %u[%lld] is %.7g%s, differences say %.7g", i,
                      (long long)k, is, grad ? "" : " (none)", want);
        }
    }
}

static void check_gradient(const op_case *t) {
    hr_value in[HRI_IN_MAX], grads[HRI_IN_MAX];
    int any = 0;
    for (uint32_t i = 0; i < t->in_count; i++) {
        any |= hr_type_is_real(t->in_meta[i].type);
        if (hr_type_is_real(t->in_meta[i].type) && t->in_meta[i].type != HR_TYPE_F32) {
            return; /* 2-byte gradients are covered by the kernels' own cases */
        }
    }
    if (!any) {
        return;
    }
    hr_graph *g = gradient_graph(t, in, grads);
    hri_interp *it;
    CHECK_OK(hri_interp_create(g, NULL, 7, &it));
    for (uint32_t i = 0; i < t->in_count; i++) {
        if (t->data[i].bytes) {
            memcpy(hri_interp_data(it, in[i]), t->data[i].data, t->data[i].bytes);
        }
    }
    CHECK_OK(hri_interp_run(it, 1, NULL));
    for (uint32_t i = 0; i < t->in_count; i++) {
        const int forgotten = grads[i] == HR_NONE;
        if (hr_type_is_real(t->in_meta[i].type) && t->data[i].bytes &&
            !(forgotten && t->op->no_grad >> i & 1)) {
            compare_gradient(t, i, forgotten ? NULL : hri_interp_data(it, grads[i]));
        }
    }
    hri_interp_destroy(it);
    hr_graph_destroy(g);
}

/* What nodes of the gradient for input `wanted` read of the forward node must be what the descriptor says. */
static void check_keeps(const op_case *t, uint32_t wanted) {
    const hri_sig *s = &t->node->sig;
    hr_graph *g;
    CHECK_OK(hr_graph_create(&g));
    hr_value in[HRI_IN_MAX], out[HRI_OUT_MAX], dout[HRI_OUT_MAX], din[HRI_IN_MAX] = {0};
    for (uint32_t i = 0; i < t->in_count; i++) {
        char name[16];
        snprintf(name, sizeof name, "in%u", i);
        in[i] =
            hr_graph_param(g, name, t->in_meta[i].type, t->in_meta[i].shape, hr_init_constant(0));
    }
    const hr_value y = hr_graph_node(g, t->op->name, in, t->in_count, t->c->attributes);
    for (uint32_t k = 0; k < s->out_count; k++) {
        out[k] = hr_graph_output(g, y, k);
        dout[k] = counts(s, k) ? hr_graph_fill(g, s->out[k].type, s->out[k].shape, 1.0) : HR_NONE;
    }
    const uint32_t first = g->node_count;
    hri_grad c = {g, s, in, out, dout, 1u << wanted, din};
    t->op->grad(&c);
    hri_keeps reads = {0};
    for (uint32_t n = first; n < g->node_count; n++) {
        for (uint32_t i = 0; i < g->nodes[n].sig.in_count; i++) {
            const hr_value v = g->nodes[n].in[i];
            for (uint32_t k = 0; k < t->in_count; k++) {
                reads.in |= (uint16_t)((v == in[k]) << k);
            }
            for (uint32_t k = 0; k < s->out_count; k++) {
                reads.out |= (uint16_t)((v == out[k]) << k);
            }
        }
    }
    const hri_keeps says = hri_op_keeps(t->op, wanted);
    test_count_check();
    if ((reads.in & ~says.in) || (reads.out & ~says.out)) {
        FAIL_CASE(t,
                  "the gradient of input %u reads inputs %x and outputs %x, the descriptor says %x "
                  "and %x",
                  wanted, reads.in, reads.out, says.in, says.out);
    }
    hr_graph_destroy(g);
}

/* ---- samples ---- */

/* The case with samples [begin, end) of its batched inputs. */
static void part_init(op_case *part, const op_case *t, int64_t begin, int64_t end) {
    hr_meta metas[HRI_IN_MAX];
    memcpy(metas, t->in_meta, sizeof metas);
    for (uint32_t i = 0; i < t->in_count; i++) {
        if (t->c->batched >> i & 1) {
            metas[i].shape.dim[0] = end - begin;
        }
    }
    op_case_init(part, t->op, t->c, metas, t->in_count);
    for (uint32_t i = 0; i < t->in_count; i++) {
        const uint64_t bytes = hr_meta_bytes(&metas[i]);
        const uint64_t skip = metas[i].shape.rank && t->c->batched >> i & 1
                                  ? bytes / (uint64_t)(end - begin) * (uint64_t)begin
                                  : 0;
        part->data[i] = guarded_new(bytes);
        memcpy(part->data[i].data, (const char *)t->data[i].data + skip, bytes);
    }
}

/* What the whole output should be at i, from the outputs of the two parts. */
static double joined(const op_case *t, uint32_t k, int64_t i, const guarded *a, const guarded *b,
                     hri_samples samples, double share) {
    const hr_type type = t->node->sig.out[k].type;
    const int64_t first = (int64_t)(a[k].bytes / hr_type_bytes(type));
    if (samples == HRI_SAMPLES_APART) {
        return i < first ? ref_load(type, a[k].data, i) : ref_load(type, b[k].data, i - first);
    }
    const double wa = samples == HRI_SAMPLES_MEAN ? share : 1.0;
    const double wb = samples == HRI_SAMPLES_MEAN ? 1.0 - share : 1.0;
    return wa * ref_load(type, a[k].data, i) + wb * ref_load(type, b[k].data, i);
}

/* What the first of n samples has of a mean: of the rows whose ids count, where there are ids. */
static double share_of_first(const op_case *t, int64_t n) {
    for (uint32_t i = 0; i < t->in_count && t->c->negative; i++) {
        const hr_type type = t->in_meta[i].type;
        if ((type == HR_TYPE_I32 || type == HR_TYPE_I64) && t->c->batched >> i & 1) {
            const int64_t all = hr_shape_count(&t->in_meta[i].shape);
            double first = 0, counted = 0;
            for (int64_t k = 0; k < all; k++) {
                const double one = ref_load(type, t->data[i].data, k) >= 0 ? 1.0 : 0.0;
                counted += one;
                first += k < all / n ? one : 0.0;
            }
            return counted > 0 ? first / counted : 0.0;
        }
    }
    return 1.0 / (double)n;
}

/* Two unequal parts of the batch must give the whole, in the way that the op says. */
static void check_samples(const op_case *t, const guarded *whole) {
    const hri_sig *s = &t->node->sig;
    const hri_samples samples = hri_op_samples(s, t->c->batched);
    const int64_t n = t->in_meta[__builtin_ctz(t->c->batched)].shape.dim[0];
    op_case a, b;
    guarded out_a[HRI_OUT_MAX], out_b[HRI_OUT_MAX];
    CHECK(n >= 2 && samples != HRI_SAMPLES_COUPLED);
    part_init(&a, t, 0, 1);
    part_init(&b, t, 1, n);
    b.first_sample = 1;
    op_case_run(&a, 1, nothing, out_a);
    op_case_run(&b, 1, nothing, out_b);
    for (uint32_t k = 0; k < s->out_count; k++) {
        if (s->op->aux >> k & 1) {
            continue;
        }
        const int64_t count = hr_shape_count(&s->out[k].shape);
        double largest = 1.0;
        for (int64_t i = 0; i < count; i++) {
            largest = fmax(largest, fabs(ref_load(s->out[k].type, whole[k].data, i)));
        }
        for (int64_t i = 0; i < count; i++) {
            const double is = ref_load(s->out[k].type, whole[k].data, i);
            const double want = joined(t, k, i, out_a, out_b, samples, share_of_first(t, n));
            test_count_check();
            if (!(fabs(is - want) <=
                  op_case_allowed(t, s->out[k].type, 1e-5 + 2 * worst_type(t), want, largest))) {
                FAIL_CASE(t, "output %u[%lld] is %.9g, from parts of the batch %.9g", k,
                          (long long)i, is, want);
            }
        }
    }
    op_case_free(&a, out_a);
    op_case_free(&b, out_b);
    op_case_deinit(&a);
    op_case_deinit(&b);
}

/* ---- runner ---- */

static void run_case(const hr_op *op, const hri_case *c) {
    hr_meta metas[HRI_IN_MAX];
    op_case t;
    op_case_init(&t, op, c, metas, ref_parse(c->in, metas));
    if (!(c->flags & HRI_CASE_BAD)) {
        guarded out[HRI_OUT_MAX];
        op_case_fill(&t);
        op_case_run(&t, 1, nothing, out);
        check_values(&t, out);
        check_threads(&t, out);
        check_levels(&t, out);
        check_overwrite(&t, out);
        if (c->batched) {
            check_samples(&t, out);
        }
        op_case_free(&t, out);
        for (uint32_t i = 0; op->grad && i < t.in_count; i++) {
            if (hr_type_is_real(t.in_meta[i].type)) {
                check_keeps(&t, i);
            }
        }
        if (op->grad && !(c->flags & HRI_CASE_NO_GRAD)) {
            check_gradient(&t);
        }
    }
    op_case_deinit(&t);
}

static void run_op(const void *arg) {
    const hr_op *op = arg;
    if (!op->cases || !op->cases[0].name) {
        test_fail(__FILE__, __LINE__, "op %s has no cases", op->name);
    }
    if (!ref_exists(op)) {
        test_fail(__FILE__, __LINE__, "op %s has no oracle: write tests/ref/%s.c", op->name,
                  op->name);
    }
    CHECK(op->infer && op->host.run && op->formula);
    CHECK_LE(op->attr_bytes, sizeof(hri_attr));
    const bool all = getenv("HEADROOM_TEST_ALL") != NULL;
    for (const hri_case *c = op->cases; c->name; c++) {
        if (all || !(c->flags & HRI_CASE_MANY)) {
            run_case(op, c);
        }
    }
}

TEST(coverage, every_op_has_cases_and_an_oracle) {
    int ops = 0, cases = 0, gradients = 0, elementwise = 0;
    for (; hr_ops[ops]; ops++) {
        const hr_op *op = hr_ops[ops];
        gradients += op->grad != NULL;
        elementwise += op->scalar != NULL;
        CHECK(op->cases && ref_exists(op));
        for (const hri_case *c = op->cases; c->name; c++) {
            cases++;
        }
    }
    printf("        %d ops, %d cases, %d with a gradient, %d from one expression\n", ops, cases,
           gradients, elementwise);
    CHECK(ops > 0);
}

__attribute__((constructor)) static void register_ops(void) {
    enum { SECONDS = 180 }; /* masked attention takes 60 under ASan */
    static test_case table[256];
    for (size_t i = 0; hr_ops[i] && i < 256; i++) {
        table[i] = (test_case){.suite = "op",
                               .name = hr_ops[i]->name,
                               .timeout_s = SECONDS,
                               .run_with = run_op,
                               .arg = hr_ops[i]};
        test_register(&table[i]);
    }
}
