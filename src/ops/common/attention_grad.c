/* Attention backward: for one head of k and v, each tile of keys goes over the queries that see it, of every head of its group.
 *
 *   delta_i = o_i . do_i     ds_ij = scale * p_ij (do_i . v_j - delta_i)
 *   dv_j = sum_i p_ij do_i     dk_j = sum_i ds_ij q_i     dq_i = sum_j ds_ij k_j */
#include <math.h>

#include "ops/common/attention.h"
#include "ops/common/attention_tiles.h"
#include "ops/common/vmath.h"

typedef struct scratch {
    float *delta;             /* (group, T), T in whole tiles */
    float *dq;                /* (group, T, columns) */
    float *k_t, *v_t, *k;     /* panels of B: keys turned, values turned, keys by columns */
    float *dk, *dv;           /* (K, columns) */
    float *q, *d;             /* panels of A: queries and do by depth */
    float *q_b, *d_b;         /* panels of B: the same by columns */
    float *p, *ds;            /* (Q, K) */
    float *p_t, *ds_t, *ds_a; /* panels of A: by keys, by keys, by queries */
    int64_t tile;             /* K */
    int64_t next;             /* the head of k and v after this one, of all samples; < 0: none */
} scratch;

static int64_t scratch_init(scratch *w, const hri_attention *a, float *at) {
    const int64_t d = a->depth, columns = hri_at_columns(d);
    w->tile = hri_at_tile(a);
    const int64_t tile = HRI_AT_Q * w->tile;
    float *const begin = at;
    w->delta = at;
    w->dq = w->delta + a->group * hri_at_up(a->queries, HRI_AT_Q);
    w->k_t = w->dq + a->group * hri_at_up(a->queries, HRI_AT_Q) * columns;
    w->v_t = w->k_t + w->tile * d;
    w->k = w->v_t + w->tile * d;
    w->dk = w->k + w->tile * columns;
    w->dv = w->dk + w->tile * columns;
    w->q = w->dv + w->tile * columns;
    w->d = w->q + HRI_AT_Q * d;
    w->q_b = w->d + HRI_AT_Q * d;
    w->d_b = w->q_b + HRI_AT_Q * columns;
    w->p = w->d_b + HRI_AT_Q * columns;
    w->ds = w->p + tile;
    w->p_t = w->ds + tile;
    w->ds_t = w->p_t + tile;
    w->ds_a = w->ds_t + tile;
    return hri_at_up(w->ds_a + tile - begin, 16);
}

uint64_t hri_attention_grad_workspace(const hri_attention *a, uint32_t threads) {
    static float nowhere[1];
    scratch w;
    return (uint64_t)scratch_init(&w, a, nowhere) * threads * sizeof(float);
}

static void set_delta(const hri_attention *a, float *delta, int64_t b, int64_t h) {
    const hri_at_rows rows = hri_at_rows_pick();
    for (int64_t i = 0; i < a->queries; i++) {
        const int64_t o = hri_at_first(a, &a->o, b, h, i), d = hri_at_first(a, &a->d, b, h, i);
        if (rows.dot && a->type == HR_TYPE_F32) {
            delta[i] =
                rows.dot((const float *)a->o.data + o, (const float *)a->d.data + d, a->depth);
            continue;
        }
        float lanes[HRI_LANES] = {0}, room[2][HRI_BLOCK];
        for (int64_t k0 = 0; k0 < a->depth; k0 += HRI_BLOCK) {
            const int64_t n = hri_min64(HRI_BLOCK, a->depth - k0);
            const float *x = hri_block_in(a->type, a->o.data, o + k0, n, room[0]);
            const float *y = hri_block_in(a->type, a->d.data, d + k0, n, room[1]);
            HRI_LANES_ADD(lanes, n, x[k] * y[k]);
        }
        delta[i] = hri_lanes_sum(lanes);
    }
}

/* Numbers that one vector has where vectors are long: as many are computed as fit, single ones would take longer. */
enum { TOGETHER = HRI_GEMM_NR == HRI_GEMM_UNIT ? 1 : HRI_LANES };

/* Scores and do . v to p and ds, one row; what is not seen is 0. */
static void differentiate_row(float *p, float *ds, int64_t tile, int64_t n, float scale, float lse,
                              float delta) {
    n = n > 0 ? n : 0;
    const int64_t end = hri_at_up(n, TOGETHER);
    for (int64_t k = n; k < end; k++) {
        p[k] = ds[k] = 0.0f;
    }
    HRI_IVDEP for (int64_t k = 0; k < end; k++) {
        p[k] = hri_exp(p[k] * scale - lse);
        ds[k] = scale * p[k] * (ds[k] - delta);
    }
    for (int64_t k = n; k < tile; k++) {
        p[k] = ds[k] = 0.0f;
    }
}

