/* headroom train from outside: the same bits whatever the threads, the budget, the interruptions, the micro-batches and
 * the second model beside it; watched by the kernel. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "train_rig.h"
#include "weights/checkpoint.h"

/* ---- the same bits ---- */

TEST_TIMEOUT(train, threads_and_budgets_that_only_compute_again_change_no_bit, 120) {
    PROGRAM_NEED_MEMORY();
    static const char *const ways[] = {"--threads 1", "--threads 2", "--threads 2 --budget 64MiB",
                                       "--threads 1 --data-budget 512KiB"};
    begin();
    program_outcome first =
        run_well(RESNET " --val-split 0.2 --rate 0.003 --epochs 5 --no-save --threads 2");
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        char arguments[512];
        snprintf(arguments, sizeof arguments,
                 RESNET " --val-split 0.2 --rate 0.003 --epochs 5 --no-save %s", ways[i]);
        program_outcome o = run_well(arguments);
        CHECK_EQ(strcmp(program_text(&o, "history"), program_text(&first, "history")), 0);
        CHECK(program_number(&o, "val_loss") == program_number(&first, "val_loss"));
        program_end(&o);
    }
    CHECK(program_number(&first, "accuracy") > 0.9); /* three colours: it must have learnt them */
    program_end(&first);
}

/* Budgets down to what refuses: as long as nothing is cut the history stays, and the outside sees the budget kept. */
TEST_TIMEOUT(train, a_tight_budget_computes_again_keeps_the_history_and_is_kept_itself, 120) {
    PROGRAM_NEED_MEMORY();
    begin();
    const char *const base = "resnet18:size=64,width=16 --data images:pics --batch 20 --seed 3 "
                             "--steps 4 --val-split 0.2 --no-save";
    program_outcome plain = run_well(base);
    const double planned = program_number(&plain, "planned_peak_bytes");
    int tight = 0, refusals = 0;
    for (int percent = 96; percent >= 90; percent -= 3) {
        char arguments[512];
        snprintf(arguments, sizeof arguments, "%s --budget %.0f", base, planned * percent / 100);
        program_outcome o = run(arguments);
        if (o.code == 1) {
            refusals++;
            program_end(&o);
            continue;
        }
        CHECK_EQ(o.code, 0);
        CHECK_EQ(strcmp(program_text(&o, "history"), program_text(&plain, "history")), 0);
        CHECK_EQ(program_number(&o, "micro_batches"), 1);
        CHECK(program_number(&o, "planned_peak_bytes") <= planned * percent / 100);
        CHECK((double)o.resident_bytes <= planned * percent / 100);
        tight += program_number(&o, "recomputed_ops") > 0;
        program_end(&o);
    }
    printf("    %d budgets with ops computed again, %d refused\n", tight, refusals);
    CHECK(tight > 0);
    program_end(&plain);
}

TEST_TIMEOUT(train, killed_twenty_times_at_any_moment_and_resumed_it_ends_with_the_same_bits, 150) {
    begin();
    const char *const base = RESNET " --val-split 0.2 --epochs 30 --save-every 3 --optimizer adamw "
                                    "--schedule cosine --warmup 5 --augment flip,crop";
    char arguments[512];
    snprintf(arguments, sizeof arguments, "%s --out whole", base);
    program_outcome whole = run_well(arguments);
    snprintf(arguments, sizeof arguments, "%s --out killed --resume", base);
    /* From before the first step to well into the training, on this machine. */
    const uint64_t begun = hri_clock_ns();
    program_outcome warm = run_well(RESNET " --val-split 0.2 --steps 1 --no-save");
    program_end(&warm);
    const unsigned start_ms = (unsigned)((hri_clock_ns() - begun) / 1000000);
    uint64_t state = test_seed();
    unsigned killed = 0, last_step = 0, moved = 0;
    for (unsigned i = 0; i < 20; i++) {
        program_outcome o = run_killed(
            arguments, start_ms / 2 + 1 + (unsigned)(test_random(&state) % (start_ms + 300)),
            SIGKILL);
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
        program_end(&o);
    }
    program_outcome o = run_well(arguments);
    char left[256] = "";
    snprintf(arguments, sizeof arguments, "ls '%s' >'%s'", in("killed"), in("left"));
    CHECK_EQ(system(arguments), 0);
    read_text("left", left, sizeof left);
    CHECK_EQ(strcmp(left, "best.safetensors\nlast.safetensors\n"), 0); /* no halves of the killed */
    printf("    killed %u times, further on after %u of them, at step %u when it was last killed\n",
           killed, moved, last_step);
    CHECK(killed >= 5 && moved >= 1);
    CHECK_EQ(strcmp(program_text(&o, "history"), program_text(&whole, "history")), 0);
    CHECK(program_number(&o, "steps") == program_number(&whole, "steps"));
    CHECK(program_number(&o, "best") == program_number(&whole, "best"));
    program_end(&o);
    program_end(&whole);
}

