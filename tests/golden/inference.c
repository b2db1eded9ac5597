/* headroom eval and headroom predict, over a model whose weights are set by hand: each class scores the mean of one
 * colour, so what must come out is known. */
#include "golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include <headroom/headroom.h>

#include "pictures.h"
#include "run/interpret.h"
#include "weights/checkpoint.h"

enum { SIDE = 8 };
static const char *const colours[] = {"blue", "green", "red"};

static const char *in(const char *name) {
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", test_folder(), name);
    return path;
}

/* One picture of one colour: 0 blue, 1 green, 2 red. */
static void write_picture(const char *name, int colour, int level) {
    uint8_t rows[SIDE * SIDE * 3] = {0};
    size_t bytes;
    for (int i = 0; i < SIDE * SIDE; i++) {
        rows[i * 3 + (2 - colour)] = (uint8_t)level;
    }
    unsigned char *png = test_png(rows, SIDE, SIDE, 8, 2, 0, &bytes);
    test_write(test_folder(), name, png, bytes);
    free(png);
}

static void write_checkpoint_of(const char *model, uint32_t channels, const char *input,
                                const char *precision) {
    hr_model *m;
    hr_graph *g;
    hri_interp *it;
    hr_train_options o = {.size = sizeof o};
    CHECK_OK(hr_model_open(model, &m, NULL));
    CHECK_OK(hr_train_options_parse("", &o, NULL));
    CHECK_OK(hr_step_build(&o, hr_model_build, m, HR_STEP_EVALUATE, 2, &g, NULL));
    CHECK_OK(hri_interp_create(g, NULL, 1, &it));
    const hr_value weight = hr_graph_find(g, "head.weight");
    if (weight != HR_NONE) {
        float *w = hri_interp_data(it, weight);
        CHECK_EQ(hr_graph_meta(g, weight).shape.dim[0], 3);
        for (int k = 0; k < 3; k++) {
            for (int i = 0; i < SIDE * SIDE * 3; i++) {
                w[k * SIDE * SIDE * 3 + i] = i % 3 == 2 - k ? 8.0f / (SIDE * SIDE) : 0.0f;
            }
        }
        memset(hri_interp_data(it, hr_graph_find(g, "head.bias")), 0, 3 * sizeof(float));
    }
    const hri_values values = {.get = hri_interp_get, .put = hri_interp_put, .user = it};
    const hri_about about = {.model = hr_model_text(m),
                             .precision = precision,
                             .source = "images:somewhere",
                             .pixels = {.channels = channels, .std = {1, 1, 1}},
                             .input = input,
                             .classes = weight != HR_NONE ? colours : NULL,
                             .class_count = weight != HR_NONE ? 3 : 0};
    const hri_checkpoint_write w = {.g = g, .from = &values, .about = &about};
    hri_prose why = {0};
    test_write(test_folder(), "run/.keep", "", 0);
    CHECK_OK(hri_checkpoint_save(in("run/best.safetensors"), &w, &why));
    hri_interp_destroy(it);
    hr_graph_destroy(g);
    hr_model_close(m);
}

static void write_checkpoint(const char *model, uint32_t channels, const char *input) {
    write_checkpoint_of(model, channels, input, "f32");
}

static void set_up(void) {
    write_checkpoint("mlp:size=8,channels=3,classes=3,layers=0", 3, "image");
    /* One class less than the model has, so that numbers alone would be wrong. */
    write_picture("set/green/1.png", 1, 255);
    write_picture("set/green/2.png", 1, 100);
    write_picture("set/red/1.png", 2, 255);
    write_picture("set/red/2, a.png", 2, 51);
}

/* Runs `headroom ...` with @ for the folder. */
static golden_result run(const char *args) {
    return golden_run(&(golden_spec){.args = golden_replace(args, "@", test_folder())});
}

static json_t *object_of(const golden_result *r) {
    json_t *object = json_loads(r->out, JSON_REJECT_DUPLICATES, NULL);
    CHECK(json_is_object(object));
    CHECK_EQ(json_integer_value(json_object_get(object, "version")), 1);
    return object;
}

static json_int_t whole(const json_t *object, const char *key) {
    CHECK(json_is_integer(json_object_get(object, key)));
    return json_integer_value(json_object_get(object, key));
}

