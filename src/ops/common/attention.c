/* Attention forward: tiles of queries go over the keys with a running maximum and sum.
 *
 * A task is a group of tiles of one head: panels of keys and values serve them all.  No bit depends on how many they are. */
#include "ops/common/attention.h"

#include <math.h>

#include "ops/common/attention_tiles.h"
#include "ops/common/vmath.h"

const hri_field hri_attention_fields[] = {
    {"scale", "scale of the scores; 0: 1 / sqrt(D)", offsetof(hri_attention_attr, scale),
     HRI_FIELD_DOUBLE, "0"},
    {"causal", "a place sees itself and what comes before", offsetof(hri_attention_attr, causal),
     HRI_FIELD_BOOL, NULL},
    {0},
};

const hri_field hri_attention_packed_fields[] = {
    {"scale", "scale of the scores; 0: 1 / sqrt(D)", offsetof(hri_attention_packed_attr, scale),
     HRI_FIELD_DOUBLE, "0"},
    {"causal", "a place sees itself and what comes before",
     offsetof(hri_attention_packed_attr, causal), HRI_FIELD_BOOL, NULL},
    {"queries", "output of the first N places alone; 0: of all",
     offsetof(hri_attention_packed_attr, queries), HRI_FIELD_INT, "0", .min = 0, .max = 1e15},
    {0},
};

const hri_field hri_attention_masked_fields[] = {
    {"scale", "scale of the scores; 0: 1 / sqrt(D)", offsetof(hri_attention_masked_attr, scale),
     HRI_FIELD_DOUBLE, "0"},
    {"causal", "a place sees itself and what comes before",
     offsetof(hri_attention_masked_attr, causal), HRI_FIELD_BOOL, NULL},
    {"dropout", "probability that a weight becomes 0", offsetof(hri_attention_masked_attr, dropout),
     HRI_FIELD_DOUBLE, "0", .min = 0, .max = 1},
    {"node", "whose numbers to draw; -1: its own", offsetof(hri_attention_masked_attr, node),
     HRI_FIELD_INT, "-1", .min = -1, .max = 4294967295.0},
    {0},
};

static void set_sizes(hri_attention *a, const hri_attention_attr *p) {
    a->scale =
        (float)(p->scale != 0.0 ? p->scale : 1.0 / sqrt((double)(a->depth > 0 ? a->depth : 1)));
    a->causal = p->causal;
    a->o =
        (hri_attention_view){.batch = a->queries * a->heads * a->depth, .row = a->heads * a->depth};
    a->d = a->o;
}

void hri_attention_apart(hri_attention *a, const hri_attention_attr *p, const hr_meta *q,
                         const hr_meta *k) {
    const int64_t *dim = q->shape.dim;
    const int64_t shared = k->shape.dim[2];
    *a = (hri_attention){.batch = dim[0], .heads = dim[2], .queries = dim[1], .depth = dim[3]};
    a->keys = k->shape.dim[1];
    a->group = shared ? a->heads / shared : 1;
    a->type = q->type;
    set_sizes(a, p);
    a->q = a->o;
    a->k = (hri_attention_view){.batch = a->keys * shared * a->depth, .row = shared * a->depth};
    a->v = a->k;
}

void hri_attention_masked(hri_attention *a, const hri_attention_masked_attr *p, const hr_meta *q,
                          const hr_meta *k, const hr_meta *mask) {
    const hri_attention_attr plain = {p->scale, p->causal};
    hri_attention_apart(a, &plain, q, k);
    a->extra = (hri_attention_extra){.on = 1, .drop = (float)p->dropout};
    if (mask) {
        const int64_t *dim = mask->shape.dim;
        a->extra.mask_type = mask->type;
        a->extra.mask_samples = dim[0];
        a->extra.mask_heads = dim[1];
        a->extra.mask_rows = dim[2];
        a->extra.mask_row = dim[2] > 1 ? dim[3] : 0;
        a->extra.mask_head = dim[1] > 1 ? dim[2] * dim[3] : 0;
        a->extra.mask_batch = dim[0] > 1 ? dim[1] * dim[2] * dim[3] : 0;
    }
}

void hri_attention_call(hri_attention *a, const hri_attention_masked_attr *p, const hri_call *c,
                        const void *mask) {
    a->extra.mask = mask;
    a->extra.seed = c->seed;
    a->extra.step = c->step;
    a->extra.node = p->node < 0 ? c->node : (uint32_t)p->node;
    a->extra.first_sample = c->first_sample;
}

