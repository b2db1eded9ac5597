/* conv_norm.h on the processor: sums and mask in one pass over rows, then products.  da is one product with dz and a side by side, so
 * nothing of it is rounded on the way. */
#include "ops/common/conv_norm.h"

#include "ops/common/batch_norm_parts.h"
#include "ops/common/gemm.h"

hri_conv_norm hri_conv_norm_of(const hri_sig *s) {
    const hr_shape *dy = &s->in[HRI_CN_DY].shape, *w = &s->in[HRI_CN_W].shape;
    hri_conv_norm v = {.type = s->in[HRI_CN_DY].type, .k = w->dim[2], .n = w->dim[3], .rows = 1};
    for (int d = 0; d < dy->rank - 1; d++) {
        v.rows *= dy->dim[d];
    }
    v.each = dy->dim[0] ? v.rows * v.n / dy->dim[0] : 0;
    v.masked = s->in_count > HRI_CN_MASK;
    return v;
}

/* What lies in the work space. */
typedef struct room {
    double *parts;  /* (parts, N + K): sums of dz and of a */
    double *sums;   /* (N + K): t, s */
    float *lines;   /* (3, N): A, B, C */
    float *g, *s;   /* (K, N), (K, K) */
    float *wide;    /* (K, N): w diag(B), then S w */
    float *pq;      /* (N + K, K): P over Q */
    float *r;       /* (K) */
    void *scratch;  /* of products */
    uint64_t bytes; /* all of it but scratch */
} room;

static room room_of(const hri_conv_norm *v, int64_t parts, void *at) {
    room o;
    char *p = at;
    const int64_t both = v->n + v->k;
    o.parts = (double *)p, p += (size_t)(parts * both) * sizeof(double);
    o.sums = (double *)p, p += (size_t)both * sizeof(double);
    o.lines = (float *)p, p += (size_t)(3 * v->n) * sizeof(float);
    o.g = (float *)p, p += (size_t)(v->k * v->n) * sizeof(float);
    o.s = (float *)p, p += (size_t)(v->k * v->k) * sizeof(float);
    o.wide = (float *)p, p += (size_t)(v->k * v->n) * sizeof(float);
    o.pq = (float *)p, p += (size_t)(both * v->k) * sizeof(float);
    o.r = (float *)p, p += (size_t)v->k * sizeof(float);
    o.bytes = ((uint64_t)(p - (char *)at) + 63) / 64 * 64;
    o.scratch = (char *)at + o.bytes;
    return o;
}

uint64_t hri_conv_norm_workspace(const hri_sig *s, uint32_t threads) {
    const hri_conv_norm v = hri_conv_norm_of(s);
    const int64_t sizes[][3] = {{v.k, v.n, v.rows},
                                {v.k, v.k, v.rows},
                                {v.k, v.k, v.n},
                                {v.k, v.n, v.k},
                                {v.rows, v.k, v.n + v.k}};
    uint64_t most = 0;
    for (int i = 0; i < 5; i++) {
        const uint64_t one = hri_gemm_workspace(1, sizes[i][0], sizes[i][1], sizes[i][2], threads);
        most = one > most ? one : most;
    }
    static char nothing[1];
    return room_of(&v, hri_bn_parts_of(&s->in[HRI_CN_DY].shape).parts, nothing).bytes + most;
}

typedef struct task {
    const hri_call *c;
    hri_conv_norm v;
    hri_bn_parts p;
    room o;
} task;

/* ---- the pass over rows ---- */

static int let_through(const task *t, int64_t i) {
    const uint8_t *mask = t->c->in[HRI_CN_MASK];
    const int64_t k = i % t->v.each, row = (t->v.each + 7) / 8;
    return mask[i / t->v.each * row + k / 8] >> k % 8 & 1;
}

/* What the products read. */
static const void *dz_of(const task *t) {
    return t->v.masked ? t->c->out[HRI_CN_DZ] : t->c->in[HRI_CN_DY];
}

