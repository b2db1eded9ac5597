/* The rule of gpu_tune.h.  Times are the device's own, between two events of the queue; the middle one of nine runs of a few
 * launches each counts, and candidates run in turns. */
#include "device/cuda/gpu_tune.h"

#include <stdio.h>
#include <string.h>

HRI_CU(tune);

enum {
    FEW = 8,
    ROUNDS = 9,
    THREADS = 256,
    BLOCKS = HRI_GPU_TRIAL_BYTES / 16,
    SMALL_BYTES = 1 << 18
};

typedef struct table {
    hri_hash128 digest[HRI_GPU_CONTEST_MOST];
    uint8_t runs[HRI_GPU_CONTEST_MOST]; /* it has not failed */
} table;

void hri_gpu_trial(hri_gpu *gpu, hr_addr at) {
    gpu->trial_at = at;
}

void hri_gpu_set_together(hri_gpu *gpu, int together) {
    if (gpu) {
        gpu->together = together;
    }
}

uint32_t hri_gpu_candidates(const hri_gpu *gpu) {
    const uint32_t wanted = gpu->options.candidates ? gpu->options.candidates : FEW;
    return wanted < HRI_GPU_CANDIDATES ? wanted : HRI_GPU_CANDIDATES;
}

/* ---- digests ---- */

static int64_t blocks_for(int64_t elements) {
    const int64_t wanted = (elements + THREADS * 8 - 1) / (THREADS * 8);
    return wanted < 1 ? 1 : wanted;
}

static hr_status fill(hri_gpu *gpu, const hri_gpu_operand *x, uint32_t index, uint32_t seed,
                      int cancels) {
    hr_addr to = x->at;
    int64_t count = x->count, stride = x->stride, period = x->period, extent = x->extent;
    int type = x->type == HR_TYPE_F16 ? 2 : x->type == HR_TYPE_BF16, top = x->top;
    int cancel = cancels && extent > 1, negate = x->negate;
    uint64_t from = hri_hash_u64((uint64_t)seed << 8 | index);
    const int64_t blocks = blocks_for(count);
    const hri_gpu_grid grid = {.x = (uint32_t)(blocks < 4096 ? blocks : 4096), .threads = THREADS};
    return hri_gpu_launch(
        gpu, &hri_cu_tune, NULL, "hr_fill", &grid,
        HRI_GPU_ARGS(&to, &count, &type, &top, &from, &stride, &period, &extent, &cancel, &negate));
}

hr_status hri_gpu_make_up(hri_gpu *gpu, hr_addr at, hr_type type, int64_t count) {
    const hri_gpu_operand x = {
        .at = at, .type = type, .count = count, .stride = 1, .period = 1, .extent = 1};
    return fill(gpu, &x, 0, 1, 0);
}

static hr_status digest_one(hri_gpu *gpu, const hri_gpu_result *r, hri_hasher *h) {
    uint64_t part[2 * BLOCKS], low = 0, high = 0;
    hr_addr from = r->at, to = gpu->trial_at;
    int64_t bytes = (int64_t)r->bytes;
    const int64_t wanted = blocks_for(bytes / 4);
    const uint32_t blocks = (uint32_t)(wanted < BLOCKS ? wanted : BLOCKS);
    const hri_gpu_grid grid = {
        .x = blocks, .threads = THREADS, .shared_bytes = THREADS * 2 * sizeof(uint64_t)};
    hr_status status = hri_gpu_launch(gpu, &hri_cu_tune, NULL, "hr_digest", &grid,
                                      HRI_GPU_ARGS(&from, &bytes, &to));
    if (status == HR_OK) {
        status = hri_gpu_copy(gpu, (hr_addr)(uintptr_t)part, to, blocks * 2 * sizeof part[0]);
    }
    if (status == HR_OK) {
        status =
            hri_gpu_check(gpu, "cuStreamSynchronize", gpu->cu->cuStreamSynchronize(gpu->stream));
    }
    for (uint32_t i = 0; i < blocks && status == HR_OK; i++) {
        low += part[2 * i];
        high += part[2 * i + 1];
    }
    hri_hasher_add_u64(h, low);
    hri_hasher_add_u64(h, high);
    return status;
}

/* Runs a candidate and digests what it gave.  *ran is 0 when it refused, which is no failure of ours. */
static hr_status run_one(hri_gpu *gpu, const hri_gpu_contest *c, uint32_t index, hri_hasher *h,
                         uint8_t *ran) {
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < c->result_count && status == HR_OK; i++) {
        status = hri_gpu_fill(gpu, c->results[i].at, 0xa5, c->results[i].bytes);
    }
    if (status != HR_OK) {
        return status;
    }
    if (c->run(c->user, index) != HR_OK) {
        *ran = 0;
        return hri_gpu_ready(gpu);
    }
    for (uint32_t i = 0; i < c->result_count && status == HR_OK; i++) {
        status = digest_one(gpu, &c->results[i], h);
    }
    return status;
}

static int same(hri_hash128 a, hri_hash128 b) {
    return a.lo == b.lo && a.hi == b.hi;
}

