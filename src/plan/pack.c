/* The packer: prepares the problem, tries the means in turn, keeps the lowest. */
#include "plan/pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/pack_int.h"

enum {
    EXACT_MOST = 1200,    /* buffers for which branch and bound is worth a try */
    NODES_A_STEP = 40000, /* nodes of exact search, times buffers, that cost about one step */
    DEFAULT_EFFORT = 2000,
    FIRST_SHARE = 16, /* steps that each of the means has first */
    COARSE_MOST = 400 /* large buffers packed alone */
};

typedef struct packer {
    hri_pack_problem p;
    uint64_t goal;  /* good enough */
    uint64_t align; /* >= 1 */
    uint64_t steps_left, steps_used;
    uint64_t *best, *trial; /* (count): offsets by item */
    uint32_t *order, *best_order, *placed;
    hri_pack_key *keys;
    hri_pack_fit best_fit;
    uint64_t height;
    const char *method;
    size_t most_bytes; /* of a thorough search; 0: not thorough */
    hri_threads *threads;
    hri_pack_state *exact; /* the search for the goal, when it is thorough */
    hri_pack_regroup *blocks;
    uint64_t above; /* no packing is lower: the bound, and what exact search adds to it */
} packer;

/* ---- the problem ---- */

static int by_time(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static uint32_t section_of(const int64_t *times, uint32_t count, int64_t t) {
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (times[middle] < t) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

typedef struct order_key {
    uint32_t begin, end, source;
} order_key;

static int by_begin(const void *a, const void *b) {
    const order_key *x = a, *y = b;
    if (x->begin != y->begin) {
        return x->begin < y->begin ? -1 : 1;
    }
    if (x->end != y->end) {
        return x->end < y->end ? -1 : 1;
    }
    return x->source < y->source ? -1 : x->source > y->source;
}

static hr_status check_buffers(const hri_pack_buffer *buffers, size_t count, uint64_t align) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        if (buffers[i].upper < buffers[i].lower) {
            return HR_E_INVALID;
        }
        if (buffers[i].bytes > (UINT64_MAX >> 1) - align - sum) {
            return HR_E_RANGE;
        }
        sum += (buffers[i].bytes + align - 1) / align * align;
        if (sum > UINT64_MAX >> 1) {
            return HR_E_RANGE;
        }
    }
    return count < UINT32_MAX / 4 ? HR_OK : HR_E_RANGE;
}

/* Items by begin, with times renumbered to sections. */
static hr_status make_items(packer *k, const hri_pack_buffer *buffers, size_t count) {
    hri_pack_problem *p = &k->p;
    int64_t *times = hri_malloc(2 * count * sizeof *times);
    order_key *order = hri_malloc(count * sizeof *order);
    p->items = hri_calloc(count, sizeof *p->items);
    p->source = hri_calloc(count, sizeof *p->source);
    hr_status status = times && order && p->items && p->source ? HR_OK : HR_E_NOMEM_HOST;
    if (status == HR_OK) {
        uint32_t n = 0, t = 0, distinct = 0;
        for (size_t i = 0; i < count; i++) {
            if (buffers[i].bytes > 0 && buffers[i].lower < buffers[i].upper) {
                times[t++] = buffers[i].lower;
                times[t++] = buffers[i].upper;
            }
        }
        qsort(times, t, sizeof *times, by_time);
        for (uint32_t i = 0; i < t; i++) {
            if (i == 0 || times[i] != times[distinct - 1]) {
                times[distinct++] = times[i];
            }
        }
        for (size_t i = 0; i < count; i++) {
            if (buffers[i].bytes > 0 && buffers[i].lower < buffers[i].upper) {
                order[n++] =
                    (order_key){section_of(times, distinct, buffers[i].lower),
                                section_of(times, distinct, buffers[i].upper), (uint32_t)i};
            }
        }
        qsort(order, n, sizeof *order, by_begin);
        for (uint32_t i = 0; i < n; i++) {
            p->source[i] = order[i].source;
            p->items[i].begin = order[i].begin;
            p->items[i].end = order[i].end;
            p->items[i].size =
                (buffers[order[i].source].bytes + k->align - 1) / k->align * k->align;
        }
        p->count = n;
        p->sections = distinct ? distinct - 1 : 0;
    }
    hri_free(times);
    hri_free(order);
    return status;
}

