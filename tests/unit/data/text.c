/* The textual form: what it reads, and what it says about what it cannot read. */
#include <stdio.h>
#include <string.h>
#include <headroom/data.h>
#include "pictures.h"
#include "test.h"

static void refused(const char *text, hr_status wanted, const char *part) {
    hr_error error;
    hr_pipeline *p = NULL;
    CHECK_STATUS(hr_pipeline_open(NULL, text, &error, &p), wanted);
    if (!strstr(error.message, part)) {
        test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\" about \"%s\"", error.message,
                  part, text);
    }
}

TEST(text, says_what_is_wrong_with_it) {
    refused("", HR_E_INVALID, "missing stage name");
    refused("rnage:3", HR_E_INVALID, "did you mean \"range\"");
    refused("range(3", HR_E_INVALID, "missing closing parenthesis");
    refused("range:3 | batch(sise=3)", HR_E_INVALID, "sise");
    refused("range:3 | batch(0)", HR_E_RANGE, "size");
    refused("batch(3)", HR_E_INVALID, "not a source");
    refused("range:3 | range:4", HR_E_INVALID, "must come first");
    refused("range:3 | zip({range(4)", HR_E_INVALID, "brace");
    refused("range:3 | batch(2) |", HR_E_INVALID, "missing");
    refused("range:\"3", HR_E_INVALID, "quotation");
    refused("zip({range:4},{range:3})", HR_E_EXISTS, "value");
    refused("range:3 | map", HR_E_INVALID, "hr_pipeline_map");
}

TEST(text, a_path_without_a_source_is_told_which) {
    char text[1200], wanted[1200];
    const char *const folder = test_folder();
    test_write(folder, "t.csv", "a,b\n1,2\n", 8);
    refused(folder, HR_E_INVALID, "did you mean images:/");
    snprintf(text, sizeof text, "%s/t.csv,x=*,y=b | batch(2)", folder);
    snprintf(wanted, sizeof wanted, "did you mean csv:%.150s", folder);
    refused(text, HR_E_INVALID, wanted);
    refused("range:3 | /", HR_E_INVALID, "missing stage name");
}

static uint64_t count_of(const char *text) {
    hr_pipeline *p;
    hr_error error;
    const hr_status status = hr_pipeline_open(NULL, text, &error, &p);
    if (status != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", text, error.message);
    }
    const uint64_t count = hr_pipeline_count(p);
    uint64_t seen = 0;
    hr_element *e;
    while (hr_pipeline_next(p, &e) == HR_OK) {
        hr_element_unref(e);
        seen++;
    }
    CHECK_EQ(count, seen);
    hr_pipeline_destroy(p);
    return seen;
}

TEST(text, reads_both_forms_and_counts) {
    CHECK_EQ(count_of("range:10"), 10);
    CHECK_EQ(count_of("range(10)"), 10);
    CHECK_EQ(count_of("range(count=10)|take(3)"), 3);
    CHECK_EQ(count_of("range : 10 | skip( 3 ) | batch ( 2 , drop )"), 3);
    CHECK_EQ(count_of("range:10 | batch(4)"), 3);
    CHECK_EQ(count_of("range:10 | shard(3,index=2)"), 3);
    CHECK_EQ(count_of("range:10 | repeat(3) | batch(4) | prefetch(2)"), 8);
    CHECK_EQ(count_of("interleave({range:4 | take(2)},{range:3},block=2)"), 5);
}

TEST(text, a_wrong_text_leaves_the_pipeline_as_it_was) {
    hr_pipeline *p;
    CHECK_OK(hr_pipeline_create(NULL, &p));
    CHECK_OK(hr_pipeline_add(p, "range:5"));
    CHECK_STATUS(hr_pipeline_add(p, "take(3) | nonsense"), HR_E_INVALID);
    CHECK_OK(hr_pipeline_add(p, "batch(5)"));
    CHECK_OK(hr_pipeline_build(p));
    CHECK_EQ(hr_pipeline_count(p), 1);
    hr_element *e;
    CHECK_OK(hr_pipeline_next(p, &e));
    const hr_field *f = hr_element_find(e, "value");
    CHECK(f != NULL);
    CHECK_EQ(f->meta.shape.dim[0], 5);
    CHECK_EQ(((const int64_t *)f->data)[4], 4);
    hr_element_unref(e);
    hr_pipeline_destroy(p);
}

TEST(next_into, copies_to_memory_of_the_caller) {
    hr_pipeline *p;
    CHECK_OK(hr_pipeline_open(NULL, "range:5 | batch(3)", NULL, &p));
    int64_t room[3] = {0};
    hr_field to = {.name = "value", .data = room, .bytes = sizeof room};
    CHECK_OK(hr_pipeline_next_into(p, &to, 1));
    CHECK_EQ(to.bytes, sizeof room);
    CHECK_EQ(room[2], 2);
    CHECK_OK(hr_pipeline_next_into(p, &to, 1));
    CHECK_EQ(to.meta.shape.dim[0], 2);
    CHECK_EQ(to.bytes, 2 * sizeof room[0]);
    CHECK_STATUS(hr_pipeline_next_into(p, &to, 1), HR_E_EOF);
    CHECK_OK(hr_pipeline_rewind(p));
    to = (hr_field){.name = "value", .data = room, .bytes = 8};
    room[0] = 77;
    CHECK_STATUS(hr_pipeline_next_into(p, &to, 1), HR_E_SHAPE);
    CHECK_EQ(room[0], 77);
    to = (hr_field){.name = "other", .data = room, .bytes = sizeof room};
    CHECK_STATUS(hr_pipeline_next_into(p, &to, 1), HR_E_NOT_FOUND);
    hr_pipeline_destroy(p);
}
