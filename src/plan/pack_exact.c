/* Exact packing: is there a packing of height C?  Depth-first search over valleys, with reasons for failures.
 *
 * Every packing can be pushed down until each buffer rests on the bottom or on another one.  So packings are built from
 * below, and what is placed has a skyline: in each section the height below which nothing more can lie, which is the
 * lowest place that the buffers of that section still have (`low`).  A valley is a stretch of equal height between higher
 * ones.  What lies in its corner at that height must begin (or, on the right, end) exactly there and stay inside: that is
 * one of a few buffers, or nothing, which wastes room that the section must have to spare.  The corner with the fewest
 * such choices is decided first, so that most of a tight problem is forced.
 *
 * A failure has a reason: the sections whose heights led to it.  A choice that touches none of them could not have
 * prevented it, so its alternatives are not tried and the search goes back to one that does (conflict-directed
 * backjumping).  Sections that fail often are decided earlier, and the search starts afresh with a larger limit, a little
 * differently each time; it proves that there is no packing when a round ends by itself.
 *
 * Recursion is one level a choice; the caller keeps problems small. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/pack_int.h"

enum { FIRST_ROUND = 2000, NOTHING = UINT32_MAX };

typedef enum undo_kind { UNDO_LOW, UNDO_HEIGHT, UNDO_FLOOR, UNDO_PLACED } undo_kind;

typedef struct undo {
    uint32_t kind : 2, index : 30;
    int32_t why;
    uint64_t value;
} undo;

/* Lists of 32-bit numbers, one after another: those of key i are in items[first[i]] to items[first[i + 1]]. */
typedef struct lists {
    uint32_t *items, *first;
} lists;

typedef struct exact {
    const hri_pack_problem *p;
    uint64_t capacity;
    uint64_t nodes_left; /* of the round */
    uint64_t random;
    int gave_up;
    hr_status status;
    uint64_t *low; /* (count): the lowest offset still possible, for those not placed */
    int32_t *
        why; /* (count): the section that made low what it is; below zero: the set of a level, -level - 1 */
    uint64_t *offset; /* (count) */
    uint8_t *placed;  /* (count) */
    uint64_t *floor;  /* (sections): the end of the highest placed */
    uint64_t *left;   /* (sections): bytes not placed yet */
    uint64_t *height; /* (sections): the least low of those not placed; UINT64_MAX where all are */
    double *
        failures; /* (sections): how often one was the place of a failure, fading from round to round */
    lists neighbors;    /* of an item: those that live with it */
    lists cover;        /* of a section: those alive in it */
    lists begins, ends; /* of a section: those that begin there, and those whose last it is */
    uint32_t words;     /* of a set of sections */
    uint64_t *conflict; /* a set: the reason of the last failure */
    uint64_t *sets;     /* two a level: the reasons of its failures, and of what it leaves empty */
    size_t set_levels;
    undo *trail;
    size_t trail_count, trail_capacity;
    uint32_t *stack; /* choices, a level after another */
    size_t stack_count, stack_capacity;
    size_t list_bytes;
} exact;

