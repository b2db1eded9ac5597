/* A saved graph of each family, opened again by the program: it plans the same bytes and trains to the same bits, its
 * checkpoint holds the graph, and training goes on from it. */
#include <headroom/headroom.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pictures.h"
#include "test.h"

static json_t *run(int code, const char *arguments) {
    char command[2048];
    json_error_t error;
    snprintf(command, sizeof command, "cd '%s' && '%s' %s --json 2>words", test_folder(),
             HEADROOM_PROGRAM, arguments);
    FILE *out = popen(command, "r");
    CHECK(out != NULL);
    json_t *json = json_loadf(out, 0, &error);
    const int status = pclose(out);
    if (!json || !WIFEXITED(status) || WEXITSTATUS(status) != code) {
        char words[1024] = "", path[600];
        snprintf(path, sizeof path, "%s/words", test_folder());
        FILE *f = fopen(path, "r");
        words[f ? fread(words, 1, sizeof words - 1, f) : 0] = '\0';
        test_fail(__FILE__, __LINE__, "%s: exit code %d, %s: %s", arguments, WEXITSTATUS(status),
                  json ? "" : error.text, words);
    }
    return json;
}

static const char *text(const json_t *json, const char *key) {
    const char *is = json_string_value(json_object_get(json, key));
    return is ? is : "";
}

static void save(const char *model, const char *name) {
    char path[600];
    hr_model *m;
    hr_error why = {.code = HR_OK};
    snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    CHECK_OK(hr_model_open(model, &m, NULL));
    if (hr_model_write(m, path, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", model, why.message);
    }
    hr_model_close(m);
}

/* The same command with the model by name and by file. */
static void compare(const char *model, const char *flags) {
    char command[1024];
    snprintf(command, sizeof command, "train '%s' %s", model, flags);
    json_t *named = run(0, command);
    snprintf(command, sizeof command, "train ./saved.hr %s", flags);
    json_t *saved = run(0, command);
    CHECK(strlen(text(named, "history")) == 16);
    CHECK_STR(text(saved, "history"), text(named, "history"));
    CHECK(json_number_value(json_object_get(named, "val_loss")) ==
          json_number_value(json_object_get(saved, "val_loss")));
    json_decref(named);
    json_decref(saved);
}

static void check_model(const char *model, const char *flags) {
    static const char *const keys[] = {"peak_bytes",       "floor_bytes",    "arena_bytes",
                                       "persistent_bytes", "recomputed_ops", "micro_batches"};
    char command[1024];
    save(model, "saved.hr");
    snprintf(command, sizeof command,
             "plan '%s' --batch 8 --device null:24GiB --no-measure --budget 40%%", model);
    json_t *named = run(0, command);
    json_t *saved = run(0, "plan ./saved.hr --batch 8 --device null:24GiB --no-measure "
                           "--budget 40%");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        CHECK(json_object_get(named, keys[i]) != NULL);
        CHECK_EQ(json_integer_value(json_object_get(saved, keys[i])),
                 json_integer_value(json_object_get(named, keys[i])));
    }
    json_decref(named);
    json_decref(saved);
    compare(model, flags);
}

#define FLAGS " --batch 8 --micro-batches 1 --steps 3 --no-measure --no-save --val-split 0.3"

TEST_TIMEOUT(model_files, every_family_plans_and_trains_to_the_same_bits, 240) {
    check_model("mlp:size=8", "--data synthetic:count=30" FLAGS);
    check_model("lenet", "--data synthetic:count=30 --optimizer adamw" FLAGS);
    check_model("resnet18:size=32,width=8", "--data synthetic:count=30 --decay 0.01" FLAGS);
    check_model("resnet50:size=32,width=8,norm=group",
                "--data synthetic:count=30 --precision bf16" FLAGS);
    check_model("vit-tiny:size=32,layers=2", "--data synthetic:count=30 --clip 1" FLAGS);
    check_model("unet:size=32,width=4", "--data synthetic:count=30" FLAGS);
    check_model("gpt2-nano:dropout=0.1", "--data synthetic:count=30 --optimizer adamw" FLAGS);
}

