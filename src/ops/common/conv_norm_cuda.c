/* conv_norm.h on a GPU: four products of the library and small kernels between them (src/ops/cuda/conv_norm.cu).
 *
 * The work space: sums of parts, t and s, A, B and C, G and S in f32; P, Q and the two halves of r in the type of a; scratch of products.
 * How rows are cut follows from the shape alone.  da is made by two products: a Q + r first, the smaller part, which is rounded once, then
 * dz P is added to it. */
#include "ops/common/conv_norm.h"

#include <stdio.h>

#include "ops/common/gpu.h"

HRI_CU(conv_norm);
HRI_CU(conv_norm_sums);

enum { THREADS = 256, BLOCKS = 132 * 4, DEEP = 4, SIDE = 32, PART = 128 };

/* ---- all sums in one pass ---- */

/* Of conv_norm_sums.cu: a block has `slice` channels of dz, and takes so many rows at a time. */
typedef struct whole {
    int64_t k, n, slice, depth;
} whole;

enum { WHOLE_BLOCKS = 132, WHOLE_THREADS = 512 };

/* NULL: products of the library do it.  Decided by the shape of a sample, as everything here. */
static const whole *whole_of(const hri_conv_norm *v) {
    static const whole list[] = {{64, 256, 256, 32}, {128, 512, 128, 64}};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (v->k == list[i].k && v->n == list[i].n && hr_type_bytes(v->type) == 2) {
            return &list[i];
        }
    }
    return NULL;
}

/* Blocks along the rows, each of which makes a part of the sums. */
static int64_t whole_parts(const hri_conv_norm *v, const whole *f) {
    const int64_t tiles = hri_gpu_up(v->rows, f->depth), most = WHOLE_BLOCKS * f->slice / f->n;
    return tiles < most ? tiles : most;
}

/* Numbers of a block. */
static int64_t whole_numbers(const whole *f) {
    return (f->k + 1) * (f->slice + f->k * f->slice / f->n);
}

static uint64_t whole_bytes(const hri_conv_norm *v, const whole *f) {
    return (uint64_t)(whole_parts(v, f) * f->n / f->slice * whole_numbers(f)) * sizeof(float);
}

/* ---- how rows are cut ---- */

typedef struct cut {
    int64_t rows, channels;
    int pack, lanes;
    hri_gpu_grid grid; /* tiles of channels by parts */
} cut;

static cut cut_of(hr_type type, int64_t rows, int64_t channels) {
    cut c = {.rows = rows, .channels = channels};
    c.pack = hri_gpu_pack(type, channels);
    c.lanes = hri_gpu_lanes(channels / c.pack, 32);
    const int64_t tiles = hri_gpu_up(channels, (int64_t)c.lanes * c.pack);
    const int64_t most = hri_gpu_up(rows, (int64_t)(THREADS / c.lanes) * DEEP);
    int64_t parts = BLOCKS / tiles > 1 ? BLOCKS / tiles : 1;
    parts = parts > most ? most : parts;
    c.grid = (hri_gpu_grid){.x = (uint32_t)tiles, .y = (uint32_t)parts, .threads = THREADS};
    return c;
}

static uint64_t parts_bytes(const cut *c) {
    return (uint64_t)((int64_t)c->grid.y * c->channels) * sizeof(float);
}

/* ---- the products ---- */

typedef struct products {
    hri_gpu_matmul g, s, first, second;
} products;

static products products_of(const hri_conv_norm *v) {
    const hri_gpu_matmul by_rows = {.a_type = v->type,
                                    .b_type = v->type,
                                    .y_type = HR_TYPE_F32,
                                    .bias_type = HR_TYPE_F32,
                                    .ta = 1,
                                    .batch = 1,
                                    .m = v->k,
                                    .k = v->rows,
                                    .lda = v->k};
    const hri_gpu_matmul to_a = {.a_type = v->type,
                                 .b_type = v->type,
                                 .y_type = v->type,
                                 .bias_type = v->type,
                                 .epilogue = HRI_GPU_BIAS,
                                 .batch = 1,
                                 .m = v->rows,
                                 .n = v->k,
                                 .ldy = v->k};
    products p = {by_rows, by_rows, to_a, to_a};
    p.g.n = p.g.ldb = p.g.ldy = v->n;
    p.s.n = p.s.ldb = p.s.ldy = v->k;
    p.first.k = p.first.lda = p.first.ldb = v->k;
    p.second.k = p.second.lda = p.second.ldb = v->n;
    p.first.tb = p.second.tb = p.second.add = 1;
    return p;
}

