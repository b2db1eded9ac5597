/* headroom train from outside: the program is run as users run it, on small pictures, and watched by the kernel.  The
 * history of a training is one number ("history", a hash of the bits of every loss), so "the same losses" is one
 * comparison. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "pictures.h"
#include "test.h"
#include "weights/checkpoint.h"

typedef struct outcome {
    int code; /* -1: killed */
    uint64_t resident_bytes;
    json_t *json;     /* NULL: none */
    char words[8192]; /* stderr */
} outcome;

static char where[256]; /* the case's folder */

static const char *in(const char *name) {
    static char paths[4][400];
    static unsigned at;
    char *path = paths[at++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", where, name);
    return path;
}

/* Three colours with noise: 20 pictures of each. */
static void make_pictures(const char *name, int classes) {
    uint8_t pixels[24 * 20 * 3];
    uint64_t state = 99;
    for (int c = 0; c < classes; c++) {
        for (int i = 0; i < 20; i++) {
            for (size_t p = 0; p < sizeof pixels; p++) {
                const unsigned base = p % 3 == (size_t)c % 3 ? 190 : c >= 3 ? 120 : 40;
                pixels[p] = (uint8_t)(base + test_random(&state) % 60);
            }
            size_t bytes;
            char path[64];
            unsigned char *jpeg = test_jpeg(pixels, 24, 20, NULL, &bytes);
            snprintf(path, sizeof path, "%s/class%d/%02d.jpg", name, c, i);
            test_write(where, path, jpeg, bytes);
            free(jpeg);
        }
    }
}

static void begin(void) {
    snprintf(where, sizeof where, "%s", test_folder());
    make_pictures("pics", 3);
}

typedef struct how {
    unsigned kill_ms; /* > 0: SIGKILL, or `signal`, after so long */
    int signal;
} how;

static pid_t start(const char *arguments, int out[2]) {
    char command[2048];
    snprintf(command, sizeof command, "cd '%s' && exec '%s' train %s --no-measure --json 2>words",
             where, HEADROOM_PROGRAM, arguments);
    CHECK(pipe(out) == 0);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(out[1], STDOUT_FILENO);
        close(out[0]);
        close(out[1]);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    return child;
}

static outcome run_how(const char *arguments, how h) {
    outcome o = {0};
    int ends[2], status = 0;
    struct rusage use;
    const pid_t child = start(arguments, ends);
    if (h.kill_ms) {
        usleep(h.kill_ms * 1000);
        kill(child, h.signal ? h.signal : SIGKILL);
    }
    FILE *f = fdopen(ends[0], "r");
    CHECK(f);
    o.json = json_loadf(f, 0, NULL);
    fclose(f);
    CHECK(wait4(child, &status, 0, &use) == child);
    o.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    o.resident_bytes = (uint64_t)use.ru_maxrss * 1024;
    f = fopen(in("words"), "r");
    if (f) {
        o.words[fread(o.words, 1, sizeof o.words - 1, f)] = '\0';
        fclose(f);
    }
    return o;
}

static outcome run(const char *arguments) {
    return run_how(arguments, (how){0});
}

static outcome run_well(const char *arguments) {
    outcome o = run(arguments);
    if (o.code != 0 || !o.json) {
        test_fail(__FILE__, __LINE__, "train %s: exit code %d: %s", arguments, o.code, o.words);
    }
    return o;
}

static void end(outcome *o) {
    json_decref(o->json);
    o->json = NULL;
}

static const char *text(const outcome *o, const char *key) {
    const char *value = json_string_value(json_object_get(o->json, key));
    if (!value) {
        test_fail(__FILE__, __LINE__, "\"%s\" is missing", key);
    }
    return value;
}

static double number(const json_t *json, const char *key) {
    const json_t *value = json_object_get(json, key);
    if (!json_is_number(value)) {
        test_fail(__FILE__, __LINE__, "\"%s\" is missing", key);
    }
    return json_number_value(value);
}

/* The sentence, the exit code, no crash. */
static void refused(const char *arguments, int code, const char *sentence) {
    outcome o = run(arguments);
    if (o.code != code || !strstr(o.words, sentence)) {
        test_fail(__FILE__, __LINE__, "train %s: exit code %d, wanted %d with \"%s\"; said: %s",
                  arguments, o.code, code, sentence, o.words);
    }
    test_count_check();
    end(&o);
}

#define RESNET "resnet18:size=32,width=8 --data images:pics --batch 8 --seed 3"

/* ---- the same bits ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NEED_MEMORY() test_skip("the resident set holds the sanitizer's own memory")
#else
#define NEED_MEMORY() (void)0
#endif

TEST_TIMEOUT(train, threads_and_budgets_that_only_compute_again_change_no_bit, 120) {
    NEED_MEMORY();
    static const char *const ways[] = {"--threads 1", "--threads 2", "--threads 2 --budget 64MiB",
                                       "--threads 1 --data-budget 512KiB"};
    begin();
    outcome first =
        run_well(RESNET " --val-split 0.2 --rate 0.003 --epochs 5 --no-save --threads 2");
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        char arguments[512];
        snprintf(arguments, sizeof arguments,
                 RESNET " --val-split 0.2 --rate 0.003 --epochs 5 --no-save %s", ways[i]);
        outcome o = run_well(arguments);
        CHECK_EQ(strcmp(text(&o, "history"), text(&first, "history")), 0);
        CHECK(number(o.json, "val_loss") == number(first.json, "val_loss"));
        end(&o);
    }
    CHECK(number(first.json, "accuracy") > 0.9); /* three colours: it must have learnt them */
    end(&first);
}