static void mask_row(const task *t, int64_t row, double *sums) {
    const int64_t n = t->v.n;
    for (int64_t c0 = 0; c0 < n; c0 += HRI_BLOCK) {
        float from[HRI_BLOCK], to[HRI_BLOCK];
        const int64_t width = hri_min64(HRI_BLOCK, n - c0), at = row * n + c0;
        const float *dy = hri_block_in(t->v.type, t->c->in[HRI_CN_DY], at, width, from);
        if (!t->v.masked) {
            for (int64_t k = 0; k < width; k++) {
                sums[c0 + k] += (double)dy[k];
            }
            continue;
        }
        float *dz = hri_block_out(t->v.type, t->c->out[HRI_CN_DZ], at, to);
        for (int64_t k = 0; k < width; k++) {
            dz[k] = let_through(t, at + k) ? dy[k] : 0.0f;
            sums[c0 + k] += (double)dz[k];
        }
        hri_block_put(t->v.type, t->c->out[HRI_CN_DZ], at, width, dz);
    }
}

static void sum_part(void *arg, uint32_t part, uint32_t worker) {
    const task *t = arg;
    const hri_conv_norm *v = &t->v;
    const int64_t first = part * t->p.part_rows, end = hri_min64(first + t->p.part_rows, v->rows);
    double *sums = t->o.parts + part * (v->n + v->k);
    (void)worker;
    for (int64_t i = 0; i < v->n + v->k; i++) {
        sums[i] = 0.0;
    }
    for (int64_t row = first; row < end; row++) {
        mask_row(t, row, sums);
        for (int64_t k = 0; k < v->k; k++) {
            sums[v->n + k] += (double)hri_real_at(v->type, t->c->in[HRI_CN_A], row * v->k + k);
        }
    }
}

static void join_parts(const task *t) {
    const int64_t both = t->v.n + t->v.k;
    for (int64_t i = 0; i < both; i++) {
        t->o.sums[i] = 0.0;
        for (int64_t q = 0; q < t->p.parts; q++) {
            t->o.sums[i] += t->o.parts[q * both + i];
        }
    }
}

/* ---- products ---- */

static hri_gemm product(int64_t m, int64_t n, int64_t k, float *to) {
    return (hri_gemm){.batch = 1, .m = m, .n = n, .k = k, .c_type = HR_TYPE_F32, .c = to};
}

/* to (K, n) = a' b */
static void sum_products(const task *t, const void *b, int64_t n, float *to) {
    hri_gemm g = product(t->v.k, n, t->v.rows, to);
    g.pack_a = hri_pack_a_t, g.a = t->c->in[HRI_CN_A], g.a_type = t->v.type, g.lda = t->v.k;
    g.pack_b = hri_pack_b, g.b = b, g.b_type = t->v.type, g.ldb = n;
    hri_gemm_run(&g, t->c->threads, t->o.scratch);
}

/* Gradients of gamma and beta, and three numbers a channel. */
static void set_lines(const task *t) {
    const hri_call *c = t->c;
    const int64_t n = t->v.n;
    const double rows = t->v.rows > 0 ? (double)t->v.rows : 1.0, *s = t->o.sums + n;
    const hr_type type = c->sig->in[HRI_CN_GAMMA].type;
    for (int64_t i = 0; i < n; i++) {
        double product = 0.0, mean = 0.0;
        for (int64_t k = 0; k < t->v.k; k++) {
            const double w = (double)hri_real_at(t->v.type, c->in[HRI_CN_W], k * n + i);
            product += w * (double)t->o.g[k * n + i];
            mean += w * s[k] / rows;
        }
        const double inv = (double)((const float *)c->in[HRI_CN_INV])[i], sum = t->o.sums[i];
        const double dgamma = inv * (product - sum * mean);
        const double a = (double)hri_real_at(type, c->in[HRI_CN_GAMMA], i) * inv;
        const double b = -a * inv * dgamma / rows;
        hri_real_put(type, c->out[HRI_CN_DGAMMA], i, (float)dgamma);
        hri_real_put(type, c->out[HRI_CN_DBETA], i, (float)sum);
        t->o.lines[i] = (float)a;
        t->o.lines[n + i] = (float)b;
        t->o.lines[2 * n + i] = (float)(-a * sum / rows - b * mean);
    }
}