static uint64_t scratch_of(const hri_conv_norm *v, hri_gpu *gpu) {
    const products p = products_of(v);
    const hri_gpu_matmul *const all[] = {&p.g, &p.s, &p.first, &p.second};
    uint64_t most = 0;
    for (int i = whole_of(v) ? 2 : 0; i < 4; i++) {
        const uint64_t one = hri_gpu_matmul_workspace(gpu, all[i], HRI_GPU_LIMIT_MATMUL);
        most = one > most ? one : most;
    }
    return most;
}

/* ---- the work space ---- */

typedef struct places {
    hr_addr of_dz, of_a; /* sums of parts */
    hr_addr t, s, lines; /* (N), (K), (3, N) f32 */
    hr_addr g, squares;  /* (K, N), (K, K) f32 */
    hr_addr of_q;        /* (parts, K, K) f32 */
    hr_addr p, q, r[2];  /* (K, N), (K, K), (K) */
    hr_addr scratch;
} places;

static hr_addr take(hr_addr *at, uint64_t bytes) {
    const hr_addr here = *at;
    *at += hri_gpu_whole(bytes);
    return here;
}

static places places_of(const hri_conv_norm *v, hr_addr at) {
    const uint64_t k = (uint64_t)v->k, n = (uint64_t)v->n, small = hr_type_bytes(v->type);
    const cut dz = cut_of(v->type, v->rows, v->n), a = cut_of(v->type, v->rows, v->k);
    places p;
    const whole *f = whole_of(v);
    p.of_dz = take(&at, f ? whole_bytes(v, f) : parts_bytes(&dz));
    p.of_a = take(&at, f ? 0 : parts_bytes(&a));
    p.t = take(&at, n * sizeof(float));
    p.s = take(&at, k * sizeof(float));
    p.lines = take(&at, 3 * n * sizeof(float));
    p.g = take(&at, k * n * sizeof(float));
    p.squares = take(&at, k * k * sizeof(float));
    p.of_q = take(&at, (uint64_t)hri_gpu_up(v->n, PART) * k * k * sizeof(float));
    p.p = take(&at, k * n * small);
    p.q = take(&at, k * k * small);
    p.r[0] = take(&at, k * small);
    p.r[1] = take(&at, k * small);
    p.scratch = at;
    return p;
}

uint64_t hri_conv_norm_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    const hri_conv_norm v = hri_conv_norm_of(s);
    (void)variant;
    return v.k && v.n ? places_of(&v, 0).scratch + scratch_of(&v, gpu) : 0;
}

/* ---- the launches ---- */

/* Where dy comes from: it is there (`more` 0), or is the sum of two, and the parts' sums may then lie in the second (`sums`). */
typedef struct arrival {
    hr_addr dy, more, sums;
} arrival;

typedef struct work {
    const hri_gpu_call *c;
    hri_conv_norm v;
    places at;
    char defines[128]; /* of kernels that are cut by the channels of dz */
} work;

static void define(char *out, size_t size, hr_type type, const cut *c, int sum, int masked,
                   int bytes) {
    snprintf(out, size, "-DELEM=%s -DPACK=%d -DLANES=%d -DSUM=%d -DMASKED=%d -DBYTES=%d",
             hri_gpu_type(type), c->pack, c->lanes, sum, masked, bytes);
}

static hr_status join(const work *w, const char *defines, const cut *k, hr_addr sums, hr_addr to) {
    int32_t channels = (int32_t)k->channels, parts = (int32_t)k->grid.y;
    const hri_gpu_grid grid = {.x = (uint32_t)hri_gpu_up(channels, 8), .threads = 512};
    return hri_gpu_launch(w->c->gpu, &hri_cu_conv_norm, defines, "conv_norm_join", &grid,
                          HRI_GPU_ARGS(&sums, &to, &channels, &parts));
}

