/* Packing by blocks, in waves of attempts (pack_regroup.c): first a look at each kind, then turns, most of them with the kinds that
 * leave few blocks.
 *
 * The attempts of a wave run at the same time where there are threads.  What is to be done in a wave is settled before it
 * begins, and the first in it that finds a packing has found it, so the number of threads changes nothing but the time. */
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/threads.h"
#include "plan/pack_blocks.h"

enum { WAVE = 8 };

struct hri_pack_regroup {
    hri_pack_attempt attempts[WAVE];
    hri_threads *threads;
    _Atomic uint32_t first_found;
    uint32_t looked, turn;
    uint32_t kinds[HRI_PACK_KINDS], left[HRI_PACK_KINDS]; /* the best first */
};

typedef hri_pack_regroup regroup;

/* ---- kinds ---- */

static uint32_t rank_of(const regroup *g, uint32_t kind, uint32_t count) {
    uint32_t rank = 0;
    while (rank < count && g->kinds[rank] != kind) {
        rank++;
    }
    return rank;
}

/* Puts the kind, which stands at that rank, where it belongs by the blocks that it left. */
static void rank_kind(regroup *g, uint32_t rank, uint32_t count, uint32_t kind, uint32_t left) {
    uint32_t at = rank;
    for (; at + 1 < count && g->left[at + 1] < left; at++) {
        g->left[at] = g->left[at + 1];
        g->kinds[at] = g->kinds[at + 1];
    }
    for (; at > 0 && g->left[at - 1] > left; at--) {
        g->left[at] = g->left[at - 1];
        g->kinds[at] = g->kinds[at - 1];
    }
    g->left[at] = left;
    g->kinds[at] = kind;
}

/* The best one every second time, the next every fourth. */
static uint32_t kind_of_turn(const regroup *g, uint32_t turn) {
    uint32_t rank = 0;
    while (rank < HRI_PACK_KINDS - 1 && turn >> rank & 1) {
        rank++;
    }
    return g->kinds[rank];
}

/* ---- waves ---- */

static void run_attempt(void *arg, uint32_t task, uint32_t worker) {
    (void)worker;
    regroup *g = arg;
    hri_pack_attempt *a = &g->attempts[task];
    if (atomic_load(&g->first_found) < task) {
        return;
    }
    hri_pack_attempt_run(a);
    uint32_t first = atomic_load(&g->first_found);
    while (a->verdict == HRI_PACK_FOUND && task < first &&
           !atomic_compare_exchange_weak(&g->first_found, &first, task)) {
    }
}

static uint32_t prepare_wave(regroup *g, uint64_t nodes) {
    const uint32_t to_look = HRI_PACK_KINDS - g->looked;
    const uint32_t count = to_look > 0 && to_look < WAVE ? to_look : WAVE;
    for (uint32_t i = 0; i < count; i++) {
        hri_pack_attempt *a = &g->attempts[i];
        a->number = i;
        a->nodes = nodes;
        a->looking = to_look > 0;
        a->turn = g->turn + i;
        a->kind = a->looking ? g->looked + i : kind_of_turn(g, a->turn);
    }
    atomic_store(&g->first_found, WAVE);
    return count;
}

/* *winner is the number of the attempt that found a packing; else WAVE. */
static hr_status run_wave(regroup *g, uint64_t *nodes, uint32_t *winner) {
    const uint64_t each = *nodes;
    const uint32_t count = prepare_wave(g, each);
    hri_threads_run(g->threads, count, run_attempt, g);
    *winner = atomic_load(&g->first_found);
    for (uint32_t i = 0; i < count && i <= *winner; i++) {
        const hri_pack_attempt *a = &g->attempts[i];
        const uint64_t used = each - a->nodes;
        if (a->status != HR_OK) {
            return a->status;
        }
        *nodes -= used < *nodes ? used : *nodes;
        const uint32_t known = a->looking ? g->looked++ : HRI_PACK_KINDS;
        const uint32_t rank = a->looking ? known : rank_of(g, a->kind, HRI_PACK_KINDS);
        rank_kind(g, rank, a->looking ? g->looked : HRI_PACK_KINDS, a->kind, a->left);
        g->turn += !a->looking;
    }
    return HR_OK;
}

void hri_pack_blocks_destroy(hri_pack_regroup *g) {
    for (uint32_t i = 0; g && i < WAVE; i++) {
        hri_pack_attempt_deinit(&g->attempts[i]);
    }
    hri_free(g);
}

hr_status hri_pack_blocks_create(const hri_pack_problem *p, uint64_t capacity, size_t most_bytes,
                                 hri_threads *threads, hri_pack_regroup **out) {
    hri_pack_regroup *g = hri_calloc(1, sizeof *g);
    if (!g) {
        return HR_E_NOMEM_HOST;
    }
    g->threads = threads;
    for (uint32_t i = 0; i < WAVE; i++) {
        hri_pack_attempt *a = &g->attempts[i];
        a->capacity = capacity;
        a->most_bytes = most_bytes / WAVE;
        a->first_found = &g->first_found;
        const hr_status status = hri_pack_attempt_init(a, p);
        if (status != HR_OK) {
            hri_pack_blocks_destroy(g);
            return status;
        }
    }
    *out = g;
    return HR_OK;
}

hr_status hri_pack_blocks_run(hri_pack_regroup *g, uint64_t *nodes, uint64_t *offsets,
                              hri_pack_verdict *verdict) {
    hr_status status = HR_OK;
    uint32_t winner = WAVE;
    while (status == HR_OK && winner == WAVE && *nodes > 0) {
        status = run_wave(g, nodes, &winner);
    }
    *verdict = HRI_PACK_GAVE_UP; /* that the blocks do not fit says nothing of the buffers */
    if (status == HR_OK && winner < WAVE) {
        hri_pack_attempt_offsets(&g->attempts[winner], offsets);
        *verdict = HRI_PACK_FOUND;
    }
    return status;
}