TEST_TIMEOUT(train, two_runs_in_one_folder_at_once_are_refused, 60) {
    begin();
    program_outcome o = program_run(
        &(program_options){.folder = where(), .as_shell = 1},
        "$HEADROOM train " RESNET " --epochs 100000 --out run --no-measure >one 2>&1 & one=$!; "
        "for i in $(seq 200); do [ -f run/last.safetensors ] && break; sleep 0.05; done; "
        "$HEADROOM train " RESNET " --epochs 100000 --out run --no-measure --resume; code=$?; "
        "kill -9 $one; wait $one; exit $code");
    program_expect(&o, 2, "another run is using run");
    program_end(&o);
    check_checkpoint(in("run/last.safetensors"));
}

TEST_TIMEOUT(train, an_interrupt_saves_and_a_resumed_run_has_the_same_history, 150) {
    begin();
    const char *const base = RESNET " --epochs 60"; /* more than 400 ms on any machine */
    char arguments[512];
    snprintf(arguments, sizeof arguments, "%s --out whole", base);
    program_outcome whole = run_well(arguments);
    snprintf(arguments, sizeof arguments, "%s --out stopped --resume", base);
    program_outcome o = run_killed(arguments, 400, SIGINT);
    CHECK_EQ(o.code, 1);
    CHECK_EQ(strcmp(program_text(&o, "ended"), "interrupted"), 0);
    CHECK(program_number(&o, "steps") < program_number(&whole, "steps"));
    program_end(&o);
    o = run_well(arguments);
    CHECK_EQ(strcmp(program_text(&o, "history"), program_text(&whole, "history")), 0);
    program_end(&o);
    program_end(&whole);
}

/* Waits for the first checkpoint, so that the signal meets a training, and sends it twice. */
#define HUNG_UP(BEFORE, MORE)                                                                      \
    BEFORE "$HEADROOM train " RESNET " --save-every 1 --out run --no-measure " MORE                \
           " >one 2>&1 & one=$!; "                                                                 \
           "for i in $(seq 600); do [ -f run/last.safetensors ] && break; sleep 0.05; done; "      \
           "kill -HUP $one; kill -HUP $one; wait $one; code=$?; cat one >&2; exit $code"

TEST_TIMEOUT(train, a_terminal_that_ends_saves_what_there_is, 60) {
    begin();
    const program_options o = {.folder = where(), .as_shell = 1};
    program_outcome hung = program_run(&o, HUNG_UP("", "--epochs 100000"));
    program_expect(&hung, 1, "interrupted: ");
    program_end(&hung);
    check_checkpoint(in("run/last.safetensors"));
}

TEST_TIMEOUT(train, what_ignores_the_end_of_a_terminal_goes_on, 60) {
    begin();
    const program_options o = {.folder = where(), .as_shell = 1};
    program_outcome kept = program_run(&o, HUNG_UP("trap '' HUP; ", "--steps 40"));
    program_expect(&kept, 0, "done: 40 steps");
    program_end(&kept);
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
            losses[count++] = json_number_value(json_object_get(json, "loss"));
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
    program_outcome o = run_well(arguments);
    CHECK_EQ(program_number(&o, "micro_batches"), parts);
    CHECK_EQ(program_number(&o, "epochs"), 2); /* 4 steps each: what is left over is left out */
    CHECK_EQ(read_losses(in("log.jsonl"), losses, STEPS), STEPS);
    program_end(&o);
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
    PROGRAM_NEED_MEMORY();
    const char *const base = "lenet:size=56 --data synthetic:600 --batch 128 --seed 5";
    char arguments[512];
    snprintf(arguments, sizeof arguments, "%s --budget 1MiB --no-save", base);
    program_outcome o = run(arguments);
    CHECK_EQ(o.code, 1);
    const double budget = program_number(&o, "floor_bytes") + (3 << 20);
    program_end(&o);
    snprintf(arguments, sizeof arguments, "%s --steps 8 --no-save --budget %.0f", base, budget);
    program_outcome whole = run_well(arguments);
    const double parts = program_number(&whole, "micro_batches");
    CHECK(parts > 1);
    snprintf(arguments, sizeof arguments, "%s --steps 3 --out run --budget %.0f", base, budget);
    o = run_well(arguments);
    program_end(&o);
    snprintf(arguments, sizeof arguments, "%s --steps 8 --out run --resume", base);
    o = run_well(arguments);
    CHECK_EQ(program_number(&o, "micro_batches"), parts);
    CHECK_EQ(strcmp(program_text(&o, "history"), program_text(&whole, "history")), 0);
    program_end(&o);
    program_end(&whole);
}