/* dz and t. */
static hr_status pass_dy(work *w, const arrival *from) {
    const hri_gpu_call *c = w->c;
    const cut k = cut_of(w->v.type, w->v.rows, w->v.n);
    hr_addr dy = from->dy, more = from->more, mask = w->v.masked ? c->in[HRI_CN_MASK] : 0;
    hr_addr dz = c->out[HRI_CN_DZ];
    hr_addr sums = from->sums ? from->sums : w->at.of_dz;
    int64_t rows = k.rows, each = w->v.each;
    int32_t channels = (int32_t)k.channels;
    define(w->defines, sizeof w->defines, w->v.type, &k,
           from->sums   ? 2
           : from->more ? 1
                        : 0,
           w->v.masked, w->v.masked && channels % 8 == 0 && k.pack % 4 == 0);
    const hr_status status =
        hri_gpu_launch(c->gpu, &hri_cu_conv_norm, w->defines, "conv_norm_pass", &k.grid,
                       HRI_GPU_ARGS(&dy, &more, &mask, &dz, &sums, &rows, &channels, &each));
    return status == HR_OK ? join(w, w->defines, &k, sums, w->at.t) : status;
}

/* s. */
static hr_status pass_a(const work *w) {
    const cut k = cut_of(w->v.type, w->v.rows, w->v.k);
    hr_addr a = w->c->in[HRI_CN_A], none = 0, sums = w->at.of_a;
    int64_t rows = k.rows, each = 1;
    int32_t channels = (int32_t)k.channels;
    char defines[128];
    define(defines, sizeof defines, w->v.type, &k, 0, 0, 0);
    const hr_status status =
        hri_gpu_launch(w->c->gpu, &hri_cu_conv_norm, defines, "conv_norm_pass", &k.grid,
                       HRI_GPU_ARGS(&a, &none, &none, &none, &sums, &rows, &channels, &each));
    return status == HR_OK ? join(w, defines, &k, sums, w->at.s) : status;
}

/* dz, t, s, G and S. */
static hr_status pass_all(work *w, const whole *f, const arrival *from) {
    const hri_gpu_call *c = w->c;
    hr_addr dy = from->dy, more = from->more, mask = w->v.masked ? c->in[HRI_CN_MASK] : 0;
    hr_addr a = c->in[HRI_CN_A], dz = c->out[HRI_CN_DZ], g = w->at.g, squares = w->at.squares;
    hr_addr parts = from->sums ? from->sums : w->at.of_dz, t = w->at.t, s = w->at.s;
    int64_t rows = w->v.rows;
    int32_t count = (int32_t)whole_parts(&w->v, f);
    const uint32_t slices = (uint32_t)(f->n / f->slice);
    const hri_gpu_grid grid = {.x = (uint32_t)count, .y = slices, .threads = WHOLE_THREADS};
    const hri_gpu_grid gather = {
        .x = (uint32_t)hri_gpu_up(whole_numbers(f), THREADS), .y = slices, .threads = THREADS};
    const cut k = cut_of(w->v.type, rows, w->v.n);
    char defines[128];
    define(w->defines, sizeof w->defines, w->v.type, &k, 0, 0, 0);
    snprintf(defines, sizeof defines,
             "-DELEM=%s -DKDIM=%d -DNDIM=%d -DSLICE=%d -DDEPTH=%d -DSUM=%d -DMASKED=%d",
             hri_gpu_type(w->v.type), (int)f->k, (int)f->n, (int)f->slice, (int)f->depth,
             from->sums   ? 2
             : from->more ? 1
                          : 0,
             w->v.masked);
    const hr_status status =
        hri_gpu_launch(c->gpu, &hri_cu_conv_norm_sums, defines, "conv_norm_sums", &grid,
                       HRI_GPU_ARGS(&dy, &more, &mask, &a, &dz, &parts, &rows));
    return status == HR_OK
               ? hri_gpu_launch(c->gpu, &hri_cu_conv_norm_sums, defines, "conv_norm_gather",
                                &gather, HRI_GPU_ARGS(&parts, &g, &squares, &t, &s, &count))
               : status;
}

static hr_status multiply(const work *w, const hri_gpu_matmul *x, hr_addr a, hr_addr b,
                          hr_addr bias, hr_addr y) {
    return hri_gpu_matmul_run(w->c->gpu, x, a, b, bias, y, w->at.scratch,
                              w->c->workspace_bytes - (w->at.scratch - w->c->workspace));
}

