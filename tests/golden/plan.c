/* What `headroom plan` says: verdict, sum, choices, ways out, files, wrong use.  A device that is not there and the
 * analytic model make the answers the same on every machine. */
#include "golden.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MLP                                                                                        \
    "plan mlp:size=8,width=32 --batch 64 --device null:1GiB --no-measure --device-spec page=4KiB "
#define RESNET                                                                                     \
    "plan resnet18:size=32,width=8,classes=10 --batch 32 --device null:1GiB --no-measure "         \
    "--device-spec page=64KiB --effort 2000 "

static json_t *parse(const golden_result *r) {
    json_error_t error;
    json_t *root = json_loadb(r->out, r->out_bytes, JSON_REJECT_DUPLICATES, &error);
    CHECK(root);
    CHECK_EQ(json_integer_value(json_object_get(root, "version")), 1);
    return root;
}

static long long number(const json_t *root, const char *key) {
    const json_t *value = json_object_get(root, key);
    if (!json_is_integer(value)) {
        test_fail(__FILE__, __LINE__, "%s is no whole number", key);
    }
    return (long long)json_integer_value(value);
}

static const char *scratch(const char *name) {
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/golden-plan-%d-%s", HEADROOM_BUILD, (int)getpid(), name);
    return path;
}

TEST(plan, that_fits_in_a_pipe) {
    const golden_result r = GOLDEN_RUN(MLP "--budget 1MiB");
    CHECK_STR(r.err, "");
    CHECK_EQ(r.code, 0);
    CHECK(!golden_has_control(r.out));
    golden_compare("plan_fits", r.out);
}

TEST(plan, that_does_not_fit_names_the_op_and_ways_out) {
    const golden_result r = GOLDEN_RUN(RESNET "--budget 1MiB");
    CHECK_EQ(r.code, 1);
    CHECK(strstr(r.out, "does not fit: the budget of 1 MiB is "));
    CHECK(strstr(r.out, "short of the minimum"));
    CHECK(strstr(r.out, "no plan can need less than ") && strstr(r.out, " needs "));
    CHECK(strstr(r.out, "--budget ") && strstr(r.out, "largest batch in this budget"));
    CHECK(strstr(r.out, "\nnext: headroom plan resnet18"));
}

TEST(plan, the_next_command_of_a_refusal_works) {
    const golden_result r = GOLDEN_RUN(RESNET "--budget 1MiB");
    char *next = strstr(r.out, "next: headroom ");
    CHECK(next);
    next += strlen("next: headroom ");
    next[strcspn(next, "\n")] = 0;
    char command[512];
    snprintf(command, sizeof command, "%s --no-measure --no-choices --device-spec page=64KiB",
             next);
    CHECK_EQ(golden_run(&(golden_spec){.args = command}).code, 0);
}

/* Data that is assumed has no fewer samples than a batch, so that the input of a large one counts too. */
TEST(plan, a_large_batch_has_its_assumed_data_as_well) {
    static const char *const assumed[][2] = {{"1024", "synthetic"},
                                             {"4096", "synthetic:count=4096"}};
    for (size_t i = 0; i < 2; i++) {
        char command[160];
        snprintf(command, sizeof command,
                 "plan mlp:size=8,width=8 --batch %s --no-measure --no-choices --threads 1 --json",
                 assumed[i][0]);
        const golden_result r = golden_run(&(golden_spec){.args = command});
        CHECK_EQ(r.code, 0);
        json_t *root = parse(&r);
        CHECK_STR(json_string_value(json_object_get(root, "assumed_data")), assumed[i][1]);
        CHECK(number(root, "input_bytes") > 0);
        json_decref(root);
    }
}

TEST(plan, json_has_every_key_and_the_parts_add_up) {
    static const char *const numbers[] = {
        "batch",           "budget_bytes",     "peak_bytes",      "floor_bytes",
        "runtime_bytes",   "persistent_bytes", "arena_bytes",     "unplanned_peak_bytes",
        "live_peak_bytes", "input_bytes",      "host_peak_bytes", "micro_batches",
        "recomputed_ops",  "offloaded_bytes",  "largest_batch"};
    const golden_result r = GOLDEN_RUN(RESNET "--budget 16MiB --json");
    CHECK_EQ(r.code, 0);
    json_t *root = parse(&r), *part;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        CHECK(number(root, numbers[i]) >= 0);
    }
    CHECK(json_is_true(json_object_get(root, "fits")));
    CHECK(json_is_string(json_object_get(root, "model")));
    CHECK_STR(json_string_value(json_object_get(root, "device")), "null:1GiB");
    CHECK_STR(json_string_value(json_object_get(root, "precision")), "f32");
    CHECK_STR(json_string_value(json_object_get(root, "optimizer")), "sgd");
    CHECK(json_is_string(json_object_get(root, "peak_op")));
    CHECK(json_is_real(json_object_get(root, "time_ratio")));
    CHECK(json_array_size(json_object_get(root, "choices")) >= 2);
    CHECK_EQ(number(root, "runtime_bytes") + number(root, "persistent_bytes") +
                 number(root, "arena_bytes"),
             number(root, "peak_bytes"));
    long long sum = 0;
    const char *key;
    json_object_foreach(json_object_get(root, "parts"), key, part) {
        sum += json_integer_value(part);
    }
    CHECK_EQ(sum, number(root, "peak_bytes"));
    CHECK_LE(number(root, "peak_bytes"), number(root, "budget_bytes"));
    CHECK_LE(number(root, "floor_bytes"), number(root, "peak_bytes"));
    json_decref(root);
}

