/* What replicas on a GPU give one another, against one copy of as many bytes: exchange [DEVICE [OTHER]].
 *
 *   exchange              slices of cuda:0
 *   exchange cuda:0 cuda:1
 *
 * The tensors are the gradients of ResNet-50 in f32, from one arena into another, as the copies of run/group.c move them.  Both are
 * counted as bytes read and bytes written.  Exit code 1: below 80 % of the copy. */
#include <headroom/headroom.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/device.h"
#include "run/engine.h"

enum { TENSORS = 192, RUNS = 20, ALIGN = 256 };

static uint64_t sizes[TENSORS];
static uint32_t count;

static void conv(uint64_t k, uint64_t in, uint64_t out) {
    sizes[count++] = 4 * k * k * in * out;
    sizes[count++] = 4 * out; /* batch norm */
    sizes[count++] = 4 * out;
}

static void list_tensors(void) {
    static const uint32_t blocks[] = {3, 4, 6, 3};
    uint64_t in = 64;
    conv(7, 3, 64);
    for (uint32_t s = 0; s < 4; s++) {
        const uint64_t width = UINT64_C(64) << s;
        for (uint32_t b = 0; b < blocks[s]; b++) {
            conv(1, in, width);
            conv(3, width, width);
            conv(1, width, 4 * width);
            if (b == 0) {
                conv(1, in, 4 * width);
            }
            in = 4 * width;
        }
    }
    sizes[count++] = 4 * 2048 * 1000;
    sizes[count++] = 4 * 1000;
}

typedef struct place {
    hr_device *device;
    hri_engine *engine;
    hr_range *range;
    hr_event *events[2];
} place;

static void must(hr_status status, const char *what, const char *why) {
    if (status != HR_OK) {
        fprintf(stderr, "exchange: %s: %s%s%s\n", what, hr_status_text(status), *why ? ": " : "",
                why);
        exit(2);
    }
}

static void take(hr_ctx *ctx, const char *name, const place *like, uint64_t bytes, place *out) {
    hri_prose why = {""};
    hr_logical *slice;
    must(hr_device_find(ctx, name, &out->device), name, "");
    out->engine = like && like->device == out->device ? like->engine : NULL;
    if (!out->engine) {
        must(hri_engine_open(out->device, NULL, &out->engine, &why), name, why.text);
    }
    if (like && hri_device_let_read(out->device, like->device) != HR_OK) {
        must(HR_E_UNSUPPORTED, name, "its memory cannot be read from the other device");
    }
    const hr_logical_options o = {.size = sizeof o, .limit_bytes = bytes};
    must(hr_logical_create(out->device, &o, &slice), name, "");
    must(hr_range_create(slice, bytes, HR_CATEGORY_OTHER, 0, &out->range), name, "");
    must(hr_range_resize(out->range, bytes), name, "");
    for (int i = 0; i < 2; i++) {
        must(hr_event_create(out->device, &out->events[i]), name, "");
    }
    hr_queue *queue = hri_engine_queue(out->engine, HRI_ENGINE_COMPUTE);
    must(hr_fill(queue, hr_range_addr(out->range), 1, bytes), name, "");
    must(hr_queue_sync(queue), name, "");
}

/* GB/s, read and written, of the fastest of some runs: of one copy, or of the tensors in one launch. */
static double speed(const place *to, const place *from, int whole, uint64_t bytes) {
    hr_queue *queue = hri_engine_queue(to->engine, HRI_ENGINE_COMPUTE);
    hri_gpu *gpu = hri_engine_gpu(to->engine);
    hri_gpu_range ranges[TENSORS];
    uint64_t at = 0, best = UINT64_MAX, ns = 0, moved = 0;
    for (uint32_t i = 0; i < count; i++) {
        ranges[i] = (hri_gpu_range){hr_range_addr(to->range) + at, hr_range_addr(from->range) + at,
                                    sizes[i]};
        at += (sizes[i] + ALIGN - 1) / ALIGN * ALIGN;
        moved += sizes[i];
    }
    hri_gpu_use(gpu, queue);
    for (int i = 0; i < RUNS; i++) {
        must(hr_event_mark(to->events[0], queue), "marking", "");
        if (whole) {
            must(hr_copy(queue, ranges[0].to, ranges[0].from, bytes), "copying", "");
        } else {
            must(hri_gpu_copy_ranges(gpu, ranges, count), "copying", hri_gpu_detail(gpu));
        }
        must(hr_event_mark(to->events[1], queue), "marking", "");
        must(hr_queue_sync(queue), "copying", "");
        must(hr_event_elapsed(to->events[0], to->events[1], &ns), "timing", "");
        best = i && ns && ns < best ? ns : best;
    }
    return 2 * (double)(whole ? bytes : moved) / (double)best;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "cuda:0", *other = argc > 2 ? argv[2] : name;
    hr_ctx *ctx;
    place to = {0}, from = {0};
    uint64_t bytes = 0;
    list_tensors();
    for (uint32_t i = 0; i < count; i++) {
        bytes += (sizes[i] + ALIGN - 1) / ALIGN * ALIGN;
    }
    bytes = (bytes + (2 << 20) - 1) / (2 << 20) * (2 << 20);
    must(hr_ctx_create(NULL, &ctx), "opening", "");
    take(ctx, name, NULL, bytes, &to);
    take(ctx, other, &to, bytes, &from);
    const double copy = speed(&to, &from, 1, bytes), tensors = speed(&to, &from, 0, bytes);
    printf("%s <- %s: %u tensors, %.1f MB: one copy %.0f GB/s, the exchange %.0f GB/s, %.0f %%\n",
           name, other, count, (double)bytes / 1e6, copy, tensors, 100 * tensors / copy);
    const int good = tensors >= 0.8 * copy;
    for (int i = 0; i < 2; i++) {
        hr_event_destroy(to.events[i]);
        hr_event_destroy(from.events[i]);
    }
    if (from.engine != to.engine) {
        hri_engine_close(from.engine);
    }
    hri_engine_close(to.engine);
    hr_ctx_destroy(ctx);
    return !good;
}
