/* Wheels of blocks, blocks that fill the slack, and lives that were cut short.
 *
 * A wheel is five blocks around one another, which no two of them start: one that lives long at the bottom and one at the
 * top, one beside each, and one in the middle (or nothing).  See pack_blocks.c. */
#include <string.h>

#include "plan/pack_blocks.h"

enum { STRETCH_MOST = 48 }; /* sections */

/* ---- wheels: five around one another, which no two of them start ---- */

typedef struct wheel {
    uint32_t low, high, left, right, middle; /* blocks */
    uint64_t size;
    double cost;
} wheel;

/* Blocks by their begin. */
static void list_begins(hri_pack_builder *b) {
    for (uint32_t s = 0; s <= b->p->sections; s++) {
        b->first[s] = HRI_PACK_NO_BLOCK;
    }
    for (uint32_t n = b->live_count; n-- > 0;) {
        const uint32_t begin = b->blocks[b->live[n]].begin;
        b->next[b->live[n]] = b->first[begin];
        b->first[begin] = b->live[n];
    }
}

/* The one of that life whose size is nearest. */
static uint32_t find_life(const hri_pack_builder *b, uint32_t begin, uint32_t end, uint64_t size) {
    uint32_t best = HRI_PACK_NO_BLOCK;
    uint64_t best_off = 0;
    for (uint32_t id = b->first[begin]; id != HRI_PACK_NO_BLOCK; id = b->next[id]) {
        const hri_pack_block *x = &b->blocks[id];
        if (x->end == end) {
            const uint64_t off = x->size > size ? x->size - size : size - x->size;
            if (best == HRI_PACK_NO_BLOCK || off < best_off) {
                best = id;
                best_off = off;
            }
        }
    }
    return best;
}

/* low lives in [a, x2), high in [x1, b): left must live in [a, x1) on low, right in [x2, b) below high. */
static int make_wheel(const hri_pack_builder *b, uint32_t low, uint32_t high, uint32_t left,
                      wheel *w) {
    const hri_pack_block *l = &b->blocks[low], *h = &b->blocks[high];
    const uint64_t side = l->size + b->blocks[left].size;
    if (side < h->size) {
        return 0;
    }
    const uint32_t right = find_life(b, l->end, h->end, side - h->size);
    if (right == HRI_PACK_NO_BLOCK) {
        return 0;
    }
    const uint64_t other = b->blocks[right].size + h->size;
    const uint64_t most = side > other ? side : other;
    const uint32_t middle =
        find_life(b, h->begin, l->end, most > l->size + h->size ? most - l->size - h->size : 0);
    const uint64_t inner =
        l->size + h->size + (middle == HRI_PACK_NO_BLOCK ? 0 : b->blocks[middle].size);
    const uint64_t size = most > inner ? most : inner;
    const uint32_t a = l->begin, x1 = h->begin, x2 = l->end, end = h->end;
    if (!hri_pack_can_spare(b, a, x1, size - side) ||
        !hri_pack_can_spare(b, x1, x2, size - inner) ||
        !hri_pack_can_spare(b, x2, end, size - other)) {
        return 0;
    }
    const double used =
        (double)side * (x1 - a) + (double)inner * (x2 - x1) + (double)other * (end - x2);
    *w = (wheel){low, high, left, right, middle, size, (double)size * (end - a) / used - 1.0};
    return 1;
}

/* Is it cheap enough this time? */
static int wanted(const hri_pack_builder *b, wheel *w) {
    const double chance = hri_pack_chance(b, w->low, w->high);
    w->cost *= 1.0 + b->noise * chance;
    return w->cost <= b->most_cost && !(b->noise > 0.0 && chance < HRI_PACK_SELDOM);
}