TEST(eval, matches_classes_by_their_names) {
    set_up();
    const golden_result r = run("eval @/run --data images:@/set --json --budget 96MiB");
    CHECK_STR(r.err, "");
    CHECK_EQ(r.code, 0);
    json_t *o = object_of(&r);
    CHECK(json_real_value(json_object_get(o, "accuracy")) == 1);
    CHECK_EQ(whole(o, "samples"), 4);
    CHECK_LE(whole(o, "planned_peak_bytes"), 96 << 20);
    CHECK(whole(o, "measured_peak_bytes") > 0);
    CHECK_LE(whole(o, "measured_peak_bytes"), 64 << 20);
    CHECK_EQ(whole(o, "runtime_bytes") + whole(o, "persistent_bytes") + whole(o, "arena_bytes"),
             whole(o, "planned_peak_bytes"));
    const json_t *green = json_array_get(json_object_get(o, "classes"), 1);
    CHECK_STR(json_string_value(json_object_get(green, "name")), "green");
    CHECK_EQ(whole(green, "samples"), 2);
    /* The loss of a pixel level L over 255 with the score 8 L: by hand. */
    double loss = 0;
    static const double levels[] = {1, 100.0 / 255, 1, 51.0 / 255};
    for (int i = 0; i < 4; i++) {
        loss += log(1 + 2 * exp(-8 * levels[i])) / 4;
    }
    CHECK(fabs(json_real_value(json_object_get(o, "loss")) - loss) < 1e-5);
    json_decref(o);
}

TEST(eval, shows_the_classes_that_went_wrong_and_ends_with_a_command) {
    set_up();
    write_picture("set/green/3.png", 2, 255); /* red, in the wrong folder */
    const golden_result r = run("eval @/run --data images:@/set --batch 2");
    CHECK_EQ(r.code, 0);
    CHECK(!golden_has_control(r.out));
    CHECK(strstr(r.out, "accuracy 80.00 %, loss ") == r.out);
    CHECK(strstr(r.out, "5 samples in ") && strstr(r.out, "batch 2 on host"));
    CHECK(strstr(r.out, "  CLASS  SAMPLES   RIGHT  MISTAKEN FOR\n"
                        "  green        3  66.7 %  red (1)\n"));
    CHECK(strstr(r.out, "next: headroom predict "));
}

TEST(eval, refuses_classes_that_the_model_does_not_know) {
    set_up();
    write_picture("set/pink/1.png", 2, 200);
    const golden_result r = run("eval @/run --data images:@/set");
    CHECK_EQ(r.code, 2);
    CHECK_STR(r.out, "");
    CHECK(strstr(r.err, "class \"pink\" of the data is not one of the model's 3 classes"));
}

TEST(eval, says_no_before_the_first_sample) {
    set_up();
    const golden_result r =
        run("eval @/run --data images:@/set --budget 1MiB --data-budget 512KiB");
    CHECK_EQ(r.code, 1);
    CHECK_STR(r.out, "");
    CHECK(strstr(r.err, "does not fit: a budget of ") && strstr(r.err, "below the minimum of "));
    CHECK(strstr(r.err, "next: --budget ") && strstr(r.err, "MiB\n"));
    const golden_result as_json =
        run("predict @/run @/set --budget 1MiB --data-budget 512KiB --json");
    CHECK_EQ(as_json.code, 1);
    json_t *o = object_of(&as_json);
    CHECK(json_is_false(json_object_get(o, "fits")));
    CHECK_EQ(whole(o, "budget_bytes"), 1 << 20);
    json_decref(o);
}

TEST(predict, a_terminal_gets_rows_and_no_bar_among_them) {
    set_up();
    const golden_result r = golden_run(
        &(golden_spec){.args = golden_replace("predict @/run @/set --batch 1", "@", test_folder()),
                       .columns = 100,
                       .merge = 1});
    CHECK_EQ(r.code, 0);
    CHECK(strstr(r.out, "path,class,probability") && strstr(r.out, "red/1.png,red,"));
    CHECK(!strstr(r.out, "\033[K"));
    CHECK(strstr(r.out, "4 predicted; planned ")); /* words for people, as it is a terminal */
}

