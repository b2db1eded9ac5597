/* The cut of a sum, and its launches; see reduce_cuda.h. */
#include "ops/common/reduce_cuda.h"

HRI_CU(reduce);

/* Four blocks for each of 132 multiprocessors: as many as are there at once, whoever makes what is added up. */
enum { THREADS = 256, BLOCKS = 528, WARP = 32 };
/* Of rows that are taken by turns: two blocks for each multiprocessor, as norm_cuda.c has them; shorter rows would leave threads idle. */
enum { DOWN = THREADS / WARP, TURNS = 132 * 2, SHORTEST = 256, LONGEST = 1024 };

hri_pattern hri_pattern_of(const hri_reduction *r) {
    hri_pattern p = {.rank = r->rank};
    for (int d = 0; d < r->rank; d++) {
        p.dim[d] = r->dim[d];
        p.reduced[d] = r->sum[d];
    }
    return p;
}

typedef struct cut {
    int width;       /* elements of an access */
    int64_t parts;   /* of the middle */
    int64_t each;    /* elements of the middle in a part; 0: they are taken by turns */
    uint32_t across; /* columns: 2^across threads lie side by side */
    int64_t tiles;   /* columns: blocks side by side */
} cut;

static void set_parts(cut *c, const hri_reduction *r, int64_t blocks, int64_t least) {
    const int64_t most = hri_launch_max(hri_launch_up(r->middle, least), 1);
    c->parts = hri_launch_min(hri_launch_max(BLOCKS / hri_launch_max(blocks, 1), 1), most);
    c->each = hri_launch_up(r->middle, c->parts);
}

int64_t hri_turns(hr_type type, int64_t middle, int64_t inner) {
    const int good = inner >= SHORTEST && inner <= LONGEST && middle > 0 &&
                     inner * (int64_t)hr_type_bytes(type) % 16 == 0;
    return good ? hri_launch_min(hri_launch_up(middle, DOWN), TURNS) : 0;
}

static cut cut_columns(const hri_reduction *r, hr_type type, int wide) {
    cut c = {.width = wide ? hri_launch_width(type, r->inner) : 1};
    const int64_t packs = r->inner / c.width;
    const int64_t turns = wide && r->outer == 1 ? hri_turns(type, r->middle, r->inner) : 0;
    if (turns) {
        c.across = hri_launch_across(WARP, WARP);
        c.tiles = hri_launch_up(packs, WARP);
        c.parts = turns;
        return c;
    }
    /* Short columns need few rows of threads. */
    c.across = hri_launch_across(packs, r->middle < 16 ? THREADS : WARP);
    c.tiles = hri_launch_up(packs, 1 << c.across);
    set_parts(&c, r, r->outer * c.tiles, 8 * (THREADS >> c.across));
    /* Rows of threads go four at a time: what is left over would go one by one. */
    const int64_t four = 4 * (THREADS >> c.across);
    c.each = hri_launch_up(c.each, four) * four;
    c.parts = hri_launch_max(hri_launch_up(r->middle, hri_launch_max(c.each, 1)), 1);
    return c;
}

static cut cut_rows(const hri_reduction *r, hr_type type, int wide) {
    cut c = {.width = wide ? hri_launch_width(type, r->middle) : 1};
    set_parts(&c, r, r->outer, 8192);
    c.each = hri_launch_up(c.each, 64) * 64; /* whole accesses */
    c.parts = hri_launch_max(hri_launch_up(r->middle, hri_launch_max(c.each, 1)), 1);
    return c;
}

static cut cut_of(const hri_reduction *r, hr_type type, int wide) {
    return r->inner == 1 ? cut_rows(r, type, wide) : cut_columns(r, type, wide);
}