static uint64_t next_random(exact *e) {
    uint64_t z = (e->random += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* ---- sets of sections ---- */

static void set_add(uint64_t *set, uint32_t section) {
    set[section / 64] |= UINT64_C(1) << (section % 64);
}

static int set_has(const uint64_t *set, uint32_t section) {
    return set[section / 64] >> (section % 64) & 1;
}

static void set_unite(const exact *e, uint64_t *set, const uint64_t *other) {
    for (uint32_t i = 0; i < e->words; i++) {
        set[i] |= other[i];
    }
}

static uint64_t *reasons_of(const exact *e, size_t level) {
    return e->sets + 2 * level * e->words;
}

static uint64_t *empty_set_of(const exact *e, size_t level) {
    return e->sets + (2 * level + 1) * e->words;
}

/* Why the item cannot lie lower than its low. */
static void add_why(const exact *e, uint64_t *set, uint32_t id) {
    if (e->low[id] == 0) {
        return;
    }
    if (e->why[id] >= 0) {
        set_add(set, (uint32_t)e->why[id]);
    } else {
        set_unite(e, set, empty_set_of(e, (size_t)(-(e->why[id] + 1))));
    }
}

/* ---- memory: what would take more than all of it may is given up ---- */

static void *grown(exact *e, void *old, size_t count, size_t size) {
    const size_t levels = 2 * e->set_levels * e->words * sizeof *e->sets;
    const size_t bytes = e->list_bytes + e->trail_capacity * sizeof *e->trail + levels +
                         e->stack_capacity * sizeof *e->stack;
    if (bytes + count * size / 2 > HRI_PACK_EXACT_BYTES) {
        e->gave_up = 1;
        return NULL;
    }
    void *grown = hri_realloc(old, count * size);
    if (!grown) {
        e->status = HR_E_NOMEM_HOST;
    }
    return grown;
}

static int have_level(exact *e, size_t level) {
    if (level < e->set_levels) {
        return 1;
    }
    const size_t levels = level < 32 ? 64 : 2 * level;
    uint64_t *sets = grown(e, e->sets, 2 * levels * e->words, sizeof *sets);
    if (sets) {
        e->sets = sets;
        e->set_levels = levels;
    }
    return sets != NULL;
}

static int have_trail(exact *e, size_t more) {
    if (e->trail_count + more <= e->trail_capacity) {
        return 1;
    }
    const size_t capacity = 2 * (e->trail_count + more);
    undo *trail = grown(e, e->trail, capacity, sizeof *trail);
    if (trail) {
        e->trail = trail;
        e->trail_capacity = capacity;
    }
    return trail != NULL;
}

static int have_stack(exact *e, size_t more) {
    if (e->stack_count + more <= e->stack_capacity) {
        return 1;
    }
    const size_t capacity = 2 * (e->stack_count + more);
    uint32_t *stack = grown(e, e->stack, capacity, sizeof *stack);
    if (stack) {
        e->stack = stack;
        e->stack_capacity = capacity;
    }
    return stack != NULL;
}

/* ---- changes, and taking them back ---- */

static void remember(exact *e, undo_kind kind, uint32_t index, uint64_t value, int32_t why) {
    e->trail[e->trail_count++] = (undo){(uint32_t)kind & 3u, index & 0x3fffffffu, why, value};
}

static void set_low(exact *e, uint32_t id, uint64_t low, int32_t why) {
    remember(e, UNDO_LOW, id, e->low[id], e->why[id]);
    e->low[id] = low;
    e->why[id] = why;
}

static void take_back(exact *e, size_t mark) {
    while (e->trail_count > mark) {
        const undo *u = &e->trail[--e->trail_count];
        const uint32_t index = u->index;
        switch ((undo_kind)u->kind) {
        case UNDO_LOW:
            e->low[index] = u->value;
            e->why[index] = u->why;
            break;
        case UNDO_HEIGHT:
            e->height[index] = u->value;
            break;
        case UNDO_FLOOR:
            e->floor[index] = u->value;
            break;
        case UNDO_PLACED:
            e->placed[index] = 0;
            for (uint32_t s = e->p->items[index].begin; s < e->p->items[index].end; s++) {
                e->left[s] += e->p->items[index].size;
            }
            break;
        }
    }
}

/* Works out the heights of sections again; 0 when what is left does not fit above one of them, with the reason. */
static int refresh(exact *e, uint32_t begin, uint32_t end) {
    for (uint32_t s = begin; s < end; s++) {
        uint64_t least = UINT64_MAX;
        for (uint32_t i = e->cover.first[s]; i < e->cover.first[s + 1]; i++) {
            const uint32_t id = e->cover.items[i];
            if (!e->placed[id] && e->low[id] < least) {
                least = e->low[id];
            }
        }
        if (least != e->height[s]) {
            remember(e, UNDO_HEIGHT, s, e->height[s], 0);
            e->height[s] = least;
        }
        if (least == UINT64_MAX || least + e->left[s] <= e->capacity) {
            continue;
        }
        memset(e->conflict, 0, e->words * sizeof *e->conflict);
        set_add(e->conflict, s);
        for (uint32_t i = e->cover.first[s]; i < e->cover.first[s + 1]; i++) {
            const uint32_t id = e->cover.items[i];
            if (!e->placed[id] && e->low[id] > e->floor[s]) {
                add_why(e, e->conflict, id);
            }
        }
        e->failures[s] += 1.0;
        return 0;
    }
    return 1;
}

/* Puts an item at its low.  0: it does not go, or there is no memory. */
static int put(exact *e, uint32_t id) {
    const hri_pack_item *item = &e->p->items[id];
    const uint64_t top = e->low[id] + item->size;
    const uint32_t from = e->neighbors.first[id], to = e->neighbors.first[id + 1];
    if (!have_trail(e, 1 + (item->end - item->begin) + (to - from) + e->p->sections)) {
        return 0;
    }
    e->offset[id] = e->low[id];
    e->placed[id] = 1;
    remember(e, UNDO_PLACED, id, 0, 0);
    for (uint32_t s = item->begin; s < item->end; s++) {
        e->left[s] -= item->size;
        remember(e, UNDO_FLOOR, s, e->floor[s], 0);
        e->floor[s] = top;
    }
    uint32_t begin = item->begin, end = item->end;
    for (uint32_t n = from; n < to; n++) {
        const uint32_t other = e->neighbors.items[n];
        if (e->placed[other] || e->low[other] >= top) {
            continue;
        }
        const hri_pack_item *o = &e->p->items[other];
        set_low(e, other, top, (int32_t)(o->begin > item->begin ? o->begin : item->begin));
        begin = o->begin < begin ? o->begin : begin;
        end = o->end > end ? o->end : end;
    }
    return refresh(e, begin, end);
}

/* ---- corners ---- */

typedef struct corner {
    uint32_t section; /* the first of a valley, or the last */
    int right;
    uint64_t height;
    uint32_t choices; /* buffers that go there, and 1 where nothing may */
} corner;

static void corner_list(const exact *e, const corner *c, const uint32_t **items, uint32_t *count) {
    const lists *l = c->right ? &e->ends : &e->begins;
    *items = l->items + l->first[c->section];
    *count = l->first[c->section + 1] - l->first[c->section];
}

static int goes(const exact *e, const corner *c, uint32_t id) {
    return !e->placed[id] && e->low[id] == c->height;
}

/* Where an item of the corner can lie at least when it does not lie there: on top of one that leaves the corner free.
 * `set`, if any, takes the reasons. */
static uint64_t low_above(const exact *e, uint32_t id, uint32_t section, uint64_t *set) {
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
            add_why(e, set, other);
        }
    }
    for (uint32_t s = e->p->items[id].begin; set && s < e->p->items[id].end; s++) {
        set_add(set, s);
    }
    return least;
}

