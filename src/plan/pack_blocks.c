/* Packing by blocks: buffers that make a rectangle together are one buffer from then on.
 *
 * In a problem that leaves hardly any room, what ends at a moment is followed by what begins there: two buffers of one
 * size, one after the other, or two with one life, one on the other, are a block.  Blocks are joined to larger ones, those
 * first that waste the least and leave the least doubt, as long as every section can spare what is wasted; the blocks that
 * are left are few, and exact search decides them.  No join is safe, so it is tried again and again, a little differently
 * each time and with more or less waste allowed; failing proves nothing.
 *
 * The joins are a tree: a block knows the one that it went into and how high it lies there. */
#include <string.h>

#include "base/alloc.h"
#include "plan/pack_int.h"

enum { NONE = UINT32_MAX };

typedef struct block {
    uint32_t begin, end;
    uint64_t size;
    uint32_t parent; /* NONE: not joined */
    uint64_t above;  /* bytes above the bottom of its parent */
    double cost;     /* of the best join that is known; negative: none */
    uint32_t partner, doubt;
} block;

typedef struct opened {
    uint32_t begin;
    uint64_t size;
} opened;

typedef struct builder {
    const hri_pack_problem *p;
    block *blocks;  /* the buffers, what fills the slack, then the joins */
    uint32_t *live; /* those not joined */
    uint32_t live_count, count;
    uint64_t *slack; /* (sections): what can still be wasted */
    opened *open;    /* (sections): what fills the slack and has not ended */
    int shy;         /* puts one on the other only where something beside them says so */
    uint64_t seed;
    double noise, most_cost;
} builder;