/* Budgets down to what refuses: as long as nothing is cut the history stays, and the outside sees the budget kept. */
TEST_TIMEOUT(train, a_tight_budget_computes_again_keeps_the_history_and_is_kept_itself, 120) {
    NEED_MEMORY();
    begin();
    const char *const base = "resnet18:size=64,width=16 --data images:pics --batch 20 --seed 3 "
                             "--steps 4 --val-split 0.2 --no-save";
    outcome plain = run_well(base);
    const double planned = number(plain.json, "planned_peak_bytes");
    int tight = 0, refusals = 0;
    for (int percent = 96; percent >= 90; percent -= 3) {
        char arguments[512];
        snprintf(arguments, sizeof arguments, "%s --budget %.0f", base, planned * percent / 100);
        outcome o = run(arguments);
        if (o.code == 1) {
            refusals++;
            end(&o);
            continue;
        }
        CHECK_EQ(o.code, 0);
        CHECK_EQ(strcmp(text(&o, "history"), text(&plain, "history")), 0);
        CHECK_EQ(number(o.json, "micro_batches"), 1);
        CHECK(number(o.json, "planned_peak_bytes") <= planned * percent / 100);
        CHECK((double)o.resident_bytes <= planned * percent / 100);
        tight += number(o.json, "recomputed_ops") > 0;
        end(&o);
    }
    printf("    %d budgets with ops computed again, %d refused\n", tight, refusals);
    CHECK(tight > 0);
    end(&plain);
}

static void read_text(const char *name, char *buf, size_t size) {
    FILE *f = fopen(in(name), "r");
    CHECK(f);
    buf[fread(buf, 1, size - 1, f)] = '\0';
    fclose(f);
}

static void check_checkpoint(const char *path) {
    hri_checkpoint c;
    hri_prose why = {""};
    if (access(path, F_OK) == 0) {
        CHECK_STATUS(hri_checkpoint_open(path, &c, &why), HR_OK);
        hri_checkpoint_close(&c);
    }
}