/* One set of operands for all candidates.  `again`: the digests must be those of the call before. */
static hr_status run_all(hri_gpu *gpu, const hri_gpu_contest *c, int again, hri_hasher *sums,
                         hri_hash128 *last, table *t) {
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < c->count && status == HR_OK; i++) {
        hri_hasher h;
        hri_hasher_init(&h, 0);
        status = t->runs[i] ? run_one(gpu, c, i, &h, &t->runs[i]) : HR_OK;
        const hri_hash128 is = hri_hasher_get(&h);
        t->runs[i] = t->runs[i] && (!again || same(is, last[i]));
        last[i] = is;
        if (!again) {
            hri_hasher_add_u64(&sums[i], is.lo);
            hri_hasher_add_u64(&sums[i], is.hi);
        }
    }
    return status;
}

/* A small result may hide a difference that a large one shows: it is made from more than one set of operands. */
static hr_status make_table(hri_gpu *gpu, const hri_gpu_contest *c, table *t) {
    hri_hasher sums[HRI_GPU_CONTEST_MOST];
    hri_hash128 last[HRI_GPU_CONTEST_MOST];
    uint64_t bytes = 0;
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < c->count; i++) {
        hri_hasher_init(&sums[i], 0);
        t->runs[i] = 1;
    }
    for (uint32_t i = 0; i < c->result_count; i++) {
        bytes += c->results[i].bytes;
    }
    const uint32_t sets = bytes < SMALL_BYTES ? 8 : 2; /* even ones are plain, odd ones cancel */
    for (uint32_t set = 0; set < sets && status == HR_OK; set++) {
        for (uint32_t i = 0; i < c->operand_count && status == HR_OK; i++) {
            status = fill(gpu, &c->operands[i], i, set, set & 1);
        }
        status = status == HR_OK ? run_all(gpu, c, 0, sums, last, t) : status;
    }
    status = status == HR_OK ? run_all(gpu, c, 1, sums, last, t) : status;
    for (uint32_t i = 0; i < c->count; i++) {
        t->digest[i] = hri_hasher_get(&sums[i]);
    }
    return status;
}

/* ---- times ---- */

/* Milliseconds of `launches` runs of a candidate; negative when it failed. */
static float time_one(hri_gpu *gpu, const hri_gpu_contest *c, uint32_t index, int launches,
                      CUevent from, CUevent to) {
    const hri_cuda_driver *cu = gpu->cu;
    float ms = -1.0f;
    hr_status status = cu->cuEventRecord(from, gpu->stream) == CUDA_SUCCESS ? HR_OK : HR_E_DEVICE;
    for (int i = 0; i < launches && status == HR_OK; i++) {
        status = c->run(c->user, index);
    }
    if (status != HR_OK || cu->cuEventRecord(to, gpu->stream) != CUDA_SUCCESS ||
        cu->cuStreamSynchronize(gpu->stream) != CUDA_SUCCESS ||
        cu->cuEventElapsedTime(&ms, from, to) != CUDA_SUCCESS) {
        return -1.0f;
    }
    return ms / (float)launches;
}

static float middle_of(float *ms, int count) {
    for (int i = 1; i < count; i++) {
        const float x = ms[i];
        int k = i;
        for (; k > 0 && ms[k - 1] > x; k--) {
            ms[k] = ms[k - 1];
        }
        ms[k] = x;
    }
    return ms[count / 2];
}

/* All in turns, so that a clock that sinks while the device gets warm sinks for all; who is far behind after one launch is not
 * timed again. */
static void time_in_turns(hri_gpu *gpu, const hri_gpu_contest *c, const uint8_t *wanted,
                          CUevent from, CUevent to, float *ms) {
    float turns[HRI_GPU_CONTEST_MOST][ROUNDS], least = -1.0f;
    for (uint32_t i = 0; i < c->count; i++) {
        ms[i] = wanted[i] ? time_one(gpu, c, i, 1, from, to) : -1.0f;
        ms[i] = ms[i] >= 0.0f ? time_one(gpu, c, i, 1, from, to) : ms[i]; /* the first loads code */
        least = ms[i] >= 0.0f && (least < 0.0f || ms[i] < least) ? ms[i] : least;
    }
    const int launches = least < 0.2f ? 4 : 1;
    uint8_t close[HRI_GPU_CONTEST_MOST] = {0};
    for (uint32_t i = 0; i < c->count; i++) {
        close[i] = ms[i] >= 0.0f && ms[i] <= 1.5f * least;
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < c->count; i++) {
            turns[i][round] = close[i] ? time_one(gpu, c, i, launches, from, to) : 0.0f;
            close[i] = close[i] && turns[i][round] >= 0.0f;
        }
    }
    for (uint32_t i = 0; i < c->count; i++) {
        if (ms[i] >= 0.0f && ms[i] <= 1.5f * least) {
            ms[i] = close[i] ? middle_of(turns[i], ROUNDS) : -1.0f;
        }
    }
}

