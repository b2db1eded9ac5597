/* Attempts at packing by blocks: join, take apart what did not go together, join again, and pack what is left exactly.
 *
 * Blocks are joined in one of several ways (pack_blocks.c).  The fewer are left, the more of the puzzle is solved; so some
 * of them come apart and are joined again, a little differently, and what leaves no more of them is kept.  Whenever fewer
 * are left than before, exact search has a try at them.  Failing proves nothing. */
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/pack_blocks.h"

enum {
    MANNERS = 4,
    LOOSE_MOST = 6,     /* blocks that come apart at once */
    IDLE_MOST = 300,    /* times in a row that lead to nothing */
    FEW_NODES = 10000,  /* of a try at what is left */
    CHECK_NODES = 2000, /* of a short one */
    CHANGES = 8         /* between short ones */
};

#define WASTE 8.0 /* blocks that all the slack is worth */

typedef hri_pack_attempt attempt;

static uint64_t next_random(attempt *g) {
    return hri_pack_mix(++g->random);
}

/* An attempt before it in the wave has found a packing: what this one finds will not be asked for. */
static int not_needed(const attempt *g) {
    return atomic_load_explicit(g->first_found, memory_order_relaxed) < g->number;
}

/* ---- builders ---- */

static void builder_deinit(hri_pack_builder *b) {
    hri_free(b->blocks);
    hri_free(b->live);
    hri_free(b->spare);
    hri_free(b->first);
    hri_free(b->next);
    hri_free(b->open);
    hri_free(b->slack);
    hri_free(b->begins);
    hri_free(b->ends);
}

static hr_status builder_init(hri_pack_builder *b, const hri_pack_problem *p) {
    b->p = p;
    b->most = 4 * p->count; /* with what fills the slack as many again; joins are fewer */
    b->blocks = hri_calloc(b->most, sizeof *b->blocks);
    b->live = hri_calloc(b->most, sizeof *b->live);
    b->spare = hri_calloc(b->most, sizeof *b->spare);
    b->first = hri_calloc((size_t)p->sections + 1, sizeof *b->first);
    b->next = hri_calloc(b->most, sizeof *b->next);
    b->open = hri_calloc(p->sections, sizeof *b->open);
    b->slack = hri_calloc(p->sections, sizeof *b->slack);
    b->begins = hri_calloc((size_t)p->sections + 1, sizeof *b->begins);
    b->ends = hri_calloc((size_t)p->sections + 1, sizeof *b->ends);
    return b->blocks && b->live && b->spare && b->first && b->next && b->open && b->slack &&
                   b->begins && b->ends
               ? HR_OK
               : HR_E_NOMEM_HOST;
}

static void copy(hri_pack_builder *to, const hri_pack_builder *from) {
    to->count = from->count;
    to->live_count = from->live_count;
    to->spare_count = from->spare_count;
    memcpy(to->blocks, from->blocks, from->count * sizeof *to->blocks);
    memcpy(to->live, from->live, from->live_count * sizeof *to->live);
    memcpy(to->spare, from->spare, from->spare_count * sizeof *to->spare);
    memcpy(to->slack, from->slack, from->p->sections * sizeof *to->slack);
    memcpy(to->begins, from->begins, (from->p->sections + 1) * sizeof *to->begins);
    memcpy(to->ends, from->ends, (from->p->sections + 1) * sizeof *to->ends);
}

static void start(hri_pack_builder *b, uint64_t capacity) {
    b->count = b->live_count = b->p->count;
    b->spare_count = 0;
    memset(b->begins, 0, (b->p->sections + 1) * sizeof *b->begins);
    memset(b->ends, 0, (b->p->sections + 1) * sizeof *b->ends);
    for (uint32_t i = 0; i < b->count; i++) {
        const hri_pack_item *item = &b->p->items[i];
        b->blocks[i] = (hri_pack_block){.begin = item->begin,
                                        .end = item->end,
                                        .size = item->size,
                                        .parent = HRI_PACK_NO_BLOCK};
        b->live[i] = i;
        b->begins[item->begin]++;
        b->ends[item->end]++;
    }
    for (uint32_t s = 0; s < b->p->sections; s++) {
        b->slack[s] = capacity - b->p->live[s];
    }
}

static double wasted(const hri_pack_builder *b, uint64_t capacity) {
    double sum = 0.0;
    for (uint32_t s = 0; s < b->p->sections; s++) {
        sum += (double)(capacity - b->p->live[s] - b->slack[s]);
    }
    return sum;
}