static hr_status make_matrices(const work *w) {
    const hri_gpu_call *c = w->c;
    const places *at = &w->at;
    hr_addr weights = c->in[HRI_CN_W], gamma = c->in[HRI_CN_GAMMA], inv = c->in[HRI_CN_INV];
    hr_addr dw = c->out[HRI_CN_DW], dgamma = c->out[HRI_CN_DGAMMA], dbeta = c->out[HRI_CN_DBETA];
    hr_addr t = at->t, s = at->s, lines = at->lines, g = at->g, squares = at->squares;
    hr_addr p = at->p, q = at->q, of_q = at->of_q, first = at->r[0], second = at->r[1];
    int64_t rows = w->v.rows;
    int32_t k = (int32_t)w->v.k, n = (int32_t)w->v.n;
    int32_t type = (int32_t)c->sig->in[HRI_CN_GAMMA].type;
    const int64_t down = hri_gpu_up(k, SIDE);
    const int64_t tiles = down * (down * hri_gpu_up(n, PART) + hri_gpu_up(n, SIDE));
    const hri_gpu_grid by_channels = {.x = (uint32_t)hri_gpu_up(n, 32), .threads = 512};
    const hri_gpu_grid by_tiles = {.x = (uint32_t)tiles, .threads = 256};
    const hri_gpu_grid by_rows = {.x = (uint32_t)k, .threads = 128};
    hr_status status =
        hri_gpu_launch(c->gpu, &hri_cu_conv_norm, w->defines, "conv_norm_channels", &by_channels,
                       HRI_GPU_ARGS(&weights, &g, &t, &s, &gamma, &inv, &dgamma, &dbeta, &lines,
                                    &rows, &k, &n, &type));
    if (status == HR_OK) {
        status = hri_gpu_launch(
            c->gpu, &hri_cu_conv_norm, w->defines, "conv_norm_matrices", &by_tiles,
            HRI_GPU_ARGS(&weights, &g, &squares, &s, &lines, &p, &of_q, &dw, &k, &n));
    }
    if (status == HR_OK) {
        status =
            hri_gpu_launch(c->gpu, &hri_cu_conv_norm, w->defines, "conv_norm_rest", &by_rows,
                           HRI_GPU_ARGS(&p, &of_q, &q, &t, &s, &first, &second, &rows, &k, &n));
    }
    return status;
}

/* Without rows there is nothing to add up. */
static hr_status fill_empty(const hri_gpu_call *c) {
    hr_status status = HR_OK;
    for (int i = HRI_CN_DW; i <= HRI_CN_DBETA && status == HR_OK; i++) {
        const uint64_t bytes = hr_meta_bytes(&c->sig->out[i]);
        status = bytes ? hri_gpu_fill(c->gpu, c->out[i], 0, bytes) : HR_OK;
    }
    return status;
}

static hr_status run(const hri_gpu_call *c, const arrival *from) {
    work w = {.c = c, .v = hri_conv_norm_of(c->sig)};
    const products p = products_of(&w.v);
    const hr_addr a = c->in[HRI_CN_A], da = c->out[HRI_CN_DA];
    const hr_addr dz = w.v.masked ? c->out[HRI_CN_DZ] : c->in[HRI_CN_DY];
    if (!w.v.rows || !w.v.k || !w.v.n) {
        return fill_empty(c);
    }
    w.at = places_of(&w.v, c->workspace);
    const whole *f = whole_of(&w.v);
    hr_status status = f ? pass_all(&w, f, from) : pass_dy(&w, from);
    if (status == HR_OK && !f) {
        status = pass_a(&w);
    }
    if (status == HR_OK && !f) {
        status = multiply(&w, &p.g, a, dz, 0, w.at.g);
    }
    if (status == HR_OK && !f) {
        status = multiply(&w, &p.s, a, a, 0, w.at.squares);
    }
    if (status == HR_OK) {
        status = make_matrices(&w);
    }
    if (status == HR_OK) {
        status = multiply(&w, &p.first, a, w.at.q, w.at.r[0], da);
    }
    return status == HR_OK ? multiply(&w, &p.second, dz, w.at.p, w.at.r[1], da) : status;
}