static hr_status make_liveness(hri_pack_problem *p) {
    p->live = hri_calloc((size_t)p->sections + 1, sizeof *p->live);
    if (!p->live) {
        return HR_E_NOMEM_HOST;
    }
    for (uint32_t i = 0; i < p->count; i++) {
        for (uint32_t s = p->items[i].begin; s < p->items[i].end; s++) {
            p->live[s] += p->items[i].size;
        }
    }
    for (uint32_t s = 0; s < p->sections; s++) {
        if (p->live[s] > p->lower_bound) {
            p->lower_bound = p->live[s];
            p->peak = s;
        }
    }
    for (uint32_t i = 0; i < p->count; i++) {
        for (uint32_t s = p->items[i].begin; s < p->items[i].end; s++) {
            p->items[i].total = p->live[s] > p->items[i].total ? p->live[s] : p->items[i].total;
        }
    }
    return HR_OK;
}

static void packer_deinit(packer *k) {
    hri_pack_exact_destroy(k->exact);
    hri_pack_blocks_destroy(k->blocks);
    hri_free(k->p.items);
    hri_free(k->p.source);
    hri_free(k->p.live);
    hri_free(k->best);
    hri_free(k->trial);
    hri_free(k->order);
    hri_free(k->best_order);
    hri_free(k->placed);
    hri_free(k->keys);
}

static hr_status packer_init(packer *k, const hri_pack_buffer *buffers, size_t count) {
    hr_status status = make_items(k, buffers, count);
    if (status == HR_OK) {
        status = make_liveness(&k->p);
    }
    if (status != HR_OK) {
        return status;
    }
    const size_t n = k->p.count;
    k->best = hri_calloc(n, sizeof *k->best);
    k->trial = hri_calloc(n, sizeof *k->trial);
    k->order = hri_calloc(n, sizeof *k->order);
    k->best_order = hri_calloc(n, sizeof *k->best_order);
    k->placed = hri_calloc(n, sizeof *k->placed);
    k->keys = hri_calloc(n, sizeof *k->keys);
    k->height = UINT64_MAX;
    k->above = k->p.lower_bound;
    k->method = "greedy";
    return k->best && k->trial && k->order && k->best_order && k->placed && k->keys
               ? HR_OK
               : HR_E_NOMEM_HOST;
}

/* ---- the means ---- */

static int good_enough(const packer *k) {
    return k->height <= k->goal || k->height <= k->above;
}

/* Nothing more to find: it is good enough, or no packing reaches the goal. */
static int settled(const packer *k) {
    return good_enough(k) || (k->goal && k->above > k->goal);
}

static void keep_trial(packer *k, uint64_t height, const char *method) {
    uint64_t *old = k->best;
    k->best = k->trial;
    k->trial = old;
    k->height = height;
    k->method = method;
}

static void try_orders(packer *k) {
    for (uint32_t which = 0; which < HRI_PACK_ORDERS && !good_enough(k); which++) {
        hri_pack_order(&k->p, which, k->keys, k->order);
        for (int fit = 0; fit < HRI_PACK_FITS; fit++) {
            const uint64_t height = hri_pack_place(&k->p, k->order, 0, (hri_pack_fit)fit, k->height,
                                                   k->trial, k->placed);
            if (height < k->height) {
                keep_trial(k, height, "greedy");
                memcpy(k->best_order, k->order, k->p.count * sizeof *k->order);
                k->best_fit = (hri_pack_fit)fit;
            }
        }
    }
}