void hri_attention_packed(hri_attention *a, const hri_attention_packed_attr *p,
                          const hr_meta *qkv) {
    const int64_t *dim = qkv->shape.dim;
    const hri_attention_attr plain = {p->scale, p->causal};
    *a = (hri_attention){.batch = dim[0], .heads = dim[3], .keys = dim[1], .depth = dim[4]};
    a->queries = p->queries ? p->queries : a->keys;
    a->group = 1;
    a->type = qkv->type;
    set_sizes(a, &plain);
    const int64_t row = a->heads * a->depth;
    a->q = (hri_attention_view){.batch = a->keys * 3 * row, .row = 3 * row};
    a->k = a->v = a->q;
    a->k.first = row;
    a->v.first = 2 * row;
}

hr_status hri_attention_packed_infer(hri_infer *c, const hr_meta *qkv, hr_meta *o, hr_meta *lse) {
    const hri_attention_packed_attr *p = c->attr;
    const int64_t *dim = qkv->shape.dim;
    if (!hr_type_is_real(qkv->type) || qkv->shape.rank != 5 || dim[2] != 3) {
        return hri_infer_fail(c, "expected qkv (B, T, 3, H, D), floating point");
    }
    if (p->queries > dim[1] || (p->queries && p->causal)) {
        return hri_infer_fail(c, "queries are at most T, and all of them with causal");
    }
    const int64_t queries = p->queries ? p->queries : dim[1];
    *o = (hr_meta){qkv->type, {.rank = 4, .dim = {dim[0], queries, dim[3], dim[4]}}};
    *lse = (hr_meta){HR_TYPE_F32, {.rank = 3, .dim = {dim[0], dim[3], queries}}};
    return HR_OK;
}

double hri_attention_flops(const hri_attention *a) {
    const double all = 2.0 * (double)(a->batch * a->heads) * (double)a->queries * (double)a->keys *
                       (double)a->depth;
    return a->causal ? all / 2.0 : all;
}

/* ---- scratch of a worker ---- */

typedef struct scratch {
    float *q;     /* panels of A: queries by depth, of each tile of the group */
    float *k;     /* panels of B: keys turned */
    float *v;     /* panels of B: keys by columns */
    float *s;     /* (Q, K) scores, then probabilities */
    float *p;     /* panels of A of them */
    float *o;     /* (group, Q, columns) */
    float *most;  /* (group, Q) */
    float *sum;   /* (group, Q) */
    int64_t tile; /* K */
    int64_t next; /* the head after this one, of all samples; < 0: none */
} scratch;

enum { MOST_TILES = 4 }; /* of a group */

static int64_t tiles_of(const hri_attention *a) {
    return (a->queries + HRI_AT_Q - 1) / HRI_AT_Q;
}

static int64_t scratch_init(scratch *w, const hri_attention *a, float *at) {
    const int64_t d = a->depth, columns = hri_at_columns(d);
    const int64_t group = hri_min64(MOST_TILES, tiles_of(a));
    float *const begin = at;
    w->tile = hri_at_tile(a);
    w->q = at;
    w->k = w->q + group * HRI_AT_Q * d;
    w->v = w->k + w->tile * d;
    w->s = w->v + w->tile * columns;
    w->p = w->s + HRI_AT_Q * w->tile;
    w->o = w->p + HRI_AT_Q * w->tile;
    w->most = w->o + group * HRI_AT_Q * columns;
    w->sum = w->most + group * HRI_AT_Q;
    return hri_at_up(w->sum + group * HRI_AT_Q - begin, 16);
}

uint64_t hri_attention_workspace(const hri_attention *a, uint32_t threads) {
    static float nowhere[1];
    scratch w;
    return (uint64_t)scratch_init(&w, a, nowhere) * threads * sizeof(float);
}

/* ---- one tile of keys ---- */

/* Scores of one row, scaled, and the largest of them and of `most`.  What is behind them up to a whole number of lanes is minus
 * infinity, and becomes 0; behind that nothing is computed. */
static float scale_row(float *s, int64_t n, float scale, float most) {
    const int64_t end = hri_at_up(n > 0 ? n : 0, HRI_LANES);
    for (int64_t k = 0; k < end;
         k++) { /* whole lanes: what is behind is some number, and no score */
        s[k] *= scale;
    }
    for (int64_t k = n > 0 ? n : 0; k < end; k++) {
        s[k] = -INFINITY;
    }
    return hri_block_max(s, end, most);
}

/* The same row to exp(score - most). */
static void soften(float *s, int64_t tile, int64_t n, float most) {
    int64_t end = hri_at_up(n > 0 ? n : 0, HRI_LANES);
    end = most == -INFINITY ? 0 : end; /* a mask hides all of them */
    for (int64_t k = 0; k < end; k++) {
        s[k] = hri_exp(s[k] - most);
    }
    memset(s + end, 0, (size_t)(tile - end) * sizeof *s);
}

