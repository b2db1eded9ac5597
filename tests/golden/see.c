/* What models and summary say, and that their sums are those of a plan. */
#include "golden.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static json_t *parse(const golden_result *r) {
    json_error_t error;
    json_t *root = json_loadb(r->out, r->out_bytes, JSON_REJECT_DUPLICATES, &error);
    CHECK(root);
    CHECK_EQ(json_integer_value(json_object_get(root, "version")), 1);
    return root;
}

static long long number(const json_t *root, const char *key) {
    const json_t *value = json_object_get(root, key);
    CHECK(json_is_integer(value));
    return (long long)json_integer_value(value);
}

TEST(see, models_are_listed_with_parameters_and_keys) {
    const golden_result all = GOLDEN_RUN("models");
    CHECK_EQ(all.code, 0);
    CHECK(strstr(all.out, "resnet50") && strstr(all.out, "25.6 M"));
    const golden_result one = GOLDEN_RUN("models mlp");
    CHECK_EQ(one.code, 0);
    CHECK(strstr(one.out, "dropout"));
    const golden_result none = GOLDEN_RUN("models resnet51");
    CHECK_EQ(none.code, 2);
    CHECK(strstr(none.err, "resnet5"));
}

TEST(see, summary_sums_are_those_of_the_plan) {
    static const char *const models[] = {"resnet18:size=32,width=8", "gpt2-nano", "unet:size=32"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        char command[256];
        snprintf(command, sizeof command, "summary %s --batch 4 --json", models[i]);
        const golden_result s = GOLDEN_RUN(command);
        CHECK_EQ(s.code, 0);
        snprintf(command, sizeof command,
                 "plan %s --batch 4 --json --no-choices --no-measure --device null:9GiB",
                 models[i]);
        const golden_result p = GOLDEN_RUN(command);
        CHECK_EQ(p.code, 0);
        json_t *summary = parse(&s), *plan = parse(&p);
        const json_t *parts = json_object_get(plan, "parts");
        CHECK_EQ(number(summary, "parameter_bytes"), number(parts, "weights"));
        CHECK_EQ(number(summary, "state_bytes"), number(parts, "states"));
        long long parameters = 0, kept = 0;
        size_t k;
        json_t *layer;
        json_array_foreach(json_object_get(summary, "layers"), k, layer) {
            parameters += number(layer, "parameters");
            kept += number(layer, "kept_bytes");
        }
        CHECK(k > 3 && kept > 0);
        CHECK_EQ(parameters, number(summary, "parameters"));
        CHECK_EQ(kept, number(summary, "kept_bytes"));
        /* Everything kept is alive when the backward pass begins. */
        CHECK(kept + number(parts, "weights") <= number(plan, "unplanned_peak_bytes"));
        json_decref(summary);
        json_decref(plan);
    }
}

TEST(see, summary_of_nothing_is_refused) {
    const golden_result r = GOLDEN_RUN("summary resnet51");
    CHECK_EQ(r.code, 2);
    CHECK(strstr(r.err, "resnet51") && strstr(r.err, "resnet50"));
    CHECK_EQ(GOLDEN_RUN("summary").code, 2);
    CHECK_EQ(GOLDEN_RUN("summary mlp --options optimizer=none").code, 2);
}

static const char *scratch(const char *name) {
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/golden-see-%d-%s", HEADROOM_BUILD, (int)getpid(), name);
    return path;
}

TEST(see, a_plan_is_recorded_and_reported) {
    char command[1024];
    const char *record = scratch("a.hrp"), *page = scratch("a.html");
    snprintf(command, sizeof command,
             "plan mlp:size=8,width=32 --batch 64 --device null:1GiB --no-measure --device-spec "
             "page=4KiB "
             "--budget 1MiB --record %s --html %s --json",
             record, page);
    const golden_result p = GOLDEN_RUN(command);
    CHECK_EQ(p.code, 0);
    json_t *plan = parse(&p);
    snprintf(command, sizeof command, "report %s --json", record);
    const golden_result r = GOLDEN_RUN(command);
    CHECK_EQ(r.code, 0);
    json_t *report = parse(&r), *part;
    long long sum = 0;
    size_t i;
    json_array_foreach(json_object_get(report, "parts"), i, part) {
        sum += number(part, "planned_bytes");
    }
    CHECK_EQ(sum, number(plan, "peak_bytes"));
    CHECK_EQ(sum, number(report, "peak_bytes"));
    CHECK_EQ(json_array_size(json_object_get(report, "choices")),
             json_array_size(json_object_get(plan, "choices")));
    json_decref(plan);
    json_decref(report);
    snprintf(command, sizeof command, "report %s --rows 3", record);
    const golden_result t = GOLDEN_RUN(command);
    CHECK_EQ(t.code, 0);
    CHECK(!golden_has_control(t.out));
    char *shown = golden_replace(t.out, record, "plan.hrp"); /* its place differs */
    golden_compare("report", shown);
    free(shown);
    CHECK_EQ(access(page, R_OK), 0);
    CHECK_EQ(unlink(record), 0);
    CHECK_EQ(unlink(page), 0);
}