TEST_TIMEOUT(train, batch_norm_keeps_the_batch_whole_or_names_the_flag, 60) {
    PROGRAM_NEED_MEMORY();
    begin();
    const char *const base = "resnet18:size=96,width=16 --data images:pics --batch 60 --no-save "
                             "--steps 1";
    char arguments[512];
    snprintf(arguments, sizeof arguments, "%s --budget 1MiB", base);
    program_outcome o = run(arguments); /* says what no plan can do without */
    CHECK_EQ(o.code, 1);
    const double budget = program_number(&o, "floor_bytes") - (4 << 20);
    program_end(&o);
    snprintf(arguments, sizeof arguments, "%s --budget %.0f", base, budget);
    o = run(arguments);
    CHECK_EQ(o.code, 1);
    char *json = json_dumps(o.json, 0);
    CHECK(json && strstr(json, "--ghost-norm"));
    free(json);
    program_end(&o);
    snprintf(arguments, sizeof arguments, "%s --budget %.0f --ghost-norm", base, budget);
    o = run_well(arguments);
    CHECK(program_number(&o, "micro_batches") > 1);
    CHECK((double)o.resident_bytes <= budget);
    program_end(&o);
}

/* ---- two in one arena ---- */

TEST_TIMEOUT(train, two_in_one_arena_learn_what_each_learns_alone_in_less_memory, 120) {
    PROGRAM_NEED_MEMORY();
    begin();
    make_pictures("more", 5);
    const char *const one = "resnet18:size=48,width=32 --data images:pics --batch 12 --steps 6 "
                            "--seed 1 --no-save";
    const char *const two = "resnet18:size=32,width=32 --data images:more --batch 16 --steps 4 "
                            "--seed 2 --optimizer adam --no-save";
    char arguments[1024];
    program_outcome a = run_well(one), b = run_well(two);
    snprintf(arguments, sizeof arguments, "%s --also \"%s\"", one, two);
    program_outcome both = run_well(arguments);
    CHECK_EQ(strcmp(program_text(&both, "history"), program_text(&a, "history")), 0);
    CHECK_EQ(strcmp(program_text(&both, "also.history"), program_text(&b, "history")), 0);
    const double peak = program_number(&both, "planned_peak_bytes");
    const double separate = program_number(&both, "separate_bytes");
    printf("    planned %.1f MiB, measured %.1f MiB; two processes %.1f MiB\n", peak / 1048576,
           (double)both.resident_bytes / 1048576, separate / 1048576);
    CHECK((double)both.resident_bytes <= peak);
    CHECK(peak < separate);
    /* weights of both, the larger arena: less than the two arenas one after the other */
    CHECK(program_number(&both, "planned_arena_bytes") <
          program_number(&a, "planned_arena_bytes") + program_number(&b, "planned_arena_bytes"));
    CHECK_EQ(program_number(&both, "measured_arena_bytes"),
             program_number(&both, "planned_arena_bytes"));
    /* each fits this budget alone, both together do not; the one that is named fits them */
    snprintf(arguments, sizeof arguments, "%s --budget 56MiB --also \"%s\"", one, two);
    program_outcome no = run(arguments);
    CHECK_EQ(no.code, 1);
    CHECK(json_is_false(json_object_get(no.json, "fits")));
    const double least = program_number(&no, "smallest_bytes");
    CHECK(program_number(&no, "floor_bytes") > 56 << 20 &&
          least >= program_number(&no, "floor_bytes"));
    program_end(&no);
    snprintf(arguments, sizeof arguments, "%s --budget %.0f --also \"%s\"", one, least + (1 << 20),
             two);
    program_outcome yes = run_well(arguments);
    CHECK((double)yes.resident_bytes <= least + (1 << 20));
    program_end(&yes);
    program_end(&a);
    program_end(&b);
    program_end(&both);
}