TEST_TIMEOUT(train, killed_twenty_times_at_any_moment_and_resumed_it_ends_with_the_same_bits, 150) {
    begin();
    const char *const base = RESNET " --val-split 0.2 --epochs 30 --save-every 3 --optimizer adamw "
                                    "--schedule cosine --warmup 5 --augment flip,crop";
    char arguments[512];
    snprintf(arguments, sizeof arguments, "%s --out whole", base);
    outcome whole = run_well(arguments);
    snprintf(arguments, sizeof arguments, "%s --out killed --resume", base);
    /* From before the first step to well into the training, on this machine. */
    const uint64_t begun = hri_clock_ns();
    outcome warm = run_well(RESNET " --val-split 0.2 --steps 1 --no-save");
    end(&warm);
    const unsigned start_ms = (unsigned)((hri_clock_ns() - begun) / 1000000);
    uint64_t state = test_seed();
    unsigned killed = 0, last_step = 0, moved = 0;
    for (unsigned i = 0; i < 20; i++) {
        outcome o = run_how(arguments,
                            (how){.kill_ms = start_ms / 2 + 1 +
                                             (unsigned)(test_random(&state) % (start_ms + 300))});
        killed += o.code == -1;
        check_checkpoint(in("killed/last.safetensors"));
        check_checkpoint(in("killed/best.safetensors"));
        hri_checkpoint c;
        hri_prose why = {""};
        if (hri_checkpoint_open(in("killed/last.safetensors"), &c, &why) == HR_OK) {
            moved += c.progress.state.step > last_step;
            last_step = (unsigned)c.progress.state.step;
            hri_checkpoint_close(&c);
        }
        end(&o);
    }
    outcome o = run_well(arguments);
    char left[256] = "";
    snprintf(arguments, sizeof arguments, "ls '%s' >'%s'", in("killed"), in("left"));
    CHECK_EQ(system(arguments), 0);
    read_text("left", left, sizeof left);
    CHECK_EQ(strcmp(left, "best.safetensors\nlast.safetensors\n"), 0); /* no halves of the killed */
    printf("    killed %u times, further on after %u of them, at step %u when it was last killed\n",
           killed, moved, last_step);
    CHECK(killed >= 5 && moved >= 1);
    CHECK_EQ(strcmp(text(&o, "history"), text(&whole, "history")), 0);
    CHECK(number(o.json, "steps") == number(whole.json, "steps"));
    CHECK(number(o.json, "best") == number(whole.json, "best"));
    end(&o);
    end(&whole);
}

TEST_TIMEOUT(train, two_runs_in_one_folder_at_once_are_refused, 60) {
    begin();
    int ends[2];
    const pid_t child = start(RESNET " --epochs 100000 --out run", ends);
    for (int i = 0; i < 200 && access(in("run/last.safetensors"), F_OK) != 0; i++) {
        usleep(50000);
    }
    refused(RESNET " --epochs 100000 --out run --resume", 2, "another run is using run");
    CHECK_EQ(kill(child, SIGKILL), 0);
    CHECK_EQ(waitpid(child, NULL, 0), child);
    close(ends[0]);
    check_checkpoint(in("run/last.safetensors"));
}

TEST_TIMEOUT(train, an_interrupt_saves_and_a_resumed_run_has_the_same_history, 60) {
    begin();
    const char *const base = RESNET " --epochs 20";
    char arguments[512];
    snprintf(arguments, sizeof arguments, "%s --out whole", base);
    outcome whole = run_well(arguments);
    snprintf(arguments, sizeof arguments, "%s --out stopped --resume", base);
    outcome o = run_how(arguments, (how){.kill_ms = 400, .signal = SIGINT});
    CHECK_EQ(o.code, 1);
    CHECK_EQ(strcmp(text(&o, "ended"), "interrupted"), 0);
    CHECK(number(o.json, "steps") < number(whole.json, "steps"));
    end(&o);
    o = run_well(arguments);
    CHECK_EQ(strcmp(text(&o, "history"), text(&whole, "history")), 0);
    end(&o);
    end(&whole);
}

/* ---- parts of a batch ---- */

static size_t read_losses(const char *path, double *losses, size_t most) {
    FILE *f = fopen(path, "r");
    char line[4096];
    size_t count = 0;
    CHECK(f);
    while (fgets(line, sizeof line, f)) {
        json_t *json = json_loads(line, 0, NULL);
        const char *event = json_string_value(json_object_get(json, "event"));
        if (event && !strcmp(event, "step") && count < most) {
            losses[count++] = number(json, "loss");
        }
        json_decref(json);
    }
    fclose(f);
    return count;
}

