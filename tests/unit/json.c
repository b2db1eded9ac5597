/* JSON: built with one check, read with limits and a place in the error. */
#include "test.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"

TEST(json, is_built_in_order_and_printed) {
    hri_json j;
    hri_json_init(&j);
    hri_json_u64(&j, "version", 1);
    hri_json_u64(&j, "peak_bytes", INT64_MAX);
    hri_json_i64(&j, "delta", -3);
    hri_json_double(&j, "ratio", 1.5);
    hri_json_double(&j, "unknown", NAN);
    hri_json_bool(&j, "fits", true);
    hri_json_string(&j, "model", "resnet\"50\" \xc3\xa9");
    hri_json_string(&j, "bad", "a\xff\xc3+\xed\xa0\x80z");
    hri_json_string(&j, "none", NULL);
    hri_json_array(&j, "choices");
    hri_json_object(&j, NULL);
    hri_json_null(&j, "x");
    hri_json_end(&j);
    hri_json_i64(&j, NULL, 7);
    hri_json_end(&j);
    char *text;
    CHECK_OK(hri_json_print(&j, 0, &text));
    CHECK_STR(text, "{\"version\":1,\"peak_bytes\":9223372036854775807,\"delta\":-3,\"ratio\":1.5,"
                    "\"unknown\":null,\"fits\":true,\"model\":\"resnet\\\"50\\\" \xc3\xa9\","
                    "\"bad\":\"a??+???z\",\"none\":null,\"choices\":[{\"x\":null},7]}");
    hri_free(text);
    CHECK_OK(hri_json_print(&j, 2, &text));
    CHECK(strstr(text, "\n  \"version\": 1,\n"));
    hri_free(text);
    hri_json_deinit(&j);
}

static hr_status built(void (*build)(hri_json *j)) {
    hri_json j;
    hri_json_init(&j);
    build(&j);
    hri_json_string(&j, "after", "a failure sticks");
    char *text = NULL;
    const hr_status status = hri_json_print(&j, 0, &text);
    CHECK(!text);
    hri_json_deinit(&j);
    return status;
}

static void twice(hri_json *j) {
    hri_json_u64(j, "a", 1);
    hri_json_u64(j, "a", 2);
}
static void large(hri_json *j) {
    hri_json_u64(j, "a", (uint64_t)1 << 63);
}
static void no_key(hri_json *j) {
    hri_json_u64(j, NULL, 1);
}
static void key_in_array(hri_json *j) {
    hri_json_array(j, "list");
    hri_json_u64(j, "a", 1);
    hri_json_end(j);
}
static void left_open(hri_json *j) {
    hri_json_object(j, "o");
}
static void ended_twice(hri_json *j) {
    hri_json_end(j);
}
static void too_deep(hri_json *j) {
    for (int i = 0; i < 100; i++) {
        hri_json_object(j, "o");
    }
    for (int i = 0; i < 100; i++) {
        hri_json_end(j);
    }
}

TEST(json, the_first_wrong_call_sticks) {
    CHECK_STATUS(built(twice), HR_E_EXISTS);
    CHECK_STATUS(built(large), HR_E_RANGE);
    CHECK_STATUS(built(no_key), HR_E_INVALID);
    CHECK_STATUS(built(key_in_array), HR_E_INVALID);
    CHECK_STATUS(built(left_open), HR_E_INVALID);
    CHECK_STATUS(built(ended_twice), HR_E_INVALID);
    CHECK_STATUS(built(too_deep), HR_E_RANGE);
}

static hr_status parse(const char *text, json_t **out, hri_prose *why) {
    return hri_json_parse(text, strlen(text), NULL, out, why);
}

TEST(json, is_read_with_its_members) {
    json_t *value;
    hri_prose why = {""};
    CHECK_OK(parse("{\"n\": 5, \"neg\": -1, \"x\": 2.5, \"b\": true, \"s\": \"t\"}", &value, &why));
    uint64_t n = 0;
    double x = 0;
    bool b = false;
    const char *s = NULL;
    CHECK_OK(hri_json_get_u64(value, "n", &n, &why));
    CHECK_OK(hri_json_get_double(value, "x", &x, &why));
    CHECK_OK(hri_json_get_bool(value, "b", &b, &why));
    CHECK_OK(hri_json_get_string(value, "s", &s, &why));
    CHECK(n == 5 && x == 2.5 && b);
    CHECK_STR(s, "t");
    CHECK_OK(hri_json_get_double(value, "n", &x, &why));
    CHECK(x == 5);
    CHECK_STATUS(hri_json_get_u64(value, "neg", &n, &why), HR_E_RANGE);
    CHECK_STR(why.text, "\"neg\" is negative");
    CHECK_STATUS(hri_json_get_u64(value, "x", &n, &why), HR_E_FORMAT);
    CHECK_STR(why.text, "\"x\" is not an integer");
    CHECK_STATUS(hri_json_get_string(value, "q", &s, &why), HR_E_NOT_FOUND);
    CHECK_STR(why.text, "\"q\" is missing");
    CHECK_EQ(n, 5);
    json_decref(value);
}