static void count_choices(const exact *e, corner *c) {
    const uint32_t *items;
    uint32_t count;
    corner_list(e, c, &items, &count);
    uint64_t next = UINT64_MAX; /* where the section's next buffer could lie if nothing lies here */
    c->choices = 0;
    for (uint32_t i = 0; i < count; i++) {
        c->choices += (uint32_t)goes(e, c, items[i]);
    }
    if (c->height + e->left[c->section] >= e->capacity) {
        return;
    }
    for (uint32_t i = e->cover.first[c->section]; i < e->cover.first[c->section + 1]; i++) {
        const uint32_t id = e->cover.items[i];
        if (!e->placed[id] && e->low[id] > c->height && e->low[id] < next) {
            next = e->low[id];
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        if (goes(e, c, items[i])) {
            const uint64_t low = low_above(e, items[i], c->section, NULL);
            next = low < next ? low : next;
        }
    }
    c->choices += next <= e->capacity - e->left[c->section];
}

/* The corner to decide next; 0 when all are placed. */
static int pick_corner(exact *e, corner *best) {
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
        for (int right = 0; right < 2; right++) {
            corner c = {right ? end - 1 : s, right, height, 0};
            count_choices(e, &c);
            if (c.choices <= 1) {
                *best = c;
                return 1;
            }
            const double score = c.choices * 1000.0 / (1.0 + e->failures[c.section]) +
                                 (double)height / (double)e->capacity * 100.0 +
                                 (double)(next_random(e) & 255) / 512.0;
            if (!any || score < best_score) {
                *best = c;
                best_score = score;
                any = 1;
            }
        }
    }
    return any;
}

/* ---- search ---- */

static int longer(const exact *e, uint32_t a, uint32_t b) {
    const hri_pack_item *x = &e->p->items[a], *y = &e->p->items[b];
    const uint32_t life_x = x->end - x->begin, life_y = y->end - y->begin;
    return life_x != life_y ? life_x > life_y : x->size > y->size;
}

