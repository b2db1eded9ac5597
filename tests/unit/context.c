/* The context: which devices are seen, in which order, and what is said of a wrong list. */
#include <headroom/headroom.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

typedef struct heard {
    char last[1024];
    int lines;
} heard;

static void hear(void *user, hr_log_level level, const char *line) {
    heard *h = user;
    (void)level;
    snprintf(h->last, sizeof h->last, "%s", line);
    h->lines++;
}

static hr_status open_list(const char *list, heard *h, hr_ctx **out) {
    const hr_ctx_options options = {.size = sizeof options,
                                    .visible_devices = list,
                                    .log = hear,
                                    .log_user = h,
                                    .log_level = HR_LOG_ERROR,
                                    .no_cuda = 1,
                                    .null_bytes = UINT64_C(1) << 40};
    return hr_ctx_create(&options, out);
}

/* The names in order, joined by spaces. */
static const char *names(hr_ctx *ctx) {
    static char text[256];
    text[0] = '\0';
    for (size_t i = 0; i < hr_device_count(ctx); i++) {
        hr_device_info info = {.size = sizeof info};
        CHECK_OK(hr_device_get_info(hr_device_at(ctx, i), &info));
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s", used ? " " : "", info.name);
    }
    return text;
}

static void check_list(const char *list, const char *wanted) {
    heard h = {{0}, 0};
    hr_ctx *ctx;
    CHECK_OK(open_list(list, &h, &ctx));
    CHECK_STR(names(ctx), wanted);
    CHECK_EQ(h.lines, 0);
    hr_ctx_destroy(ctx);
}

TEST(context, the_visible_list_chooses_and_orders_devices) {
    unsetenv("HEADROOM_VISIBLE_DEVICES");
    check_list(NULL, "host null:0");
    check_list("null:0,host", "null:0 host");
    check_list(" null:0 , host ", "null:0 host");
    check_list("null:0", "null:0 host"); /* the host is always there */
    check_list("", "host");
    check_list("none", "host");
    check_list(",", "host");
}

TEST(context, the_environment_is_obeyed_where_the_caller_says_nothing) {
    setenv("HEADROOM_VISIBLE_DEVICES", "null:0", 1);
    check_list(NULL, "null:0 host");
    check_list("host", "host"); /* what the caller says goes first */
    setenv("HEADROOM_VISIBLE_DEVICES", "", 1);
    check_list(NULL, "host");
}

TEST(context, a_wrong_list_is_refused_and_the_log_says_why) {
    static const struct {
        const char *list, *says;
        hr_status status;
    } wrong[] = {{"host,tpu:0", "tpu:0", HR_E_NOT_FOUND},
                 {"7", "7", HR_E_NOT_FOUND}, /* short for cuda:7 */
                 {"host,host", "twice", HR_E_INVALID},
                 {"null:0,null:0", "twice", HR_E_INVALID},
                 {"0123456789012345678901234567890123456789012345678901234567890123456789",
                  "too long", HR_E_INVALID}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        heard h = {{0}, 0};
        hr_ctx *ctx = NULL;
        CHECK_STATUS(open_list(wrong[i].list, &h, &ctx), wrong[i].status);
        CHECK(ctx == NULL);
        CHECK_EQ(h.lines, 1);
        CHECK(strstr(h.last, wrong[i].says) != NULL);
    }
}

/* An older program knows fewer options, a newer one more. */
TEST(context, options_of_other_versions_are_taken_unless_one_is_unknown) {
    struct {
        hr_ctx_options known;
        uint64_t later;
    } newer = {.known = {.size = sizeof newer, .visible_devices = ""}};
    hr_ctx_options older = {.size = 16, .visible_devices = "", .null_bytes = 1 << 20};
    hr_ctx *ctx = NULL;
    CHECK_OK(hr_ctx_create(&older, &ctx));
    CHECK_EQ(hr_device_count(ctx), 1); /* null_bytes lies beyond its size */
    hr_device_info info = {.size = sizeof info.size + sizeof info.name, .page_bytes = 7};
    CHECK_OK(hr_device_get_info(hr_device_at(ctx, 0), &info));
    CHECK(!strcmp(info.name, "host") && info.page_bytes == 7 && info.description[0] == 0);
    CHECK(HR_HAS(&info, name) && !HR_HAS(&info, description));
    hr_ctx_destroy(ctx);
    CHECK_OK(hr_ctx_create(&newer.known, &ctx));
    hr_ctx_destroy(ctx);
    ctx = NULL;
    newer.later = 1;
    CHECK_STATUS(hr_ctx_create(&newer.known, &ctx), HR_E_UNSUPPORTED);
    older.size = 0;
    CHECK_STATUS(hr_ctx_create(&older, &ctx), HR_E_INVALID);
    CHECK(ctx == NULL);
    hr_ctx_destroy(NULL);
}

TEST(context, a_missing_device_is_named_with_those_that_are_there) {
    heard h = {{0}, 0};
    hr_ctx *ctx;
    hr_device *device = NULL;
    hr_error error;
    CHECK_OK(open_list("host,null:0", &h, &ctx));
    hr_ctx_error(ctx, &error);
    CHECK_EQ(error.code, HR_OK);
    CHECK_STATUS(hr_device_find(ctx, "cuda:3", &device), HR_E_NOT_FOUND);
    CHECK_STATUS(hr_device_find(ctx, NULL, &device), HR_E_INVALID);
    CHECK_STATUS(hr_device_find(ctx, "cuda:3", &device), HR_E_NOT_FOUND);
    CHECK(device == NULL && hr_device_at(ctx, 2) == NULL);
    hr_ctx_error(ctx, &error);
    CHECK_EQ(error.code, HR_E_NOT_FOUND);
    CHECK(strstr(error.message, "cuda:3") && strstr(error.message, "host, null:0"));
    hr_ctx_destroy(ctx);
}

TEST(context, the_null_device_is_of_any_size_and_takes_no_memory) {
    heard h = {{0}, 0};
    hr_ctx *ctx;
    hr_device *device;
    hr_logical *slice;
    hr_block block;
    CHECK_OK(open_list("null:0", &h, &ctx));
    CHECK_OK(hr_device_find(ctx, "null:0", &device));
    CHECK_OK(hr_logical_create(device, NULL, &slice));
    const uint64_t before = test_resident_bytes();
    CHECK_OK(hr_block_alloc(slice, UINT64_C(100) << 30, HR_CATEGORY_WEIGHTS, 0, &block));
    CHECK_LE(test_resident_bytes(), before + (UINT64_C(8) << 20)); /* records of 51,200 pages */
    CHECK_OK(hr_logical_check(slice));
    hr_ctx_destroy(ctx);
}

/* Two contexts in one process know nothing of each other. */
TEST(context, there_is_no_process_wide_state) {
    heard h = {{0}, 0};
    hr_ctx *a, *b;
    hr_device *device = NULL;
    hr_error error;
    CHECK_OK(open_list("host", &h, &a));
    CHECK_OK(open_list("null:0,host", &h, &b));
    CHECK_STATUS(hr_device_find(a, "null:0", &device), HR_E_NOT_FOUND);
    CHECK_OK(hr_device_find(b, "null:0", &device));
    hr_ctx_error(b, &error);
    CHECK_EQ(error.code, HR_OK);
    hr_ctx_destroy(a);
    CHECK_EQ(hr_device_count(b), 2);
    hr_ctx_destroy(b);
}
