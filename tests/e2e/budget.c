/* The promise from outside: the built program plans, runs a few steps and is watched by the kernel.  Its resident set
 * never passes the budget, its arena is the planned one, and its losses are those of the unconstrained run: to the bit
 * where values were computed again, within rounding where the batch was cut. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

enum { LOSSES = 2 };

typedef struct outcome {
    int code;
    uint64_t resident_bytes; /* the most, from the kernel's count of the child */
    json_t *answer;          /* NULL: none */
} outcome;

static outcome headroom(const char *arguments) {
    char command[1024];
    outcome o = {0};
    int ends[2];
    /* exec: the child is the program itself, not a shell around it */
    snprintf(command, sizeof command,
             "exec '%s' plan %s --no-measure --effort 4000 --json 2>/dev/null", HEADROOM_PROGRAM,
             arguments);
    CHECK(pipe(ends) == 0);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *f = fdopen(ends[0], "r");
    CHECK(f);
    o.answer = json_loadf(f, 0, NULL);
    fclose(f);
    struct rusage use;
    int status = 0;
    CHECK(wait4(child, &status, 0, &use) == child);
    o.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    o.resident_bytes = (uint64_t)use.ru_maxrss * 1024;
    return o;
}

static uint64_t number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value)) {
        test_fail(__FILE__, __LINE__, "%s is missing", key);
    }
    return (uint64_t)json_integer_value(value);
}

static void read_losses(const outcome *o, double *losses) {
    const json_t *list = json_object_get(json_object_get(o->answer, "try"), "losses");
    CHECK_EQ(json_array_size(list), LOSSES);
    for (size_t i = 0; i < LOSSES; i++) {
        losses[i] = json_number_value(json_array_get(list, i));
        CHECK(isfinite(losses[i]));
    }
}

/* One budget: everything that was promised, and the losses against `want`. */
static void at_budget(const char *model, uint64_t budget, const char *more, const double *want,
                      int must_fit) {
    char arguments[512];
    double is[LOSSES];
    snprintf(arguments, sizeof arguments, "%s --budget %llu --try %d %s", model,
             (unsigned long long)budget, LOSSES, more);
    const outcome o = headroom(arguments);
    CHECK(o.answer);
    if (o.code == 1 && !must_fit) {
        CHECK(json_is_false(json_object_get(o.answer, "fits")));
        CHECK(json_array_size(json_object_get(o.answer, "ways_out")) >= 1);
        json_decref(o.answer);
        return;
    }
    CHECK_EQ(o.code, 0);
    const json_t *run = json_object_get(o.answer, "try");
    printf("    %s %s: budget %.1f MiB, planned %.1f, resident %.1f, %llu parts, %llu again\n",
           model, more, (double)budget / 1048576, (double)number(o.answer, "peak_bytes") / 1048576,
           (double)o.resident_bytes / 1048576,
           (unsigned long long)number(o.answer, "micro_batches"),
           (unsigned long long)number(o.answer, "recomputed_ops"));
    CHECK_LE(number(o.answer, "peak_bytes"), budget);
    CHECK_LE(o.resident_bytes, budget);
    CHECK_EQ(number(run, "measured_arena_bytes"), number(run, "planned_arena_bytes"));
    CHECK_EQ(number(o.answer, "runtime_bytes") + number(o.answer, "persistent_bytes") +
                 number(o.answer, "arena_bytes"),
             number(o.answer, "peak_bytes"));
    read_losses(&o, is);
    for (int i = 0; i < LOSSES; i++) {
        const double room = number(o.answer, "micro_batches") > 1 ? 1e-5 * fabs(want[i]) : 0;
        CHECK(fabs(is[i] - want[i]) <= room);
    }
    json_decref(o.answer);
}

/* Values that wait in a file are not in the process, and come back as they went.  The disk is called much faster than kernels, so that
 * the planner uses it. */
static void with_spill(const char *model, uint64_t budget, const double *want) {
    char folder[] = "/tmp/headroom-e2e-spill-XXXXXX", arguments[512];
    double is[LOSSES];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(arguments, sizeof arguments,
             "%s --budget %llu --try %d --micro-batches off --spill %s --device-spec "
             "flops=1e9,bandwidth=1e9,copy=1e15",
             model, (unsigned long long)budget, LOSSES, folder);
    const outcome o = headroom(arguments);
    CHECK_EQ(o.code, 0);
    printf("    %s --spill: budget %.1f MiB, resident %.1f, %.1f copied, %llu again\n", model,
           (double)budget / 1048576, (double)o.resident_bytes / 1048576,
           (double)number(o.answer, "offloaded_bytes") / 1048576,
           (unsigned long long)number(o.answer, "recomputed_ops"));
    CHECK_LE(o.resident_bytes, budget);
    CHECK(number(o.answer, "offloaded_bytes") > 0);
    read_losses(&o, is);
    CHECK(!memcmp(is, want, sizeof is));
    json_decref(o.answer);
    CHECK_EQ(rmdir(folder), 0); /* and nothing is left */
}

static void all_budgets(const char *model) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    test_skip("the resident set holds the sanitizer's own memory, which no plan knows of");
#endif
    char arguments[512];
    double want[LOSSES];
    snprintf(arguments, sizeof arguments, "%s --micro-batches off --try %d", model, LOSSES);
    const outcome free_run = headroom(arguments);
    CHECK_EQ(free_run.code, 0);
    read_losses(&free_run, want);
    const uint64_t plain = number(free_run.answer, "unplanned_peak_bytes");
    json_decref(free_run.answer);
    at_budget(model, plain, "", want, 1);
    at_budget(model, plain / 2, "--micro-batches off", want, 0);
    at_budget(model, plain / 2, "", want, 0);
    at_budget(model, plain / 4, "", want, 0);
    /* the floor: the smallest that a refusal names */
    snprintf(arguments, sizeof arguments, "%s --budget 8MiB", model);
    const outcome refusal = headroom(arguments);
    CHECK_EQ(refusal.code, 1);
    const uint64_t least = number(refusal.answer, "peak_bytes");
    CHECK(number(refusal.answer, "floor_bytes") <= least);
    json_decref(refusal.answer);
    at_budget(model, least, "", want, 1);
    with_spill(model, least + (plain - least) / 2, want);
}

TEST_TIMEOUT(budget, resnet18_holds_it, 300) {
    all_budgets("resnet18:size=64,width=16,classes=10 --batch 16");
}

TEST_TIMEOUT(budget, unet_holds_it, 300) {
    all_budgets("unet:size=64,width=8,depth=3 --batch 8");
}

TEST_TIMEOUT(budget, vit_tiny_holds_it, 300) {
    all_budgets("vit-tiny:size=32,patch=4,width=64,heads=2,layers=6,classes=10 --batch 32");
}

TEST_TIMEOUT(budget, gpt2_nano_holds_it, 300) {
    all_budgets("gpt2-nano:context=128,layers=4 --batch 16");
}