TEST_TIMEOUT(model_files, a_run_of_one_is_resumed_and_evaluated_from_its_checkpoint_alone, 120) {
    static const char flags[] = "--data synthetic:count=40,seed=3 --batch 8 --micro-batches 1 "
                                "--no-measure --val-split 0.2";
    char command[1024], path[600];
    save("resnet18:size=16,width=4,classes=3", "saved.hr");
    snprintf(command, sizeof command, "train ./saved.hr %s --epochs 4 --out whole", flags);
    json_t *whole = run(0, command);
    snprintf(command, sizeof command, "train ./saved.hr %s --epochs 2 --out parts", flags);
    json_decref(run(0, command));
    snprintf(command, sizeof command, "train ./saved.hr %s --epochs 4 --out parts --resume", flags);
    json_t *resumed = run(0, command);
    CHECK_STR(text(resumed, "history"), text(whole, "history"));
    /* Another graph under the same name is not the run's model. */
    save("resnet18:size=16,width=6,classes=3", "saved.hr");
    snprintf(command, sizeof command, "train ./saved.hr %s --epochs 5 --out parts --resume", flags);
    json_decref(run(2, command));
    snprintf(path, sizeof path, "%s/saved.hr", test_folder());
    CHECK(unlink(path) == 0);
    json_t *eval =
        run(0, "eval parts/last.safetensors --data synthetic:count=40,seed=3 --split val");
    CHECK(json_number_value(json_object_get(eval, "loss")) > 0);
    json_decref(whole);
    json_decref(resumed);
    json_decref(eval);
}

/* The same line, trained with its input from the data, as a file with weights beside it, and resumed. */
TEST_TIMEOUT(model_files, a_network_in_one_line_trains_and_resumes, 120) {
    static const char net[] = "'net: input(8x8x3) | conv(8) | batch_norm | relu | global_pool | "
                              "dropout(0.2) | dense(4)'";
    static const char flags[] = "--data synthetic:count=40,seed=3 --batch 8 --micro-batches 1 "
                                "--no-measure --val-split 0.2";
    char command[1024];
    snprintf(command, sizeof command, "train %s %s --epochs 4 --out whole", net, flags);
    json_t *whole = run(0, command);
    snprintf(command, sizeof command, "train %s %s --epochs 2 --out parts", net, flags);
    json_decref(run(0, command));
    snprintf(command, sizeof command, "train %s %s --epochs 4 --out parts --resume", net, flags);
    json_t *resumed = run(0, command);
    CHECK(strlen(text(whole, "history")) == 16);
    CHECK_STR(text(resumed, "history"), text(whole, "history"));
    snprintf(command, sizeof command, "summary %s --save line.hr", net);
    json_decref(run(0, command));
    snprintf(command, sizeof command, "train ./line.hr %s --epochs 4 --out file", flags);
    json_t *file = run(0, command);
    CHECK_STR(text(file, "history"), text(whole, "history"));
    json_t *eval =
        run(0, "eval whole/last.safetensors --data synthetic:count=40,seed=3 --split val");
    CHECK(json_number_value(json_object_get(eval, "loss")) > 0);
    json_decref(whole);
    json_decref(resumed);
    json_decref(file);
    json_decref(eval);
}

/* The weights that a model file names are where training starts. */
TEST_TIMEOUT(model_files, a_file_names_its_weights, 120) {
    static const char flags[] = "--data synthetic:count=40 --batch 8 --steps 3 --micro-batches 1 "
                                "--no-measure --seed 9";
    char command[1024], path[600], line[256];
    save("mlp:size=8", "saved.hr");
    snprintf(command, sizeof command, "train ./saved.hr %s --seed 5 --out before", flags);
    json_decref(run(0, command));
    snprintf(command, sizeof command,
             "train ./saved.hr %s --no-save --init before/last.safetensors", flags);
    json_t *given = run(0, command);
    snprintf(path, sizeof path, "%s/named.hr", test_folder());
    FILE *to = fopen(path, "w");
    snprintf(path, sizeof path, "%s/saved.hr", test_folder());
    FILE *from = fopen(path, "r");
    CHECK(to && from);
    for (int i = 0; fgets(line, sizeof line, from); i++) {
        fputs(line, to);
        if (i == 1) {
            fputs("weights \"named.safetensors\"\n", to);
        }
    }
    fclose(from);
    fclose(to);
    snprintf(command, sizeof command, "cp '%s/before/last.safetensors' '%s/named.safetensors'",
             test_folder(), test_folder());
    CHECK(system(command) == 0);
    snprintf(command, sizeof command, "train ./named.hr %s --no-save", flags);
    json_t *named = run(0, command);
    CHECK_STR(text(named, "history"), text(given, "history"));
    /* And what eval and predict take. */
    json_t *a = run(0, "eval ./named.hr --data synthetic:count=40");
    json_t *b = run(0, "eval before/last.safetensors --data synthetic:count=40");
    CHECK(json_number_value(json_object_get(a, "loss")) > 0);
    CHECK(json_number_value(json_object_get(a, "loss")) ==
          json_number_value(json_object_get(b, "loss")));
    json_decref(a);
    json_decref(b);
    json_decref(run(2, "eval ./saved.hr --data synthetic:count=40"));
    snprintf(command, sizeof command, "train ./saved.hr %s --no-save", flags);
    json_t *fresh = run(0, command);
    CHECK(strcmp(text(fresh, "history"), text(named, "history")) != 0);
    json_decref(given);
    json_decref(named);
    json_decref(fresh);
}

