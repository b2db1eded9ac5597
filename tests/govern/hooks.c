/* Every function that the interposer hooks, by its own lists (hooks.def, gates.def): a hook that no step of the caller comes to
 * is a failure here.  And a program that dies, by SIGKILL, in each of them. */
#include <stdio.h>
#include <string.h>

#include "govern.h"
#include "test.h"

enum { BUDGET = 240 << 20, CONTEXT = 64 << 20 };

static const struct {
    const char *name;
    int spill; /* hooked only for programs with --spill */
} hooks[] = {
#define HRI_HOOK(NAME, PARAMETERS)            {#NAME, 0},
#define HRI_NVML_HOOK(NAME, PARAMETERS)       {#NAME, 0},
#define HRI_SPILL_HOOK(NAME, PARAMETERS)      {#NAME, 1},
#define HRI_GATE(NAME, PARAMETERS, ARGUMENTS) {#NAME, 1},
#include "interpose/hooks.def"
#include "interpose/gates.def"
#undef HRI_HOOK
#undef HRI_NVML_HOOK
#undef HRI_SPILL_HOOK
#undef HRI_GATE
};
enum { HOOKS = sizeof hooks / sizeof *hooks };

/* Steps that come to all of them. */
#define EVERY_STEP                                                                                 \
    "total alloc:60M free pitch:1M free managed:1M free array:10M unarray xla:10M vmm:10M nccl "   \
    "unvmm numa:2M keep async:10M unasync trim graph:10M graphtrim node:10M info sync module:1M "  \
    "unmodule alloc:1M type range every gates resets release"

static int hooks_of(int spill) {
    int count = 0;
    for (int i = 0; i < HOOKS; i++) {
        count += hooks[i].spill == spill;
    }
    return count;
}

/* Keeps the card's counters while nobody is there: the state lives as long as a process does. */
static const char keeper[] =
    "$CALLER dlsym touch:kept wait:done >/dev/null & while [ ! -e kept ]; do sleep 0.01; done; ";

/* Behind the last program: nobody was ever over the budget or refused by the card, nothing is taken, and the ledger is empty. */
static const char verdict[] = "i=0; until $HEADROOM top --json | grep -q '\"free_bytes\": "
                              "1006632960' || [ $i = 40 ]; do sleep "
                              "0.05; i=$((i + 1)); done; $HEADROOM top --json | grep -E "
                              "'\"kind\"|\"free_bytes\"'; $CALLER dlsym peak refused used "
                              "devicepeak; touch done; wait";

static void nobody_was_hurt(govern_world *w, int64_t capacity) {
    char text[64];
    CHECK_LE(govern_number(w, "peak 0 "), BUDGET);
    CHECK_LE(govern_number(w, "devicepeak 0 "), capacity);
    govern_expect(w, "refused 0 0\n");
    snprintf(text, sizeof text, "used 0 %d\n", 2 * CONTEXT); /* the keeper's, and the looker's */
    govern_expect(w, text);
    CHECK_EQ(govern_count(w, "\"kind\""), 1); /* a device, and neither jobs nor processes */
    snprintf(text, sizeof text, "\"free_bytes\": %lld", (long long)(capacity - CONTEXT));
    govern_expect(w, text);
}

static void all_died(const govern_world *w) {
    const char *one = strstr(w->out, "survived");
    if (one) {
        test_fail(__FILE__, __LINE__, "%.600s", one);
    }
}

/* Every hook is come to, is really ours, answers as it should, and leaves errno, umask, signals and descriptors as they are. */
static void come_to_all(const char *options, int spill) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=1024MiB HEADROOM_RUN_SPILL_FLOOR=1");
    govern_run(&w, options, "dlsym", EVERY_STEP " calls peak");
    for (int i = 0; i < HOOKS; i++) {
        char text[96];
        snprintf(text, sizeof text, "called %s ", hooks[i].name);
        if (hooks[i].spill > spill) {
            continue;
        }
        if (govern_number(&w, text) < 1) {
            test_fail(__FILE__, __LINE__, "no step of the caller comes to %s (%lld)", hooks[i].name,
                      (long long)govern_number(&w, text));
        }
        const char *line = strstr(w.out, text), *end = strchr(line, '\n');
        if (!end || end - line < 7 || memcmp(end - 7, " hooked", 7)) {
            test_fail(__FILE__, __LINE__, "%.*s", (int)(end ? end - line : 60), line);
        }
    }
    govern_expect(&w, "every 0\n");
    govern_expect(&w, "gates 0\n");
    govern_expect(&w, "resets 0\n");
    govern_expect(&w, "release 0\n");
    CHECK_LE(govern_number(&w, "peak 0 "), BUDGET);
    CHECK_EQ(govern_count(&w, "errno"), 0);
    CHECK_EQ(govern_count(&w, "changed by"), 0);
    CHECK_EQ(govern_count(&w, " gave "), 0);
    govern_end(&w);
}