/* What may lie in the corner, the longest lives first; seldom another one. */
static int list_choices(exact *e, const corner *c, size_t *at, uint32_t *out) {
    const uint32_t *items;
    uint32_t count, chosen = 0;
    corner_list(e, c, &items, &count);
    if (!have_stack(e, count)) {
        return 0;
    }
    *at = e->stack_count;
    uint32_t *list = e->stack + *at;
    for (uint32_t i = 0; i < count; i++) {
        if (goes(e, c, items[i])) {
            uint32_t k = chosen++;
            for (; k > 0 && longer(e, items[i], list[k - 1]); k--) {
                list[k] = list[k - 1];
            }
            list[k] = items[i];
        }
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

/* Nothing lies in the corner at that height: those that could have lie higher. */
static int leave_empty(exact *e, size_t level, const corner *c, size_t at, uint32_t count) {
    uint64_t *set = empty_set_of(e, level);
    uint32_t begin = c->section, end = c->section + 1;
    memset(set, 0, e->words * sizeof *set);
    set_add(set, c->section);
    if (!have_trail(e, count + e->p->sections) || !have_stack(e, 2 * (size_t)count)) {
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) { /* all reasons before the first change */
        const uint64_t low = low_above(e, e->stack[at + i], c->section, set);
        memcpy(e->stack + e->stack_count + 2 * (size_t)i, &low, sizeof low);
    }
    memcpy(e->conflict, set, e->words * sizeof *set);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t id = e->stack[at + i];
        const hri_pack_item *item = &e->p->items[id];
        uint64_t low;
        memcpy(&low, e->stack + e->stack_count + 2 * (size_t)i, sizeof low);
        if (low > e->capacity || low + item->size > e->capacity) {
            return 0;
        }
        set_low(e, id, low, -(int32_t)level - 1);
        begin = item->begin < begin ? item->begin : begin;
        end = item->end > end ? item->end : end;
    }
    return refresh(e, begin, end);
}

/* Does the reason of the last failure have anything to do with the choice? */
static int concerns(const exact *e, const corner *c, uint32_t id) {
    if (id == NOTHING) {
        return set_has(e->conflict, c->section);
    }
    for (uint32_t s = e->p->items[id].begin; s < e->p->items[id].end; s++) {
        if (set_has(e->conflict, s)) {
            return 1;
        }
    }
    return 0;
}

static int search(exact *e, size_t level);

/* 1: found.  0: not, and *on says whether another choice may help. */
static int try_choice(exact *e, size_t level, const corner *c, size_t at, uint32_t count,
                      uint32_t id, int *on) {
    const size_t mark = e->trail_count;
    *on = 0;
    if (e->nodes_left == 0) {
        e->gave_up = 1;
        return 0;
    }
    e->nodes_left--;
    if ((id == NOTHING ? leave_empty(e, level, c, at, count) : put(e, id)) &&
        search(e, level + 1)) {
        return 1;
    }
    if (e->gave_up || e->status != HR_OK) {
        return 0;
    }
    take_back(e, mark);
    *on = concerns(e, c, id);
    if (*on) {
        set_unite(e, reasons_of(e, level), e->conflict);
    }
    return 0;
}

static int search(exact *e, size_t level) {
    corner c;
    size_t at;
    uint32_t count;
    if (!pick_corner(e, &c)) {
        return 1;
    }
    const size_t mark = e->stack_count;
    if (!have_level(e, level) || !list_choices(e, &c, &at, &count)) {
        return 0;
    }
    uint64_t *set = reasons_of(e, level);
    memset(set, 0, e->words * sizeof *set);
    set_add(set, c.section);
    for (uint32_t i = e->cover.first[c.section]; i < e->cover.first[c.section + 1]; i++) {
        const uint32_t id = e->cover.items[i];
        if (!e->placed[id] && e->low[id] > c.height) {
            add_why(e, set, id);
        }
    }
    int on = 1, found = 0;
    for (uint32_t i = 0; i <= count && on && !found; i++) {
        const uint32_t id = i < count ? e->stack[at + i] : (uint32_t)NOTHING;
        found = try_choice(e, level, &c, at, count, id, &on);
    }
    if (on && !found) {
        memcpy(e->conflict, reasons_of(e, level), e->words * sizeof *e->conflict);
    }
    e->stack_count = mark;
    return found;
}

/* ---- set-up ---- */

typedef int (*belongs)(const hri_pack_problem *p, uint32_t key, uint32_t item);

static int lives_with(const hri_pack_problem *p, uint32_t key, uint32_t item) {
    return key != item && hri_pack_overlap(&p->items[key], &p->items[item]);
}

static int lives_in(const hri_pack_problem *p, uint32_t key, uint32_t item) {
    return p->items[item].begin <= key && key < p->items[item].end;
}

static int begins_in(const hri_pack_problem *p, uint32_t key, uint32_t item) {
    return p->items[item].begin == key;
}

static int ends_in(const hri_pack_problem *p, uint32_t key, uint32_t item) {
    return p->items[item].end == key + 1;
}

static void make_lists(exact *e, lists *out, uint32_t keys, belongs test) {
    out->first = hri_calloc((size_t)keys + 1, sizeof *out->first);
    for (int pass = 0; pass < 2 && out->first && (pass == 0 || out->items); pass++) {
        uint32_t at = 0;
        for (uint32_t key = 0; key < keys; key++) {
            out->first[key] = at;
            for (uint32_t i = 0; i < e->p->count; i++) {
                if (test(e->p, key, i)) {
                    if (pass) {
                        out->items[at] = i;
                    }
                    at++;
                }
            }
        }
        out->first[keys] = at;
        if (!pass) {
            e->list_bytes += at * sizeof *out->items;
            if (e->list_bytes > HRI_PACK_EXACT_BYTES) {
                e->gave_up = 1;
                return;
            }
            out->items = hri_malloc(((size_t)at + 1) * sizeof *out->items);
        }
    }
    if (!out->first || !out->items) {
        e->status = HR_E_NOMEM_HOST;
    }
}

static void lists_deinit(lists *l) {
    hri_free(l->items);
    hri_free(l->first);
}

static void exact_deinit(exact *e) {
    hri_free(e->low);
    hri_free(e->why);
    hri_free(e->offset);
    hri_free(e->placed);
    hri_free(e->floor);
    hri_free(e->left);
    hri_free(e->height);
    hri_free(e->failures);
    hri_free(e->conflict);
    lists_deinit(&e->neighbors);
    lists_deinit(&e->cover);
    lists_deinit(&e->begins);
    lists_deinit(&e->ends);
    hri_free(e->sets);
    hri_free(e->trail);
    hri_free(e->stack);
}

static void exact_init(exact *e) {
    const size_t n = e->p->count, m = e->p->sections;
    e->words = (uint32_t)((m + 63) / 64);
    e->low = hri_calloc(n, sizeof *e->low);
    e->why = hri_calloc(n, sizeof *e->why);
    e->offset = hri_calloc(n, sizeof *e->offset);
    e->placed = hri_calloc(n, sizeof *e->placed);
    e->floor = hri_calloc(m, sizeof *e->floor);
    e->left = hri_calloc(m, sizeof *e->left);
    e->height = hri_calloc(m, sizeof *e->height);
    e->failures = hri_calloc(m, sizeof *e->failures);
    e->conflict = hri_calloc(e->words, sizeof *e->conflict);
    if (!e->low || !e->why || !e->offset || !e->placed || !e->floor || !e->left || !e->height ||
        !e->failures || !e->conflict) {
        e->status = HR_E_NOMEM_HOST;
        return;
    }
    const struct {
        lists *out;
        size_t keys;
        belongs test;
    } all[] = {{&e->neighbors, n, lives_with},
               {&e->cover, m, lives_in},
               {&e->begins, m, begins_in},
               {&e->ends, m, ends_in}};
    for (size_t i = 0; i < sizeof all / sizeof *all && !e->gave_up && e->status == HR_OK; i++) {
        make_lists(e, all[i].out, (uint32_t)all[i].keys, all[i].test);
    }
}

static void start_round(exact *e, uint64_t nodes) {
    const hri_pack_problem *p = e->p;
    e->nodes_left = nodes;
    e->gave_up = 0;
    e->trail_count = e->stack_count = 0;
    memset(e->low, 0, p->count * sizeof *e->low);
    memset(e->placed, 0, p->count * sizeof *e->placed);
    memcpy(e->left, p->live, p->sections * sizeof *e->left);
    for (uint32_t s = 0; s < p->sections; s++) {
        e->floor[s] = 0;
        e->height[s] = p->live[s] ? 0 : UINT64_MAX;
        e->failures[s] *= 0.95;
    }
}

hr_status hri_pack_exact(const hri_pack_problem *p, uint64_t capacity, uint64_t *nodes,
                         uint64_t *offsets, hri_pack_verdict *verdict) {
    exact e = {.p = p, .capacity = capacity, .random = 1};
    int found = 0, all = 0;
    if (p->lower_bound > capacity) {
        *verdict = HRI_PACK_NONE;
        return HR_OK;
    }
    exact_init(&e);
    int can = e.status == HR_OK && !e.gave_up;
    for (uint64_t round = FIRST_ROUND; can && !found && !all && *nodes > 0; round += round / 4) {
        const uint64_t most = round < *nodes ? round : *nodes;
        start_round(&e, most);
        found = search(&e, 0);
        all = !found && !e.gave_up;
        *nodes -= most - e.nodes_left;
        can = e.status == HR_OK && (!e.gave_up || e.nodes_left == 0);
    }
    if (found) {
        memcpy(offsets, e.offset, p->count * sizeof *offsets);
    }
    *verdict = found ? HRI_PACK_FOUND : all ? HRI_PACK_NONE : HRI_PACK_GAVE_UP;
    const hr_status status = e.status;
    exact_deinit(&e);
    return status;
}
