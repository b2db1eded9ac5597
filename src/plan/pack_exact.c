/* Exact packing: is there a packing of height C?  Depth-first search over valleys, with reasons for failures.
 *
 * Every packing can be pushed down until each buffer rests on the bottom or on another one.  So packings are built from
 * below, and what is placed has a skyline: in each section the height below which nothing more can lie, which is the
 * lowest place that the buffers of that section still have (`low`).  A valley is a stretch of equal height between higher
 * ones.  On its floor buffers lie one after the other from end to end, with gaps only in sections that have room to spare:
 * what is on no such chain does not lie there.  The section that fewest buffers can cover is decided first, so that most
 * of a tight problem is forced; those that end level with a wall or fill the valley are tried first.
 *
 * A failure has a reason: the sections whose heights led to it.  A choice that touches none of them could not have
 * prevented it, so its alternatives are not tried and the search goes back to one that does (conflict-directed
 * backjumping).  Sections that fail often are decided earlier, and the search starts afresh with a larger limit, a little
 * differently each time and without what failed before (pack_state.h); it proves that there is no packing when a round ends
 * by itself.
 *
 * Recursion is one level a choice; the caller keeps problems small. */
#include <string.h>

#include "base/alloc.h"
#include "plan/pack_state.h"

/* LEVELS_MOST: of the search, one call inside the other; a stack has an end, and these need 2 MiB of it. */
enum { FIRST_ROUND = 2000, LEVELS_MOST = 4096, NOTHING = UINT32_MAX };