uint64_t hri_reduction_launch_workspace(const hri_reduction *r, hr_type type) {
    if (!r->outer || !r->results) {
        return 0;
    }
    const int64_t wide = cut_of(r, type, 1).parts, narrow = cut_of(r, type, 0).parts;
    const int64_t parts = hri_launch_max(wide, narrow);
    return parts > 1 ? (uint64_t)(r->outer * parts * r->inner) * sizeof(float) : 0;
}

static hr_status launch_general(hri_gpu *gpu, const hri_reduction *r, hr_type type, hr_addr in,
                                hr_addr out, float scale) {
    hri_pattern p = hri_pattern_of(r);
    int64_t results = r->results;
    return hri_gpu_launch(
        gpu, &hri_cu_reduce, hri_launch_t(type, 1).text, "general",
        &(hri_gpu_grid){.x = hri_launch_blocks(results, THREADS / WARP), .threads = THREADS},
        HRI_GPU_ARGS(&in, &out, &results, &p, &scale));
}

static const char *columns_of(const cut *c) {
    return c->each ? "columns" : "columns_by_turns";
}

static hri_gpu_grid columns_grid(const hri_reduction *r, const cut *c) {
    return (hri_gpu_grid){.x = (uint32_t)(r->outer * c->parts * c->tiles), .threads = THREADS};
}

static hr_status launch_columns(hri_gpu *gpu, const hri_reduction *r, const cut *c,
                                const char *defines, hr_addr in, hr_addr out, hr_addr partial,
                                float scale) {
    int64_t middle = r->middle, inner = r->inner, each = c->each;
    uint32_t parts = (uint32_t)c->parts, tiles = (uint32_t)c->tiles, across = c->across;
    const hri_gpu_grid grid = columns_grid(r, c);
    return hri_gpu_launch(
        gpu, &hri_cu_reduce, defines, columns_of(c), &grid,
        HRI_GPU_ARGS(&in, &out, &partial, &middle, &inner, &each, &parts, &tiles, &across, &scale));
}

static hr_status launch_rows(hri_gpu *gpu, const hri_reduction *r, const cut *c,
                             const char *defines, hr_addr in, hr_addr out, hr_addr partial,
                             float scale) {
    int64_t count = r->outer * c->parts, middle = r->middle, each = c->each;
    uint32_t parts = (uint32_t)c->parts, lanes = each <= 1024 ? WARP : THREADS;
    return hri_gpu_launch(
        gpu, &hri_cu_reduce, defines, "rows",
        &(hri_gpu_grid){.x = hri_launch_blocks(count, THREADS / lanes), .threads = THREADS},
        HRI_GPU_ARGS(&in, &out, &partial, &count, &middle, &each, &parts, &lanes, &scale));
}

static hr_status launch_combine(hri_gpu *gpu, const hri_reduction *r, const cut *c,
                                const char *defines, hr_addr partial, hr_addr out, float scale) {
    int64_t results = r->results, inner = r->inner;
    uint32_t parts = (uint32_t)c->parts,
             across = parts > 32 ? 3 : 5; /* 32 bytes side by side at least */
    return hri_gpu_launch(
        gpu, &hri_cu_reduce, defines, "combine",
        &(hri_gpu_grid){.x = hri_launch_blocks(results, 1 << across), .threads = THREADS},
        HRI_GPU_ARGS(&partial, &out, &results, &inner, &parts, &across, &scale));
}

hr_status hri_turns_combine(hri_gpu *gpu, hr_type type, int64_t inner, int64_t parts,
                            hr_addr partial, hr_addr out) {
    const hri_reduction r = {.results = inner, .inner = inner};
    const cut c = {.parts = parts};
    return launch_combine(gpu, &r, &c, hri_launch_t(type, hri_launch_width(type, inner)).text,
                          partial, out, 1.0f);
}