hr_status hri_conv_norm_cuda(const hri_gpu_call *c) {
    return run(c, &(arrival){.dy = c->in[HRI_CN_DY]});
}

/* ---- dy as the sum of two, which the call before would have made ---- */

/* The same for parts of all sums: tiles of rows that their own block alone has read.  Meanwhile t, s, G and S are written. */
static hr_addr room_for_parts(const hri_conv_norm *v, const whole *f, hr_addr more,
                              const places *at) {
    enum { TRIES = 16 };
    const int64_t small = (int64_t)hr_type_bytes(v->type), parts = whole_parts(v, f);
    const int64_t need =
        hri_gpu_up(whole_numbers(f) * (int64_t)sizeof(float), f->depth * f->slice * small);
    const int64_t rows = need * parts * f->depth;
    const uint64_t size = (uint64_t)(rows * v->n * small);
    const hri_gpu_span written = {at->t, at->of_q};
    for (int64_t i = 0; i < TRIES && (i + 1) * rows <= v->rows; i++) {
        const hri_gpu_span room = hri_gpu_span_of(more + (uint64_t)i * size, size);
        if (!hri_gpu_touch(room, written)) {
            return room.first;
        }
    }
    return 0;
}

/* Rows of `more`, which is dead, in which the parts may leave their sums: a group of rows that every part has; 0: none.  Until they are
 * joined nothing is written but dz, and t while they are. */
static hr_addr room_for_sums(const hri_conv_norm *v, const cut *k, hr_addr more, hr_addr t) {
    enum { TRIES = 16 };
    const int64_t bytes = (int64_t)hr_type_bytes(v->type), width = (int64_t)k->lanes * k->pack;
    const int64_t group = (int64_t)k->grid.y * (THREADS / k->lanes), rounds = k->rows / group;
    if (k->pack * bytes != 16 || k->channels % width || THREADS / k->lanes < 2) {
        return 0;
    }
    const uint64_t size = (uint64_t)(group * k->channels * bytes);
    for (int64_t i = 1; i <= rounds && i <= TRIES; i++) {
        const hri_gpu_span room = hri_gpu_span_of(more + (uint64_t)(rounds - i) * size, size);
        if (!hri_gpu_touch(room, hri_gpu_span_of(t, (uint64_t)v->n * sizeof(float)))) {
            return room.first;
        }
    }
    return 0;
}

hr_status hri_conv_norm_sum_cuda(const hri_gpu_call *c, hr_addr first, hr_addr second) {
    const hri_conv_norm v = hri_conv_norm_of(c->sig);
    if (!v.rows || !v.k || !v.n || !v.masked) {
        return HR_E_UNSUPPORTED;
    }
    const cut k = cut_of(v.type, v.rows, v.n);
    const uint64_t bytes = hr_meta_bytes(&c->sig->in[HRI_CN_DY]);
    const hr_addr dz = c->out[HRI_CN_DZ];
    const places at = places_of(&v, c->workspace);
    const whole *f = whole_of(&v);
    const hri_gpu_span sums = hri_gpu_span_of(at.of_dz, f ? whole_bytes(&v, f) : parts_bytes(&k));
    arrival from = {.dy = first == dz ? first : second, .more = first == dz ? second : first};
    const int free_standing =
        !hri_gpu_touch(hri_gpu_span_of(dz, bytes), hri_gpu_span_of(from.more, bytes)) &&
        (from.dy == dz ||
         !hri_gpu_touch(hri_gpu_span_of(dz, bytes), hri_gpu_span_of(from.dy, bytes)));
    /* dz takes the place of the sum, so that nobody can miss it; and the first launch must not write what it still reads. */
    if (dz != c->in[HRI_CN_DY] || !free_standing ||
        hri_gpu_touch(sums, hri_gpu_span_of(from.dy, bytes))) {
        return HR_E_UNSUPPORTED;
    }
    if (hri_gpu_touch(sums, hri_gpu_span_of(from.more, bytes))) { /* so it is dead */
        from.sums =
            f ? room_for_parts(&v, f, from.more, &at) : room_for_sums(&v, &k, from.more, at.t);
        if (!from.sums) {
            return HR_E_UNSUPPORTED;
        }
    }
    return run(c, &from);
}