TEST(see, a_refused_plan_writes_no_page_and_says_so) {
    char command[1024];
    const char *page = scratch("b.html");
    snprintf(command, sizeof command,
             "plan mlp:size=8,width=32 --batch 64 --device null:1GiB --no-measure --budget 4KiB "
             "--html %s",
             page);
    const golden_result r = GOLDEN_RUN(command);
    CHECK_EQ(r.code, 1);
    CHECK(strstr(r.err, "--html: not written"));
    CHECK(access(page, F_OK) != 0);
}

TEST(see, report_of_something_else_is_refused) {
    const golden_result r = GOLDEN_RUN("report /dev/null");
    CHECK_EQ(r.code, 2);
    CHECK(strstr(r.err, "/dev/null"));
}

/* Of what was measured: every op has a time, and the parts add up to what the system reported. */
static void check_profile(const golden_result *p, const char *record) {
    char command[512];
    CHECK_EQ(p->code, 0);
    snprintf(command, sizeof command, "report %s --json", record);
    const golden_result r = GOLDEN_RUN(command);
    CHECK_EQ(r.code, 0);
    json_t *report = parse(&r), *row;
    long long planned = 0, measured = 0;
    double end = 0;
    size_t i;
    CHECK_STR(json_string_value(json_object_get(report, "source")), "profile");
    json_array_foreach(json_object_get(report, "parts"), i, row) {
        planned += number(row, "planned_bytes");
        measured += number(row, "measured_bytes");
    }
    CHECK_EQ(planned, number(report, "peak_bytes"));
    CHECK_EQ(measured, number(report, "measured_peak_bytes"));
    CHECK(measured > 0 && measured <= number(report, "budget_bytes"));
    json_array_foreach(json_object_get(report, "ops"), i, row) {
        const double begin = json_number_value(json_object_get(row, "measured_begin"));
        CHECK(json_number_value(json_object_get(row, "measured_end")) > 0 && begin >= end);
        end = begin;
    }
    CHECK(i > 10);
    const json_t *agreement = json_object_get(report, "agreement"); /* op by op, to the byte */
    CHECK_EQ(number(agreement, "ops"), (long long)i);
    CHECK_EQ(number(agreement, "equal"), (long long)i);
    CHECK_EQ(json_array_size(json_object_get(report, "steps")), 2);
    json_decref(report);
    CHECK_EQ(unlink(record), 0);
}

TEST(see, a_profile_on_the_host_times_every_op_and_adds_up) {
    char command[512];
    const char *record = scratch("h.hrp");
    snprintf(
        command, sizeof command,
        "profile resnet18:size=32,width=8 --batch 8 --budget 96MiB --no-measure --steps 2 --out %s",
        record);
    const golden_result p = GOLDEN_RUN(command);
    check_profile(&p, record);
}

/* Recomputed, and with part of it in place: what kernels were given is what was planned. */
TEST(see, a_profile_in_a_small_budget_agrees_op_by_op) {
    char command[512];
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    test_skip("the resident set holds the sanitizer's own memory");
#endif
    const char *record = scratch("s.hrp");
    snprintf(command, sizeof command,
             "profile gpt2:layers=3,width=64,heads=2,context=64,vocab=500 --batch 16 --budget "
             "29MiB --no-measure --steps 2 --out %s",
             record);
    const golden_result p = GOLDEN_RUN(command);
    check_profile(&p, record);
}

TEST(see, a_profile_takes_sizes_and_classes_from_data) {
    char command[768];
    const char *record = scratch("d.hrp"), *table = scratch("d.csv");
    FILE *file = fopen(table, "w");
    CHECK(file);
    fprintf(file, "a,b,kind\n");
    for (int i = 0; i < 12; i++) {
        fprintf(file, "%d,%d,%c\n", i, -i, "xyz"[i % 3]);
    }
    CHECK_EQ(fclose(file), 0);
    snprintf(command, sizeof command,
             "profile net:dense(8)|relu|dense(classes) --data csv:%s,x=a+b,y=kind --batch 4 "
             "--no-measure --steps 1 --out %s",
             table, record);
    const golden_result p = GOLDEN_RUN(command);
    CHECK_EQ(p.code, 0);
    CHECK(strstr(p.out, "input(2,classes=3)"));
    const golden_result none = GOLDEN_RUN("profile net:dense(8) --out nowhere.hrp");
    CHECK_EQ(none.code, 2);
    CHECK(strstr(none.err, "use data"));
    unlink(table);
}