TEST(plan, json_of_a_refusal_has_two_ways_out_that_fit) {
    const golden_result r = GOLDEN_RUN(RESNET "--budget 2MiB --json");
    CHECK_EQ(r.code, 1);
    json_t *root = parse(&r), *way;
    CHECK(json_is_false(json_object_get(root, "fits")));
    CHECK(number(root, "short_bytes") > 0);
    CHECK(json_string_length(json_object_get(root, "floor_op")) > 0);
    json_t *ways = json_object_get(root, "ways_out");
    CHECK(json_array_size(ways) >= 2);
    size_t i;
    json_array_foreach(ways, i, way) {
        CHECK(json_is_true(json_object_get(way, "fits")));
        CHECK_LE(number(way, "peak_bytes"), number(way, "budget_bytes"));
    }
    json_decref(root);
}

TEST(plan, the_largest_batch_fits_and_one_far_above_does_not) {
    const golden_result r = GOLDEN_RUN(RESNET "--budget 6MiB --json");
    json_t *root = parse(&r);
    const long long largest = number(root, "largest_batch");
    CHECK(largest > 0);
    char command[256];
    snprintf(command, sizeof command, RESNET "--no-choices --budget 6MiB --batch %lld", largest);
    CHECK_EQ(golden_run(&(golden_spec){.args = command}).code, 0);
    snprintf(command, sizeof command, RESNET "--no-choices --budget 6MiB --batch %lld",
             largest * 2);
    CHECK_EQ(golden_run(&(golden_spec){.args = command}).code, 1);
    json_decref(root);
}

TEST(plan, a_curve_falls_and_is_drawn) {
    char command[512];
    const char *svg = scratch("curve.svg");
    snprintf(command, sizeof command, RESNET "--no-choices --curve --json --svg %s", svg);
    const golden_result r = golden_run(&(golden_spec){.args = command});
    CHECK_EQ(r.code, 0);
    json_t *root = parse(&r), *points = json_object_get(root, "curve"), *point;
    CHECK(json_array_size(points) >= 3);
    double last = 1e9;
    size_t i;
    json_array_foreach(points, i, point) {
        const double ratio = json_number_value(json_object_get(point, "time_ratio"));
        CHECK(ratio <= last);
        last = ratio;
    }
    CHECK(last <= 1.0001);
    json_decref(root);
    FILE *f = fopen(svg, "r");
    char text[4096] = "";
    CHECK(f && fread(text, 1, sizeof text - 1, f) > 500);
    fclose(f);
    unlink(svg);
    CHECK(!strncmp(text, "<svg ", 5) && strstr(text, "budget in MiB"));
}

TEST(plan, a_map_has_a_box_for_what_is_kept_made_and_made_again) {
    char command[512];
    const char *svg = scratch("map.svg");
    snprintf(command, sizeof command, RESNET "--no-choices --budget 2800KiB --json --map %s", svg);
    const golden_result r = golden_run(&(golden_spec){.args = command});
    CHECK_EQ(r.code, 0);
    json_t *root = parse(&r);
    CHECK(number(root, "recomputed_ops") > 0);
    json_decref(root);
    FILE *f = fopen(svg, "r");
    char *text = calloc(1, 1 << 20);
    CHECK(f && fread(text, 1, (1 << 20) - 1, f) > 5000);
    fclose(f);
    unlink(svg);
    CHECK(!strncmp(text, "<svg ", 5) && strstr(text, "</svg>\n"));
    static const char *const colors[] = {"#b8b8b8", "#8c6bb1", "#3b7dbd", "#e08a3c", "#2e8b57"};
    for (size_t i = 0; i < sizeof colors / sizeof *colors; i++) {
        const char *key = strstr(text, colors[i]); /* once beside its name, then in the map */
        CHECK(key && strstr(key + 1, colors[i]));
    }
    CHECK(strstr(text, "backward pass starts") && strstr(text, "<title>layer"));
    free(text);
}