/* Adds it to the sum; returns how what was summed before is to be scaled. */
static float add_row(const float *s, int64_t n, float new_most, float *most, float *sum) {
    float lanes[HRI_LANES] = {0};
    if (n <= 0 || new_most == -INFINITY) {
        return 1.0f;
    }
    const float keep = hri_exp(*most - new_most);
    hri_lanes_add(lanes, s, hri_at_up(n, HRI_LANES));
    *sum = *sum * keep + hri_lanes_sum(lanes);
    *most = new_most;
    return keep;
}

/* Rows of the next head, and where this one's results go. */
static void ask_soon(const hri_attention *a, const scratch *w, int64_t b, int64_t h, int64_t i) {
    hri_at_soon(a, &a->o, a->o.data, b, h, i);
    if (w->next >= 0) {
        const int64_t to_b = w->next / a->heads, to_h = w->next % a->heads;
        hri_at_soon(a, &a->q, a->q.data, to_b, to_h, i);
        if (i < a->keys) {
            hri_at_soon(a, &a->k, a->k.data, to_b, to_h / a->group, i);
            hri_at_soon(a, &a->v, a->v.data, to_b, to_h / a->group, i);
        }
    }
}

/* Scores of a tile to probabilities, in one pass. */
static void soften_rows(const hri_attention *a, const scratch *w, const hri_at_rows *rows,
                        int64_t b, int64_t h, int64_t q0, int64_t count, int64_t k0) {
    const int64_t columns = hri_at_columns(a->depth);
    const int64_t keys = hri_min64(w->tile, a->keys - k0);
    for (int64_t i = 0; i < count; i++) {
        float *s = w->s + i * w->tile;
        const int64_t seen = hri_max64(hri_at_seen(a, w->tile, q0 + i, k0), 0);
        const int64_t end = hri_at_up(seen, HRI_LANES);
        const float keep =
            seen > 0 ? rows->soften(s, seen, a->scale, &w->most[i], &w->sum[i]) : 1.0f;
        if (end < keys) {
            memset(s + end, 0, (size_t)(keys - end) * sizeof *s);
        }
        for (int64_t k = 0; keep != 1.0f && k < columns; k++) {
            w->o[i * columns + k] *= keep;
        }
        if (k0 == 0) {
            ask_soon(a, w, b, h, q0 + i);
        }
    }
}

static void add_keys(const hri_attention *a, const scratch *w, int64_t b, int64_t h, int64_t q0,
                     int64_t count, int64_t k0) {
    const int64_t d = a->depth, columns = hri_at_columns(d);
    const int64_t keys = hri_min64(w->tile, a->keys - k0);
    hri_at_multiply(HRI_AT_A, a->type, a->q.data, hri_at_first(a, &a->q, b, h, q0), a->q.row, count,
                    d, w->q, !hri_at_as_it_lies(a->type, w->tile), hri_at_keys_up(keys), w->k, w->s,
                    w->tile, 1);
    const hri_at_rows rows = hri_at_rows_pick();
    if (rows.soften && !a->extra.on) {
        soften_rows(a, w, &rows, b, h, q0, count, k0);
        hri_at_multiply(HRI_AT_A, HR_TYPE_F32, w->s, 0, w->tile, count, keys, w->p, 0, d, w->v,
                        w->o, columns, 0);
        return;
    }
    /* Row by row in three passes: the rows of one do not wait for one another. */
    float most[HRI_AT_Q];
    for (int64_t i = 0; i < count; i++) {
        const int64_t seen = hri_at_seen(a, w->tile, q0 + i, k0);
        if (a->extra.on) {
            hri_at_mask(a, b, h, q0 + i, k0, seen, w->s + i * w->tile);
        }
        most[i] = scale_row(w->s + i * w->tile, seen, a->extra.on ? 1.0f : a->scale, w->most[i]);
    }
    for (int64_t i = 0; i < count; i++) {
        soften(w->s + i * w->tile, w->tile, hri_at_seen(a, w->tile, q0 + i, k0), most[i]);
    }
    for (int64_t i = 0; i < count; i++) {
        float *s = w->s + i * w->tile, kept[HRI_AT_K_MOST];
        const int64_t seen = hri_at_seen(a, w->tile, q0 + i, k0);
        const float keep = add_row(s, seen, most[i], &w->most[i], &w->sum[i]);
        if (a->extra.drop > 0.0f) { /* behind the sum: what is left is not normalised again */
            hri_at_kept(a, b, h, q0 + i, k0, seen, kept);
            for (int64_t k = 0; k < seen; k++) {
                s[k] *= kept[k];
            }
        }
        for (int64_t k = 0; keep != 1.0f && k < columns; k++) {
            w->o[i * columns + k] *= keep;
        }
    }
    hri_at_multiply(HRI_AT_A, HR_TYPE_F32, w->s, 0, w->tile, count, keys, w->p, 0, d, w->v, w->o,
                    columns, 0);
}

typedef struct task {
    const hri_attention *a;
    float *workspace;
    int64_t group, groups; /* tiles of queries, of a task and of a head */
} task;

