/* The runner of test.h.  The parent forks a child a case, in registration order by suite and name; the child's exit
 * code is the verdict and its output is shown when it failed. */
#include "test.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"

enum { EXIT_PASSED = 0, EXIT_FAILED = 91, EXIT_SKIPPED = 92, EXIT_NO_CHECK = 93 };

#ifdef __SANITIZE_ADDRESS__
/* What the vendor's libraries keep when their handles are closed is theirs.  Ours is counted by base/alloc.h as well. */
const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void) {
    return "leak:libcublasLt.so\nleak:libcudnn\nleak:libnvrtc\n";
}

const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void) {
    return "print_suppressions=0";
}

/* A library that is gone has no name to be suppressed by: none of theirs goes. */
__attribute__((visibility("default"))) int dlclose(void *library) {
    int (*real)(void *);
    *(void **)&real = dlsym(RTLD_NEXT, "dlclose");
    struct link_map *map = NULL;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 &&
        (strstr(map->l_name, "/libcu") || strstr(map->l_name, "/libnv"))) {
        return 0;
    }
    return real ? real(library) : -1;
}
#endif

#ifdef __SANITIZE_THREAD__
/* The loader frees the thread-local memory of a thread that has ended when its stack is used again, and orders that in ways
 * that the sanitizer does not see. */
const char *__tsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void) {
    return "race:_dl_deallocate_tls\nrace:__GI__dl_deallocate_tls\n";
}
#endif

static test_case *cases;
static uint64_t seed = 1;
static _Atomic uint64_t checks;

void test_register(test_case *c) {
    test_case **at = &cases;
    while (*at) {
        const int by_suite = strcmp((*at)->suite, c->suite);
        if (by_suite > 0 || (by_suite == 0 && strcmp((*at)->name, c->name) > 0)) {
            break;
        }
        at = &(*at)->next;
    }
    c->next = *at;
    *at = c;
}

void test_count_check(void) {
    atomic_fetch_add_explicit(&checks, 1, memory_order_relaxed);
}

void test_fail(const char *file, int line, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "    %s:%d: ", file, line);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    fflush(NULL);
    _exit(EXIT_FAILED);
}

void test_skip(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "    skipped: ");
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    fflush(NULL);
    _exit(EXIT_SKIPPED);
}

void test_check_str(const char *file, int line, const char *is, const char *wanted) {
    test_count_check();
    if (!is || strcmp(is, wanted) != 0) {
        test_fail(file, line, "got \"%s\", wanted \"%s\"", is ? is : "(null)", wanted);
    }
}

void test_check_status(const char *file, int line, const char *call, hr_status is,
                       hr_status wanted) {
    test_count_check();
    if (is != wanted) {
        test_fail(file, line, "%s gave %s, wanted %s", call, hr_status_name(is),
                  hr_status_name(wanted));
    }
}

uint64_t test_seed(void) {
    return seed;
}