TEST(hooks, every_one_is_come_to_and_leaves_the_process_alone) {
    come_to_all("--budget 240MiB", 0);
}

TEST(hooks, those_for_spilling_too) {
    come_to_all("--budget 240MiB --spill 64MiB", 1);
}

TEST(hooks, what_an_old_driver_lacks_is_not_missed) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=1024MiB FAKECUDA_VERSION=11.4");
    w.driver = "fakecuda-11";
    govern_run(&w, "--budget 240MiB", "dlsym", "every resets calls peak");
    govern_expect(&w, "every 0\n");
    govern_expect(&w, "resets 0\n");
    govern_expect(&w, "called cuLibraryLoadData 0 plain missing\n");
    CHECK_LE(govern_number(&w, "peak 0 "), BUDGET);
    govern_end(&w);
}

/* Four programs at a time on a card without a byte to spare, again and again: each dies before or behind the first call of one of
 * the hooked functions, and each begins with most of its budget, which the one before it must have left. */
TEST(death, at_every_hook) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=1024MiB CALLER_QUICK=1");
    govern_shell(
        &w,
        "%s $CALLER dlsym calls | sed -n 's/^called \\([^ ]*\\) .* plain .*/\\1/p' >names; "
        "lane() { i=0; while read n; do i=$((i + 1)); [ $((i %% 4)) = $1 ] || continue; "
        "for how in 1 1after; do "
        "FAKECUDA_KILL=$n:$how $HEADROOM run --budget 240MiB --wait 20s -- $CALLER dlsym "
        "alloc:150M free " EVERY_STEP " >out$1 2>&1; code=$?; "
        "[ $code = 137 ] && ! grep -qE 'alloc:150M 2| gave ' out$1 && echo died || "
        "{ echo survived $n:$how $code; tail -3 out$1; $HEADROOM why | head -12; }; done; done "
        "<names; }; "
        "for l in 0 1 2 3; do lane $l & p=\"$p $!\"; done; wait $p; %s",
        keeper, verdict);
    all_died(&w);
    CHECK_EQ(govern_count(&w, "died\n"), 2 * hooks_of(0));
    nobody_was_hurt(&w, 1024 << 20);
    govern_end(&w);
}

/* The same for programs with --spill, as processes of one job: it goes on, and what its dead had is the next one's. */
TEST(death, at_every_hook_for_spilling) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=1024MiB CALLER_QUICK=1 HEADROOM_RUN_SPILL_FLOOR=1");
    govern_shell(
        &w,
        "%s $CALLER dlsym calls | sed -n 's/^called \\([^ ]*\\) .* spill .*/\\1/p' >names; "
        "cat >lane <<'EOF'\n"
        "i=0; while read n; do i=$((i + 1)); [ $((i %% 4)) = $1 ] || continue; "
        "for how in 1 1after; do case $n in cuMemcpy*|cuMemset*|cuLaunch*|cuStreamW*|cuStreamB*|"
        "cuMemBatch*) s=gates;; *) s='free type range sync free every';; esac; "
        "FAKECUDA_KILL=$n:$how $CALLER dlsym alloc:150M alloc:40M $s >out$1 2>&1; code=$?; "
        "[ $code = 137 ] && ! grep -qE 'alloc:[0-9]*M 2| gave ' out$1 && echo died || "
        "{ echo survived $n:$how $code; tail -3 out$1; }; done; done <names 2>/dev/null\n"
        "EOF\n"
        "for l in 0 1 2 3; do $HEADROOM run --budget 240MiB --spill 64MiB -- sh lane $l & "
        "p=\"$p $!\"; done; wait $p; $CALLER dlsym host; %s",
        keeper, verdict);
    all_died(&w);
    CHECK_EQ(govern_count(&w, "died\n"), 2 * hooks_of(1));
    govern_expect(&w, "host 0 0\n");
    nobody_was_hurt(&w, 1024 << 20);
    govern_end(&w);
}