/* The same of attention_masked: p of dv is what was left, p of ds what softmax gave. */
static void differentiate_masked(const hri_attention *a, int64_t tile, int64_t b, int64_t h,
                                 int64_t i, int64_t k0, float *p, float *ds, float lse,
                                 float delta) {
    const int64_t seen = hri_at_seen(a, tile, i, k0), n = seen > 0 ? seen : 0;
    float kept[HRI_AT_K_MOST];
    hri_at_mask(a, b, h, i, k0, n, p);
    hri_at_kept(a, b, h, i, k0, n, kept);
    if (hri_at_sees_far(lse)) {
        for (int64_t k = 0; k < n; k++) {
            p[k] = hri_at_far(p[k], lse);
        }
        lse = 0.0f;
    }
    for (int64_t k = 0; k < n; k++) {
        const float whole = hri_exp(p[k] - lse);
        ds[k] = a->scale * whole * (kept[k] * ds[k] - delta);
        p[k] = whole * kept[k];
    }
    for (int64_t k = n; k < tile; k++) {
        p[k] = ds[k] = 0.0f;
    }
}

/* Rows of the next head, and where this one's gradients go. */
static void ask_soon(const hri_attention *a, const scratch *w, int64_t b, int64_t h, int64_t i) {
    hri_at_soon(a, &a->q, a->dq, b, h, i);
    if (i < a->keys) {
        hri_at_soon(a, &a->k, a->dk, b, h / a->group, i);
        hri_at_soon(a, &a->v, a->dv, b, h / a->group, i);
    }
    if (w->next >= 0) {
        const int64_t shared = a->heads / a->group;
        const int64_t to_b = w->next / shared, to_h = w->next % shared;
        hri_at_soon(a, &a->q, a->q.data, to_b, to_h * a->group, i);
        hri_at_soon(a, &a->o, a->o.data, to_b, to_h * a->group, i);
        hri_at_soon(a, &a->d, a->d.data, to_b, to_h * a->group, i);
        if (i < a->keys) {
            hri_at_soon(a, &a->k, a->k.data, to_b, to_h, i);
            hri_at_soon(a, &a->v, a->v.data, to_b, to_h, i);
        }
    }
}

/* Rows of a tile with this processor's kernel. */
static void differentiate_rows(const hri_attention *a, const scratch *w, const hri_at_rows *rows,
                               int64_t b, int64_t h, int64_t q0, int64_t queries, int64_t k0) {
    const int64_t keys = hri_min64(w->tile, a->keys - k0);
    const float *lse = a->lse + (b * a->heads + h) * a->queries + q0;
    for (int64_t i = 0; i < queries; i++) {
        float *p = w->p + i * w->tile, *ds = w->ds + i * w->tile;
        const int64_t seen = hri_max64(hri_at_seen(a, w->tile, q0 + i, k0), 0);
        const int64_t end = hri_at_up(seen, HRI_LANES);
        rows->differentiate(p, ds, seen, a->scale, lse[i], w->delta[q0 + i]);
        if (end < keys) {
            memset(p + end, 0, (size_t)(keys - end) * sizeof *p);
            memset(ds + end, 0, (size_t)(keys - end) * sizeof *ds);
        }
    }
}

/* dv and dk of a tile, a panel at a time where panels are read as they lie: between them rows are asked for, so that few are on
 * their way at once. */
static void add_to_keys(const hri_attention *a, const scratch *w, int64_t b, int64_t h, int64_t q0,
                        int64_t queries, int64_t k0) {
    const int64_t d = a->depth, columns = hri_at_columns(d);
    const int64_t keys = hri_min64(w->tile, a->keys - k0);
    const int lies = hri_at_as_it_lies(HR_TYPE_F32, d);
    const int64_t step = lies ? HRI_GEMM_MR : keys, parts = (keys + step - 1) / step;
    const int64_t asks = lies && k0 == 0 ? queries : 0;
    for (int64_t n = 0; n < 2 * parts; n++) {
        const int64_t k = n % parts * step, count = hri_min64(step, keys - k);
        const int is_dv = n < parts;
        hri_at_multiply(HRI_AT_A_T, HR_TYPE_F32, is_dv ? w->p : w->ds, k, w->tile, queries, count,
                        is_dv ? w->p_t : w->ds_t, 0, d, is_dv ? w->d_b : w->q_b,
                        (is_dv ? w->dv : w->dk) + k * columns, columns, 0);
        for (int64_t i = asks * n / (2 * parts); i < asks * (n + 1) / (2 * parts); i++) {
            ask_soon(a, w, b, h, q0 + i);
        }
    }
}

