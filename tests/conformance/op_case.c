/* Making cases real; see op_case.h. */
#include "op_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum { GUARD = 128 };
static const double FLOOR = 0.1;

guarded guarded_new(uint64_t bytes) {
    guarded b = {.bytes = bytes};
    b.memory = malloc(bytes + 3 * GUARD);
    if (!b.memory) {
        test_fail(__FILE__, __LINE__, "out of memory");
    }
    memset(b.memory, 0xa5, bytes + 3 * GUARD);
    b.data = (void *)(((uintptr_t)b.memory + GUARD + 63) & ~(uintptr_t)63);
    return b;
}

void guarded_free(guarded *b, const char *what) {
    const unsigned char *p = b->data;
    for (int i = 1; b->memory && i <= 64; i++) {
        if (p[-i] != 0xa5 || p[b->bytes + (uint64_t)i - 1] != 0xa5) {
            test_fail(__FILE__, __LINE__, "%s: written %s its memory", what,
                      p[-i] != 0xa5 ? "before" : "behind");
        }
    }
    free(b->memory);
    b->memory = NULL;
}

void op_case_init(op_case *t, const hr_op *op, const hri_case *c, const hr_meta *metas,
                  uint32_t count) {
    *t = (op_case){.op = op, .c = c, .in_count = count};
    memcpy(t->in_meta, metas, count * sizeof *metas);
    CHECK_OK(hr_graph_create(&t->g));
    for (uint32_t i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "in%u", i);
        t->in[i] = hr_graph_param(t->g, name, metas[i].type, metas[i].shape, hr_init_constant(0));
    }
    hr_value y = hr_graph_node(t->g, op->name, t->in, count, c->attributes);
    for (uint32_t k = 0; k < op->out_count; k++) {
        char name[16];
        snprintf(name, sizeof name, "out%u", k);
        hr_graph_result(t->g, hr_graph_output(t->g, y, k), name);
    }
    const hr_status status = hr_graph_freeze(t->g);
    hr_error error;
    hr_graph_error(t->g, &error);
    if (c->flags & HRI_CASE_BAD) {
        if (status == HR_OK || !strstr(error.message, op->name)) {
            FAIL_CASE(t, "it should be refused by name, and gave %s, \"%.900s\"",
                      hr_status_name(status), error.message);
        }
        return;
    }
    if (status != HR_OK) {
        FAIL_CASE(t, "%s: %.900s", hr_status_name(status), error.message);
    }
    t->node = &t->g->nodes[0];
}

void op_case_deinit(op_case *t) {
    for (uint32_t i = 0; i < t->in_count; i++) {
        if (t->data[i].memory) {
            guarded_free(&t->data[i], t->op->name);
        }
        free(t->real[i]);
    }
    hr_graph_destroy(t->g);
}

static double whole_number(const hri_case *c, uint64_t r) {
    const int below = c->negative == 2 || (c->negative == 1 && (r >> 40) % 3 == 0);
    return below ? -1.0 - (double)(r % 100) : (double)(r % (uint64_t)(c->ids ? c->ids : 10));
}

/* What a mask (..., rows, keys) has at k instead of a drawn number, else 0: minus infinity, or the lowest number for every third query,
 * at every fifth key, from key 32 on for every other 32 queries, at all keys of query 33, and at all but the last 40 of query 50 (of
 * every other sample or head where queries share a row); a large finite number at all keys of query 40. */
static double hides(int64_t rows, int64_t keys, int64_t k) {
    const int64_t row = k / keys % rows, key = k % keys;
    const int late = rows == 1 ? k / keys % 2 == 1 : row == 50;
    const int hidden =
        late ? key < keys - 40 : key % 5 == 2 || row == 33 || (key >= 32 && row / 32 % 2 == 0);
    return row == 40 ? -1e29 : hidden ? (row % 3 == 1 && row != 33 ? -3e38 : -INFINITY) : 0;
}

/* The same where there are queries that see none but keys with large numbers, six kinds of every eight.  f16 has none over 65,504. */
static double far(const hr_meta *m, int64_t k) {
    const int64_t rows = m->shape.dim[2], keys = m->shape.dim[3];
    const double most = m->type == HR_TYPE_F16    ? 65504
                        : m->type == HR_TYPE_BF16 ? 0x1.fep127
                                                  : 0x1.fffffep127;
    const int64_t row = rows == 1 ? k / keys + 1 : k / keys % rows, key = k % keys;
    const double x[8] = {0,
                         -1e30,
                         -most,
                         key % 2 ? -most : 0,
                         key % 3 ? -1e9 : -2e9,
                         key % 5 ? -most : -INFINITY,
                         key % 3 ? -2e30 : -1e30,
                         key < keys / 2 ? -INFINITY : -1e30};
    return x[row % 8] == -INFINITY ? -INFINITY : fmax(x[row % 8], -most);
}

static void put(op_case *t, uint32_t i, int64_t k, double x) {
    ref_store(t->in_meta[i].type, t->data[i].data, k, x);
    t->real[i][k] = ref_load(t->in_meta[i].type, t->data[i].data, k);
    t->largest[i] = fmax(t->largest[i], fabs(t->real[i][k]));
}

