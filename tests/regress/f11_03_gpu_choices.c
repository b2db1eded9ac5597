/* Issue 11, number 3, on a GPU: which algorithm of a library runs was chosen by time, so that two machines, or two runs with
 * empty caches, had two histories.  Here the library is tests/fakecuda/cublaslt.c: five algorithms, three orders of the
 * sum, and each run finds others of them slow. */
#include <stdlib.h>
#include <string.h>

#include "program.h"
#include "test.h"

#define MODEL  "mlp:width=16,layers=1,size=6,classes=4"
#define DEVICE " --device cuda:0 --exact --json"

/* Trains in the cache folder `cache` of the case; compiled kernels are handed on from run to run, choices are not. */
static char *history_of(const char *what, const char *cache, const char *environment,
                        const char *flags) {
    const char *root = FAKECUDA_ROOT;
    program_outcome o = program_run(
        &(program_options){.as_shell = 1, .seconds = 300},
        "mkdir -p %s kernels && cp -r kernels %s/ && "
        "LD_LIBRARY_PATH=%s/fakecuda-libs:%s/fakecuda FAKECUDA_STATE=$PWD/state "
        "HEADROOM_CACHE_DIR=$PWD/%s %s "
        "$HEADROOM train %s" DEVICE " --overwrite --out $PWD/run-%s %s && cp -r %s/kernels .",
        cache, cache, root, root, cache, environment, what, cache, flags, cache);
    if (o.code == 0 && !strcmp(program_text(&o, "device"), "host")) {
        test_skip("no fake driver");
    }
    program_expect(&o, 0, NULL);
    char *text = strdup(program_text(&o, "history"));
    program_end(&o);
    return text;
}

static char *history(const char *cache, const char *environment, const char *flags) {
    return history_of(MODEL " --data synthetic --batch 8 --steps 4", cache, environment, flags);
}

TEST(f11_03, no_clock_chooses_the_algorithms_of_a_library) {
    PROGRAM_NEED_SPEED();
    char *front = history("a", "FAKELT_SLOW=234", "");
    char *back = history("b", "FAKELT_SLOW=01", "");
    char *again = history("a", "FAKELT_SLOW=01", ""); /* with what was chosen before */
    char *without = history("c", "FAKELT_FAIL=1", "");
    CHECK_STR(front, back);
    CHECK_STR(front, again);
    CHECK_STR(front, without); /* 0 alone is left of the group */
    /* Without the rule there are two histories: the case above can fail. */
    char *by_time = history("d", "FAKELT_SLOW=01", "--tune --choices $PWD/shared.txt");
    CHECK(strcmp(front, by_time) != 0);
    char *shared = history("e", "FAKELT_SLOW=234", "--tune --choices $PWD/shared.txt");
    CHECK_STR(by_time, shared);
    free(by_time), free(shared);
    free(front), free(back), free(again), free(without);
}

/* Two steps more of a run in the folder "run", from an empty cache. */
static char *go_on(const char *cache, const char *environment, const char *flags, int *warned) {
    const char *root = FAKECUDA_ROOT;
    program_outcome o = program_run(
        &(program_options){.as_shell = 1, .seconds = 300},
        "mkdir -p %s kernels && cp -r kernels %s/ && "
        "LD_LIBRARY_PATH=%s/fakecuda-libs:%s/fakecuda FAKECUDA_STATE=$PWD/state "
        "HEADROOM_CACHE_DIR=$PWD/%s %s "
        "$HEADROOM train " MODEL
        " --data synthetic --batch 8 --device cuda:0 --exact --json --out $PWD/run %s && "
        "cp -r %s/kernels .",
        cache, cache, root, root, cache, environment, flags, cache);
    program_expect(&o, 0, NULL);
    char *text = strdup(program_text(&o, "history"));
    *warned = strstr(o.words, "last bits") != NULL;
    program_end(&o);
    return text;
}

TEST(f11_03, a_checkpoint_carries_its_choices_and_says_when_they_are_others) {
    int warned = 0;
    free(go_on("a", "FAKELT_SLOW=01", "--tune --steps 2", &warned));
    CHECK(!warned);
    /* Times would choose otherwise here; choices.txt of the run comes first. */
    free(go_on("b", "FAKELT_SLOW=234", "--tune --steps 4 --resume", &warned));
    CHECK(!warned);
    program_outcome o = program_run(&(program_options){.as_shell = 1}, "rm run/choices.txt");
    program_expect(&o, 0, NULL);
    program_end(&o);
    free(go_on("c", "FAKELT_SLOW=234", "--tune --steps 6 --resume", &warned));
    CHECK(warned);
}

/* Is an algorithm chosen that has the second operand turned first? */
static int turns(const char *cache) {
    program_outcome o = program_run(&(program_options){.as_shell = 1},
                                    "grep -c '^matmul.*\tt[0-9a-f]*\t' %s/choices-2", cache);
    const int found = o.code == 0;
    program_end(&o);
    return found;
}

/* A large product with a bias may have its second operand turned in work space, where that is faster; the bits are the same. */
TEST_TIMEOUT(f11_03, an_operand_is_turned_where_that_is_faster_and_changes_no_bit, 300) {
    PROGRAM_NEED_SPEED();
    static const char what[] = "mlp:width=4,layers=1,size=2,classes=3 --data "
                               "synthetic:4096 --batch 4096 --steps 2";
    char *as_it_is = history_of(what, "a", "", "");
    char *turned = history_of(what, "b", "FAKELT_SLOW_TURNED=01", "");
    CHECK(!turns("a") || turns("b"));
    CHECK(turns("b"));
    CHECK_STR(as_it_is, turned);
    free(as_it_is), free(turned);
}