/* One tile: adds to dq of the queries and to dk, dv of the keys. */
static void add_tile(const hri_attention *a, const scratch *w, int64_t b, int64_t h, int64_t q0,
                     int64_t k0) {
    const int64_t d = a->depth, columns = hri_at_columns(d);
    const int64_t queries = hri_min64(HRI_AT_Q, a->queries - q0);
    const int64_t keys = hri_min64(w->tile, a->keys - k0);
    const int64_t q = hri_at_first(a, &a->q, b, h, q0), o = hri_at_first(a, &a->d, b, h, q0);
    const float *lse = a->lse + (b * a->heads + h) * a->queries + q0;
    const int64_t n = hri_at_keys_up(keys);
    hri_at_pack(HRI_AT_B, a->type, a->q.data, q, a->q.row, queries, d, w->q_b);
    hri_at_pack(HRI_AT_B, a->type, a->d.data, o, a->d.row, queries, d, w->d_b);
    hri_at_multiply(HRI_AT_A, a->type, a->q.data, q, a->q.row, queries, d, w->q, 0, n, w->k_t, w->p,
                    w->tile, 1);
    hri_at_multiply(HRI_AT_A, a->type, a->d.data, o, a->d.row, queries, d, w->d, 0, n, w->v_t,
                    w->ds, w->tile, 1);
    for (int64_t i = 0; i < queries && a->extra.on; i++) {
        differentiate_masked(a, w->tile, b, h, q0 + i, k0, w->p + i * w->tile, w->ds + i * w->tile,
                             lse[i], w->delta[q0 + i]);
    }
    const hri_at_rows rows = hri_at_rows_pick();
    if (rows.differentiate && !a->extra.on) {
        differentiate_rows(a, w, &rows, b, h, q0, queries, k0);
    }
    for (int64_t i = 0; i < queries && !rows.differentiate && !a->extra.on; i++) {
        differentiate_row(w->p + i * w->tile, w->ds + i * w->tile, w->tile,
                          hri_at_seen(a, w->tile, q0 + i, k0), a->scale, lse[i], w->delta[q0 + i]);
    }
    add_to_keys(a, w, b, h, q0, queries, k0);
    hri_at_multiply(HRI_AT_A, HR_TYPE_F32, w->ds, 0, w->tile, queries, keys, w->ds_a, 0, d, w->k,
                    w->dq + q0 * columns, columns, 0);
}

static void put_rows(const hri_attention *a, const hri_attention_view *view, void *to, int64_t b,
                     int64_t h, int64_t first, int64_t rows, const float *from) {
    const int64_t columns = hri_at_columns(a->depth);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t at = hri_at_first(a, view, b, h, first + i);
        if (a->type == HR_TYPE_F32) {
            memcpy((float *)to + at, from + i * columns, (size_t)a->depth * sizeof *from);
        }
        hri_block_put(a->type, to, at, a->depth, from + i * columns);
    }
}

typedef struct task {
    const hri_attention *a;
    float *workspace;
} task;

static void run_head(void *arg, uint32_t head, uint32_t worker) {
    const task *t = arg;
    const hri_attention *a = t->a;
    const int64_t shared = a->heads / a->group; /* heads of k and v */
    const int64_t b = head / shared, h = head % shared, d = a->depth;
    const int64_t columns = hri_at_columns(d), places = hri_at_up(a->queries, HRI_AT_Q);
    scratch w;
    const int64_t floats = scratch_init(&w, a, t->workspace);
    scratch_init(&w, a, t->workspace + worker * floats);
    w.next = head + 1 < a->batch * shared ? (int64_t)head + 1 : -1;
    for (int64_t i = 0; i < a->group; i++) {
        set_delta(a, w.delta + i * places, b, h * a->group + i);
    }
    memset(w.dq, 0, (size_t)(a->group * places * columns) * sizeof *w.dq);
    for (int64_t k0 = 0; k0 < a->keys; k0 += w.tile) {
        const int64_t keys = hri_min64(w.tile, a->keys - k0);
        const int64_t k = hri_at_first(a, &a->k, b, h, k0), v = hri_at_first(a, &a->v, b, h, k0);
        hri_at_pack(HRI_AT_B_T, a->type, a->k.data, k, a->k.row, keys, d, w.k_t);
        hri_at_pack(HRI_AT_B_T, a->type, a->v.data, v, a->v.row, keys, d, w.v_t);
        hri_at_pack(HRI_AT_B, a->type, a->k.data, k, a->k.row, keys, d, w.k);
        memset(w.dk, 0, (size_t)(w.tile * columns) * sizeof *w.dk);
        memset(w.dv, 0, (size_t)(w.tile * columns) * sizeof *w.dv);
        /* A causal tile begins with the queries that see its first key. */
        const int64_t first = a->causal ? k0 / HRI_AT_Q * HRI_AT_Q : 0;
        for (int64_t i = 0; i < a->group; i++) {
            scratch own = w;
            own.delta += i * places;
            own.dq += i * places * columns;
            for (int64_t q0 = first; q0 < a->queries; q0 += HRI_AT_Q) {
                add_tile(a, &own, b, h * a->group + i, q0, k0);
            }
        }
        put_rows(a, &a->k, a->dk, b, h, k0, keys, w.dk);
        put_rows(a, &a->v, a->dv, b, h, k0, keys, w.dv);
    }
    for (int64_t i = 0; i < a->group; i++) {
        put_rows(a, &a->q, a->dq, b, h * a->group + i, 0, a->queries, w.dq + i * places * columns);
    }
}

void hri_attention_grad_run(const hri_attention *a, hri_threads *threads, void *workspace) {
    task t = {a, workspace};
    hri_threads_run(threads, (uint32_t)(a->batch * a->heads / a->group), run_head, &t);
}
