/* Patches of conv_patches.h. */
#include "ops/common/conv_patches.h"

#include <string.h>

#include "ops/common/blocks.h"

enum { FETCH_MAX = HRI_GEMM_KC };

static const float zeros[FETCH_MAX];

/* `count` numbers from number `off` on of a run of pixels that starts `y` and `x` away from a place; they lie in the pixels
 * `first` to `last` behind it.  Divisions are made here, once for many places. */
typedef struct piece {
    int64_t y, x, off, count, first, last;
} piece;

static piece piece_of(const hri_conv_image *m, int64_t y, int64_t x, int64_t off, int64_t count) {
    return (piece){.y = y,
                   .x = x,
                   .off = off,
                   .count = count,
                   .first = x + off / m->cg,
                   .last = x + (off + count - 1) / m->cg};
}

/* The piece at the place (n, y, x): straight from the image where that is possible, else put together in `room`. */
static const float *fetch(const hri_conv_image *m, int64_t group, int64_t n, int64_t y, int64_t x,
                          const piece *p, float *room) {
    y += p->y;
    if (y < 0 || y >= m->h || x + p->last < 0 || x + p->first >= m->w) {
        return zeros;
    }
    const int64_t at = ((n * m->h + y) * m->w + x + p->x) * m->c + group * m->cg + p->off;
    int64_t begin = 0, end = p->count;
    if (x + p->first < 0 || x + p->last >= m->w) { /* one group then: its numbers are the pixels' */
        const int64_t left = -(x + p->x) * m->cg - p->off;
        const int64_t right = (m->w - x - p->x) * m->cg - p->off;
        begin = left > 0 ? left : 0;
        end = right < end ? right : end;
    } else if (m->type == HR_TYPE_F32) {
        return (const float *)m->data + at;
    }
    for (int64_t k = 0; k < begin; k++) {
        room[k] = 0.0f;
    }
    for (int64_t k = begin; k < end; k++) {
        room[k] = hri_real_at(m->type, m->data, at + k);
    }
    for (int64_t k = end; k < p->count; k++) {
        room[k] = 0.0f;
    }
    return room;
}

/* ---- patches: what forward and weights read of x, and input of dy ---- */

/* Places of the grid: (n, y, x) of its pixel, from number `at` on. */
enum { PLACES = HRI_GEMM_MR };

typedef struct places {
    int64_t n[PLACES], y[PLACES], x[PLACES];
} places;

static void places_of(const hri_conv_patches *p, int64_t at, int64_t count, places *out) {
    int64_t gx = at % p->gw, gy = at / p->gw % p->gh, n = at / p->gw / p->gh;
    for (int64_t i = 0; i < count; i++) {
        out->n[i] = n;
        out->y[i] = gy * p->sh;
        out->x[i] = gx * p->sw;
        if (++gx == p->gw) {
            gx = 0;
            gy = gy + 1 < p->gh ? gy + 1 : 0;
            n += gy == 0;
        }
    }
}

/* Rows are places, the depth is (run, number). */
void hri_pack_patches(const hri_gemm *g, int64_t group, int64_t first, int64_t count, int64_t k0,
                      int64_t kc, float *to) {
    const hri_conv_patches *p = g->ctx;
    float room[HRI_GEMM_MR][FETCH_MAX];
    for (int64_t i = 0; i < count; i += HRI_GEMM_MR) {
        const int64_t rows = count - i < HRI_GEMM_MR ? count - i : HRI_GEMM_MR;
        places at;
        places_of(p, first + i, rows, &at);
        for (int64_t k = k0; k < k0 + kc;) {
            const int64_t off = k % p->depth;
            const int64_t left = p->depth - off < k0 + kc - k ? p->depth - off : k0 + kc - k;
            const hri_conv_tap t = hri_conv_tap_of(p, k / p->depth);
            const piece part = piece_of(&p->from, t.y, t.x, off, left);
            const float *row[HRI_GEMM_MR];
            for (int64_t r = 0; r < HRI_GEMM_MR; r++) {
                row[r] = r < rows
                             ? fetch(&p->from, group, at.n[r], at.y[r], at.x[r], &part, room[r])
                             : zeros;
            }
            hri_pack_turn8(row, left, to);
            to += left * HRI_GEMM_MR;
            k += left;
        }
    }
}

/* Rows of a panel that are places side by side in one line of the image, all of the piece inside: the first of them, else
 * NULL. */
static const float *side_by_side(const hri_conv_image *m, int64_t group, const places *at,
                                 const piece *p) {
    const int64_t y = at->y[0] + p->y, last = PLACES - 1;
    if (at->y[0] != at->y[last] || at->n[0] != at->n[last] || y < 0 || y >= m->h ||
        at->x[0] + p->first < 0 || at->x[last] + p->last >= m->w) {
        return NULL;
    }
    return (const float *)m->data + ((at->n[0] * m->h + y) * m->w + at->x[0] + p->x) * m->c +
           group * m->cg + p->off;
}