static void turn_wheel(hri_pack_builder *b, const wheel *w) {
    hri_pack_block *l = &b->blocks[w->low], *h = &b->blocks[w->high];
    hri_pack_block *left = &b->blocks[w->left], *right = &b->blocks[w->right];
    hri_pack_block z = {.begin = l->begin,
                        .end = h->end,
                        .size = w->size,
                        .parts = {w->low, w->high, w->left, w->right, w->middle},
                        .part_count = w->middle == HRI_PACK_NO_BLOCK ? 4 : 5};
    l->above = right->above = 0;
    left->above = l->size;
    h->above = right->size > l->size ? right->size : l->size;
    if (w->middle != HRI_PACK_NO_BLOCK) {
        hri_pack_block *middle = &b->blocks[w->middle];
        middle->above = l->size;
        h->above = right->size > l->size + middle->size ? right->size : l->size + middle->size;
    }
    (void)hri_pack_make_block(b, z);
}

/* The best one with that block at the bottom. */
static void find_wheel(const hri_pack_builder *b, uint32_t low, wheel *best) {
    const hri_pack_block *l = &b->blocks[low];
    wheel w;
    for (uint32_t m = b->first[l->begin]; m != HRI_PACK_NO_BLOCK; m = b->next[m]) {
        const uint32_t middle = b->blocks[m].end;
        if (middle >= l->end) {
            continue;
        }
        for (uint32_t k = b->first[middle]; k != HRI_PACK_NO_BLOCK; k = b->next[k]) {
            if (b->blocks[k].end > l->end && make_wheel(b, low, k, m, &w) && wanted(b, &w) &&
                (best->cost < 0.0 || w.cost < best->cost)) {
                *best = w;
            }
        }
    }
}

int hri_pack_join_wheel(hri_pack_builder *b) {
    wheel best = {.cost = -1.0};
    list_begins(b);
    for (uint32_t n = 0; n < b->live_count; n++) {
        find_wheel(b, b->live[n], &best);
    }
    if (best.cost < 0.0) {
        return 0;
    }
    turn_wheel(b, &best);
    return 1;
}

/* The wheel whose left side ends where only the middle and the high one begin, where nothing but these five begins or ends at
 * its inner moments: there is no doubt about that one. */
static int find_sure(const hri_pack_builder *b, uint32_t left, uint32_t middle, uint32_t high,
                     wheel *w) {
    const hri_pack_block *l = &b->blocks[left], *m = &b->blocks[middle], *h = &b->blocks[high];
    if (h->end <= m->end || b->ends[m->end] != 2 || b->begins[m->end] != 1) {
        return 0;
    }
    for (uint32_t low = b->first[l->begin]; low != HRI_PACK_NO_BLOCK; low = b->next[low]) {
        if (b->blocks[low].end == m->end) {
            return make_wheel(b, low, high, left, w);
        }
    }
    return 0;
}

int hri_pack_join_sure_wheel(hri_pack_builder *b) {
    wheel w;
    list_begins(b);
    for (uint32_t n = 0; n < b->live_count; n++) {
        const uint32_t left = b->live[n], t = b->blocks[left].end;
        if (b->ends[t] == 1 && b->begins[t] == 2) {
            const uint32_t x = b->first[t], y = b->next[x];
            if (find_sure(b, left, x, y, &w) || find_sure(b, left, y, x, &w)) {
                turn_wheel(b, &w);
                return 1;
            }
        }
    }
    return 0;
}

/* ---- what fills the slack ---- */

static void add_filler(hri_pack_builder *b, uint32_t begin, uint32_t end, uint64_t size) {
    if (b->count < 2 * b->p->count) {
        (void)hri_pack_make_block(b, (hri_pack_block){.begin = begin, .end = end, .size = size});
    }
}

/* Closes what falls away at a section: one of just that size, else the youngest. */
static void close_open(hri_pack_builder *b, uint32_t *count, uint32_t section, uint64_t fall) {
    while (fall > 0) {
        uint32_t pick = 0;
        while (pick < *count - 1 && b->open[pick].size != fall) {
            pick++;
        }
        const uint64_t size = b->open[pick].size < fall ? b->open[pick].size : fall;
        add_filler(b, b->open[pick].begin, section, size);
        fall -= size;
        b->open[pick].size -= size;
        if (b->open[pick].size == 0) {
            (*count)--;
            memmove(b->open + pick, b->open + pick + 1, (*count - pick) * sizeof *b->open);
        }
    }
}