static void write_npy(const char *name, const char *type, const char *shape, const void *data,
                      size_t bytes) {
    char path[600], header[128] = "";
    snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    const int n = snprintf(header, sizeof header,
                           "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);
    memset(header + n, ' ', 117 - (size_t)n);
    header[117] = '\n';
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, f) == 10);
    CHECK(fwrite(header, 1, 118, f) == 118 && fwrite(data, 1, bytes, f) == bytes);
    CHECK(fclose(f) == 0);
}

/* A model of tokens with two inputs and a parameter that nothing reads, fed by fields of their names. */
TEST_TIMEOUT(model_files, every_input_is_fed_by_the_field_of_its_name, 60) {
    static const char graph[] =
        "%1 = input \"ids\" i32[N,7]\n%2 = input \"mask\" f32[N,7]\n%3 = input \"label\" i32[N]\n"
        "%4 = param \"emb.weight\" f32[11,6] normal 0 0.5\n"
        "%5 = param \"fc.weight\" f32[5,6] uniform -0.4 0.4\n"
        "%6 = param \"unused\" f32[3] constant 1 0\n"
        "%7 = gather(%4 %1) @\"emb\"\n%8 = reshape(%2) {to=Nx7x1} @\"\"\n%9 = mul(%7 %8) @\"\"\n"
        "%10 = mean(%9) {axes=1} @\"\"\n%11 = matmul(%10 %5) {transpose-b=true} @\"fc\"\n"
        "%12 %13 = cross_entropy(%11 %3) @\"\"\nresult \"logits\" %11\nresult \"loss\" %12\n";
    int32_t ids[40 * 7], labels[40];
    float mask[40 * 7], none[40 * 7] = {0};
    char path[600];
    for (int i = 0; i < 40 * 7; i++) {
        ids[i] = (i * 5 + i / 7) % 11;
        mask[i] = i % 3 ? 1.0f : 0.0f;
        labels[i % 40] = i % 5;
    }
    write_npy("ids.npy", "<i4", "(40, 7)", ids, sizeof ids);
    write_npy("mask.npy", "<f4", "(40, 7)", mask, sizeof mask);
    write_npy("none.npy", "<f4", "(40, 7)", none, sizeof none);
    write_npy("label.npy", "<i4", "(40,)", labels, sizeof labels);
    snprintf(path, sizeof path, "%s/two.hr", test_folder());
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    fprintf(f, "headroom model 1\nname \"two\"\nclasses 5\nform train\n%sform eval\n%s", graph,
            graph);
    CHECK(fclose(f) == 0);
#define DATA(MASK) "--data 'npy(ids.npy," MASK ",label.npy,names=ids,mask,label)'"
    json_t *seen = run(0, "train ./two.hr " DATA("mask.npy") FLAGS);
    json_t *hidden = run(0, "train ./two.hr " DATA("none.npy") FLAGS);
    CHECK(strlen(text(seen, "history")) == 16);
    CHECK(strcmp(text(seen, "history"), text(hidden, "history")) != 0);
    json_decref(seen);
    json_decref(hidden);
    json_decref(run(2, "train ./two.hr --data npy:ids.npy,label.npy" FLAGS));
}
