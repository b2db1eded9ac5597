/* See fixture.h. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"

const char *fixture_device_name(void) {
    const char *name = getenv("HEADROOM_TEST_DEVICE");
    return name && *name ? name : "host";
}

int fixture_is_host(void) {
    return !strcmp(fixture_device_name(), "host");
}

static void log_line(void *user, hr_log_level level, const char *line) {
    (void)user;
    fprintf(stderr, "    [%d] %s\n", (int)level, line);
}

hr_status fixture_try_ctx(hr_ctx **out, hr_device **device) {
    const hr_ctx_options options = {
        .size = sizeof options, .log = log_line, .log_level = HR_LOG_WARN, .null_bytes = 64 * GIB};
    hr_ctx *ctx;
    hr_status status = hr_ctx_create(&options, &ctx);
    if (status != HR_OK) {
        return status;
    }
    status = hr_device_find(ctx, fixture_device_name(), device);
    if (status != HR_OK) {
        hr_ctx_destroy(ctx);
        return status;
    }
    *out = ctx;
    return HR_OK;
}

fixture fixture_open(void) {
    fixture f;
    const hr_status status = fixture_try_ctx(&f.ctx, &f.device);
    if (status == HR_E_NOT_FOUND) {
        test_skip("there is no device %s here", fixture_device_name());
    }
    CHECK_OK(status);
    hr_queue *queue; /* opens the device */
    CHECK_OK(hr_queue_create(f.device, &queue));
    hr_queue_destroy(queue);
    f.info.size = sizeof f.info;
    CHECK_OK(hr_device_get_info(f.device, &f.info));
    return f;
}

void fixture_close(fixture *f) {
    hr_device_info info = {.size = sizeof info};
    CHECK_OK(hr_device_get_info(f->device, &info));
    CHECK_EQ(info.held_bytes, 0);
    CHECK_EQ(info.logical_count, 0);
    CHECK_EQ(info.limits_bytes, 0);
    hr_ctx_destroy(f->ctx);
}

hr_logical *fixture_slice(fixture *f, const char *name, uint64_t limit, hr_growth growth) {
    const hr_logical_options options = {
        .size = sizeof options, .name = name, .limit_bytes = limit, .growth = growth};
    hr_logical *logical;
    const hr_status status = hr_logical_create(f->device, &options, &logical);
    if (status != HR_OK) {
        test_fail(__FILE__, __LINE__, "slice: %s", fixture_error(f->ctx));
    }
    return logical;
}

void fixture_drop(hr_logical *logical) {
    CHECK_OK(hr_logical_destroy(logical));
}

hr_block fixture_alloc(hr_logical *logical, uint64_t bytes) {
    hr_block block;
    CHECK_OK(hr_block_alloc(logical, bytes, HR_CATEGORY_ACTIVATIONS, 0, &block));
    return block;
}

void fixture_free(hr_logical *logical, const hr_block *block) {
    CHECK_OK(hr_block_free(logical, block));
}

const char *fixture_error(hr_ctx *ctx) {
    static hr_error error;
    hr_ctx_error(ctx, &error);
    return error.message;
}

void fixture_check(hr_logical *logical) {
    const hr_status status = hr_logical_check(logical);
    if (status != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", fixture_error(logical->device->ctx));
    }
    test_count_check();
}

uint64_t fixture_outside_bytes(fixture *f) {
    hr_device_info info = {.size = sizeof info};
    CHECK_OK(hr_device_get_info(f->device, &info));
    return info.process_bytes;
}