TEST(eval, wrong_use_is_exit_2_with_a_sentence) {
    set_up();
    static const struct {
        const char *args, *says;
    } cases[] = {{"eval @/run", "--data is required"},
                 {"eval @/nowhere --data images:@/set", "nowhere"},
                 {"eval @/set/red/1.png --data images:@/set", "1.png"},
                 {"eval @/run --data images:@/nowhere", "nowhere"},
                 {"eval @/run --data images:@/set --batch 0", "is not auto or a number"},
                 {"eval @/run --data images:@/set --budget nothing", "budget"},
                 {"predict @/run", "predict"},
                 {"predict @/run @/nowhere.png", "no such file or directory"},
                 {"predict @/run @/set @/set/red/1.png", "a folder cannot be combined"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const golden_result r = run(cases[i].args);
        CHECK_EQ(r.code, 2);
        CHECK_STR(r.out, "");
        CHECK(strstr(r.err, cases[i].says));
    }
}

TEST(predict, a_folder_as_csv) {
    set_up();
    const golden_result r = run("predict @/run @/set --top 2");
    CHECK_STR(r.err, "");
    CHECK_EQ(r.code, 0);
    golden_compare("predict_folder", golden_replace(r.out, test_folder(), "FOLDER"));
}

TEST(predict, one_picture_names_itself_and_probabilities_add_up) {
    set_up();
    const golden_result r = run("predict @/run @/set/red/1.png --top 9 --json");
    CHECK_STR(r.err, "");
    CHECK_EQ(r.code, 0);
    json_t *o = object_of(&r);
    const json_t *all = json_object_get(o, "predictions"), *one = json_array_get(all, 0);
    CHECK_EQ(json_array_size(all), 1);
    CHECK_STR(json_string_value(json_object_get(one, "path")), in("set/red/1.png"));
    const json_t *classes = json_object_get(one, "classes");
    double sum = 0;
    CHECK_EQ(json_array_size(classes), 3); /* there are no nine */
    for (size_t i = 0; i < 3; i++) {
        sum += json_real_value(json_object_get(json_array_get(classes, i), "probability"));
    }
    CHECK(fabs(sum - 1) < 1e-9);
    CHECK_STR(json_string_value(json_object_get(json_array_get(classes, 0), "name")), "red");
    CHECK_EQ(whole(o, "samples"), 1);
    CHECK_EQ(whole(o, "batch"), 1);
    json_decref(o);
}

TEST(predict, scores_of_two_bytes_are_read_too) {
    static const char *const precisions[] = {"bf16", "f16"};
    set_up();
    for (int i = 0; i < 2; i++) {
        write_checkpoint_of("mlp:size=8,channels=3,classes=3,layers=0", 3, "image", precisions[i]);
        const golden_result r = run("predict @/run @/set/red/1.png --json");
        CHECK_STR(r.err, "");
        CHECK_EQ(r.code, 0);
        json_t *o = object_of(&r);
        const json_t *one = json_array_get(json_object_get(o, "predictions"), 0);
        const json_t *best = json_array_get(json_object_get(one, "classes"), 0);
        CHECK_STR(json_string_value(json_object_get(best, "name")), "red");
        CHECK(json_real_value(json_object_get(best, "probability")) > 0.5);
        json_decref(o);
    }
}

/* The same by a pipe: `COMMAND | headroom ARGS`. */
static golden_result run_shell(const char *command) {
    char *line = golden_replace(command, "@", test_folder());
    line = golden_replace(line, "headroom ", HEADROOM_PROGRAM " ");
    return golden_run(&(golden_spec){.program = "/bin/sh", .args = "-c", .last_arg = line});
}

TEST(predict, ends_where_nobody_reads_on) {
    set_up();
    const golden_result r =
        run_shell("for i in $(seq 1000); do echo @/set/red/1.png; done >@/list; "
                  "echo @/set/red/nowhere.png >>@/list; "
                  "headroom predict @/run - --batch 1 --skip-bad <@/list >/dev/full");
    CHECK_EQ(r.code, 3);
    CHECK(strstr(r.err, "cannot write the result") && !strstr(r.err, "nowhere"));
}

TEST(eval, a_full_disk_is_exit_3) {
    set_up();
    golden_result r = run_shell("headroom eval @/run --data images:@/set --confusion /dev/full");
    CHECK_EQ(r.code, 3);
    CHECK(strstr(r.err, "/dev/full: write: No space left") && !strstr(r.err, "--skip-bad"));
    r = run_shell("headroom summary lenet --save /dev/full");
    CHECK_EQ(r.code, 3);
    CHECK(strstr(r.err, "/dev/full: write: No space left"));
}

TEST(predict, standard_input_is_a_list_or_a_picture) {
    set_up();
    golden_result r = run_shell(
        "printf '%s\\n' '@/set/red/2, a.png' @/set/green/1.png | headroom predict @/run -");
    CHECK_STR(r.err, "");
    CHECK_EQ(r.code, 0);
    const char *wanted = golden_replace("path,class,probability\n"
                                        "\"@/set/red/2, a.png\",red,0.712356\n"
                                        "@/set/green/1.png,green,0.999330\n",
                                        "@", test_folder());
    CHECK_STR(r.out, wanted);
    r = run_shell("headroom predict @/run - < '@/set/red/2, a.png'");
    CHECK_EQ(r.code, 0);
    CHECK_STR(r.out, "path,class,probability\n-,red,0.712356\n");
    r = run_shell("headroom predict @/run - < /dev/null");
    CHECK_EQ(r.code, 2);
    CHECK(strstr(r.err, "standard input is empty"));
    r = run_shell("headroom predict @/run '@/set/red/2, a.png' @/set/red/1.png");
    CHECK_EQ(r.code, 0);
    CHECK(strstr(r.out, "2, a.png\",red,") && strstr(r.out, "1.png,red,"));
}

TEST(predict, a_bad_picture_ends_it_or_is_named_and_left_out) {
    set_up();
    test_write(test_folder(), "set/green/3.png", "not a picture", 13);
    golden_result r = run("predict @/run @/set");
    CHECK_EQ(r.code, 2);
    CHECK(strstr(r.out, "green/2.png,green,")); /* those before it stand */
    CHECK(strstr(r.err, "green/3.png") && strstr(r.err, "--skip-bad"));
    r = run("predict @/run @/set --skip-bad");
    CHECK_EQ(r.code, 0);
    CHECK(strstr(r.out, "red/1.png,red,") && !strstr(r.out, "green/3.png"));
    CHECK(strstr(r.err, "skipped: ") && strstr(r.err, "green/3.png"));
    CHECK(strstr(r.err, "1 of 5 samples could not be read and were skipped"));
    r = run("eval @/run --data images:@/set");
    CHECK_EQ(r.code, 2);
    r = run("eval @/run --data images:@/set --skip-bad --json");
    CHECK_EQ(r.code, 0);
    json_t *o = object_of(&r);
    CHECK_EQ(whole(o, "bad"), 1);
    CHECK_EQ(whole(o, "samples"), 4);
    json_decref(o);
}

TEST(predict, any_batch_gives_the_same_bytes) {
    set_up();
    const golden_result one = run("predict @/run @/set --batch 1 --top 3");
    const golden_result three = run("predict @/run @/set --batch 3 --top 3 --threads 1");
    const golden_result all = run("predict @/run @/set --top 3");
    CHECK_EQ(one.code, 0);
    CHECK_STR(one.out, three.out);
    CHECK_STR(one.out, all.out);
}

TEST(predict, a_model_without_classes_is_refused_and_judged_by_its_loss) {
    write_checkpoint("gpt2-nano:vocab=32,context=8,layers=1,width=16,heads=2", 0, "tokens");
    uint16_t tokens[64];
    for (int i = 0; i < 64; i++) {
        tokens[i] = (uint16_t)(i % 32);
    }
    test_write(test_folder(), "tokens", tokens, sizeof tokens);
    golden_result r = run("predict @/run tokens:@/tokens");
    CHECK_EQ(r.code, 2);
    CHECK(strstr(r.err, "does not predict one class per sample"));
    r = run("eval @/run --data tokens:@/tokens");
    CHECK_EQ(r.code, 0);
    CHECK(strstr(r.out, "loss 3.") == r.out || strstr(r.out, "accuracy") == r.out);
}