static void begin_tile(const hri_attention *a, const scratch *w, int64_t b, int64_t h, int64_t q0,
                       int64_t count) {
    memset(w->o, 0, (size_t)(HRI_AT_Q * hri_at_columns(a->depth)) * sizeof *w->o);
    for (int64_t i = 0; i < HRI_AT_Q; i++) {
        w->most[i] = -INFINITY;
        w->sum[i] = 0.0f;
    }
    if (!hri_at_as_it_lies(a->type, w->tile)) {
        hri_at_pack(HRI_AT_A, a->type, a->q.data, hri_at_first(a, &a->q, b, h, q0), a->q.row, count,
                    a->depth, w->q);
    }
}

static void end_tile(const hri_attention *a, const scratch *w, int64_t b, int64_t h, int64_t q0,
                     int64_t count) {
    const int64_t d = a->depth, columns = hri_at_columns(d);
    for (int64_t i = 0; i < count; i++) {
        const int64_t to = hri_at_first(a, &a->o, b, h, q0 + i);
        const int none = w->sum[i] == 0.0f; /* a query that sees nothing */
        const float over = none ? 0.0f : 1.0f / w->sum[i];
        float *o = w->o + i * columns;
        for (int64_t k = 0; k < d; k++) {
            o[k] *= over;
        }
        if (a->type == HR_TYPE_F32) {
            memcpy((float *)(uintptr_t)a->o.data + to, o, (size_t)d * sizeof *o);
        }
        hri_block_put(a->type, (void *)(uintptr_t)a->o.data, to, d, o);
        a->lse[(b * a->heads + h) * a->queries + q0 + i] =
            none ? INFINITY : hri_at_lse(a, w->most[i], w->sum[i]);
    }
}

/* What belongs to one tile of the group. */
static scratch own_of(const hri_attention *a, const scratch *w, int64_t tile) {
    scratch own = *w;
    own.q += tile * HRI_AT_Q * a->depth;
    own.o += tile * HRI_AT_Q * hri_at_columns(a->depth);
    own.most += tile * HRI_AT_Q;
    own.sum += tile * HRI_AT_Q;
    return own;
}

static void run_group(void *arg, uint32_t number, uint32_t worker) {
    const task *t = arg;
    const hri_attention *a = t->a;
    const int64_t head = number / t->groups, b = head / a->heads, h = head % a->heads;
    const int64_t first = number % t->groups * t->group * HRI_AT_Q;
    const int64_t end = hri_min64(a->queries, first + t->group * HRI_AT_Q);
    scratch w, own[MOST_TILES];
    const int64_t floats = scratch_init(&w, a, t->workspace);
    scratch_init(&w, a, t->workspace + worker * floats);
    w.next = head + 1 < a->batch * a->heads ? head + 1 : -1;
    for (int64_t q0 = first, i = 0; q0 < end; q0 += HRI_AT_Q, i++) {
        own[i] = own_of(a, &w, i);
        begin_tile(a, &own[i], b, h, q0, hri_min64(HRI_AT_Q, end - q0));
    }
    for (int64_t k0 = 0; k0 < hri_at_keys(a, first, end - first); k0 += w.tile) {
        const int64_t keys = hri_min64(w.tile, a->keys - k0), d = a->depth;
        hri_at_pack(HRI_AT_B_T, a->type, a->k.data, hri_at_first(a, &a->k, b, h / a->group, k0),
                    a->k.row, keys, d, w.k);
        hri_at_pack(HRI_AT_B, a->type, a->v.data, hri_at_first(a, &a->v, b, h / a->group, k0),
                    a->v.row, keys, d, w.v);
        for (int64_t q0 = first, i = 0; q0 < end; q0 += HRI_AT_Q, i++) {
            const int64_t count = hri_min64(HRI_AT_Q, end - q0);
            if (k0 < hri_at_keys(a, q0, count)) {
                add_keys(a, &own[i], b, h, q0, count, k0);
            }
        }
    }
    for (int64_t q0 = first, i = 0; q0 < end; q0 += HRI_AT_Q, i++) {
        end_tile(a, &own[i], b, h, q0, hri_min64(HRI_AT_Q, end - q0));
    }
}

void hri_attention_run(const hri_attention *a, hri_threads *threads, void *workspace) {
    enum { TASKS = 2 /* a thread, at least */ };
    const int64_t tiles = tiles_of(a);
    const int64_t enough = a->batch * a->heads * tiles / (TASKS * hri_threads_count(threads));
    task t = {.a = a, .workspace = workspace, .group = hri_min64(MOST_TILES, enough)};
    t.group = t.group > 0 ? t.group : 1;
    t.groups = (tiles + t.group - 1) / t.group;
    hri_threads_run(threads, (uint32_t)(a->batch * a->heads * t.groups), run_group, &t);
}