hr_status hri_reduction_launch(hri_gpu *gpu, const hri_reduction *r, hr_type type, hr_addr in,
                               hr_addr out, float scale, hr_addr workspace) {
    if (r->results == 0) {
        return HR_OK;
    }
    if (!r->outer) {
        return launch_general(gpu, r, type, in, out, scale);
    }
    const cut c = cut_of(r, type, hri_launch_wide(in | out));
    const hri_defines d = hri_launch_t(type, c.width);
    const hr_addr partial = c.parts > 1 ? workspace : 0;
    const hr_status status = r->inner == 1
                                 ? launch_rows(gpu, r, &c, d.text, in, out, partial, scale)
                                 : launch_columns(gpu, r, &c, d.text, in, out, partial, scale);
    if (status != HR_OK || c.parts == 1) {
        return status;
    }
    return launch_combine(gpu, r, &c, d.text, workspace, out, scale);
}

/* ---- with the call that makes what is added up ---- */

typedef struct range {
    hr_addr at;
    uint64_t bytes;
} range;

static int apart(range a, range b) {
    return hri_launch_apart(a.at, a.bytes, b.at, b.bytes);
}

/* The sums are written while others still read operands; a thread reads its own before it writes in their places. */
static int places_allow(const hri_gpu_call *maker, const hri_gpu_call *again, range out,
                        range workspace) {
    const uint64_t bytes = hr_meta_bytes(&maker->sig->out[0]);
    const range made = {maker->out[0], bytes}, more = {again ? again->out[0] : 0, bytes};
    int good = apart(made, out) && apart(made, workspace) &&
               (!again || (apart(more, out) && apart(more, workspace)));
    for (uint32_t i = 0; i < maker->sig->in_count && good; i++) {
        const range in = {maker->in[i], bytes};
        good = apart(in, out) && apart(in, workspace) && (in.at == made.at || apart(in, made));
    }
    return good;
}

hr_status hri_reduction_launch_made(const hri_gpu_call *maker, const hri_gpu_call *again,
                                    const hri_reduction *r, hr_addr out, hr_addr workspace) {
    const hri_sig *s = maker->sig;
    const hr_type type = s->out[0].type;
    if (s->in_count != 2 || s->op->scalar->arity != 2 || r->results == 0 || r->outer != 1 ||
        r->inner == 1 || s->in[0].type != s->out[0].type || s->in[1].type != s->out[0].type ||
        hr_meta_bytes(&s->in[0]) != hr_meta_bytes(&s->out[0]) ||
        hr_meta_bytes(&s->in[1]) != hr_meta_bytes(&s->out[0]) ||
        !hri_launch_wide(maker->in[0] | maker->in[1] | maker->out[0] | out |
                         (again ? again->out[0] : 0))) {
        return HR_E_UNSUPPORTED;
    }
    const cut c = cut_of(r, type, 1);
    const range sums = {out, (uint64_t)r->results * hr_type_bytes(type)};
    const range parts_at = {workspace, hri_reduction_launch_workspace(r, type)};
    if (!places_allow(maker, again, sums, parts_at)) {
        return HR_E_UNSUPPORTED;
    }
    struct {
        hr_addr a, b, made, again;
    } source = {maker->in[0], maker->in[1], maker->out[0], again ? again->out[0] : 0};
    hr_addr partial = c.parts > 1 ? workspace : 0;
    int64_t middle = r->middle, inner = r->inner, each = c.each;
    uint32_t parts = (uint32_t)c.parts, tiles = (uint32_t)c.tiles, across = c.across;
    float scale = 1.0f;
    const hri_gpu_grid grid = columns_grid(r, &c);
    const hr_status status =
        hri_scalar_launch_in(maker, again, &hri_cu_reduce, columns_of(&c), c.width, &grid,
                             HRI_GPU_ARGS(&source, &out, &partial, &middle, &inner, &each, &parts,
                                          &tiles, &across, &scale));
    return status != HR_OK || c.parts == 1
               ? status
               : launch_combine(maker->gpu, r, &c, hri_launch_t(type, c.width).text, workspace, out,
                                scale);
}
