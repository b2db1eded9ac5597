/* See pack_state.h. */
#include "plan/pack_state.h"

#include <string.h>

#include "base/alloc.h"

typedef enum undo_kind { UNDO_LOW, UNDO_HEIGHT, UNDO_FLOOR, UNDO_PLACED } undo_kind;

/* ---- memory: what would take more than all of it may is given up ---- */

static void *grown(hri_pack_state *e, void *old, size_t count, size_t size) {
    const size_t levels = 2 * e->set_levels * e->words * sizeof *e->sets;
    const size_t bytes = e->list_bytes + e->trail_capacity * sizeof *e->trail + levels +
                         e->stack_capacity * sizeof *e->stack;
    if (bytes + count * size / 2 > e->most_bytes) {
        e->gave_up = 1;
        return NULL;
    }
    void *grown = hri_realloc(old, count * size);
    if (!grown) {
        e->status = HR_E_NOMEM_HOST;
    }
    return grown;
}

int hri_pack_have_level(hri_pack_state *e, size_t level) {
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

int hri_pack_have_trail(hri_pack_state *e, size_t more) {
    if (e->trail_count + more <= e->trail_capacity) {
        return 1;
    }
    const size_t capacity = 2 * (e->trail_count + more);
    hri_pack_undo *trail = grown(e, e->trail, capacity, sizeof *trail);
    if (trail) {
        e->trail = trail;
        e->trail_capacity = capacity;
    }
    return trail != NULL;
}

int hri_pack_have_stack(hri_pack_state *e, size_t more) {
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

/* ---- what failed before ----
 *
 * What is left to do is the buffers not placed and the lowest place of each; how it came to that does not matter.  The
 * same comes up again and again (two buffers of one life can change places, every rectangle can be turned over), in one
 * round and in the next. */

static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void turn_key(hri_pack_state *e, uint32_t id) {
    const uint64_t z = (e->low[id] + 1) * 0x9e3779b97f4a7c15u + id;
    e->key[0] ^= mix(z);
    e->key[1] ^= mix(z ^ 0xd6e8feb86659fd93u);
}

static uint64_t *memo_at(const hri_pack_state *e, const uint64_t key[2]) {
    return e->memo + (key[0] & e->memo_mask) * (2 + e->words);
}

void hri_pack_record(hri_pack_state *e, const uint64_t key[2]) {
    uint64_t *m = memo_at(e, key);
    m[0] = key[0];
    m[1] = key[1];
    memcpy(m + 2, e->conflict, e->words * sizeof *m);
}

/* The reason then, and why the buffers that it is about lie where they do now. */
int hri_pack_failed_before(hri_pack_state *e) {
    const uint64_t *m = memo_at(e, e->key);
    if (m[0] != e->key[0] || m[1] != e->key[1]) {
        return 0;
    }
    memcpy(e->conflict, m + 2, e->words * sizeof *m);
    for (uint32_t id = 0; id < e->p->count; id++) {
        const hri_pack_item *item = &e->p->items[id];
        int touches = 0;
        for (uint32_t s = item->begin; s < item->end && !e->placed[id] && !touches; s++) {
            touches = hri_pack_set_has(m + 2, s);
        }
        if (touches) {
            hri_pack_add_why(e, e->conflict, id);
        }
    }
    return 1;
}

/* ---- changes, and taking them back ---- */

static void remember(hri_pack_state *e, undo_kind kind, uint32_t index, uint64_t value,
                     int32_t why) {
    e->trail[e->trail_count++] =
        (hri_pack_undo){(uint32_t)kind & 3u, index & 0x3fffffffu, why, value};
}

/* Its low is about to rise: the heights that it makes may be no more. */
static void mark_stale(hri_pack_state *e, uint32_t id) {
    const uint64_t low = e->low[id];
    for (uint32_t s = e->p->items[id].begin; s < e->p->items[id].end; s++) {
        e->stale[s] |= e->height[s] == low;
    }
}

void hri_pack_set_low(hri_pack_state *e, uint32_t id, uint64_t low, int32_t why) {
    remember(e, UNDO_LOW, id, e->low[id], e->why[id]);
    mark_stale(e, id);
    turn_key(e, id);
    e->low[id] = low;
    e->why[id] = why;
    turn_key(e, id);
}

void hri_pack_take_back(hri_pack_state *e, size_t mark) {
    while (e->trail_count > mark) {
        const hri_pack_undo *u = &e->trail[--e->trail_count];
        const uint32_t index = u->index;
        switch ((undo_kind)u->kind) {
        case UNDO_LOW:
            turn_key(e, index);
            e->low[index] = u->value;
            e->why[index] = u->why;
            turn_key(e, index);
            break;
        case UNDO_HEIGHT:
            e->height[index] = u->value;
            break;
        case UNDO_FLOOR:
            e->floor[index] = u->value;
            break;
        case UNDO_PLACED:
            e->placed[index] = 0;
            turn_key(e, index);
            for (uint32_t s = e->p->items[index].begin; s < e->p->items[index].end; s++) {
                e->left[s] += e->p->items[index].size;
            }
            break;
        }
    }
}

/* Works out the heights of sections again; 0 when what is left does not fit above one of them, with the reason. */
int hri_pack_refresh(hri_pack_state *e, uint32_t begin, uint32_t end) {
    for (uint32_t s = begin; s < end; s++) {
        if (!e->stale[s]) {
            continue;
        }
        e->stale[s] = 0;
        /* nothing is lower than it was, or than what is placed */
        const uint64_t bound = e->height[s] > e->floor[s] ? e->height[s] : e->floor[s];
        uint64_t least = UINT64_MAX;
        for (uint32_t i = e->cover.first[s]; i < e->cover.first[s + 1] && least > bound; i++) {
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
        hri_pack_set_add(e->conflict, s);
        for (uint32_t i = e->cover.first[s]; i < e->cover.first[s + 1]; i++) {
            const uint32_t id = e->cover.items[i];
            if (!e->placed[id] && e->low[id] > e->floor[s]) {
                hri_pack_add_why(e, e->conflict, id);
            }
        }
        e->failures[s] += 1.0;
        memset(e->stale + s, 0, (end - s) * sizeof *e->stale);
        return 0;
    }
    return 1;
}

/* Puts an item at its low.  0: it does not go, or there is no memory. */
int hri_pack_put(hri_pack_state *e, uint32_t id) {
    const hri_pack_item *item = &e->p->items[id];
    const uint64_t top = e->low[id] + item->size;
    const uint32_t from = e->neighbors.first[id], to = e->neighbors.first[id + 1];
    if (!hri_pack_have_trail(e, 1 + (item->end - item->begin) + (to - from) + e->p->sections)) {
        return 0;
    }
    e->offset[id] = e->low[id];
    e->placed[id] = 1;
    turn_key(e, id);
    remember(e, UNDO_PLACED, id, 0, 0);
    for (uint32_t s = item->begin; s < item->end; s++) {
        e->left[s] -= item->size;
        e->stale[s] = 1;
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
        hri_pack_set_low(e, other, top, (int32_t)(o->begin > item->begin ? o->begin : item->begin));
        begin = o->begin < begin ? o->begin : begin;
        end = o->end > end ? o->end : end;
    }
    return hri_pack_refresh(e, begin, end);
}

/* ---- set-up ---- */

typedef enum list_kind { LIVE_WITH, LIVE_IN, BEGIN_IN, END_IN } list_kind;

/* Counts first (items NULL), then puts the item where the list of its key has come to. */
static inline void add_to(hri_pack_lists *out, uint32_t key, uint32_t item) {
    if (out->items) {
        out->items[out->first[key]++] = item;
    } else {
        out->first[key + 1]++;
    }
}

/* Those that live with an item.  Where items are by begin, as they mostly are, the first that begins too late ends the search. */
static void fill_pairs(const hri_pack_problem *p, hri_pack_lists *out) {
    int sorted = 1;
    for (uint32_t i = 1; i < p->count && sorted; i++) {
        sorted = p->items[i - 1].begin <= p->items[i].begin;
    }
    for (uint32_t i = 0; i < p->count; i++) {
        for (uint32_t k = i + 1; k < p->count; k++) {
            if (sorted && p->items[k].begin >= p->items[i].end) {
                break;
            }
            if (hri_pack_overlap(&p->items[i], &p->items[k])) {
                add_to(out, i, k);
                add_to(out, k, i);
            }
        }
    }
}

static void fill_lists(const hri_pack_problem *p, hri_pack_lists *out, list_kind kind) {
    if (kind == LIVE_WITH) {
        fill_pairs(p, out);
        return;
    }
    for (uint32_t i = 0; i < p->count; i++) {
        const hri_pack_item *x = &p->items[i];
        const uint32_t from = kind == END_IN ? x->end - 1 : x->begin;
        const uint32_t to = kind == BEGIN_IN ? x->begin + 1 : x->end;
        for (uint32_t key = from; key < to; key++) {
            add_to(out, key, i);
        }
    }
}

static void make_lists(hri_pack_state *e, hri_pack_lists *out, uint32_t keys, list_kind kind) {
    out->first = hri_calloc((size_t)keys + 1, sizeof *out->first);
    if (!out->first) {
        e->status = HR_E_NOMEM_HOST;
        return;
    }
    fill_lists(e->p, out, kind);
    for (uint32_t key = 0; key < keys; key++) {
        out->first[key + 1] += out->first[key];
    }
    const size_t all = out->first[keys];
    e->list_bytes += all * sizeof *out->items;
    if (e->list_bytes > e->most_bytes) {
        e->gave_up = 1;
        return;
    }
    out->items = hri_malloc((all + 1) * sizeof *out->items);
    if (!out->items) {
        e->status = HR_E_NOMEM_HOST;
        return;
    }
    fill_lists(e->p, out, kind);
    memmove(out->first + 1, out->first, keys * sizeof *out->first); /* each has moved one on */
    out->first[0] = 0;
}

static void lists_deinit(hri_pack_lists *l) {
    hri_free(l->items);
    hri_free(l->first);
}

void hri_pack_state_deinit(hri_pack_state *e) {
    hri_free(e->low);
    hri_free(e->why);
    hri_free(e->offset);
    hri_free(e->placed);
    hri_free(e->floor);
    hri_free(e->left);
    hri_free(e->height);
    hri_free(e->stale);
    hri_free(e->failures);
    hri_free(e->conflict);
    lists_deinit(&e->neighbors);
    lists_deinit(&e->cover);
    lists_deinit(&e->begins);
    lists_deinit(&e->ends);
    hri_free(e->sets);
    hri_free(e->memo);
    hri_free(e->reach);
    hri_free(e->counts);
    hri_free(e->above);
    hri_free(e->trail);
    hri_free(e->stack);
}

void hri_pack_state_init(hri_pack_state *e) {
    const size_t n = e->p->count, m = e->p->sections;
    e->words = (uint32_t)((m + 63) / 64);
    e->low = hri_calloc(n, sizeof *e->low);
    e->why = hri_calloc(n, sizeof *e->why);
    e->offset = hri_calloc(n, sizeof *e->offset);
    e->placed = hri_calloc(n, sizeof *e->placed);
    e->floor = hri_calloc(m, sizeof *e->floor);
    e->left = hri_calloc(m, sizeof *e->left);
    e->height = hri_calloc(m, sizeof *e->height);
    e->stale = hri_calloc(m, sizeof *e->stale);
    e->failures = hri_calloc(m, sizeof *e->failures);
    e->conflict = hri_calloc(e->words, sizeof *e->conflict);
    e->reach = hri_calloc(m + 1, sizeof *e->reach);
    e->counts = hri_calloc(m + 1, sizeof *e->counts);
    e->above = hri_calloc(n, sizeof *e->above);
    const size_t entry = (2 + (size_t)e->words) * sizeof *e->memo;
    e->memo_mask = 1;
    while (2 * e->memo_mask * entry <= e->most_bytes / 5) { /* the lists have the rest */
        e->memo_mask *= 2;
    }
    e->memo = hri_calloc(e->memo_mask, entry);
    e->list_bytes = e->memo_mask * entry;
    e->memo_mask--;
    if (!e->low || !e->why || !e->offset || !e->placed || !e->floor || !e->left || !e->height ||
        !e->stale || !e->failures || !e->conflict || !e->memo || !e->reach || !e->counts ||
        !e->above) {
        e->status = HR_E_NOMEM_HOST;
        return;
    }
    const struct {
        hri_pack_lists *out;
        size_t keys;
        list_kind kind;
    } all[] = {{&e->neighbors, n, LIVE_WITH},
               {&e->cover, m, LIVE_IN},
               {&e->begins, m, BEGIN_IN},
               {&e->ends, m, END_IN}};
    for (size_t i = 0; i < sizeof all / sizeof *all && !e->gave_up && e->status == HR_OK; i++) {
        make_lists(e, all[i].out, (uint32_t)all[i].keys, all[i].kind);
    }
}

void hri_pack_state_start(hri_pack_state *e, uint64_t nodes) {
    const hri_pack_problem *p = e->p;
    e->nodes_left = nodes;
    e->gave_up = 0;
    e->trail_count = e->stack_count = 0;
    memset(e->low, 0, p->count * sizeof *e->low);
    memset(e->placed, 0, p->count * sizeof *e->placed);
    memcpy(e->left, p->live, p->sections * sizeof *e->left);
    e->key[0] = e->key[1] = 1; /* an empty place has 0 */
    for (uint32_t id = 0; id < p->count; id++) {
        turn_key(e, id);
    }
    memset(e->stale, 0, p->sections * sizeof *e->stale);
    for (uint32_t s = 0; s < p->sections; s++) {
        e->floor[s] = 0;
        e->height[s] = p->live[s] ? 0 : UINT64_MAX;
        e->failures[s] *= 0.95;
    }
}