enum { STEPS = 8 };

static void losses_of(const char *more, double parts, double *losses) {
    char arguments[512];
    snprintf(arguments, sizeof arguments,
             "lenet --data synthetic:1100 --batch 256 --steps %d --rate 0.5 --schedule cosine "
             "--warmup 3 --smoothing 0.1 --no-save --log log.jsonl %s",
             STEPS, more);
    outcome o = run_well(arguments);
    CHECK_EQ(number(o.json, "micro_batches"), parts);
    CHECK_EQ(number(o.json, "epochs"), 2); /* 4 steps each: what is left over is left out */
    CHECK_EQ(read_losses(in("log.jsonl"), losses, STEPS), STEPS);
    end(&o);
}

static double apart(const double *a, const double *b) {
    double most = 0;
    for (size_t s = 0; s < STEPS; s++) {
        const double here = fabs(a[s] - b[s]) / fabs(b[s]);
        most = here > most ? here : most;
    }
    return most;
}

TEST_TIMEOUT(train, a_batch_of_256_whole_and_in_parts_of_1_7_and_64_learns_the_same, 120) {
    /* parts of 256 / K rounded up: 64, 7 (the last has 4), 1 */
    static const char *const ways[] = {"4", "37", "256"};
    double want[STEPS], is[STEPS], free_of_clip[STEPS];
    snprintf(where, sizeof where, "%s", test_folder());
    losses_of("--clip 0.02 --micro-batches off", 1, want);
    losses_of("--micro-batches off", 1, free_of_clip);
    printf("    without clipping %.1e apart\n", apart(free_of_clip, want));
    CHECK(apart(free_of_clip, want) > 1e-4); /* so clipping does something to be got wrong */
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        char more[64];
        snprintf(more, sizeof more, "--clip 0.02 --micro-batches %s", ways[i]);
        losses_of(more, atof(ways[i]), is);
        printf("    %s parts: at most %.1e apart\n", ways[i], apart(is, want));
        CHECK(apart(is, want) <= 1e-5);
    }
}

TEST_TIMEOUT(train, a_resumed_run_keeps_the_cut_of_its_batch_under_another_budget, 60) {
    NEED_MEMORY();
    snprintf(where, sizeof where, "%s", test_folder());
    const char *const base = "lenet:size=56 --data synthetic:600 --batch 128 --seed 5";
    char arguments[512];
    snprintf(arguments, sizeof arguments, "%s --budget 1MiB --no-save", base);
    outcome o = run(arguments);
    CHECK_EQ(o.code, 1);
    const double budget = number(o.json, "floor_bytes") + (3 << 20);
    end(&o);
    snprintf(arguments, sizeof arguments, "%s --steps 8 --no-save --budget %.0f", base, budget);
    outcome whole = run_well(arguments);
    const double parts = number(whole.json, "micro_batches");
    CHECK(parts > 1);
    snprintf(arguments, sizeof arguments, "%s --steps 3 --out run --budget %.0f", base, budget);
    o = run_well(arguments);
    end(&o);
    snprintf(arguments, sizeof arguments, "%s --steps 8 --out run --resume", base);
    o = run_well(arguments);
    CHECK_EQ(number(o.json, "micro_batches"), parts);
    CHECK_EQ(strcmp(text(&o, "history"), text(&whole, "history")), 0);
    end(&o);
    end(&whole);
}

TEST_TIMEOUT(train, batch_norm_keeps_the_batch_whole_or_names_the_flag, 60) {
    NEED_MEMORY();
    begin();
    const char *const base = "resnet18:size=96,width=16 --data images:pics --batch 60 --no-save "
                             "--steps 1";
    char arguments[512];
    snprintf(arguments, sizeof arguments, "%s --budget 1MiB", base);
    outcome o = run(arguments); /* says what no plan can do without */
    CHECK_EQ(o.code, 1);
    const double budget = number(o.json, "floor_bytes") - (4 << 20);
    end(&o);
    snprintf(arguments, sizeof arguments, "%s --budget %.0f", base, budget);
    o = run(arguments);
    CHECK_EQ(o.code, 1);
    char *json = json_dumps(o.json, 0);
    CHECK(json && strstr(json, "--ghost-norm"));
    free(json);
    end(&o);
    snprintf(arguments, sizeof arguments, "%s --budget %.0f --ghost-norm", base, budget);
    o = run_well(arguments);
    CHECK(number(o.json, "micro_batches") > 1);
    CHECK((double)o.resident_bytes <= budget);
    end(&o);
}