TEST(json, wrong_text_is_refused_with_its_place) {
    json_t *value = NULL;
    hri_prose why = {""};
    CHECK_STATUS(parse("{\"a\": 1,\n \"b\" 2}", &value, &why), HR_E_FORMAT);
    CHECK(!strncmp(why.text, "line 2, column ", 15));
    CHECK_STATUS(parse("{\"a\": 1, \"a\": 2}", &value, &why), HR_E_FORMAT);
    CHECK_STATUS(parse("", &value, &why), HR_E_FORMAT);
    CHECK_STATUS(parse("{} x", &value, &why), HR_E_FORMAT);
    CHECK_STATUS(parse("99999999999999999999999", &value, &why), HR_E_FORMAT);
    CHECK(!value);
}

TEST(json, depth_and_size_are_limited) {
    json_t *value = NULL;
    hri_prose why = {""};
    const hri_json_limits limits = {.max_bytes = 20, .max_depth = 3};
    CHECK_OK(hri_json_parse("[[[1]],[[2]]]", 13, &limits, &value, &why));
    json_decref(value);
    CHECK_OK(hri_json_parse("[[[\"[\\\"[[\"]]]", 13, &limits, &value, &why));
    json_decref(value);
    value = NULL;
    CHECK_STATUS(hri_json_parse("[\n[[[1]]]]", 10, &limits, &value, &why), HR_E_RANGE);
    CHECK_STR(why.text, "line 2: nested deeper than 3 levels");
    CHECK_STATUS(hri_json_parse("[                   ]", 21, &limits, &value, &why), HR_E_RANGE);
    CHECK_STR(why.text, "21 bytes, more than the 20 allowed");
    /* A megabyte of brackets must not reach the parser's recursion. */
    char *hostile = hri_malloc(1 << 20);
    CHECK(hostile);
    memset(hostile, '[', 1 << 20);
    CHECK_STATUS(hri_json_parse(hostile, 1 << 20, NULL, &value, &why), HR_E_RANGE);
    hri_free(hostile);
    CHECK(!value);
}

TEST(json, files_are_named_in_the_error) {
    char path[] = "/tmp/headroom-json-XXXXXX";
    const int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, "[1,", 3) == 3 && close(fd) == 0);
    json_t *value = NULL;
    hri_prose why = {""};
    CHECK_STATUS(hri_json_load(path, NULL, &value, &why), HR_E_FORMAT);
    CHECK(!strncmp(why.text, path, strlen(path)) && strstr(why.text, ": line 1, column 3: "));
    CHECK_OK(hri_file_write(path, "[1]", 3, &why));
    CHECK_OK(hri_json_load(path, NULL, &value, &why));
    CHECK_EQ(json_array_size(value), 1);
    json_decref(value);
    CHECK_EQ(unlink(path), 0);
    CHECK_STATUS(hri_json_load(path, NULL, &value, &why), HR_E_NOT_FOUND);
}

#ifdef HEADROOM_FAULTS
TEST(json, refused_memory_is_a_status) {
    hri_json j;
    hri_json_init(&j);
    hri_json_u64(&j, "a", 1);
    char *text = NULL;
    hri_fault_set(HRI_FAULT_ALLOC, 1, 0);
    CHECK_STATUS(hri_json_print(&j, 0, &text), HR_E_NOMEM_HOST);
    CHECK(!text);
    CHECK_OK(hri_json_print(&j, 0, &text));
    hri_free(text);
    hri_fault_set(HRI_FAULT_ALLOC, 1, 0);
    hri_json_string(&j, "bad", "\xff");
    CHECK_STATUS(hri_json_print(&j, 0, &text), HR_E_NOMEM_HOST);
    hri_json_deinit(&j);
}
#endif