static void make_matrices(const task *t) {
    const hri_conv_norm *v = &t->v;
    const void *w = t->c->in[HRI_CN_W];
    float *q = t->o.pq + v->n * v->k;
    for (int64_t k = 0; k < v->k; k++) {
        for (int64_t i = 0; i < v->n; i++) {
            const float one = hri_real_at(v->type, w, k * v->n + i);
            t->o.pq[i * v->k + k] = one * t->o.lines[i];
            t->o.wide[k * v->n + i] = one * t->o.lines[v->n + i];
        }
    }
    hri_gemm g = product(v->k, v->k, v->n, q);
    g.pack_a = hri_pack_a, g.a = t->o.wide, g.a_type = HR_TYPE_F32, g.lda = v->n;
    g.pack_b = hri_pack_b_t, g.b = w, g.b_type = v->type, g.ldb = v->n;
    hri_gemm_run(&g, t->c->threads, t->o.scratch);
    for (int64_t k = 0; k < v->k; k++) {
        double r = 0.0;
        for (int64_t i = 0; i < v->n + v->k; i++) {
            r -= t->o.sums[i] * (double)t->o.pq[i * v->k + k];
        }
        t->o.r[k] = v->rows > 0 ? (float)(r / (double)v->rows) : 0.0f;
    }
}

static void make_dw(const task *t) {
    const hri_conv_norm *v = &t->v;
    const float *a = t->o.lines, *b = a + v->n, *c = b + v->n;
    hri_gemm g = product(v->k, v->n, v->k, t->o.wide);
    g.pack_a = hri_pack_a, g.a = t->o.s, g.a_type = HR_TYPE_F32, g.lda = v->k;
    g.pack_b = hri_pack_b, g.b = t->c->in[HRI_CN_W], g.b_type = v->type, g.ldb = v->n;
    hri_gemm_run(&g, t->c->threads, t->o.scratch);
    for (int64_t k = 0; k < v->k; k++) {
        const float s = (float)t->o.sums[v->n + k];
        for (int64_t i = 0; i < v->n; i++) {
            const int64_t at = k * v->n + i;
            hri_real_put(v->type, t->c->out[HRI_CN_DW], at,
                         a[i] * t->o.g[at] + (b[i] * t->o.wide[at] + c[i] * s));
        }
    }
}

/* Rows of dz with those of a behind them. */
static void pack_rows(const hri_gemm *g, int64_t batch, int64_t first, int64_t count, int64_t k0,
                      int64_t kc, float *to) {
    const task *t = g->ctx;
    const int64_t n = t->v.n, of_dz = hri_max64(hri_min64(n - k0, kc), 0);
    (void)batch;
    for (int64_t i = 0; i < count; i += HRI_GEMM_MR, to += kc * HRI_GEMM_MR) {
        const int64_t rows = hri_min64(HRI_GEMM_MR, count - i), row = first + i;
        if (of_dz > 0) {
            hri_pack_turn(t->v.type, dz_of(t), row * n + k0, n, rows, of_dz, HRI_GEMM_MR, to);
        }
        if (of_dz < kc) {
            hri_pack_turn(t->v.type, t->c->in[HRI_CN_A], row * t->v.k + k0 + of_dz - n, t->v.k,
                          rows, kc - of_dz, HRI_GEMM_MR, to + of_dz * HRI_GEMM_MR);
        }
    }
}

static void make_da(const task *t) {
    const hri_conv_norm *v = &t->v;
    hri_gemm g = product(v->rows, v->k, v->n + v->k, NULL);
    g.c = t->c->out[HRI_CN_DA], g.c_type = v->type;
    g.pack_a = pack_rows, g.ctx = t;
    g.pack_b = hri_pack_b, g.b = t->o.pq, g.b_type = HR_TYPE_F32, g.ldb = v->k;
    g.bias = t->o.r, g.bias_type = HR_TYPE_F32;
    hri_gemm_run(&g, t->c->threads, t->o.scratch);
}

hr_status hri_conv_norm_run(const hri_call *c) {
    task t = {
        .c = c, .v = hri_conv_norm_of(c->sig), .p = hri_bn_parts_of(&c->sig->in[HRI_CN_DY].shape)};
    t.o = room_of(&t.v, t.p.parts, c->workspace);
    hri_threads_run(c->threads, (uint32_t)t.p.parts, sum_part, &t);
    join_parts(&t);
    sum_products(&t, dz_of(&t), t.v.n, t.o.g);
    sum_products(&t, c->in[HRI_CN_A], t.v.k, t.o.s);
    set_lines(&t);
    make_matrices(&t);
    make_dw(&t);
    make_da(&t);
    return HR_OK;
}