/* What forward gives of a gradient's q, k, v and mask, which are inputs 1, 2, 3 and 6, becomes inputs 4 and 5. */
static void fill_forward(op_case *t) {
    const hr_meta *m = t->in_meta, in[] = {m[1], m[2], m[3], m[6]}, out[] = {m[4], m[5]};
    const double *const from[] = {t->real[1], t->real[2], t->real[3], t->real[6]};
    hri_attr attr;
    double *to[2];
    const hri_sig s = {.op = hri_op_find("attention_masked"),
                       .attr = &attr,
                       .in_count = 4,
                       .out_count = 2,
                       .in = in,
                       .out = out};
    CHECK_OK(hri_attr_parse(s.op, t->c->attributes, &attr, NULL));
    for (uint32_t i = 0; i < 2; i++) {
        to[i] = calloc((size_t)hr_shape_count(&out[i].shape) + 1, sizeof(double));
    }
    CHECK(ref_run(&(ref_call){&s, from, to, 7, 1, 0}));
    for (uint32_t i = 0; i < 2; i++) {
        for (int64_t k = 0, n = hr_shape_count(&out[i].shape); k < n; k++) {
            put(t, 4 + i, k, to[i][k]);
        }
        free(to[i]);
    }
}

void op_case_fill(op_case *t) {
    uint64_t state = hri_hash_string(t->op->name) ^ hri_hash_string(t->c->name) ^ test_seed();
    const double low = t->c->low == t->c->high ? -1.0 : t->c->low;
    const double high = t->c->low == t->c->high ? 1.0 : t->c->high;
    for (uint32_t i = 0; i < t->in_count; i++) {
        const hr_meta *m = &t->in_meta[i];
        const int64_t n = hr_shape_count(&m->shape);
        t->data[i] = guarded_new(hr_meta_bytes(m));
        t->real[i] = calloc((size_t)n + 1, sizeof(double));
        for (int64_t k = 0; k < n; k++) {
            const uint64_t r = test_random(&state);
            const double hidden = t->c->flags & HRI_CASE_HIDES && i + 1 == t->in_count
                                      ? hides(m->shape.dim[2], m->shape.dim[3], k)
                                  : t->c->flags & HRI_CASE_FAR && i + 1 == t->in_count ? far(m, k)
                                                                                       : 0;
            const int zero = t->c->flags & HRI_CASE_ZEROS && i + 1 == t->in_count;
            const double x = hidden != 0 || zero ? hidden
                             : hr_type_is_real(m->type)
                                 ? low + (high - low) * (double)(r >> 11) * 0x1p-53
                                 : whole_number(t->c, r);
            put(t, i, k, x);
        }
    }
    if (t->c->flags & HRI_CASE_FAR && t->in_count == 7) {
        fill_forward(t);
    }
}

void op_case_run(const op_case *t, uint32_t threads, const int *over, guarded out[HRI_OUT_MAX]) {
    const hri_sig *s = &t->node->sig;
    hri_threads *pool = NULL;
    if (threads > 1) {
        CHECK_OK(hri_threads_create(threads, &pool));
    }
    const void *in[HRI_IN_MAX];
    void *to[HRI_OUT_MAX];
    for (uint32_t i = 0; i < s->in_count; i++) {
        in[i] = t->data[i].data;
    }
    for (uint32_t k = 0; k < s->out_count; k++) {
        out[k] = guarded_new(hr_meta_bytes(&s->out[k]));
        to[k] = out[k].data;
        const int lies_over =
            s->op->updates[k] && s->op->updates[k] <= s->in_count ? s->op->updates[k] - 1 : over[k];
        if (lies_over >= 0) {
            memcpy(out[k].data, in[lies_over], out[k].bytes);
            in[lies_over] = out[k].data;
        }
    }
    const hri_kernel *kernel = hri_op_host(s->op, hri_op_levels() - 1 - t->below);
    const uint64_t bytes = hri_op_workspace(s, 0, threads);
    CHECK_EQ(hri_kernel_workspace(kernel, s, 0, threads), bytes); /* at every level */
    guarded workspace = guarded_new(bytes);
    const hri_call call = {.sig = s,
                           .in = in,
                           .out = to,
                           .workspace = bytes ? workspace.data : NULL,
                           .threads = pool,
                           .node = 0,
                           .step = 1,
                           .first_sample = t->first_sample,
                           .seed = 7};
    const hr_status status = hri_kernel_run(kernel, 0)(&call);
    if (status != HR_OK) {
        FAIL_CASE(t, "the kernel gave %s", hr_status_name(status));
    }
    guarded_free(&workspace, "workspace");
    hri_threads_destroy(pool);
}

void op_case_free(const op_case *t, guarded out[HRI_OUT_MAX]) {
    for (uint32_t k = 0; k < t->node->sig.out_count; k++) {
        guarded_free(&out[k], t->op->name);
    }
}

double op_case_allowed(const op_case *t, hr_type type, double tolerance, double want,
                       double largest) {
    const double size = isfinite(want) ? fabs(want) : largest;
    double input = 0.0;
    for (uint32_t i = 0; i < t->in_count; i++) {
        input = fmax(input, hr_type_is_real(t->in_meta[i].type) ? t->largest[i] : 0.0);
    }
    return hr_type_is_real(type)
               ? fmin(tolerance * largest,
                      tolerance * fmax(size, FLOOR * largest) + 0x1p-22 * fmin(input, 1.0))
               : 0.0;
}
