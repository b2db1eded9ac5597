/* See gpu_dnn.h. */
#include "device/cuda/gpu_dnn.h"

#include <stdio.h>
#include <string.h>
#include "base/alloc.h"

typedef struct dnn_part {
    hri_dnn dnn;
    hri_strmap records; /* key -> hri_gpu_dnn_record * */
} dnn_part;

static void close_dnn(void *part) {
    dnn_part *p = part;
    uint64_t at_record;
    for (size_t at = 0; hri_strmap_next(&p->records, &at, NULL, &at_record);) {
        hri_gpu_dnn_record *r = (hri_gpu_dnn_record *)(uintptr_t)at_record;
        hri_dnn_graph_deinit(&r->graph);
        hri_free(r);
    }
    hri_strmap_deinit(&p->records);
    hri_dnn_unload(&p->dnn);
    hri_free(p);
}

static dnn_part *part_of(hri_gpu *gpu) {
    dnn_part *p = gpu->libs->part[HRI_GPU_PART_DNN];
    int pushed;
    if (!p && !gpu->options.no_cudnn && !gpu->capturing &&
        hri_cuda_enter(gpu->dev, &pushed) == HR_OK) {
        p = hri_calloc(1, sizeof *p);
        if (p) {
            hri_dnn_load(&p->dnn);
            hri_dnn_start(&p->dnn, NULL);
            if (!p->dnn.usable) {
                hri_gpu_fail(gpu, HR_E_UNSUPPORTED, "cuDNN is not available: %s", p->dnn.why_not);
            }
            gpu->libs->part[HRI_GPU_PART_DNN] = p;
            gpu->libs->close[HRI_GPU_PART_DNN] = close_dnn;
        }
        hri_cuda_leave(gpu->dev, pushed);
    }
    return p && p->dnn.usable ? p : NULL;
}

const hri_dnn *hri_gpu_dnn(hri_gpu *gpu) {
    dnn_part *p = part_of(gpu);
    return p ? &p->dnn : NULL;
}

void hri_gpu_dnn_version(hri_gpu *gpu, char *buf, size_t size) {
    const dnn_part *p = gpu->libs->part[HRI_GPU_PART_DNN];
    if (p && p->dnn.usable) {
        snprintf(buf, size, "%zu", p->dnn.version);
    } else {
        snprintf(buf, size, "none");
    }
}

/* Plans for the engine that was chosen before, or else for all. */
static hr_status build_record(hri_gpu *gpu, const hri_dnn *dnn, const char *key,
                              const void *problem, hri_gpu_dnn_build *build,
                              hri_gpu_dnn_record *r) {
    const char *tag = hri_gpu_choice_get(gpu, key);
    hri_dnn_graph_init(&r->graph, dnn);
    if (tag && build(gpu, problem, tag, r) == HR_OK) {
        r->tuned = 1;
        return HR_OK;
    }
    hri_dnn_graph_deinit(&r->graph);
    hri_dnn_graph_init(&r->graph, dnn);
    return build(gpu, problem, NULL, r);
}

hri_gpu_dnn_record *hri_gpu_dnn_find(hri_gpu *gpu, const char *key, const void *problem,
                                     hri_gpu_dnn_build *build) {
    dnn_part *p = part_of(gpu);
    uint64_t found;
    int pushed;
    if (!p) {
        return NULL;
    }
    if (hri_strmap_get(&p->records, key, &found)) {
        hri_gpu_dnn_record *r = (hri_gpu_dnn_record *)(uintptr_t)found;
        return r->count ? r : NULL;
    }
    hri_gpu_dnn_record *r = hri_calloc(1, sizeof *r);
    if (!r || hri_strmap_put(&p->records, key, (uint64_t)(uintptr_t)r) != HR_OK) {
        hri_free(r);
        return NULL;
    }
    hr_status status = hri_cuda_enter(gpu->dev, &pushed);
    if (status == HR_OK) {
        status = build_record(gpu, &p->dnn, key, problem, build, r);
        hri_cuda_leave(gpu->dev, pushed);
    }
    if (status != HR_OK) {
        r->count = 0;
        hri_gpu_fail(gpu, status, "cuDNN: %s (%s)", r->graph.text, key);
        hri_log_write(gpu->dev->lib->base.log, HR_LOG_INFO, "cuDNN: %s (%s)", r->graph.text, key);
        return NULL;
    }
    return r;
}

uint64_t hri_gpu_dnn_need(const hri_gpu_dnn_record *r, uint64_t limit) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        const uint64_t bytes = r->plans[i].workspace_bytes;
        most = bytes <= limit && bytes > most ? bytes : most;
    }
    return most;
}

typedef struct attempt {
    hri_gpu *gpu;
    hri_gpu_dnn_record *r;
    const hri_dnn_bound *bound;
    uint32_t count;
    hr_addr workspace;
    uint64_t workspace_bytes;
} attempt;

static hr_status try_one(void *user, uint32_t index) {
    const attempt *t = user;
    const hri_dnn_plan *plan = &t->r->plans[index];
    if (plan->workspace_bytes > t->workspace_bytes) {
        return HR_E_UNSUPPORTED;
    }
    return hri_dnn_run(hri_gpu_dnn(t->gpu), t->gpu->stream, plan, t->bound, t->count,
                       (void *)(uintptr_t)t->workspace, t->r->graph.text);
}

static hr_status choose(attempt *t, const char *key, const hri_gpu_contest *contest) {
    hri_gpu_dnn_record *r = t->r;
    hri_gpu_contest c = *contest;
    const char *tags[HRI_GPU_CANDIDATES];
    for (uint32_t i = 0; i < r->count; i++) {
        tags[i] = r->plans[i].tag;
    }
    c.count = r->count;
    c.run = try_one;
    c.user = t;
    uint32_t best = 0;
    hri_hash128 digest;
    const hr_status status = hri_gpu_pick(t->gpu, key, &c, tags, &best, &digest);
    if (status == HR_OK) {
        hri_gpu_choice_put(t->gpu, key, tags[best], digest);
        r->plans[0] = r->plans[best]; /* from now on its need is the answer */
        r->count = 1;
    }
    return status;
}

hr_status hri_gpu_dnn_run(hri_gpu *gpu, hri_gpu_dnn_record *r, const char *key,
                          const hri_gpu_contest *contest, const hri_dnn_bound *bound,
                          uint32_t count, hr_addr workspace, uint64_t workspace_bytes) {
    attempt t = {gpu, r, bound, count, workspace, workspace_bytes};
    int pushed;
    hr_status status = hri_gpu_ready(gpu);
    if (status == HR_OK) {
        status = hri_cuda_enter(gpu->dev, &pushed);
    }
    if (status != HR_OK) {
        return status;
    }
    if (!r->tuned && gpu->trial_at && !gpu->capturing) {
        const hr_status chosen = choose(&t, key, contest);
        if (chosen != HR_OK && chosen != HR_E_UNSUPPORTED) {
            hri_cuda_leave(gpu->dev, pushed);
            return chosen;
        }
        r->tuned = 1;
    }
    hri_gpu_choice_used(gpu, key);
    status = HR_E_UNSUPPORTED;
    for (uint32_t i = 0; i < r->count && status == HR_E_UNSUPPORTED; i++) {
        status = try_one(&t, i);
    }
    hri_cuda_leave(gpu->dev, pushed);
    if (status == HR_E_DEVICE) {
        hri_gpu_fail(gpu, status, "cuDNN: %s (%s, engine %s)", r->graph.text, key, r->plans[0].tag);
    }
    return status;
}
