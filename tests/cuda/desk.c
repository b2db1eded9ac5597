/* See desk.h. */
#include "desk.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <headroom/headroom.h>
#include "ref.h"

int desk_real(void) {
    return !is_fake();
}

static void open_gpu(desk *d, hri_gpu_options options) {
    hri_prose why = {0};
    options.cache = d->folder;
    const hr_status status = hri_gpu_open(d->device, &options, &d->gpu, &why);
    if (status == HR_E_UNSUPPORTED) {
        test_skip("%s", why.text);
    }
    if (status != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", hr_status_name(status), why.text);
    }
    hri_gpu_use(d->gpu, d->queue);
}

void desk_open(desk *d, hri_gpu_options options) {
    rig_isolate();
    memset(d, 0, sizeof *d);
    CHECK_OK(hr_ctx_create(NULL, &d->ctx));
    if (hr_device_find(d->ctx, "cuda:0", &d->device) != HR_OK) {
        test_skip("no device cuda:0");
    }
    CHECK_OK(hr_logical_create(d->device, &(hr_logical_options){.size = sizeof(hr_logical_options)},
                               &d->logical));
    CHECK_OK(hr_queue_create(d->device, &d->queue));
    snprintf(d->folder, sizeof d->folder, "/tmp/headroom-desk-XXXXXX");
    CHECK(mkdtemp(d->folder) != NULL);
    open_gpu(d, options);
}

void desk_again(desk *d, hri_gpu_options options) {
    desk_sync(d);
    hri_gpu_close(d->gpu);
    d->gpu = NULL;
    open_gpu(d, options);
}

void desk_close(desk *d) {
    char command[128];
    desk_sync(d);
    hri_gpu_close(d->gpu);
    hr_queue_destroy(d->queue);
    hr_ctx_destroy(d->ctx);
    snprintf(command, sizeof command, "rm -rf %s", d->folder);
    CHECK_EQ(system(command), 0);
}

tensor desk_tensor(desk *d, hr_type type, int64_t count) {
    tensor t = {.type = type, .count = count};
    const uint64_t bytes = (uint64_t)count * hr_type_bytes(type);
    CHECK_OK(hr_block_alloc(d->logical, bytes ? bytes : 1, HR_CATEGORY_ACTIVATIONS, 0, &t.block));
    return t;
}

static void put(desk *d, const tensor *t, const void *from, uint64_t bytes) {
    CHECK_OK(hr_copy(d->queue, t->block.addr, host_addr(from), bytes));
    CHECK_OK(hr_queue_sync(d->queue));
}

tensor desk_random(desk *d, hr_type type, int64_t count, uint64_t seed, double scale) {
    tensor t = desk_tensor(d, type, count);
    const uint64_t bytes = (uint64_t)count * hr_type_bytes(type);
    void *host = malloc(bytes + 1);
    uint64_t state = seed;
    for (int64_t i = 0; i < count; i++) {
        const double x = (double)(test_random(&state) >> 11) * 0x1p-52 - 1.0;
        ref_store(type, host, i, x * scale);
    }
    put(d, &t, host, bytes);
    free(host);
    return t;
}

void desk_fill(desk *d, const tensor *t, uint8_t byte) {
    CHECK_OK(
        hri_gpu_fill(d->gpu, t->block.addr, byte, (uint64_t)t->count * hr_type_bytes(t->type)));
}

double *desk_read(desk *d, const tensor *t) {
    const uint64_t bytes = (uint64_t)t->count * hr_type_bytes(t->type);
    void *host = malloc(bytes + 1);
    double *x = calloc((size_t)t->count + 1, sizeof *x);
    CHECK_OK(hr_copy(d->queue, host_addr(host), t->block.addr, bytes));
    const hr_status status = hr_queue_sync(d->queue);
    if (status != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", hr_status_name(status), hri_gpu_detail(d->gpu));
    }
    for (int64_t i = 0; i < t->count; i++) {
        x[i] = ref_load(t->type, host, i);
    }
    free(host);
    return x;
}

void desk_free(desk *d, tensor *t) {
    CHECK_OK(hr_block_free(d->logical, &t->block));
}

double desk_error(const double *a, const double *b, int64_t count) {
    double off = 0.0, all = 0.0;
    for (int64_t i = 0; i < count; i++) {
        off += (a[i] - b[i]) * (a[i] - b[i]);
        all += b[i] * b[i];
    }
    const double error = sqrt(off) / (sqrt(all) > 0.0 ? sqrt(all) : 1.0);
    return isnan(error) ? 1e9 : error;
}

void desk_check(desk *d, hr_status status, const char *what) {
    test_count_check();
    if (status != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s: %s", what, hr_status_name(status),
                  hri_gpu_detail(d->gpu));
    }
}

void desk_sync(desk *d) {
    const hr_status status = hr_queue_sync(d->queue);
    desk_check(d, status, "the queue");
}