static uint64_t next_random(hri_pack_state *e) {
    uint64_t z = (e->random += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* ---- valleys ---- */

typedef struct valley {
    uint32_t begin, end;
    uint64_t height;
} valley;

typedef struct corner {
    valley in;
    uint32_t section; /* to decide */
    uint32_t choices; /* buffers that go there, and 1 where nothing may */
    int filtered;     /* some that cover it were ruled out by the rest of the valley */
} corner;

static int goes(const hri_pack_state *e, uint64_t height, uint32_t id) {
    return !e->placed[id] && e->low[id] == height;
}

/* Can the section spare a gap on its floor? */
static int may_gap(const hri_pack_state *e, uint32_t s, uint64_t height) {
    return height + e->left[s] < e->capacity;
}

/* Which moments of a valley are reached from its begin (bit 1) and from its end (bit 2) by buffers that lie on its floor
 * one after the other, with gaps where the section can spare one. */
static int reach_all(hri_pack_state *e, const valley *v) {
    uint8_t *r = e->reach;
    memset(r + v->begin, 0, v->end - v->begin + 1);
    r[v->begin] = 1;
    for (uint32_t t = v->begin; t < v->end; t++) {
        if (!(r[t] & 1)) {
            continue;
        }
        e->last_reached = t;
        for (uint32_t i = e->begins.first[t]; i < e->begins.first[t + 1]; i++) {
            const uint32_t id = e->begins.items[i];
            if (goes(e, v->height, id)) {
                r[e->p->items[id].end] |= 1;
            }
        }
        if (may_gap(e, t, v->height)) {
            r[t + 1] |= 1;
        }
    }
    if (!(r[v->end] & 1)) {
        return 0;
    }
    r[v->end] |= 2;
    for (uint32_t t = v->end; t > v->begin; t--) {
        if (!(r[t] & 2)) {
            continue;
        }
        for (uint32_t i = e->ends.first[t - 1]; i < e->ends.first[t]; i++) {
            const uint32_t id = e->ends.items[i];
            if (goes(e, v->height, id)) {
                r[e->p->items[id].begin] |= 2;
            }
        }
        if (may_gap(e, t - 1, v->height)) {
            r[t - 1] |= 2;
        }
    }
    return 1;
}

static int usable(const hri_pack_state *e, const valley *v, uint32_t id) {
    return goes(e, v->height, id) && (e->reach[e->p->items[id].begin] & 1) &&
           (e->reach[e->p->items[id].end] & 2);
}

static int gap_usable(const hri_pack_state *e, const valley *v, uint32_t s) {
    return may_gap(e, s, v->height) && (e->reach[s] & 1) && (e->reach[s + 1] & 2);
}

/* All of a valley: its heights, and why those that live there lie no lower. */
static void add_valley(const hri_pack_state *e, const valley *v, uint64_t *set) {
    for (uint32_t s = v->begin; s < v->end; s++) {
        hri_pack_set_add(set, s);
    }
    for (uint32_t id = 0; id < e->p->count; id++) {
        const hri_pack_item *x = &e->p->items[id];
        if (!e->placed[id] && x->begin < v->end && v->begin < x->end) {
            hri_pack_add_why(e, set, id);
        }
    }
}

/* Where an item that covers the section can lie at least when nothing lies there on the floor, not counting others that
 * cover it: on top of one that does not.  `set`, if any, takes the reasons. */
static uint64_t low_above(const hri_pack_state *e, uint32_t id, uint32_t section, uint64_t *set) {
    uint64_t least = UINT64_MAX;
    for (uint32_t n = e->neighbors.first[id]; n < e->neighbors.first[id + 1]; n++) {
        const uint32_t other = e->neighbors.items[n];
        const hri_pack_item *o = &e->p->items[other];
        if (e->placed[other] || (o->begin <= section && section < o->end)) {
            continue;
        }
        const uint64_t top = e->low[other] + o->size;
        least = top < least ? top : least;
        if (set) {
            hri_pack_add_why(e, set, other);
        }
    }
    for (uint32_t s = e->p->items[id].begin; set && s < e->p->items[id].end; s++) {
        hri_pack_set_add(set, s);
    }
    return least;
}

/* Counts for every section of a valley what may lie there. */
static void count_choices(hri_pack_state *e, const valley *v) {
    int32_t *n = e->counts;
    memset(n + v->begin, 0, (v->end - v->begin + 1) * sizeof *n);
    for (uint32_t i = e->begins.first[v->begin]; i < e->begins.first[v->end]; i++) {
        const uint32_t id = e->begins.items[i];
        if (usable(e, v, id)) {
            n[e->p->items[id].begin]++;
            n[e->p->items[id].end]--;
        }
    }
    for (uint32_t s = v->begin + 1; s < v->end; s++) {
        n[s] += n[s - 1];
    }
    for (uint32_t s = v->begin; s < v->end; s++) {
        n[s] += gap_usable(e, v, s);
    }
}

/* The section to decide next.  0: all are placed.  -1: a valley cannot be filled, with the reason. */
static int pick_corner(hri_pack_state *e, corner *best) {
    const uint32_t sections = e->p->sections;
    double best_score = 0.0;
    int any = 0;
    for (uint32_t s = 0, end; s < sections; s = end) {
        const uint64_t height = e->height[s];
        for (end = s + 1; end < sections && e->height[end] == height; end++) {
        }
        if (height == UINT64_MAX || (s > 0 && e->height[s - 1] < height) ||
            (end < sections && e->height[end] < height)) {
            continue;
        }
        const valley v = {s, end, height};
        if (!reach_all(e, &v)) {
            memset(e->conflict, 0, e->words * sizeof *e->conflict);
            add_valley(e, &v, e->conflict);
            e->failures[e->last_reached] += 1.0;
            return -1;
        }
        count_choices(e, &v);
        for (uint32_t t = s; t < end; t++) {
            const int32_t n = e->counts[t];
            const double score = n * 1000.0 / (1.0 + e->failures[t]) +
                                 (double)height / (double)e->capacity * 100.0 +
                                 (double)(next_random(e) & 255) / 512.0;
            if (!any || score < best_score || (n <= 1 && best->choices > 1)) {
                *best = (corner){v, t, (uint32_t)n, 0};
                best_score = n <= 1 ? -1.0 : score;
                any = 1;
            }
        }
        if (best->choices <= 1) {
            return 1; /* what is reachable is still that of this valley */
        }
    }
    if (any) {
        (void)reach_all(e, &best->in);
    }
    return any;
}

/* ---- search ---- */

/* How nearly level the top of what lies beside a wall is with it: 0 to 3, 3 where it is.  What the lower of the two has to
 * spare is the measure. */
static double level_with(const hri_pack_state *e, uint32_t inside, uint32_t outside, uint64_t top) {
    const uint64_t wall = e->height[outside];
    if (wall == top) {
        return 3.0;
    }
    if (wall == UINT64_MAX) {
        return 0.0;
    }
    const uint64_t off = wall > top ? wall - top : top - wall;
    const uint32_t lower = wall > top ? inside : outside;
    const uint64_t spare = e->capacity - e->height[lower] - e->left[lower];
    return off <= spare ? 2.0 * (1.0 - (double)off / (double)spare) : 0.0;
}

/* How well it goes there: level with the walls, as long as the valley. */
static double fitness(const hri_pack_state *e, const valley *v, uint32_t id) {
    const hri_pack_item *x = &e->p->items[id];
    const uint64_t top = v->height + x->size;
    double points = 0.0;
    if (x->begin == v->begin) {
        points += 1.0 + (x->begin > 0 ? level_with(e, x->begin, x->begin - 1, top) : 0.0);
    }
    if (x->end == v->end) {
        points += 1.0 + (x->end < e->p->sections ? level_with(e, x->end - 1, x->end, top) : 0.0);
    }
    return points;
}

static int goes_before(const hri_pack_state *e, const valley *v, uint32_t a, uint32_t b) {
    const double fa = fitness(e, v, a), fb = fitness(e, v, b);
    if (fa != fb) {
        return fa > fb;
    }
    const hri_pack_item *x = &e->p->items[a], *y = &e->p->items[b];
    const uint32_t life_x = x->end - x->begin, life_y = y->end - y->begin;
    return life_x != life_y ? life_x > life_y : x->size > y->size;
}

static int same(const hri_pack_item *x, const hri_pack_item *y) {
    return x->begin == y->begin && x->end == y->end && x->size == y->size;
}

/* What may lie there, the best first; seldom another one.  Of those that are the same one is enough. */
static int list_choices(hri_pack_state *e, corner *c, size_t *at, uint32_t *out) {
    const uint32_t from = e->cover.first[c->section], to = e->cover.first[c->section + 1];
    uint32_t chosen = 0;
    if (!hri_pack_have_stack(e, to - from)) {
        return 0;
    }
    *at = e->stack_count;
    uint32_t *list = e->stack + *at;
    for (uint32_t i = from; i < to; i++) {
        const uint32_t id = e->cover.items[i];
        if (!goes(e, c->in.height, id)) {
            continue;
        }
        if (!usable(e, &c->in, id)) {
            c->filtered = 1;
            continue;
        }
        uint32_t k = 0;
        while (k < chosen && !same(&e->p->items[id], &e->p->items[list[k]])) {
            k++;
        }
        if (k < chosen) {
            continue;
        }
        for (k = chosen++; k > 0 && goes_before(e, &c->in, id, list[k - 1]); k--) {
            list[k] = list[k - 1];
        }
        list[k] = id;
    }
    if (chosen > 1 && next_random(e) % 8 == 0) {
        const uint32_t k = (uint32_t)(next_random(e) % chosen), first = list[0];
        list[0] = list[k];
        list[k] = first;
    }
    e->stack_count += chosen;
    *out = chosen;
    return 1;
}

/* Nothing lies in the section at that height: those that could have lie higher, on one that does not cover it or on
 * another that does. */
static int leave_empty(hri_pack_state *e, size_t level, const corner *c) {
    const uint32_t from = e->cover.first[c->section], to = e->cover.first[c->section + 1];
    uint64_t *set = hri_pack_emptied(e, level);
    uint32_t begin = c->section, end = c->section + 1, lowest = NOTHING;
    uint64_t least = UINT64_MAX, second = UINT64_MAX; /* tops of those that cover it */
    memset(set, 0, e->words * sizeof *set);
    hri_pack_set_add(set, c->section);
    if (!hri_pack_have_trail(e, to - from + e->p->sections)) {
        return 0;
    }
    for (uint32_t i = from; i < to; i++) { /* all reasons before the first change */
        const uint32_t id = e->cover.items[i];
        if (e->placed[id]) {
            continue;
        }
        const int higher = e->low[id] > c->in.height;
        if (higher) {
            hri_pack_add_why(e, set, id);
        }
        e->above[id] = higher ? e->low[id] : low_above(e, id, c->section, set);
        const uint64_t top =
            e->above[id] == UINT64_MAX ? UINT64_MAX : e->above[id] + e->p->items[id].size;
        if (top < least) {
            second = least;
            least = top;
            lowest = id;
        } else if (top < second) {
            second = top;
        }
    }
    memcpy(e->conflict, set, e->words * sizeof *set);
    for (uint32_t i = from; i < to; i++) {
        const uint32_t id = e->cover.items[i];
        const hri_pack_item *item = &e->p->items[id];
        if (!goes(e, c->in.height, id)) {
            continue;
        }
        const uint64_t other = id == lowest ? second : least;
        const uint64_t low = e->above[id] < other ? e->above[id] : other;
        if (low > e->capacity || low + item->size > e->capacity) {
            return 0;
        }
        hri_pack_set_low(e, id, low, -(int32_t)level - 1);
        begin = item->begin < begin ? item->begin : begin;
        end = item->end > end ? item->end : end;
    }
    return hri_pack_refresh(e, begin, end);
}

/* Does the reason of the last failure have anything to do with the choice? */
static int concerns(const hri_pack_state *e, const corner *c, uint32_t id) {
    if (id == NOTHING) {
        return hri_pack_set_has(e->conflict, c->section);
    }
    for (uint32_t s = e->p->items[id].begin; s < e->p->items[id].end; s++) {
        if (hri_pack_set_has(e->conflict, s)) {
            return 1;
        }
    }
    return 0;
}

static int search(hri_pack_state *e, size_t level);

/* 1: found.  0: not, and *on says whether another choice may help. */
static int try_choice(hri_pack_state *e, size_t level, const corner *c, uint32_t id, int *on) {
    const size_t mark = e->trail_count;
    *on = 0;
    if (e->nodes_left == 0) {
        e->gave_up = 1;
        return 0;
    }
    e->nodes_left--;
    if ((id == NOTHING ? leave_empty(e, level, c) : hri_pack_put(e, id)) && search(e, level + 1)) {
        return 1;
    }
    if (e->gave_up || e->status != HR_OK) {
        return 0;
    }
    hri_pack_take_back(e, mark);
    *on = concerns(e, c, id);
    if (*on) {
        hri_pack_set_unite(e, hri_pack_reasons(e, level), e->conflict);
    }
    return 0;
}

/* The reasons why there are no other choices. */
static void start_reasons(hri_pack_state *e, size_t level, const corner *c) {
    uint64_t *set = hri_pack_reasons(e, level);
    memset(set, 0, e->words * sizeof *set);
    hri_pack_set_add(set, c->section);
    if (c->filtered) {
        add_valley(e, &c->in, set);
        return;
    }
    for (uint32_t i = e->cover.first[c->section]; i < e->cover.first[c->section + 1]; i++) {
        const uint32_t id = e->cover.items[i];
        if (!e->placed[id] && e->low[id] > e->floor[c->section]) {
            hri_pack_add_why(e, set, id);
        }
    }
}

static int search(hri_pack_state *e, size_t level) {
    corner c;
    size_t at;
    uint32_t count;
    if (level == LEVELS_MOST) {
        e->gave_up = 1;
        return 0;
    }
    if (hri_pack_failed_before(e)) {
        return 0;
    }
    const uint64_t key[2] = {e->key[0], e->key[1]};
    const int picked = pick_corner(e, &c);
    if (picked <= 0) {
        return picked == 0;
    }
    const size_t mark = e->stack_count;
    if (!hri_pack_have_level(e, level) || !list_choices(e, &c, &at, &count)) {
        return 0;
    }
    const int gap = gap_usable(e, &c.in, c.section);
    c.filtered |= !gap && may_gap(e, c.section, c.in.height);
    start_reasons(e, level, &c);
    int on = 1, found = 0;
    for (uint32_t i = 0; i < count && on && !found; i++) {
        found = try_choice(e, level, &c, e->stack[at + i], &on);
    }
    if (on && !found && gap) {
        found = try_choice(e, level, &c, NOTHING, &on);
    }
    if (on && !found) {
        memcpy(e->conflict, hri_pack_reasons(e, level), e->words * sizeof *e->conflict);
    }
    if (!found && !e->gave_up && e->status == HR_OK) {
        hri_pack_record(e, key);
    }
    e->stack_count = mark;
    return found;
}

/* ---- rounds ---- */

hr_status hri_pack_exact_create(const hri_pack_problem *p, uint64_t capacity, size_t most_bytes,
                                hri_pack_state **out) {
    hri_pack_state *e = hri_calloc(1, sizeof *e);
    if (!e) {
        return HR_E_NOMEM_HOST;
    }
    *e = (hri_pack_state){
        .p = p, .capacity = capacity, .most_bytes = most_bytes, .random = 1, .round = FIRST_ROUND};
    if (p->lower_bound <= capacity) {
        hri_pack_state_init(e);
    }
    if (e->status != HR_OK) {
        const hr_status status = e->status;
        hri_pack_exact_destroy(e);
        return status;
    }
    e->too_large = e->gave_up;
    *out = e;
    return HR_OK;
}

void hri_pack_exact_destroy(hri_pack_state *e) {
    if (e) {
        hri_pack_state_deinit(e);
        hri_free(e);
    }
}

hr_status hri_pack_exact_run(hri_pack_state *e, uint64_t *nodes, uint64_t *offsets,
                             hri_pack_verdict *verdict) {
    int found = 0, all = e->p->lower_bound > e->capacity;
    while (!e->too_large && e->status == HR_OK && !found && !all && *nodes > 0) {
        const uint64_t most = e->round < *nodes ? e->round : *nodes;
        hri_pack_state_start(e, most);
        found = search(e, 0);
        all = !found && !e->gave_up && e->status == HR_OK;
        *nodes -= most - e->nodes_left;
        e->too_large = !found && e->gave_up && e->nodes_left > 0;
        e->round += most == e->round ? e->round / 4 : 0;
    }
    if (found) {
        memcpy(offsets, e->offset, e->p->count * sizeof *offsets);
    }
    *verdict = found ? HRI_PACK_FOUND : all ? HRI_PACK_NONE : HRI_PACK_GAVE_UP;
    return e->status;
}

hr_status hri_pack_exact(const hri_pack_problem *p, uint64_t capacity, size_t most_bytes,
                         uint64_t *nodes, uint64_t *offsets, hri_pack_verdict *verdict) {
    hri_pack_state *e;
    hr_status status = hri_pack_exact_create(p, capacity, most_bytes, &e);
    if (status == HR_OK) {
        status = hri_pack_exact_run(e, nodes, offsets, verdict);
        hri_pack_exact_destroy(e);
    }
    return status;
}