/* ---- two in one arena ---- */

TEST_TIMEOUT(train, two_in_one_arena_learn_what_each_learns_alone_in_less_memory, 120) {
    NEED_MEMORY();
    begin();
    make_pictures("more", 5);
    const char *const one = "resnet18:size=48,width=32 --data images:pics --batch 12 --steps 6 "
                            "--seed 1 --no-save";
    const char *const two = "resnet18:size=32,width=32 --data images:more --batch 16 --steps 4 "
                            "--seed 2 --optimizer adam --no-save";
    char arguments[1024];
    outcome a = run_well(one), b = run_well(two);
    snprintf(arguments, sizeof arguments, "%s --also \"%s\"", one, two);
    outcome both = run_well(arguments);
    const json_t *also = json_object_get(both.json, "also");
    CHECK(also);
    CHECK_EQ(strcmp(text(&both, "history"), text(&a, "history")), 0);
    CHECK_EQ(strcmp(json_string_value(json_object_get(also, "history")), text(&b, "history")), 0);
    const double peak = number(both.json, "planned_peak_bytes");
    const double separate = number(both.json, "separate_bytes");
    printf("    planned %.1f MiB, measured %.1f MiB; two processes %.1f MiB\n", peak / 1048576,
           (double)both.resident_bytes / 1048576, separate / 1048576);
    CHECK((double)both.resident_bytes <= peak);
    CHECK(peak < separate);
    /* weights of both, the larger arena: less than the two arenas one after the other */
    CHECK(number(both.json, "planned_arena_bytes") <
          number(a.json, "planned_arena_bytes") + number(b.json, "planned_arena_bytes"));
    CHECK_EQ(number(both.json, "measured_arena_bytes"), number(both.json, "planned_arena_bytes"));
    /* each fits this budget alone, both together do not; the one that is named fits them */
    snprintf(arguments, sizeof arguments, "%s --budget 56MiB --also \"%s\"", one, two);
    outcome no = run(arguments);
    CHECK_EQ(no.code, 1);
    CHECK(json_is_false(json_object_get(no.json, "fits")));
    const double least = number(no.json, "smallest_bytes");
    CHECK(number(no.json, "floor_bytes") > 56 << 20 && least >= number(no.json, "floor_bytes"));
    end(&no);
    snprintf(arguments, sizeof arguments, "%s --budget %.0f --also \"%s\"", one, least + (1 << 20),
             two);
    outcome yes = run_well(arguments);
    CHECK((double)yes.resident_bytes <= least + (1 << 20));
    end(&yes);
    end(&a);
    end(&b);
    end(&both);
}

/* ---- what goes wrong ---- */

TEST(train, what_cannot_be_is_a_sentence_and_an_exit_code) {
    begin();
    refused("resnet18 --data images:nowhere", 2, "nowhere");
    refused("resnet18:size=32 --batch 8", 2, "--data is required");
    refused(RESNET " --batch 400", 2, "larger than the data set (60 samples");
    refused(RESNET " --val-split 0.8 --batch 20 --no-save", 2,
            "larger than the data set (12 samples");
    refused("resnet19 --data images:pics", 2, "resnet18");
    refused(RESNET " --batch many", 2, "is not auto or a number");
    refused(RESNET " --rate fast", 2, "rate");
    refused(RESNET " --out pics/class0/00.jpg", 2, "00.jpg");
    refused("mlp:classes=2,size=20,channels=3 --data images:pics --batch 8 --steps 2 --no-save", 2,
            "is out of range: the model has 2 classes (0-1)");
    outcome o = run(RESNET " --budget 1MiB --no-save");
    CHECK_EQ(o.code, 1);
    CHECK(json_is_false(json_object_get(o.json, "fits")));
    CHECK(json_array_size(json_object_get(o.json, "ways_out")) >= 1);
    end(&o);
}

