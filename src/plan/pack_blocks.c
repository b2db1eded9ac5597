/* Packing by blocks: buffers that make a rectangle together are one buffer from then on.
 *
 * In a problem that leaves hardly any room, what ends at a moment is followed by what begins there: two buffers of one
 * size, one after the other, or two with one life, one on the other, are a block.  Blocks are joined to larger ones, those
 * first that waste the least and leave the least doubt, as long as every section can spare what is wasted.  Two of one life
 * are in little doubt where one beside them is as large as both (a witness); a careful builder joins others only when
 * nothing better is left.
 *
 * No join is safe, so they come apart again where that helps (pack_regroup.c).  The joins are a tree: a block knows its
 * parts, the one that it went into and how high it lies there. */
#include "plan/pack_blocks.h"

#include <string.h>

#define MOST_DOUBT 0.05 /* that a witness may leave */
#define OTHERS     4.0 /* pairs of others at a moment that make a row as doubtful as it is costly */
#define UNSURE     8.0 /* added to the cost of joins that a careful builder makes last */

typedef hri_pack_block block;
typedef hri_pack_builder builder;

uint64_t hri_pack_mix(uint64_t z) {
    z *= 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

double hri_pack_chance(const builder *b, uint32_t x, uint32_t y) {
    const uint64_t low = x < y ? x : y, high = x < y ? y : x;
    return (double)(hri_pack_mix(b->seed + (low << 32) + high + 1) >> 11) * 0x1p-53;
}

int hri_pack_can_spare(const builder *b, uint32_t begin, uint32_t end, uint64_t bytes) {
    for (uint32_t s = begin; bytes > 0 && s < end; s++) {
        if (b->slack[s] < bytes) {
            return 0;
        }
    }
    return 1;
}

/* ---- what a join costs: bytes wasted, as a part of those used; negative: it cannot be ---- */

/* How far the block beside them that is nearest to it is from being as large as both. */
static double witness_cost(const builder *b, const block *x, const block *y) {
    const uint64_t both = x->size + y->size;
    uint64_t least = both;
    for (uint32_t n = 0; n < b->live_count; n++) {
        const block *z = &b->blocks[b->live[n]];
        if (z->end == x->begin || z->begin == x->end) {
            const uint64_t off = z->size > both ? z->size - both : both - z->size;
            least = off < least ? off : least;
        }
    }
    return (double)least / (double)both;
}

/* Do all that end or begin then lie at one place?  Every place has one of either at least. */
static int one_place(const builder *b, uint32_t t) {
    return b->begins[t] <= 1 || b->ends[t] <= 1;
}

/* One on the other: each wastes its size where only the other lives. */
static double cost_of_stack(const builder *b, const block *x, const block *y) {
    const uint32_t begin = x->begin < y->begin ? x->begin : y->begin;
    const uint32_t end = x->end > y->end ? x->end : y->end;
    const int one_life = x->begin == y->begin && x->end == y->end;
    if (one_life && b->shapely && one_place(b, x->begin) && one_place(b, x->end)) {
        return 0.0;
    }
    if (one_life && b->careful) {
        const double cost = witness_cost(b, x, y);
        if (cost <= b->most_cost && cost <= MOST_DOUBT) {
            return cost;
        }
    }
    if (!hri_pack_can_spare(b, begin, x->begin, x->size) ||
        !hri_pack_can_spare(b, x->end, end, x->size) ||
        !hri_pack_can_spare(b, begin, y->begin, y->size) ||
        !hri_pack_can_spare(b, y->end, end, y->size)) {
        return -1.0;
    }
    const double used =
        (double)x->size * (x->end - x->begin) + (double)y->size * (y->end - y->begin);
    const double cost = (double)(x->size + y->size) * (end - begin) / used - 1.0;
    return b->careful && cost <= b->most_cost ? UNSURE + cost : cost;
}

/* One after the other: the smaller wastes what it is smaller by, and both the time between them. */
static double cost_of_row(const builder *b, const block *x, const block *y) {
    const uint64_t size = x->size > y->size ? x->size : y->size;
    if (!hri_pack_can_spare(b, x->end, y->begin, size) ||
        !hri_pack_can_spare(b, x->begin, x->end, size - x->size) ||
        !hri_pack_can_spare(b, y->begin, y->end, size - y->size)) {
        return -1.0;
    }
    const double used =
        (double)x->size * (x->end - x->begin) + (double)y->size * (y->end - y->begin);
    return (double)size * (y->end - x->begin) / used - 1.0;
}

/* How little is known of a row: where only one ends and only one begins they lie at one place however much they differ in size, and
 * the more others there are, the more alike they must be. */
static double doubt_of_row(const builder *b, const block *x, const block *y) {
    return x->end == y->begin ? (double)(b->ends[x->end] * b->begins[x->end] - 1) : OTHERS;
}

static double cost_of_pair(const builder *b, const block *x, const block *y, double *doubt) {
    *doubt = OTHERS;
    if (x->begin < y->end && y->begin < x->end) {
        return cost_of_stack(b, x, y);
    }
    const block *first = x->begin < y->begin ? x : y, *second = first == x ? y : x;
    *doubt = doubt_of_row(b, first, second);
    return cost_of_row(b, first, second);
}

static double cost_of(const builder *b, uint32_t i, uint32_t k) {
    double doubt;
    double cost = cost_of_pair(b, &b->blocks[i], &b->blocks[k], &doubt);
    if (b->shapely && cost >= 0.0 && doubt <= 0.0) {
        return 0.0;
    }
    if (cost < 0.0 || (cost > b->most_cost && cost < UNSURE)) {
        return -1.0;
    }
    const double sure = cost < UNSURE ? 0.0 : UNSURE, chance = hri_pack_chance(b, i, k);
    if (b->noise > 0.0 && chance < HRI_PACK_SELDOM) {
        return -1.0; /* what looks best may be wrong */
    }
    cost = sure + (cost - sure) * (1.0 + b->noise * chance);
    if (cost - sure > b->most_cost) {
        return -1.0;
    }
    return b->shapely && cost < UNSURE ? cost * doubt / OTHERS : cost;
}

/* ---- joining ---- */

static void find_partner(builder *b, uint32_t i) {
    block *x = &b->blocks[i];
    x->cost = -1.0;
    x->doubt = 0;
    for (uint32_t n = 0; n < b->live_count; n++) {
        const uint32_t k = b->live[n];
        const double cost = k == i ? -1.0 : cost_of(b, i, k);
        if (cost < 0.0) {
            continue;
        }
        if (x->cost < 0.0 || cost < x->cost) {
            x->doubt = 0;
        } else if (cost > x->cost) {
            continue;
        }
        x->doubt++;
        if (x->doubt == 1 || hri_pack_chance(b, i, k) < hri_pack_chance(b, i, x->partner)) {
            x->cost = cost;
            x->partner = k;
        }
    }
}

static void drop_live(builder *b, uint32_t i) {
    uint32_t n = 0;
    while (b->live[n] != i) {
        n++;
    }
    b->live[n] = b->live[--b->live_count];
    b->begins[b->blocks[i].begin]--;
    b->ends[b->blocks[i].end]--;
}

static void add_live(builder *b, uint32_t i) {
    b->live[b->live_count++] = i;
    b->begins[b->blocks[i].begin]++;
    b->ends[b->blocks[i].end]++;
}

/* What the block takes beyond its parts goes off the slack, or comes back. */
static void account(builder *b, const block *z, int back) {
    for (uint32_t s = z->begin; s < z->end; s++) {
        b->slack[s] += back ? z->size : -z->size; /* wraps, and is right in the end */
    }
    for (uint32_t i = 0; i < z->part_count; i++) {
        const block *x = &b->blocks[z->parts[i]];
        for (uint32_t s = x->begin; s < x->end; s++) {
            b->slack[s] += back ? -x->size : x->size;
        }
    }
}

uint32_t hri_pack_make_block(builder *b, block z) {
    const uint32_t at = b->spare_count ? b->spare[--b->spare_count] : b->count++;
    z.parent = HRI_PACK_NO_BLOCK;
    b->blocks[at] = z;
    account(b, &z, 0);
    for (uint32_t i = 0; i < z.part_count; i++) {
        b->blocks[z.parts[i]].parent = at;
        drop_live(b, z.parts[i]);
    }
    add_live(b, at);
    return at;
}

void hri_pack_part(builder *b, uint32_t at) {
    block *z = &b->blocks[at];
    account(b, z, 1);
    drop_live(b, at);
    for (uint32_t i = 0; i < z->part_count; i++) {
        b->blocks[z->parts[i]].parent = HRI_PACK_NO_BLOCK;
        add_live(b, z->parts[i]);
    }
    z->part_count = 0;
    b->spare[b->spare_count++] = at;
}

static uint32_t join(builder *b, uint32_t i, uint32_t k) {
    block *x = &b->blocks[i], *y = &b->blocks[k];
    block z = {.parts = {i, k}, .part_count = 2};
    z.begin = x->begin < y->begin ? x->begin : y->begin;
    z.end = x->end > y->end ? x->end : y->end;
    x->above = y->above = 0;
    if (x->begin < y->end && y->begin < x->end) {
        z.size = x->size + y->size;
        y->above = x->size;
    } else {
        z.size = x->size > y->size ? x->size : y->size;
    }
    return hri_pack_make_block(b, z);
}

static int better(const builder *b, uint32_t i, uint32_t k) {
    const block *x = &b->blocks[i], *y = &b->blocks[k];
    if (x->cost != y->cost) {
        return x->cost < y->cost;
    }
    if (x->doubt != y->doubt) {
        return x->doubt < y->doubt;
    }
    return hri_pack_chance(b, i, i) < hri_pack_chance(b, k, k);
}

static void refresh_partners(builder *b, uint32_t i, uint32_t k, uint32_t at) {
    const block *z = &b->blocks[at];
    find_partner(b, at);
    for (uint32_t n = 0; n < b->live_count; n++) {
        const uint32_t id = b->live[n];
        block *x = &b->blocks[id];
        if (id == at) {
            continue;
        }
        const int beside = x->begin == z->end || x->end == z->begin; /* it may be a witness */
        if ((x->cost >= 0.0 && (x->partner == i || x->partner == k)) || (b->careful && beside)) {
            find_partner(b, id);
            continue;
        }
        const double cost = cost_of(b, id, at);
        if (cost >= 0.0 && (x->cost < 0.0 || cost <= x->cost)) {
            x->doubt = x->cost == cost ? x->doubt + 1 : 1;
            x->cost = cost;
            x->partner = at;
        }
    }
}

static void find_partners(builder *b) {
    for (uint32_t n = 0; n < b->live_count; n++) {
        find_partner(b, b->live[n]);
    }
}

void hri_pack_join_all(builder *b, uint32_t least) {
    find_partners(b);
    while (b->live_count > least) {
        uint32_t best = HRI_PACK_NO_BLOCK;
        for (uint32_t n = 0; n < b->live_count; n++) {
            const uint32_t id = b->live[n];
            if (b->blocks[id].cost >= 0.0 && (best == HRI_PACK_NO_BLOCK || better(b, id, best))) {
                best = id;
            }
        }
        const int sure = best != HRI_PACK_NO_BLOCK && b->blocks[best].cost < UNSURE;
        if (b->shapely && !(sure && b->blocks[best].cost <= 0.0) && hri_pack_join_sure_wheel(b)) {
            find_partners(b);
            continue;
        }
        if (!sure && hri_pack_join_wheel(b)) {
            find_partners(b);
            continue;
        }
        if (best == HRI_PACK_NO_BLOCK) {
            return;
        }
        const uint32_t partner = b->blocks[best].partner;
        if (cost_of(b, best, partner) < 0.0) { /* the slack went elsewhere */
            find_partner(b, best);
            continue;
        }
        refresh_partners(b, best, partner, join(b, best, partner));
    }
}