/* Fewer blocks are better, and less waste is, so that there is some left for the next joins. */
static double value_of(const attempt *g) {
    return g->b.live_count + (g->room > 0.0 ? WASTE * wasted(&g->b, g->capacity) / g->room : 0.0);
}

/* The kinds differ in what they may waste, in whether the slack is filled, in how careful they are, and in whether lives that seem cut
 * short are stretched.  0: the slack is to be filled and there is nothing to fill it with. */
static int start_kind(attempt *g, uint32_t kind, uint32_t least) {
    static const double costs[HRI_PACK_KINDS / (2 * MANNERS)] = {0.0, 0.02, 0.1, 0.5};
    const uint32_t manner = kind % MANNERS;
    hri_pack_builder *b = &g->b;
    b->most_cost = costs[kind / (2 * MANNERS)];
    b->careful = manner != 1;
    b->shapely = manner >= 2;
    start(b, g->capacity);
    if (manner == 3) {
        hri_pack_stretch(b);
    }
    if (kind / MANNERS % 2) {
        hri_pack_fill_slack(b);
        if (b->count == b->p->count) {
            return 0;
        }
    }
    hri_pack_join_all(b, least);
    return 1;
}

/* ---- taking apart ---- */

/* It comes apart, and so do some of its parts. */
static void loosen(attempt *g, uint32_t id) {
    hri_pack_block *z = &g->b.blocks[id];
    uint32_t parts[HRI_PACK_MOST_PARTS];
    const uint32_t count = z->part_count;
    memcpy(parts, z->parts, sizeof parts);
    if (count == 0) {
        return;
    }
    hri_pack_part(&g->b, id);
    for (uint32_t i = 0; i < count; i++) {
        if (next_random(g) % 8 < 5) {
            loosen(g, parts[i]);
        }
    }
}

/* One of the blocks, and some that live beside it or with it. */
static void loosen_some(attempt *g) {
    hri_pack_builder *b = &g->b;
    const hri_pack_block first = b->blocks[b->live[next_random(g) % b->live_count]];
    const uint32_t most = 1 + (uint32_t)(next_random(g) % LOOSE_MOST);
    for (uint32_t i = 0, done = 0; i < 8 * LOOSE_MOST && done < most; i++) {
        const uint32_t id = b->live[next_random(g) % b->live_count];
        const hri_pack_block *x = &b->blocks[id];
        if (x->part_count && x->begin <= first.end && first.begin <= x->end) {
            loosen(g, id);
            done++;
        }
    }
}

/* ---- the blocks that are left ---- */

static void make_rest(attempt *g) {
    const hri_pack_builder *b = &g->b;
    hri_pack_problem *rest = &g->rest;
    rest->count = b->live_count;
    rest->sections = b->p->sections;
    rest->lower_bound = 0;
    for (uint32_t s = 0; s < rest->sections; s++) {
        rest->live[s] = g->capacity - b->slack[s];
        rest->lower_bound = rest->live[s] > rest->lower_bound ? rest->live[s] : rest->lower_bound;
    }
    for (uint32_t n = 0; n < b->live_count; n++) {
        const hri_pack_block *x = &b->blocks[b->live[n]];
        rest->items[n] = (hri_pack_item){x->begin, x->end, x->size, 0};
    }
}

void hri_pack_attempt_offsets(const attempt *g, uint64_t *offsets) {
    hri_pack_builder b = g->b;
    for (uint32_t n = 0; n < b.live_count; n++) {
        b.blocks[b.live[n]].above = g->found[n];
    }
    for (uint32_t i = 0; i < b.p->count; i++) {
        offsets[i] = 0;
        for (uint32_t at = i; at != HRI_PACK_NO_BLOCK; at = b.blocks[at].parent) {
            offsets[i] += b.blocks[at].above;
        }
    }
}

static void take_off(uint64_t *nodes, uint64_t used) {
    *nodes -= used < *nodes ? used : *nodes;
}

static hr_status pack_rest(attempt *g, uint64_t most, uint64_t *nodes, hri_pack_verdict *verdict) {
    const uint64_t had = most < *nodes ? most : *nodes;
    uint64_t left = had;
    make_rest(g);
    const hr_status status =
        hri_pack_exact(&g->rest, g->capacity, g->most_bytes, &left, g->found, verdict);
    take_off(nodes, had - left + g->b.p->count);
    return status;
}