TEST(plan, a_saved_plan_is_loaded_checked_and_compared) {
    char command[512];
    const char *file = scratch("saved.json");
    snprintf(command, sizeof command, RESNET "--no-choices --budget 5MiB --save %s", file);
    const golden_result first = golden_run(&(golden_spec){.args = command});
    CHECK_EQ(first.code, 0);
    snprintf(command, sizeof command, RESNET "--no-choices --budget 5MiB --json --load %s", file);
    const golden_result again = golden_run(&(golden_spec){.args = command});
    CHECK_STR(again.err, "");
    CHECK_EQ(again.code, 0);
    snprintf(command, sizeof command, RESNET "--no-choices --json --compare %s", file);
    const golden_result beside = golden_run(&(golden_spec){.args = command});
    CHECK_EQ(beside.code, 0);
    json_t *loaded = parse(&again), *compared = parse(&beside);
    CHECK_EQ(number(loaded, "peak_bytes"),
             number(json_object_get(compared, "compared"), "peak_bytes"));
    json_decref(loaded);
    json_decref(compared);
    /* the plan of another batch is refused, with the reason */
    snprintf(command, sizeof command, RESNET "--no-choices --load %s --batch 8", file);
    const golden_result wrong = golden_run(&(golden_spec){.args = command});
    CHECK_EQ(wrong.code, 2);
    CHECK(strstr(wrong.err, "it was made for"));
    unlink(file);
}

TEST(plan, a_changed_plan_does_not_pass_the_checker) {
    char command[512], text[1 << 20] = "";
    const char *file = scratch("changed.json");
    snprintf(command, sizeof command, MLP "--no-choices --save %s", file);
    CHECK_EQ(golden_run(&(golden_spec){.args = command}).code, 0);
    FILE *f = fopen(file, "r");
    CHECK(f && fread(text, 1, sizeof text - 1, f) > 100);
    fclose(f);
    json_t *root = json_loads(text, 0, NULL);
    json_t *plan = json_object_get(json_array_get(json_object_get(root, "pieces"), 0), "plan");
    json_t *steps = json_object_get(plan, "steps");
    CHECK(json_array_size(steps) > 2);
    CHECK(json_array_remove(steps, json_array_size(steps) / 2) == 0);
    CHECK(json_dump_file(root, file, 0) == 0);
    json_decref(root);
    snprintf(command, sizeof command, MLP "--no-choices --load %s", file);
    const golden_result r = golden_run(&(golden_spec){.args = command});
    CHECK(r.code == 2 || r.code == 3);
    CHECK(strstr(r.err, "--load"));
    unlink(file);
}

TEST(plan, a_problem_is_planned_without_its_model) {
    char command[512];
    const char *file = scratch("problem.json"), *dot = scratch("graph.dot");
    snprintf(command, sizeof command, RESNET "--no-choices --save-problem %s --dot %s", file, dot);
    CHECK_EQ(golden_run(&(golden_spec){.args = command}).code, 0);
    snprintf(command, sizeof command, "plan --problem %s --json", file);
    const golden_result r = golden_run(&(golden_spec){.args = command});
    CHECK_EQ(r.code, 0);
    json_t *root = parse(&r);
    CHECK(number(root, "floor_bytes") < number(root, "unplanned_peak_bytes"));
    json_decref(root);
    snprintf(command, sizeof command, "plan --problem %s --budget 1KiB --json", file);
    CHECK_EQ(golden_run(&(golden_spec){.args = command}).code, 1);
    CHECK(access(dot, R_OK) == 0);
    unlink(file);
    unlink(dot);
}

TEST(plan, wrong_use_is_exit_2_with_a_sentence) {
    static const struct {
        const char *args, *says;
    } bad[] = {{"plan", "MODEL or --problem FILE is required"},
               {"plan resnet51", "resnet5"},
               {"plan mlp --micro-batches some", "is not auto, off"},
               {"plan mlp --device null:lots", "is not a size"},
               {"plan mlp --device cuda:77", "cuda:77"},
               {"plan mlp --device-spec speed=1", "--device-spec"},
               {"plan mlp --budget 0", "--budget"},
               {"plan mlp --options moment=1", "moment"},
               {"plan --problem /nowhere/p.json", "/nowhere/p.json"},
               {"plan mlp --load /nowhere/p.json --no-measure", "/nowhere/p.json"},
               {"plan mlp --load p.json --data synthetic", "cannot be combined"},
               {"plan mlp --device null:1GiB --try 1 --no-measure", "--try"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const golden_result r = golden_run(&(golden_spec){.args = bad[i].args});
        if (r.code != 2 || !strstr(r.err, bad[i].says)) {
            test_fail(__FILE__, __LINE__, "%s: exit %d, said %s", bad[i].args, r.code, r.err);
        }
        CHECK_STR(r.out, "");
    }
}