TEST(train, a_folder_that_cannot_be_read_and_a_picture_that_is_none) {
    begin();
    test_write(where, "pics/class1/zz.jpg", "no picture", 10);
    refused("lenet:channels=3,size=24 --data images:pics --batch 20 --epochs 2 --no-save", 2,
            "zz.jpg");
    refused("lenet:channels=3,size=24 --data images:pics --batch 20 --epochs 2 --no-save", 2,
            "--skip-bad");
    outcome o = run_well("lenet:channels=3,size=24 --data images:pics --batch 20 --epochs 2 "
                         "--no-save --skip-bad");
    CHECK(number(o.json, "bad_samples") >= 1);
    end(&o);
    if (geteuid() != 0) {
        CHECK_EQ(chmod(in("pics"), 0), 0);
        refused("lenet --data images:pics", 2, "ermission denied");
        chmod(in("pics"), 0700);
    }
}

TEST(train, a_loss_that_is_no_number_ends_it_and_leaves_the_checkpoint) {
    begin();
    outcome o = run_well(RESNET " --steps 7 --out run");
    end(&o);
    refused(RESNET " --steps 40 --rate 1e6 --out other", 3, "--rate");
    refused(RESNET " --steps 40 --rate 1e6 --out run --resume", 2, "the run used --rate");
    check_checkpoint(in("run/last.safetensors"));
    o = run_well(RESNET " --steps 9 --out run --resume");
    CHECK_EQ(number(o.json, "steps"), 9);
    char history[32];
    snprintf(history, sizeof history, "%s", text(&o, "history"));
    end(&o);
    o = run_well(RESNET " --steps 9 --out run --resume"); /* nothing is left to do */
    CHECK(number(o.json, "steps") == 9 && json_is_null(json_object_get(o.json, "loss")));
    CHECK_EQ(strcmp(text(&o, "history"), history), 0);
    end(&o);
}

static uint64_t size_of(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
}

/* A disk of its own that holds two checkpoints of this model, but not the third one beside them that replaces the
 * second: in a namespace that only this test sees. */
TEST_TIMEOUT(train, a_full_disk_is_said_and_the_old_checkpoint_stands, 60) {
    begin();
    outcome whole = run_well(RESNET " --epochs 4 --out whole");
    const uint64_t last = size_of(in("whole/last.safetensors"));
    const uint64_t best = size_of(in("whole/best.safetensors"));
    CHECK(last > 1000000 && best > 500000);
    char command[2048];
    snprintf(command, sizeof command,
             "cd '%s' && mkdir disk && unshare -rm true 2>/dev/null || exit 9; unshare -rm sh -c "
             "'mount -t tmpfs -o size=%llu none disk || exit 9; \"%s\" train " RESNET
             " --epochs 4 --out disk/run --no-measure --json >out 2>words; echo $? >code; "
             "ls disk/run >left; cp -r disk/run run'",
             where, (unsigned long long)(last + 2 * best + 65536), HEADROOM_PROGRAM);
    const int status = system(command);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 9) {
        end(&whole);
        test_skip("no file system can be mounted here");
    }
    char words[4096] = "", code[16] = "", left[256] = "";
    read_text("words", words, sizeof words);
    read_text("code", code, sizeof code);
    read_text("left", left, sizeof left);
    CHECK_EQ(atoi(code), 3);
    CHECK(strstr(words, "could not be written") && strstr(words, "No space left") &&
          strstr(words, "the one of step 7 is kept"));
    CHECK_EQ(strcmp(left, "best.safetensors\nlast.safetensors\n"), 0); /* no halves */
    hri_checkpoint c;
    hri_prose why = {""};
    CHECK_STATUS(hri_checkpoint_open(in("run/last.safetensors"), &c, &why), HR_OK);
    CHECK_EQ(c.progress.state.step, 7);
    hri_checkpoint_close(&c);
    outcome o = run_well(RESNET " --epochs 4 --out run --resume"); /* there is room here */
    CHECK_EQ(strcmp(text(&o, "history"), text(&whole, "history")), 0);
    end(&o);
    end(&whole);
}