static void time_some(hri_gpu *gpu, const hri_gpu_contest *c, const uint8_t *wanted, float *ms) {
    const hri_cuda_driver *cu = gpu->cu;
    CUevent from = NULL, to = NULL;
    if (cu->cuEventElapsedTime && cu->cuEventCreate(&from, CU_EVENT_DEFAULT) == CUDA_SUCCESS &&
        cu->cuEventCreate(&to, CU_EVENT_DEFAULT) == CUDA_SUCCESS) {
        time_in_turns(gpu, c, wanted, from, to, ms);
    }
    if (from) {
        hri_cuda_must(gpu->dev, "cuEventDestroy", cu->cuEventDestroy_v2(from));
    }
    if (to) {
        hri_cuda_must(gpu->dev, "cuEventDestroy", cu->cuEventDestroy_v2(to));
    }
}

/* ---- the rule ---- */

/* The candidate that is first in order among those that run; c->count when none does. */
static uint32_t leader(const hri_gpu_contest *c, const table *t) {
    if (t->runs[c->first]) {
        return c->first;
    }
    uint32_t i = 0;
    while (i < c->count && !t->runs[i]) {
        i++;
    }
    return i;
}

static void tell(hri_gpu *gpu, const char *key, const hri_gpu_contest *c, const table *t,
                 const float *ms, const char *const *tags, uint32_t best) {
    hri_gpu_candidate list[HRI_GPU_CONTEST_MOST];
    for (uint32_t i = 0; i < c->count; i++) {
        list[i] = (hri_gpu_candidate){t->runs[i] ? (int)i : -1, ms[i], tags ? tags[i] : ""};
        for (uint32_t k = 0; k < i && t->runs[i]; k++) {
            if (t->runs[k] && same(t->digest[k], t->digest[i])) {
                list[i].group = (int)k;
                break;
            }
        }
    }
    gpu->options.report(gpu->options.report_user, key, list, c->count, best);
}

static hr_status pick(hri_gpu *gpu, const char *key, const hri_gpu_contest *c,
                      const char *const *tags, uint32_t *out, hri_hash128 *digest) {
    table t = {0};
    uint8_t wanted[HRI_GPU_CONTEST_MOST] = {0};
    float ms[HRI_GPU_CONTEST_MOST];
    const hr_status status = make_table(gpu, c, &t);
    if (status != HR_OK) {
        return status;
    }
    uint32_t best = leader(c, &t), members = 0;
    if (best == c->count) {
        return HR_E_UNSUPPORTED;
    }
    const hri_hash128 bits = t.digest[best];
    for (uint32_t i = 0; i < c->count; i++) {
        wanted[i] = t.runs[i] && (gpu->options.fastest || same(t.digest[i], bits));
        members += wanted[i];
        ms[i] = -1.0f;
    }
    if (members > 1 || gpu->options.report) {
        time_some(gpu, c, gpu->options.report ? t.runs : wanted, ms);
        for (uint32_t i = 0; i < c->count; i++) {
            best = wanted[i] && ms[i] >= 0.0f && (ms[best] < 0.0f || ms[i] < ms[best]) ? i : best;
        }
    }
    if (gpu->options.report) {
        tell(gpu, key, c, &t, ms, tags, best);
    }
    *out = best;
    *digest = t.digest[best];
    return HR_OK;
}

hr_status hri_gpu_pick(hri_gpu *gpu, const char *key, const hri_gpu_contest *c,
                       const char *const *tags, uint32_t *out, hri_hash128 *digest) {
    int pushed;
    if (!gpu->trial_at || gpu->capturing) {
        return HR_E_BUSY;
    }
    if (c->count > HRI_GPU_CONTEST_MOST || c->first >= c->count) {
        return HR_E_INVALID;
    }
    hr_status status = hri_cuda_enter(gpu->dev, &pushed);
    if (status == HR_OK) {
        status = pick(gpu, key, c, tags, out, digest);
        hri_cuda_leave(gpu->dev, pushed);
    }
    return status;
}

/* ---- ways ---- */

static const char *way_key(hri_gpu *gpu, const char *key, char *buf) {
    snprintf(buf, HRI_GPU_KEY, "way %s %s", gpu->dev->description, key);
    return buf;
}

int hri_gpu_chosen(hri_gpu *gpu, const char *key) {
    char full[HRI_GPU_KEY];
    const char *tag = hri_gpu_choice_get(gpu, way_key(gpu, key, full));
    return tag && tag[0] >= '0' && tag[0] <= '9' && !tag[1] ? tag[0] - '0' : -1;
}

hr_status hri_gpu_choose(hri_gpu *gpu, const char *key, const hri_gpu_contest *contest,
                         uint32_t *out) {
    char full[HRI_GPU_KEY];
    hri_hash128 digest;
    const int known = hri_gpu_chosen(gpu, key);
    way_key(gpu, key, full);
    if (known >= 0 && (uint32_t)known < contest->count) {
        hri_gpu_choice_used(gpu, full);
        *out = (uint32_t)known;
        return HR_OK;
    }
    uint32_t best = 0;
    const hr_status status = hri_gpu_pick(gpu, full, contest, NULL, &best, &digest);
    if (status == HR_OK) {
        const char tag[2] = {(char)('0' + best), 0};
        hri_gpu_choice_put(gpu, full, tag, digest);
        *out = best;
    }
    return status;
}