/* Buffers that are not there: where the slack rises one begins, and where it falls by as much it ends.  When they would be
 * many, the slack has no such shape, and is left as it is. */
void hri_pack_fill_slack(hri_pack_builder *b) {
    uint32_t count = 0, rises = 0;
    for (uint32_t s = 0; s < b->p->sections; s++) {
        rises += b->slack[s] > (s ? b->slack[s - 1] : 0);
    }
    if (rises > b->p->count / 4) {
        return;
    }
    uint64_t before = 0;
    for (uint32_t s = 0; s <= b->p->sections; s++) {
        const uint64_t now = s < b->p->sections ? b->slack[s] : 0;
        if (now > before) {
            b->open[count++] = (hri_pack_opened){s, now - before};
        } else if (now < before) {
            close_open(b, &count, s, before - now);
        }
        before = now;
    }
}

/* ---- lives that were cut short ---- */

/* How well the bytes that lack at one moment and those that are too many at another go with a size. */
typedef enum match { NEARLY, ONE_SIDE, BOTH_SIDES } match;

static int goes_with(uint64_t bytes, uint64_t size) {
    return bytes >= size - size / 8;
}

/* What ends at `from`, or begins at `to`, has that size: may it live on from one to the other? */
static int may_bridge(const hri_pack_builder *b, uint32_t from, uint32_t to, uint64_t size,
                      match least) {
    if (from == 0 || to >= b->p->sections || b->slack[from] <= b->slack[from - 1] ||
        b->slack[to - 1] <= b->slack[to]) {
        return 0;
    }
    const uint64_t begins = b->slack[from] - b->slack[from - 1]; /* that lack */
    const uint64_t ends = b->slack[to - 1] - b->slack[to];
    const match found = (match)((begins == size) + (ends == size));
    return found >= least && goes_with(begins, size) && goes_with(ends, size) &&
           hri_pack_can_spare(b, from, to, size);
}

static void set_life(hri_pack_builder *b, uint32_t id, uint32_t begin, uint32_t end) {
    hri_pack_block *x = &b->blocks[id];
    for (uint32_t s = begin; s < end; s++) {
        b->slack[s] -= s < x->begin || s >= x->end ? x->size : 0;
    }
    b->begins[x->begin]--;
    b->ends[x->end]--;
    x->begin = begin;
    x->end = end;
    b->begins[begin]++;
    b->ends[end]++;
}

static void stretch_all(hri_pack_builder *b, uint32_t d, match least) {
    for (uint32_t id = 0; id < b->p->count; id++) {
        const hri_pack_block *x = &b->blocks[id];
        if (b->begins[x->end] == 0 && may_bridge(b, x->end, x->end + d, x->size, least)) {
            set_life(b, id, x->begin, x->end + d);
        }
        if (x->begin > d && b->ends[x->begin] == 0 &&
            may_bridge(b, x->begin - d, x->begin, x->size, least)) {
            set_life(b, id, x->begin - d, x->end);
        }
    }
}

void hri_pack_stretch(hri_pack_builder *b) {
    for (int least = BOTH_SIDES; least >= (int)NEARLY; least--) {
        for (uint32_t d = 1; d <= STRETCH_MOST; d++) {
            stretch_all(b, d, (match)least);
        }
    }
    for (uint32_t id = 0; id < b->p->count; id++) { /* to the end of all, and to the beginning */
        const hri_pack_block *x = &b->blocks[id];
        if (b->begins[x->end] == 0 && hri_pack_can_spare(b, x->end, b->p->sections, x->size)) {
            set_life(b, id, x->begin, b->p->sections);
        }
        if (b->ends[x->begin] == 0 && hri_pack_can_spare(b, 0, x->begin, x->size)) {
            set_life(b, id, 0, x->end);
        }
    }
}