TEST(see, a_profile_that_does_not_fit_is_refused) {
    const golden_result p =
        GOLDEN_RUN("profile mlp --batch 64 --budget 2MiB --no-measure --out nowhere.hrp");
    CHECK_EQ(p.code, 1);
    CHECK(access("nowhere.hrp", F_OK) != 0 && access("nowhere.hrp.plan", F_OK) != 0);
}

TEST(see, a_profile_on_a_gpu_runs_call_by_call) {
    char command[512], state[128];
    const char *record = scratch("g.hrp");
    snprintf(state, sizeof state, "FAKECUDA_STATE=%s", scratch("state"));
    snprintf(command, sizeof command,
             "profile mlp:size=8,width=32 --batch 16 --device cuda:0 --budget 512MiB --no-measure "
             "--steps 2 "
             "--out %s",
             record);
    const golden_result p = GOLDEN_RUN(
        command, .env = {"LD_LIBRARY_PATH=" HEADROOM_BUILD "/fakecuda", state,
                         "FAKECUDA_CAPACITY=24GiB", "HEADROOM_CACHE_DIR=/tmp/hr-golden"});
    (void)unlink(strchr(state, '=') + 1);
    check_profile(&p, record);
}

/* Steps of a run with data, and the same run without: the losses are the same. */
TEST(see, train_profiles_some_steps_and_changes_nothing) {
    char command[512];
    const char *record = scratch("t.hrp");
    unsigned long long history[2] = {0};
    for (int profiled = 0; profiled < 2; profiled++) {
        snprintf(command, sizeof command,
                 "train mlp:size=8,width=32,classes=4 --data synthetic --batch 16 --budget 96MiB "
                 "--steps 6 --no-save --no-measure --json%s%s%s",
                 profiled ? " --profile " : "", profiled ? record : "",
                 profiled ? " --profile-steps 3-4" : "");
        const golden_result t = GOLDEN_RUN(command);
        CHECK_EQ(t.code, 0);
        json_t *end = parse(&t);
        CHECK(json_is_string(json_object_get(end, "history")) ||
              json_is_integer(json_object_get(end, "history")));
        char *text = json_dumps(json_object_get(end, "history"), JSON_ENCODE_ANY);
        for (const char *c = text; *c; c++) {
            history[profiled] = history[profiled] * 31 + (unsigned char)*c;
        }
        free(text);
        json_decref(end);
    }
    CHECK_EQ(history[0], history[1]);
    const golden_result same = {.code = 0};
    check_profile(&same, record);
    const golden_result wrong = GOLDEN_RUN(
        "train mlp --data synthetic --profile x.hrp --profile-steps 4-3 --no-save --steps 1");
    CHECK_EQ(wrong.code, 2);
    CHECK(strstr(wrong.err, "4-3"));
    const golden_result early = GOLDEN_RUN("train mlp:size=8 --data synthetic --batch 4 --budget "
                                           "96MiB --profile early.hrp --no-save --steps 1");
    CHECK_EQ(early.code, 0);
    CHECK(strstr(early.err, "ended before"));
    CHECK(access("early.hrp", F_OK) != 0 && access("early.hrp.plan", F_OK) != 0);
}

TEST(see, diff_says_what_grew_and_fails_when_asked) {
    char command[1024];
    const char *records[2] = {scratch("d8.hrp"), scratch("d16.hrp")};
    for (int i = 0; i < 2; i++) {
        snprintf(command, sizeof command,
                 "plan mlp:size=8,width=32 --batch %d --device null:1GiB --no-measure "
                 "--device-spec page=4KiB --no-choices --record %s",
                 i ? 16 : 8, records[i]);
        CHECK_EQ(GOLDEN_RUN(command).code, 0);
    }
    snprintf(command, sizeof command, "diff %s %s --rows 3", records[0], records[1]);
    const golden_result t = GOLDEN_RUN(command);
    CHECK_EQ(t.code, 0);
    CHECK(!golden_has_control(t.out));
    golden_compare("diff", t.out);
    snprintf(command, sizeof command, "diff %s %s --fail-over 1%% --json", records[0], records[1]);
    const golden_result j = GOLDEN_RUN(command);
    CHECK_EQ(j.code, 1);
    json_t *diff = parse(&j), *row;
    long long sum = 0;
    size_t i;
    json_array_foreach(json_object_get(diff, "parts"), i, row) {
        sum += number(row, "change");
    }
    CHECK_EQ(sum, number(json_object_get(diff, "peak_bytes"), "change"));
    CHECK(sum > 0);
    json_decref(diff);
    snprintf(command, sizeof command, "diff %s %s --fail-over 1%%", records[1], records[0]);
    CHECK_EQ(GOLDEN_RUN(command).code, 0);
    snprintf(command, sizeof command, "diff %s %s --fail-over 1", records[0], records[0]);
    CHECK_EQ(GOLDEN_RUN(command).code, 2);
    CHECK_EQ(unlink(records[0]), 0);
    CHECK_EQ(unlink(records[1]), 0);
}