/* Takes apart and joins again, until that has led to nothing for a while. */
static hr_status improve(attempt *g, uint64_t *nodes, hri_pack_verdict *verdict) {
    hr_status status = HR_OK;
    double value = value_of(g);
    uint32_t tried = g->b.live_count, changes = 0;
    g->fewest = tried;
    g->b.noise = 1.0;
    copy(&g->kept, &g->b);
    for (uint32_t idle = 0; idle<IDLE_MOST && * nodes> 0 && !not_needed(g); idle++) {
        loosen_some(g);
        g->b.seed = next_random(g);
        hri_pack_join_all(&g->b, 1);
        take_off(nodes, g->b.live_count);
        const double now = value_of(g), luck = (double)(next_random(g) >> 11) * 0x1p-53;
        if (now > value + luck * luck * luck) {
            copy(&g->b, &g->kept);
            continue;
        }
        copy(&g->kept, &g->b);
        value = now;
        changes++;
        if (g->b.live_count < g->fewest) {
            g->fewest = g->b.live_count;
            idle = 0;
        }
        if (g->b.live_count + tried / 16 < tried || changes % CHANGES == 0) {
            tried = g->b.live_count;
            status = pack_rest(g, CHECK_NODES, nodes, verdict);
            if (status != HR_OK || *verdict == HRI_PACK_FOUND) {
                return status;
            }
        }
    }
    return pack_rest(g, FEW_NODES + 1000 * (uint64_t)g->turn, nodes, verdict);
}

/* Joins a few at a time; exact search has a short try at what is left each time, until it refutes it. */
static hr_status descend(attempt *g, uint64_t *nodes, hri_pack_verdict *verdict) {
    hr_status status = HR_OK;
    uint32_t before = g->b.live_count + 1;
    *verdict = HRI_PACK_GAVE_UP;
    while (status == HR_OK && *verdict == HRI_PACK_GAVE_UP &&
           g->b.live_count<before && * nodes> 0 && !not_needed(g)) {
        before = g->b.live_count;
        hri_pack_join_all(&g->b, before - before / 8);
        take_off(nodes, before);
        status = pack_rest(g, CHECK_NODES, nodes, verdict);
    }
    if (status == HR_OK && *verdict != HRI_PACK_FOUND) {
        hri_pack_join_all(&g->b, 1);
    }
    return status;
}

/* ---- the two kinds of attempts ---- */

/* How far does the kind come, with nothing left to chance? */
static void look(attempt *g) {
    g->b.seed = hri_pack_mix(g->kind + 1);
    g->b.noise = 0.0;
    take_off(&g->nodes, g->b.p->count);
    if (!start_kind(g, g->kind, 1)) {
        g->left = 2 * g->b.p->count; /* the same as another one */
        return;
    }
    g->left = g->b.live_count / 2; /* it is worth a turn */
    const uint64_t most = g->b.live_count <= g->b.p->count / 2 ? FEW_NODES : CHECK_NODES;
    g->status = pack_rest(g, most, &g->nodes, &g->verdict);
}

static void take_turn(attempt *g) {
    g->b.seed = g->random = hri_pack_mix(HRI_PACK_KINDS + g->turn);
    take_off(&g->nodes, g->b.p->count);
    g->b.noise = g->turn ? 1.0 : 0.0;
    g->fewest = 2 * g->b.p->count;
    (void)start_kind(g, g->kind, 2 * g->b.p->count);
    g->status = descend(g, &g->nodes, &g->verdict);
    if (g->status == HR_OK && g->verdict != HRI_PACK_FOUND) {
        g->status = improve(g, &g->nodes, &g->verdict);
    }
    g->left = g->fewest;
}

void hri_pack_attempt_run(attempt *g) {
    g->status = HR_OK;
    g->verdict = HRI_PACK_GAVE_UP;
    if (g->looking) {
        look(g);
    } else {
        take_turn(g);
    }
}

void hri_pack_attempt_deinit(attempt *g) {
    builder_deinit(&g->b);
    builder_deinit(&g->kept);
    hri_free(g->rest.items);
    hri_free(g->rest.live);
    hri_free(g->found);
}

hr_status hri_pack_attempt_init(attempt *g, const hri_pack_problem *p) {
    hr_status status = builder_init(&g->b, p);
    if (status == HR_OK) {
        status = builder_init(&g->kept, p);
    }
    g->rest.items = hri_calloc(g->b.most, sizeof *g->rest.items);
    g->rest.live = hri_calloc((size_t)p->sections + 1, sizeof *g->rest.live);
    g->found = hri_calloc(g->b.most, sizeof *g->found);
    for (uint32_t s = 0; s < p->sections; s++) {
        g->room += (double)(g->capacity - p->live[s]);
    }
    return status == HR_OK && g->rest.items && g->rest.live && g->found ? HR_OK : HR_E_NOMEM_HOST;
}