static uint64_t next_random(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Moves an item of the top to an earlier place in the order, in front of one that lives with it. */
static void move_top(packer *k, uint64_t *random) {
    const uint32_t n = k->p.count;
    memcpy(k->order, k->best_order, n * sizeof *k->order);
    uint32_t from = n, seen = 0;
    for (uint32_t i = 0; i < n; i++) { /* one of those that end at the height, picked evenly */
        const uint32_t id = k->order[i];
        if (k->best[id] + k->p.items[id].size == k->height && next_random(random) % ++seen == 0) {
            from = i;
        }
    }
    if (next_random(random) % 4 == 0) { /* now and then something else, to leave a rut */
        from = (uint32_t)(next_random(random) % n);
    }
    if (from == 0 || from == n) {
        return;
    }
    const uint32_t to = (uint32_t)(next_random(random) % from);
    const uint32_t id = k->order[from];
    memmove(k->order + to + 1, k->order + to, (from - to) * sizeof *k->order);
    k->order[to] = id;
}

static void try_moves(packer *k, uint64_t steps) {
    uint64_t random = 1;
    /* placing all is quadratic, and a step is meant to cost what it costs at 1,000 buffers */
    const uint64_t cost = 1 + (uint64_t)k->p.count * k->p.count / 1000000;
    for (; steps >= cost && !good_enough(k); steps -= cost) {
        k->steps_left -= cost;
        k->steps_used += cost;
        move_top(k, &random);
        const uint64_t height =
            hri_pack_place(&k->p, k->order, 0, k->best_fit, k->height + 1, k->trial, k->placed);
        if (height <= k->height) { /* a sideways move is taken too: plateaus are wide */
            keep_trial(k, height, height < k->height ? "search" : k->method);
            uint32_t *old = k->best_order;
            k->best_order = k->order;
            k->order = old;
        }
    }
}

typedef struct placed_at {
    uint64_t offset;
    uint32_t item;
} placed_at;

static int by_offset(const void *a, const void *b) {
    const placed_at *x = a, *y = b;
    if (x->offset != y->offset) {
        return x->offset < y->offset ? -1 : 1;
    }
    return x->item < y->item ? -1 : x->item > y->item;
}

/* The moves start from the best packing: by rising offset it is placed as it is. */
static hr_status order_best(packer *k) {
    placed_at *list = hri_malloc(k->p.count * sizeof *list);
    if (!list) {
        return HR_E_NOMEM_HOST;
    }
    for (uint32_t i = 0; i < k->p.count; i++) {
        list[i] = (placed_at){k->best[i], i};
    }
    qsort(list, k->p.count, sizeof *list, by_offset);
    for (uint32_t i = 0; i < k->p.count; i++) {
        k->best_order[i] = list[i].item;
    }
    k->best_fit = HRI_PACK_LOWEST;
    hri_free(list);
    return HR_OK;
}

static void use_steps(packer *k, uint64_t steps) {
    k->steps_left -= steps;
    k->steps_used += steps;
}

/* The large ones exactly, the small ones into the gaps: on training steps the small ones are many and weigh nothing. */
static hr_status try_coarse(packer *k, uint64_t steps) {
    const uint64_t nodes = steps * NODES_A_STEP / COARSE_MOST;
    use_steps(k, steps);
    for (uint64_t part = 128; part <= 4096 && !good_enough(k); part *= 2) {
        uint64_t height;
        hr_status status = hri_pack_coarse(&k->p, k->p.lower_bound / part, nodes / 6, k->height,
                                           k->trial, k->order, k->placed, &height);
        if (status == HR_OK && height < k->height) {
            keep_trial(k, height, "coarse");
            status = order_best(k);
        }
        if (status != HR_OK) {
            return status;
        }
    }
    return HR_OK;
}

static uint64_t height_of(const packer *k, const uint64_t *offsets) {
    uint64_t height = 0;
    for (uint32_t i = 0; i < k->p.count; i++) {
        const uint64_t end = offsets[i] + k->p.items[i].size;
        height = end > height ? end : height;
    }
    return height;
}

/* The search for the goal is kept and gone on with: what failed in it need not fail again. */
static hr_status search_height(packer *k, uint64_t height, uint64_t *nodes,
                               hri_pack_verdict *verdict) {
    if (!k->most_bytes || height != k->goal) {
        return hri_pack_exact(&k->p, height, HRI_PACK_EXACT_BYTES, nodes, k->trial, verdict);
    }
    hr_status status = HR_OK;
    if (!k->exact) {
        status = hri_pack_exact_create(&k->p, height, k->most_bytes, &k->exact);
    }
    return status == HR_OK ? hri_pack_exact_run(k->exact, nodes, k->trial, verdict) : status;
}

/* One height, with at most so many steps; those used are taken off. */
static hr_status try_height(packer *k, uint64_t height, uint64_t *steps,
                            hri_pack_verdict *verdict) {
    const uint64_t a_step = NODES_A_STEP / k->p.count + 1;
    uint64_t nodes = *steps * a_step;
    hr_status status = search_height(k, height, &nodes, verdict);
    const uint64_t used = *steps - nodes / a_step;
    use_steps(k, used);
    *steps -= used;
    if (status == HR_OK && *verdict == HRI_PACK_FOUND) {
        keep_trial(k, height_of(k, k->trial), "exact");
        status = order_best(k);
    } else if (status == HR_OK && *verdict == HRI_PACK_NONE) {
        k->above = height + k->align;
    }
    return status;
}

/* The goal itself when there is one; else the bound, and half way up to what is there, as long as one of them is
 * decided. */
static hr_status try_exact(packer *k, uint64_t steps) {
    hri_pack_verdict verdict = HRI_PACK_FOUND;
    while (steps > 0 && !settled(k) && verdict != HRI_PACK_GAVE_UP) {
        const uint64_t low = k->goal > k->above ? k->goal : k->above;
        uint64_t half = k->goal ? steps : (steps + 1) / 2;
        steps -= half;
        hr_status status = try_height(k, low, &half, &verdict);
        steps += half;
        if (status == HR_OK && verdict == HRI_PACK_GAVE_UP && !k->goal && steps > 0) {
            const uint64_t middle = low + (k->height - low) / 2 / k->align * k->align;
            status = try_height(k, middle, &steps, &verdict);
        }
        if (status != HR_OK) {
            return status;
        }
    }
    return HR_OK;
}

static hr_status try_blocks(packer *k, uint64_t steps) {
    uint64_t nodes = steps * (NODES_A_STEP / k->p.count + 1);
    hri_pack_verdict verdict;
    use_steps(k, steps);
    hr_status status = HR_OK;
    if (!k->blocks) {
        status = hri_pack_blocks_create(&k->p, k->goal, k->most_bytes, k->threads, &k->blocks);
    }
    if (status == HR_OK) {
        status = hri_pack_blocks_run(k->blocks, &nodes, k->trial, &verdict);
    }
    if (status == HR_OK && verdict == HRI_PACK_FOUND) {
        keep_trial(k, height_of(k, k->trial), "blocks");
        status = order_best(k);
    }
    return status;
}

static uint64_t at_most(uint64_t steps, uint64_t left) {
    return steps < left ? steps : left;
}

/* The means in turn, each time with twice the steps: what is found early does not wait for a large effort. */
static hr_status try_all(packer *k) {
    const int exact = k->p.count <= EXACT_MOST, thorough = exact && k->most_bytes && k->goal;
    hr_status status = HR_OK;
    for (uint64_t share = FIRST_SHARE; status == HR_OK && k->steps_left > 0 && !settled(k);
         share *= 2) {
        const uint64_t less = thorough ? share / 4 : share; /* what seldom decides a tight one */
        if (exact) {
            status = try_exact(k, at_most(share, k->steps_left));
        }
        if (status == HR_OK && thorough && !settled(k) && k->steps_left > 0) {
            status = try_blocks(k, at_most(2 * share, k->steps_left)); /* decides most of them */
        }
        if (status == HR_OK && !settled(k)) {
            status = try_coarse(k, at_most(less, k->steps_left));
        }
        if (status == HR_OK && !settled(k)) {
            try_moves(k, at_most(less, k->steps_left));
        }
    }
    return status;
}

hr_status hri_pack(const hri_pack_buffer *buffers, size_t count, const hri_pack_options *options,
                   uint64_t *offsets, hri_pack_result *out) {
    static const hri_pack_options none = {0};
    options = options ? options : &none;
    packer k = {.align = options->align ? options->align : 1,
                .goal = options->capacity,
                .most_bytes = options->search_bytes,
                .threads = options->threads,
                .steps_left = options->effort ? options->effort : DEFAULT_EFFORT};
    if ((k.align & (k.align - 1)) != 0) {
        return HR_E_INVALID;
    }
    hr_status status = check_buffers(buffers, count, k.align);
    if (status == HR_OK) {
        status = packer_init(&k, buffers, count);
    }
    if (status == HR_OK && k.p.count == 0) {
        k.height = 0;
    } else if (status == HR_OK) {
        try_orders(&k);
        status = try_all(&k);
    }
    if (status == HR_OK) {
        for (size_t i = 0; i < count; i++) {
            offsets[i] = 0; /* those of no size or no life */
        }
        for (uint32_t i = 0; i < k.p.count; i++) {
            offsets[k.p.source[i]] = k.best[i];
        }
        *out = (hri_pack_result){.height = k.height,
                                 .lower_bound = k.p.lower_bound,
                                 .method = k.method,
                                 .proved = k.height <= k.above,
                                 .refuted = k.goal && k.above > k.goal,
                                 .steps = k.steps_used};
    }
    packer_deinit(&k);
    return status;
}

uint64_t hri_pack_bytes(uint64_t count) {
    const uint64_t each =
        sizeof(hri_pack_item) + 4 * sizeof(uint64_t) + 4 * sizeof(uint32_t) + sizeof(hri_pack_key);
    const uint64_t exact = count < EXACT_MOST ? count : EXACT_MOST;
    const uint64_t lists = exact * exact * 32;
    return count * each + exact * 128 +
           (lists < HRI_PACK_EXACT_BYTES ? lists : HRI_PACK_EXACT_BYTES);
}
