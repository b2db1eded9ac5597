/* headroom shrink as it is typed: what it says, what it writes, and what it refuses. */
#include "golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>

#include "base/file.h"
#include "pictures.h"
#include "untrained.h"

static const char *in(const char *name) {
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", test_folder(), name);
    return path;
}

static golden_result type(const char *format, const char *a, const char *b) {
    char words[1200];
    snprintf(words, sizeof words, format, a, b);
    return GOLDEN_RUN(words);
}

TEST(shrink, says_what_it_saves_before_and_after_it_did) {
    const hri_about about = {.source = "synthetic", .input = "image"};
    const char *model = "resnet18:size=8,width=16,layers=1,classes=2";
    test_untrained(model, &about, "a.safetensors");
    golden_result r = type("shrink %s --keep 0.5 --dry-run%s", in("a.safetensors"), "");
    CHECK_EQ(r.code, 0);
    CHECK(strstr(r.out, "would remove 16 of 32 channels in 2 groups") != NULL);
    CHECK(strstr(r.out, "inference") && strstr(r.out, "batch 32, sgd"));
    CHECK(!hri_file_exists(in("b.safetensors")) && !hri_file_exists(in("b.hr")));
    r = type("shrink %s --keep 0.5 --json -o %s", in("a.safetensors"), in("b.safetensors"));
    CHECK_EQ(r.code, 0);
    json_t *said = json_loads(r.out, 0, NULL);
    CHECK(said != NULL);
    CHECK_EQ(json_integer_value(json_object_get(said, "removed")), 16);
    const json_t *before = json_object_get(said, "before"), *after = json_object_get(said, "after");
    CHECK(json_integer_value(json_object_get(after, "training_bytes")) <
          json_integer_value(json_object_get(before, "training_bytes")));
    CHECK_STR(json_string_value(json_object_get(said, "model")), in("b.hr"));
    json_decref(said);
    CHECK(hri_file_exists(in("b.safetensors")) && hri_file_exists(in("b.hr")));
    r = type("eval %s --data synthetic:8,shape=8x8x3,classes=2,type=f32%s", in("b.safetensors"),
             "");
    CHECK_EQ(r.code, 0);
}

/* A limit on the size of files is met as a full disk is: what was asked for was right. */
static golden_result type_without_room(const char *words) {
    static char line[1600];
    snprintf(line, sizeof line, "ulimit -f 8; exec " HEADROOM_PROGRAM " %s", words);
    return golden_run(&(golden_spec){.program = "/bin/sh", .args = "-c", .last_arg = line});
}

TEST(shrink, and_tokenize_exit_with_3_where_there_is_no_room) {
    char words[1200], text[16384];
    test_untrained("resnet18:size=8,width=16,layers=1,classes=2",
                   &(hri_about){.source = "synthetic", .input = "image"}, "a.safetensors");
    snprintf(words, sizeof words, "shrink %s --keep 0.5 -o %s", in("a.safetensors"),
             in("b.safetensors"));
    golden_result r = type_without_room(words);
    CHECK_EQ(r.code, 3);
    CHECK(strstr(r.err, "b.safetensors: write: File too large"));
    memset(text, 'a', sizeof text);
    test_write(test_folder(), "a.txt", text, sizeof text);
    snprintf(words, sizeof words, "tokenize %s --out %s", in("a.txt"), in("a.bin"));
    r = type_without_room(words);
    CHECK_EQ(r.code, 3);
    CHECK(strstr(r.err, "a.bin: write: File too large") && !strstr(r.err, "a.txt"));
}

TEST(shrink, refuses_with_a_sentence) {
    golden_result r = type("shrink %s%s", in("none.safetensors"), "");
    CHECK_EQ(r.code, 2);
    CHECK(strstr(r.err, "--out or --dry-run is required") != NULL);
    r = type("shrink %s --keep 0.5 --threshold 0.5 --dry-run%s", in("none.safetensors"), "");
    CHECK_EQ(r.code, 2);
    CHECK(strstr(r.err, "cannot be combined") != NULL);
    r = type("shrink %s --dry-run%s", in("none.safetensors"), "");
    CHECK_EQ(r.code, 2);
    CHECK(strstr(r.err, "none.safetensors") != NULL);
    r = type("shrink %s --keep 1.5 --dry-run%s", in("none.safetensors"), "");
    CHECK_EQ(r.code, 2);
}