TEST_TIMEOUT(train, a_checkpoint_of_another_training_or_cut_short_is_refused, 60) {
    begin();
    outcome o = run_well(RESNET " --epochs 1 --out run");
    end(&o);
    refused(RESNET " --epochs 2 --out run", 2, "already contains a run");
    refused("resnet18:size=32,width=4 --data images:pics --batch 8 --seed 3 --out run --resume", 2,
            "the run used the model resnet18");
    refused(RESNET " --epochs 2 --out run --resume --batch 6", 2, "--batch 8");
    refused(RESNET " --epochs 2 --out run --resume --seed 4", 2, "--seed 3");
    refused(RESNET " --epochs 2 --out run --resume --augment flip", 2,
            "the run used --augment none");
    CHECK_EQ(truncate(in("run/last.safetensors"), (off_t)size_of(in("run/last.safetensors")) - 9),
             0);
    refused(RESNET " --epochs 2 --out run --resume", 2, "last.safetensors");
}

/* ---- the rest of what users ask for ---- */

TEST_TIMEOUT(train, other_classes_get_a_new_classifier_and_it_is_said, 60) {
    begin();
    make_pictures("more", 5);
    outcome o = run_well(RESNET " --epochs 2 --out run");
    end(&o);
    char command[1200], out[8192];
    snprintf(command, sizeof command,
             "cd '%s' && '%s' train resnet18:size=32,width=8 --data images:more --batch 10 "
             "--epochs 1 --no-save --no-measure --init run/best.safetensors",
             where, HEADROOM_PROGRAM);
    FILE *f = popen(command, "r");
    CHECK(f);
    out[fread(out, 1, sizeof out - 1, f)] = '\0';
    CHECK_EQ(pclose(f), 0);
    CHECK(strstr(out, "3 classes in the file and 5 here"));
    CHECK(strstr(out, "from the data: classes=5"));
    CHECK(strstr(out, "next: headroom"));
    refused("lenet --data images:more --batch 10 --no-save --init run/best.safetensors", 2,
            "conv1.weight");
}

TEST_TIMEOUT(train, the_largest_batch_comes_from_the_plan_and_is_kept_from_outside, 90) {
    NEED_MEMORY();
    begin();
    outcome o = run_well("resnet18:size=64,width=16 --data images:pics --batch auto --budget 40MiB "
                         "--epochs 1 --no-save");
    const double batch = number(o.json, "batch");
    printf("    batch %.0f, planned %.1f MiB, resident %.1f MiB\n", batch,
           number(o.json, "planned_peak_bytes") / 1048576, (double)o.resident_bytes / 1048576);
    CHECK(batch >= 2 && batch <= 60);
    CHECK(number(o.json, "planned_peak_bytes") <= 40 << 20);
    CHECK(o.resident_bytes <= 40 << 20);
    end(&o);
}

TEST_TIMEOUT(train, accumulated_batches_make_one_step_and_patience_ends_it, 60) {
    begin();
    outcome o = run_well(RESNET " --accumulate 3 --epochs 2 --no-save");
    CHECK_EQ(number(o.json, "batch"), 24);
    CHECK_EQ(number(o.json, "micro_batches"), 3);
    CHECK_EQ(number(o.json, "steps"), 4);
    end(&o);
    o = run_well(RESNET " --val-data images:pics --val-batch 7 --val-every 4 --patience 2 "
                        "--min-delta 1000 --epochs 50 --no-save");
    CHECK_EQ(strcmp(text(&o, "ended"), "early stopping"), 0);
    CHECK_EQ(number(o.json, "steps"), 12); /* the first is the best, two more are not better */
    CHECK_EQ(number(o.json, "val_samples"), 60);
    end(&o);
}