static uint64_t mix(uint64_t z) {
    z *= 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Between 0 and 1, the same for the same pair. */
static double chance(const builder *b, uint32_t x, uint32_t y) {
    const uint64_t low = x < y ? x : y, high = x < y ? y : x;
    return (double)(mix(b->seed + (low << 32) + high + 1) >> 11) * 0x1p-53;
}

static int can_spare(const builder *b, uint32_t begin, uint32_t end, uint64_t bytes) {
    for (uint32_t s = begin; bytes > 0 && s < end; s++) {
        if (b->slack[s] < bytes) {
            return 0;
        }
    }
    return 1;
}

static void waste(builder *b, uint32_t begin, uint32_t end, uint64_t bytes) {
    for (uint32_t s = begin; s < end; s++) {
        b->slack[s] -= bytes;
    }
}

/* Is there a block just before or after them as large as both? */
static int has_witness(const builder *b, const block *x, const block *y) {
    for (uint32_t n = 0; n < b->live_count; n++) {
        const block *z = &b->blocks[b->live[n]];
        if ((z->end == x->begin || z->begin == x->end) && z->size == x->size + y->size) {
            return 1;
        }
    }
    return 0;
}

/* One on the other: each wastes its size where only the other lives. */
static double cost_of_stack(const builder *b, const block *x, const block *y) {
    const uint32_t begin = x->begin < y->begin ? x->begin : y->begin;
    const uint32_t end = x->end > y->end ? x->end : y->end;
    if (b->shy && !(x->begin == y->begin && x->end == y->end && has_witness(b, x, y))) {
        return -1.0;
    }
    if (!can_spare(b, begin, x->begin, x->size) || !can_spare(b, x->end, end, x->size) ||
        !can_spare(b, begin, y->begin, y->size) || !can_spare(b, y->end, end, y->size)) {
        return -1.0;
    }
    const double used =
        (double)x->size * (x->end - x->begin) + (double)y->size * (y->end - y->begin);
    return (double)(x->size + y->size) * (end - begin) / used - 1.0;
}

/* One after the other: the smaller wastes what it is smaller by, and both the time between them. */
static double cost_of_row(const builder *b, const block *x, const block *y) {
    const uint64_t size = x->size > y->size ? x->size : y->size;
    if (!can_spare(b, x->end, y->begin, size) || !can_spare(b, x->begin, x->end, size - x->size) ||
        !can_spare(b, y->begin, y->end, size - y->size)) {
        return -1.0;
    }
    const double used =
        (double)x->size * (x->end - x->begin) + (double)y->size * (y->end - y->begin);
    return (double)size * (y->end - x->begin) / used - 1.0;
}

static double cost_of(const builder *b, uint32_t i, uint32_t k) {
    const block *x = &b->blocks[i], *y = &b->blocks[k];
    const double cost = x->begin < y->end && y->begin < x->end ? cost_of_stack(b, x, y)
                        : x->begin < y->begin                  ? cost_of_row(b, x, y)
                                                               : cost_of_row(b, y, x);
    if (cost < 0.0) {
        return cost;
    }
    return cost * (1.0 + b->noise * chance(b, i, k));
}

static void find_partner(builder *b, uint32_t i) {
    block *x = &b->blocks[i];
    x->cost = -1.0;
    x->doubt = 0;
    for (uint32_t n = 0; n < b->live_count; n++) {
        const uint32_t k = b->live[n];
        const double cost = k == i ? -1.0 : cost_of(b, i, k);
        if (cost < 0.0 || cost > b->most_cost) {
            continue;
        }
        if (x->cost < 0.0 || cost < x->cost) {
            x->doubt = 0;
        } else if (cost > x->cost) {
            continue;
        }
        x->doubt++;
        if (x->doubt == 1 || chance(b, i, k) < chance(b, i, x->partner)) {
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
}

static uint32_t join(builder *b, uint32_t i, uint32_t k) {
    const uint32_t at = b->count++;
    block *x = &b->blocks[i], *y = &b->blocks[k], *z = &b->blocks[at];
    *z = (block){.parent = NONE};
    z->begin = x->begin < y->begin ? x->begin : y->begin;
    z->end = x->end > y->end ? x->end : y->end;
    x->parent = y->parent = at;
    x->above = y->above = 0;
    if (x->begin < y->end && y->begin < x->end) {
        z->size = x->size + y->size;
        y->above = x->size;
        waste(b, z->begin, x->begin, x->size);
        waste(b, x->end, z->end, x->size);
        waste(b, z->begin, y->begin, y->size);
        waste(b, y->end, z->end, y->size);
    } else {
        z->size = x->size > y->size ? x->size : y->size;
        waste(b, x->begin, x->end, z->size - x->size);
        waste(b, y->begin, y->end, z->size - y->size);
        waste(b, x->end < y->end ? x->end : y->end, x->begin > y->begin ? x->begin : y->begin,
              z->size);
    }
    drop_live(b, i);
    drop_live(b, k);
    b->live[b->live_count++] = at;
    return at;
}

static int better(const builder *b, uint32_t i, uint32_t k) {
    const block *x = &b->blocks[i], *y = &b->blocks[k];
    if (x->cost != y->cost) {
        return x->cost < y->cost;
    }
    if (x->doubt != y->doubt) {
        return x->doubt < y->doubt;
    }
    return chance(b, i, i) < chance(b, k, k);
}

static void refresh_partners(builder *b, uint32_t i, uint32_t k, uint32_t at) {
    find_partner(b, at);
    for (uint32_t n = 0; n < b->live_count; n++) {
        const uint32_t id = b->live[n];
        block *x = &b->blocks[id];
        if (id == at) {
            continue;
        }
        if (x->cost >= 0.0 && (x->partner == i || x->partner == k)) {
            find_partner(b, id);
            continue;
        }
        const double cost = cost_of(b, id, at);
        if (cost >= 0.0 && cost <= b->most_cost && (x->cost < 0.0 || cost <= x->cost)) {
            x->doubt = x->cost == cost ? x->doubt + 1 : 1;
            x->cost = cost;
            x->partner = at;
        }
    }
}

static void join_all(builder *b) {
    for (uint32_t n = 0; n < b->live_count; n++) {
        find_partner(b, b->live[n]);
    }
    for (;;) {
        uint32_t best = NONE;
        for (uint32_t n = 0; n < b->live_count; n++) {
            const uint32_t id = b->live[n];
            if (b->blocks[id].cost >= 0.0 && (best == NONE || better(b, id, best))) {
                best = id;
            }
        }
        if (best == NONE) {
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

/* ---- wheels: five around one another, which no two of them start ---- */

typedef struct wheel {
    uint32_t low, high, left, right, middle; /* blocks */
    uint64_t size;
    double cost;
} wheel;

static uint32_t find_life(const builder *b, uint32_t begin, uint32_t end, uint64_t size) {
    uint32_t best = NONE;
    uint64_t best_off = 0;
    for (uint32_t n = 0; n < b->live_count; n++) {
        const block *x = &b->blocks[b->live[n]];
        if (x->begin == begin && x->end == end) {
            const uint64_t off = x->size > size ? x->size - size : size - x->size;
            if (best == NONE || off < best_off) {
                best = b->live[n];
                best_off = off;
            }
        }
    }
    return best;
}

/* low lives in [a, x2), high in [x1, b): left must live in [a, x1) on low, right in [x2, b) below high. */
static int make_wheel(const builder *b, uint32_t low, uint32_t high, uint32_t left, wheel *w) {
    const block *l = &b->blocks[low], *h = &b->blocks[high];
    const uint64_t side = l->size + b->blocks[left].size;
    if (side < h->size) {
        return 0;
    }
    const uint32_t right = find_life(b, l->end, h->end, side - h->size);
    if (right == NONE) {
        return 0;
    }
    const uint64_t other = b->blocks[right].size + h->size;
    const uint64_t most = side > other ? side : other;
    const uint32_t middle =
        find_life(b, h->begin, l->end, most > l->size + h->size ? most - l->size - h->size : 0);
    const uint64_t inner = l->size + h->size + (middle == NONE ? 0 : b->blocks[middle].size);
    const uint64_t size = most > inner ? most : inner;
    const uint32_t a = l->begin, x1 = h->begin, x2 = l->end, end = h->end;
    if (!can_spare(b, a, x1, size - side) || !can_spare(b, x1, x2, size - inner) ||
        !can_spare(b, x2, end, size - other)) {
        return 0;
    }
    const double used =
        (double)side * (x1 - a) + (double)inner * (x2 - x1) + (double)other * (end - x2);
    *w = (wheel){low, high, left, right, middle, size, (double)size * (end - a) / used - 1.0};
    w->cost *= 1.0 + b->noise * chance(b, low, high);
    return w->cost <= b->most_cost;
}

static uint32_t join_wheel(builder *b, const wheel *w) {
    const uint32_t at = b->count++;
    block *l = &b->blocks[w->low], *h = &b->blocks[w->high], *z = &b->blocks[at];
    block *left = &b->blocks[w->left], *right = &b->blocks[w->right];
    *z = (block){.begin = l->begin, .end = h->end, .size = w->size, .parent = NONE};
    uint64_t inner = l->size + h->size;
    l->above = right->above = 0;
    left->above = l->size;
    h->above = right->size > l->size ? right->size : l->size;
    if (w->middle != NONE) {
        block *middle = &b->blocks[w->middle];
        inner += middle->size;
        middle->above = l->size;
        middle->parent = at;
        h->above = right->size > l->size + middle->size ? right->size : l->size + middle->size;
        drop_live(b, w->middle);
    }
    waste(b, l->begin, h->begin, w->size - l->size - left->size);
    waste(b, h->begin, l->end, w->size - inner);
    waste(b, l->end, h->end, w->size - h->size - right->size);
    l->parent = h->parent = left->parent = right->parent = at;
    drop_live(b, w->low);
    drop_live(b, w->high);
    drop_live(b, w->left);
    drop_live(b, w->right);
    b->live[b->live_count++] = at;
    return at;
}

/* Joins the wheel that wastes the least; 0 when there is none. */
static int join_a_wheel(builder *b) {
    wheel best = {.cost = -1.0}, w;
    for (uint32_t n = 0; n < b->live_count; n++) {
        const block *l = &b->blocks[b->live[n]];
        for (uint32_t m = 0; m < b->live_count; m++) {
            const block *left = &b->blocks[b->live[m]];
            if (left->begin != l->begin || left->end >= l->end) {
                continue;
            }
            for (uint32_t k = 0; k < b->live_count; k++) {
                const block *h = &b->blocks[b->live[k]];
                if (h->begin == left->end && h->end > l->end &&
                    make_wheel(b, b->live[n], b->live[k], b->live[m], &w) &&
                    (best.cost < 0.0 || w.cost < best.cost)) {
                    best = w;
                }
            }
        }
    }
    if (best.cost < 0.0) {
        return 0;
    }
    join_wheel(b, &best);
    return 1;
}

/* ---- what fills the slack ---- */

static void add_filler(builder *b, uint32_t begin, uint32_t end, uint64_t size) {
    if (b->count < 2 * b->p->count) {
        b->live[b->live_count++] = b->count;
        b->blocks[b->count++] = (block){.begin = begin, .end = end, .size = size, .parent = NONE};
        waste(b, begin, end, size);
    }
}

/* Closes what falls away at a section: one of just that size, else the youngest. */
static void close_open(builder *b, uint32_t *count, uint32_t section, uint64_t fall) {
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
static void fill(builder *b) {
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
            b->open[count++] = (opened){s, now - before};
        } else if (now < before) {
            close_open(b, &count, s, before - now);
        }
        before = now;
    }
}

/* ---- the rest ---- */

static void start(builder *b, uint64_t capacity) {
    b->count = b->live_count = b->p->count;
    for (uint32_t i = 0; i < b->count; i++) {
        const hri_pack_item *item = &b->p->items[i];
        b->blocks[i] =
            (block){.begin = item->begin, .end = item->end, .size = item->size, .parent = NONE};
        b->live[i] = i;
    }
    for (uint32_t s = 0; s < b->p->sections; s++) {
        b->slack[s] = capacity - b->p->live[s];
    }
}

/* The blocks as a problem of their own, in memory that is there. */
static void make_rest(const builder *b, uint64_t capacity, hri_pack_problem *rest) {
    rest->count = b->live_count;
    rest->sections = b->p->sections;
    rest->lower_bound = 0;
    for (uint32_t s = 0; s < rest->sections; s++) {
        rest->live[s] = capacity - b->slack[s];
        rest->lower_bound = rest->live[s] > rest->lower_bound ? rest->live[s] : rest->lower_bound;
    }
    for (uint32_t n = 0; n < b->live_count; n++) {
        const block *x = &b->blocks[b->live[n]];
        rest->items[n] = (hri_pack_item){x->begin, x->end, x->size, 0};
    }
}

static void write_offsets(builder *b, const uint64_t *found, uint64_t *offsets) {
    for (uint32_t n = 0; n < b->live_count; n++) {
        b->blocks[b->live[n]].above = found[n];
    }
    for (uint32_t i = b->count; i-- > 0;) { /* a parent has a higher number */
        if (b->blocks[i].parent != NONE) {
            b->blocks[i].above += b->blocks[b->blocks[i].parent].above;
        }
        if (i < b->p->count) {
            offsets[i] = b->blocks[i].above;
        }
    }
}
/* ---- attempts ---- */

enum { COSTS = 5, PLAIN = 4 * COSTS };

/* The first ones differ in what they may waste, in whether the slack is filled, and in whether they are shy; those after
 * them also in what they join first. */
static void start_attempt(builder *b, uint64_t capacity, uint32_t attempt) {
    static const double costs[COSTS] = {0.0, 0.02, 0.1, 0.3, 1.0};
    b->seed = mix(attempt + 1);
    b->noise = attempt < PLAIN ? 0.0 : 1.0;
    b->most_cost = costs[attempt / 4 % COSTS];
    b->shy = attempt % 2;
    start(b, capacity);
    if (attempt & 2) {
        fill(b);
    }
    do {
        join_all(b);
    } while (join_a_wheel(b));
}

static hr_status try_attempt(builder *b, uint64_t capacity, size_t most_bytes, uint32_t attempt,
                             hri_pack_problem *rest, uint64_t *found, uint64_t *nodes,
                             hri_pack_verdict *verdict) {
    start_attempt(b, capacity, attempt);
    make_rest(b, capacity, rest);
    uint64_t had = 20000 + 2000 * (uint64_t)attempt;
    had = had < *nodes ? had : *nodes;
    uint64_t share = had;
    const hr_status status = hri_pack_exact(rest, capacity, most_bytes, &share, found, verdict);
    *nodes -= had - share;
    *nodes -= *nodes < b->p->count ? *nodes : b->p->count; /* about what the joins cost */
    return status;
}

hr_status hri_pack_blocks(const hri_pack_problem *p, uint64_t capacity, size_t most_bytes,
                          uint32_t *attempt, uint64_t *nodes, uint64_t *offsets,
                          hri_pack_verdict *verdict) {
    builder b = {.p = p};
    hri_pack_problem rest = {0};
    const size_t most = 2 * (size_t)p->count; /* with what fills the slack; joins are fewer */
    b.blocks = hri_calloc(2 * most, sizeof *b.blocks);
    b.live = hri_calloc(most, sizeof *b.live);
    b.open = hri_calloc(p->sections, sizeof *b.open);
    b.slack = hri_calloc(p->sections, sizeof *b.slack);
    rest.items = hri_calloc(most, sizeof *rest.items);
    rest.live = hri_calloc((size_t)p->sections + 1, sizeof *rest.live);
    uint64_t *found = hri_calloc(most, sizeof *found);
    hr_status status = b.blocks && b.live && b.open && b.slack && rest.items && rest.live && found
                           ? HR_OK
                           : HR_E_NOMEM_HOST;
    *verdict = HRI_PACK_GAVE_UP;
    for (; status == HR_OK && *verdict != HRI_PACK_FOUND && *nodes > 0; (*attempt)++) {
        status = try_attempt(&b, capacity, most_bytes, *attempt, &rest, found, nodes, verdict);
    }
    if (status == HR_OK && *verdict == HRI_PACK_FOUND) {
        write_offsets(&b, found, offsets);
    } else {
        *verdict = HRI_PACK_GAVE_UP; /* that the blocks do not fit says nothing of the buffers */
    }
    hri_free(b.blocks);
    hri_free(b.live);
    hri_free(b.open);
    hri_free(b.slack);
    hri_free(rest.items);
    hri_free(rest.live);
    hri_free(found);
    return status;
}
