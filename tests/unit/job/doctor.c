/* What a machine is and what works on it, through headroom/doctor.h. */
#include <headroom/headroom.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pictures.h"
#include "test.h"

static hr_ctx *open_ctx(void) {
    hr_ctx *ctx;
    const hr_ctx_options o = {.size = sizeof o, .no_cuda = 1, .null_bytes = UINT64_C(8) << 30};
    CHECK_OK(hr_ctx_create(&o, &ctx));
    return ctx;
}

static size_t count_of(const hr_doctor *d, const char *subject, int32_t result) {
    size_t count = 0;
    hr_check c = {.size = sizeof c};
    for (size_t i = 0; hr_doctor_get_check(d, i, &c) == HR_OK; i++) {
        CHECK(c.name[0] && c.detail[0]);
        count += !strcmp(c.subject, subject) && c.result == result;
    }
    return count;
}

TEST(doctor, devices_and_the_cache_are_really_tried) {
    hr_ctx *ctx = open_ctx();
    char cache[512];
    hr_doctor *d;
    hr_component component = {.size = sizeof component};
    snprintf(cache, sizeof cache, "%s/a/b", test_folder());
    const hr_doctor_options o = {.size = sizeof o, .cache = cache};
    CHECK_OK(hr_doctor_create(ctx, &o, &d, NULL));
    CHECK(count_of(d, "host", HR_CHECK_OK) >= 3);
    CHECK_EQ(count_of(d, "null:0", HR_CHECK_OK), 1);
    CHECK_EQ(count_of(d, "null:0", HR_CHECK_SKIPPED), 1);
    CHECK_EQ(count_of(d, "cache directory", HR_CHECK_OK), 1);
    CHECK_OK(hr_doctor_get_component(d, 0, &component));
    CHECK_STR(component.name, "headroom");
    CHECK_STR(component.version, hr_version());
    CHECK_EQ(component.found, HR_FOUND_OK);
    hr_doctor_destroy(d);
    *strrchr(cache, '/') = '\0';
    CHECK(access(cache, F_OK) != 0); /* nothing is left behind */
    hr_ctx_destroy(ctx);
}

TEST(doctor, only_what_is_named_is_tried) {
    hr_ctx *ctx = open_ctx();
    hr_doctor *d;
    const char *const names[] = {"null:0"};
    const hr_doctor_options o = {
        .size = sizeof o, .devices = names, .device_count = 1, .cache = ""};
    CHECK_OK(hr_doctor_create(ctx, &o, &d, NULL));
    CHECK_EQ(count_of(d, "host", HR_CHECK_OK) + count_of(d, "host", HR_CHECK_SKIPPED), 0);
    CHECK_EQ(count_of(d, "cache directory", HR_CHECK_SKIPPED), 1);
    hr_doctor_destroy(d);
    hr_ctx_destroy(ctx);
}

TEST(doctor, a_device_that_is_not_there_is_named_with_those_that_are) {
    hr_ctx *ctx = open_ctx();
    hr_doctor *d = NULL;
    hr_error why = {0};
    const char *const names[] = {"cuda:7"};
    const hr_doctor_options o = {.size = sizeof o, .devices = names, .device_count = 1};
    CHECK_EQ(hr_doctor_create(ctx, &o, &d, &why), HR_E_NOT_FOUND);
    CHECK(d == NULL && strstr(why.message, "cuda:7") && strstr(why.message, "host"));
    CHECK_EQ(why.cause, HR_CAUSE_USAGE);
    hr_ctx_destroy(ctx);
}

TEST(doctor, without_a_context_the_rest_is_checked) {
    hr_doctor *d;
    hr_check c = {.size = sizeof c};
    const hr_doctor_options o = {.size = sizeof o, .cache = test_folder()};
    CHECK_OK(hr_doctor_create(NULL, &o, &d, NULL));
    CHECK_OK(hr_doctor_get_check(d, 0, &c));
    CHECK_EQ(c.result, HR_CHECK_OK);
    CHECK_EQ(hr_doctor_get_check(d, 1, &c), HR_E_EOF);
    hr_doctor_destroy(d);
}

TEST(doctor, a_machine_has_a_system_cores_and_memory) {
    hr_machine_info m = {.size = sizeof m};
    CHECK_OK(hr_machine_get_info(&m));
    CHECK(m.system[0] && m.processor[0] && m.features[0]);
    CHECK(m.cores_usable >= 1 && m.cores_online >= 1 && m.memory_bytes > 0);
    m.size = 0;
    CHECK_EQ(hr_machine_get_info(&m), HR_E_INVALID);
}

TEST(devices, the_parts_of_a_device_add_up) {
    hr_ctx *ctx = open_ctx();
    for (size_t i = 0; i < hr_device_count(ctx); i++) {
        hr_device *device = hr_device_at(ctx, i);
        hr_device_info info = {.size = sizeof info};
        CHECK_OK(hr_device_open(device));
        CHECK_OK(hr_device_get_info(device, &info));
        CHECK_STR(hr_device_name(device), info.name);
        CHECK(info.is_open && !info.is_gpu);
        const uint64_t used = info.ours_bytes + info.others_bytes;
        CHECK_EQ(used, info.total_bytes > info.free_bytes ? info.total_bytes - info.free_bytes : 0);
    }
    hr_ctx_destroy(ctx);
}