uint64_t test_random(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t test_resident_bytes(void) {
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long long total = 0, resident = 0;
    if (!f || fscanf(f, "%llu %llu", &total, &resident) != 2) {
        test_fail(__FILE__, __LINE__, "cannot read /proc/self/statm");
    }
    fclose(f);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* All host memory of the library is counted in test builds, so a leak is found in every case of every build, and not
 * only where a leak checker is fast enough to run. */
static void check_nothing_leaked(void) {
#ifdef HEADROOM_FAULTS
    const long long live = (long long)hri_fault_live_allocs();
    if (live != 0) {
        test_fail(__FILE__, __LINE__, "%lld allocations of the library are still live", live);
    }
#endif
}

/* Runs one case in a child; -1 when the child died or ran out of time (the reason is printed). */
static int run_case(const test_case *c, unsigned timeout_s) {
    fflush(NULL);
    const pid_t child = fork();
    if (child < 0) {
        fprintf(stderr, "    fork: %s\n", strerror(errno));
        return -1;
    }
    if (child == 0) {
        setpgid(0, 0);
        alarm(timeout_s); /* SIGALRM ends the child even when it hangs */
        if (c->run_with) {
            c->run_with(c->arg);
        } else {
            c->run();
        }
        check_nothing_leaked();
        fflush(NULL);
        /* exit, not _exit: leak checkers report at exit */
        exit(atomic_load(&checks) ? EXIT_PASSED : EXIT_NO_CHECK);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    kill(-child, SIGKILL); /* whatever the case left running */
    if (WIFEXITED(status)) {
        if (WEXITSTATUS(status) == EXIT_NO_CHECK) {
            fprintf(stderr, "    it made no check\n");
        } else if (WEXITSTATUS(status) != EXIT_PASSED && WEXITSTATUS(status) != EXIT_FAILED &&
                   WEXITSTATUS(status) != EXIT_SKIPPED) {
            fprintf(stderr, "    exit code %d\n", WEXITSTATUS(status));
        }
        return WEXITSTATUS(status);
    }
    if (WTERMSIG(status) == SIGALRM) {
        fprintf(stderr, "    no end after %u s\n", timeout_s);
    } else {
        fprintf(stderr, "    ended by signal %d (%s)\n", WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    }
    return -1;
}

/* Suites, and cases as suite/case, that HEADROOM_TEST_LEAVE_OUT names with spaces between are not run. */
static int left_out(const test_case *c, const char *full) {
    const char *at = getenv("HEADROOM_TEST_LEAVE_OUT");
    while (at && *at) {
        const size_t word = strcspn(at, " ");
        if ((word == strlen(c->suite) && !strncmp(at, c->suite, word)) ||
            (word == strlen(full) && !strncmp(at, full, word))) {
            return 1;
        }
        at += word + strspn(at + word, " ");
    }
    return 0;
}

static int wanted(const test_case *c, char **filters, int count) {
    char full[256];
    snprintf(full, sizeof full, "%s/%s", c->suite, c->name);
    if (left_out(c, full)) {
        return 0;
    }
    for (int i = 0; i < count; i++) {
        if (strstr(full, filters[i])) {
            return 1;
        }
    }
    return count == 0;
}

int main(int argc, char **argv) {
    unsigned default_timeout_s = 60;
    int list = 0, first = 1;
    const char *env_seed = getenv("HEADROOM_TEST_SEED");
    /* Cards of different cases have the same name: one broker for all of them would mix them up. */
    setenv("HEADROOM_BROKER", "off", 0);
    if (env_seed) {
        seed = strtoull(env_seed, NULL, 0);
    }
    for (; first < argc && argv[first][0] == '-'; first++) {
        if (!strcmp(argv[first], "--list")) {
            list = 1;
        } else if (!strcmp(argv[first], "--seed") && first + 1 < argc) {
            seed = strtoull(argv[++first], NULL, 0);
        } else if (!strcmp(argv[first], "--timeout") && first + 1 < argc) {
            default_timeout_s = (unsigned)strtoul(argv[++first], NULL, 0);
        } else {
            fprintf(stderr, "usage: %s [--list] [--seed N] [--timeout S] [FILTER...]\n", argv[0]);
            return 2;
        }
    }
    int passed = 0, failed = 0, skipped = 0;
    if (!list) {
        printf("seed %llu\n", (unsigned long long)seed);
        if (getenv("HEADROOM_TEST_LEAVE_OUT")) {
            printf("left out: %s\n", getenv("HEADROOM_TEST_LEAVE_OUT"));
        }
    }
    for (const test_case *c = cases; c; c = c->next) {
        if (!wanted(c, argv + first, argc - first)) {
            continue;
        }
        if (list) {
            printf("%s/%s\n", c->suite, c->name);
            continue;
        }
        const double start = now_s();
        const int verdict = run_case(c, c->timeout_s ? c->timeout_s : default_timeout_s);
        passed += verdict == EXIT_PASSED;
        skipped += verdict == EXIT_SKIPPED;
        failed += verdict != EXIT_PASSED && verdict != EXIT_SKIPPED;
        printf("%s %s/%s (%.2f s)\n",
               verdict == EXIT_PASSED    ? "ok     "
               : verdict == EXIT_SKIPPED ? "skipped"
                                         : "FAILED ",
               c->suite, c->name, now_s() - start);
        fflush(stdout);
    }
    if (list) {
        return 0;
    }
    if (passed + failed + skipped == 0) {
        fprintf(stderr, "no case matches\n");
        return 2;
    }
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed ? 1 : 0;
}