TEST_TIMEOUT(train, slices_with_limits_of_their_own_and_memory_that_grows_change_no_bit, 60) {
    NEED_MEMORY();
    begin();
    const char *const two =
        "lenet:size=20,channels=3 --data images:pics --batch 6 --steps 5 --seed "
        "2 --no-save";
    outcome a = run_well(RESNET " --val-split 0.2 --val-batch 12 --epochs 2 --no-save");
    outcome b = run_well(two);
    char arguments[1024];
    snprintf(arguments, sizeof arguments,
             RESNET " --val-split 0.2 --val-batch 12 --epochs 2 --no-save --logical-devices "
                    "12MiB,4MiB --memory-growth --also '%s'",
             two);
    outcome both = run_well(arguments);
    const json_t *also = json_object_get(both.json, "also");
    CHECK_EQ(strcmp(text(&both, "history"), text(&a, "history")), 0);
    CHECK(number(both.json, "val_loss") == number(a.json, "val_loss"));
    CHECK_EQ(strcmp(json_string_value(json_object_get(also, "history")), text(&b, "history")), 0);
    CHECK(number(both.json, "measured_arena_bytes") <= 12 << 20);
    CHECK(number(also, "measured_arena_bytes") <= 4 << 20);
    refused(RESNET " --logical-devices 1KiB --no-save", 1, "");
    refused(RESNET " --logical-devices 8MiB --no-save --also 'lenet --data synthetic'", 2,
            "1 sizes for 2 runs");
    refused(RESNET " --logical-devices 64MiB --budget 32MiB --no-save", 2, "exceed the budget");
    end(&a);
    end(&b);
    end(&both);
}

static void put_u32(uint8_t *to, uint32_t x) {
    for (int i = 0; i < 4; i++) {
        to[i] = (uint8_t)(x >> (24 - 8 * i));
    }
}

TEST_TIMEOUT(train, digits_say_their_size_and_classes_themselves, 60) {
    enum { N = 40, SIDE = 12 };
    uint8_t images[16 + N * SIDE * SIDE], labels[8 + N];
    snprintf(where, sizeof where, "%s", test_folder());
    put_u32(images, 0x803);
    put_u32(images + 4, N);
    put_u32(images + 8, SIDE);
    put_u32(images + 12, SIDE);
    put_u32(labels, 0x801);
    put_u32(labels + 4, N);
    for (int i = 0; i < N; i++) {
        labels[8 + i] = (uint8_t)(i % 10);
        for (int k = 0; k < SIDE * SIDE; k++) { /* a bright row for each digit */
            images[16 + i * SIDE * SIDE + k] = k / SIDE == i % 10 ? 250 : (uint8_t)(k * 7 % 40);
        }
    }
    test_write(where, "digits/train-images-idx3-ubyte", images, sizeof images);
    test_write(where, "digits/train-labels-idx1-ubyte", labels, sizeof labels);
    outcome o =
        run_well("mlp:width=64,layers=1 --data mnist:digits --batch 10 --epochs 40 --no-save "
                 "--optimizer adam --rate 0.01");
    CHECK(strstr(text(&o, "model"), "size=12,channels=1") &&
          strstr(text(&o, "model"), "classes=10"));
    CHECK(number(o.json, "accuracy") > 0.95);
    end(&o);
}

TEST_TIMEOUT(train, arrays_and_tokens_are_trained_on_too, 60) {
    uint16_t tokens[4096];
    snprintf(where, sizeof where, "%s", test_folder());
    for (size_t i = 0; i < 4096; i++) {
        tokens[i] = (uint16_t)(i * i % 61);
    }
    test_write(where, "tokens.bin", tokens, sizeof tokens);
    outcome o =
        run_well("gpt2-nano --data tokens:tokens.bin --batch 4 --epochs 2 --optimizer adamw "
                 "--val-split 0.1 --no-save");
    CHECK(number(o.json, "loss") < 5.6 && number(o.json, "loss") > 0); /* ln 256 is 5.55 */
    end(&o);
    o = run_well("gpt2-nano --data synthetic:40 --batch 4 --steps 3 --no-save");
    CHECK(number(o.json, "loss") > 0);
    end(&o);
}