/* Lines for hri_pack_patches: most pieces are in the image as they are, those that reach beyond it are put together. */
int hri_lines_patches(const hri_gemm *g, int64_t group, int64_t first, int64_t count, int64_t k0,
                      int64_t kc, float *room, hri_gemm_lines *out) {
    const hri_conv_patches *p = g->ctx;
    piece part[HRI_GEMM_KC / HRI_GEMM_PIECE + 2];
    float *const end = room + HRI_GEMM_MC * kc;
    if (p->from.type != HR_TYPE_F32 || p->depth < HRI_GEMM_PIECE || g->n <= 16) {
        return 0;
    }
    int64_t pieces = 0;
    for (int64_t k = k0; k < k0 + kc; k += part[pieces++].count) {
        const int64_t off = k % p->depth;
        const int64_t left = p->depth - off < k0 + kc - k ? p->depth - off : k0 + kc - k;
        const hri_conv_tap t = hri_conv_tap_of(p, k / p->depth);
        part[pieces] = piece_of(&p->from, t.y, t.x, off, left);
        out->length[pieces] = left;
    }
    out->pieces = pieces;
    const int64_t panels = (count + HRI_GEMM_MR - 1) / HRI_GEMM_MR;
    const float **at = (const float **)(void *)room;
    room = (float *)(void *)(at + panels * pieces * HRI_GEMM_MR);
    for (int64_t i = 0; i < count; i += HRI_GEMM_MR) {
        const int64_t rows = count - i < HRI_GEMM_MR ? count - i : HRI_GEMM_MR;
        places from;
        places_of(p, first + i, rows, &from);
        out->panel[i / HRI_GEMM_MR].at = at;
        for (int64_t q = 0; q < pieces; q++, at += HRI_GEMM_MR) {
            const float *const x =
                rows == PLACES ? side_by_side(&p->from, group, &from, &part[q]) : NULL;
            for (int64_t r = 0; x && r < PLACES; r++) {
                at[r] = x + r * p->sw * p->from.c;
            }
            for (int64_t r = 0; !x && r < PLACES; r++) {
                if (end - room < part[q].count) {
                    return 0;
                }
                at[r] = r < rows ? fetch(&p->from, group, from.n[r], from.y[r], from.x[r], &part[q],
                                         room)
                                 : at[0];
                room += at[r] == room ? part[q].count : 0;
            }
        }
    }
    return 1;
}

/* Rows `count` long, one a place, to depth k of the panels: a panel is written in one go for all of them, because panels lie
 * a power of two apart and would push one another out of the cache. */
static void put_places(const float (*rows)[HRI_GEMM_MC], int64_t width, int64_t count, int64_t k,
                       int64_t kc, float *to) {
    for (int64_t i = 0; i < count; i += HRI_GEMM_MR) {
        float *panel = to + i * kc + k * HRI_GEMM_MR;
        for (int64_t q = 0; q < width; q++) {
            memcpy(panel + q * HRI_GEMM_MR, rows[q] + i, HRI_GEMM_MR * sizeof *panel);
        }
    }
}

/* Rows are (run, number), the depth is places: each place is fetched once for all panels. */
void hri_pack_patches_t(const hri_gemm *g, int64_t group, int64_t first, int64_t count, int64_t k0,
                        int64_t kc, float *to) {
    const hri_conv_patches *p = g->ctx;
    float room[FETCH_MAX], rows[PLACES][HRI_GEMM_MC];
    piece part[HRI_GEMM_MC];
    const int64_t padded = (count + HRI_GEMM_MR - 1) / HRI_GEMM_MR * HRI_GEMM_MR;
    int64_t pieces = 0;
    for (int64_t i = 0; i < count; i += part[pieces++].count) {
        const int64_t off = (first + i) % p->depth;
        const int64_t left = p->depth - off < count - i ? p->depth - off : count - i;
        const hri_conv_tap t = hri_conv_tap_of(p, (first + i) / p->depth);
        part[pieces] = piece_of(&p->from, t.y, t.x, off, left);
    }
    memset(rows, 0, sizeof rows);
    for (int64_t k = 0; k < kc; k += PLACES) {
        const int64_t width = kc - k < PLACES ? kc - k : PLACES;
        places at;
        places_of(p, k0 + k, width, &at);
        for (int64_t j = 0, i = 0; j < pieces; i += part[j++].count) {
            const size_t bytes = (size_t)part[j].count * sizeof(float);
            const float *x = width == PLACES && p->from.type == HR_TYPE_F32
                                 ? side_by_side(&p->from, group, &at, &part[j])
                                 : NULL;
            for (int64_t q = 0; q < width; q++) {
                const float *from =
                    x ? x + q * p->sw * p->from.c
                      : fetch(&p->from, group, at.n[q], at.y[q], at.x[q], &part[j], room);
                memcpy(rows[q] + i, from, bytes);
            }
        }
        put_places(rows, width, padded, k, kc, to);
    }
}

hri_conv_patches hri_conv_patches_of(const hri_conv *v, hr_type type, const void *x) {
    /* Taps side by side are one run when their pixels are. */
    const int64_t run = v->groups == 1 && v->dw == 1 && v->kw * v->cg <= FETCH_MAX ? v->kw : 1;
    return (hri_conv_patches){.from = {type, x, v->h, v->w, v->c, v->cg},
                              .gh = v->oh,
                              .gw = v->ow,
                              .sh = v->sh,
                              .sw = v->sw,
                              .depth = run * v->cg,
                              .kw = v->kw / run,
                              .v = v};
}
