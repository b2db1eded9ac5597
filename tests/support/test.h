/* The test harness: every case runs in a process of its own, with a time-out.
 *
 *   TEST(limit, two_threads_never_exceed_it) {
 *       CHECK(x == 3);
 *       CHECK_STATUS(hr_thing(), HR_OK);
 *   }
 *
 * A runner is any number of files with TESTs linked with test.c:  runner [--list] [--seed N] [--timeout S] [FILTER...]
 * (a filter is a part of "suite/case"; suites named in HEADROOM_TEST_LEAVE_OUT are not run).  It prints one line a case, then "N passed, N failed, N skipped", and exits
 * 0, or 1 when a case failed, or 2 for wrong use.  A case that ran no CHECK fails: a test that cannot fail is a
 * defect.  So does one that ends with memory of the library's own still allocated (base/alloc.h). */
#ifndef HR_TEST_H
#define HR_TEST_H

#include <stdint.h>
#include <headroom/status.h>

typedef struct test_case {
    const char *suite, *name;
    void (*run)(void);
    unsigned timeout_s; /* 0: the runner's default of 60 s */
    struct test_case *next;
    void (*run_with)(const void *arg); /* instead of run: cases made from a table */
    const void *arg;
} test_case;

void test_register(test_case *c);
/* Ends the case as failed / skipped with a reason. */
void test_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));
void test_skip(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void test_count_check(void);
/* The seed of this run (printed at the start); use it for every random choice. */
uint64_t test_seed(void);
/* A small random number generator for test inputs (splitmix64). */
uint64_t test_random(uint64_t *state);
/* What the outside sees of this process: the resident set in bytes, from /proc. */
uint64_t test_resident_bytes(void);

#define TEST_TIMEOUT(SUITE, NAME, SECONDS)                                                         \
    static void SUITE##_##NAME(void);                                                              \
    __attribute__((constructor)) static void register_##SUITE##_##NAME(void) {                     \
        static test_case c = {                                                                     \
            .suite = #SUITE, .name = #NAME, .run = SUITE##_##NAME, .timeout_s = (SECONDS)};        \
        test_register(&c);                                                                         \
    }                                                                                              \
    static void SUITE##_##NAME(void)
#define TEST(SUITE, NAME) TEST_TIMEOUT(SUITE, NAME, 0)

#define CHECK(X)                                                                                   \
    do {                                                                                           \
        test_count_check();                                                                        \
        if (!(X)) {                                                                                \
            test_fail(__FILE__, __LINE__, "%s", #X);                                               \
        }                                                                                          \
    } while (0)
/* With both values in the message. */
#define CHECK_EQ(A, B)                                                                             \
    do {                                                                                           \
        test_count_check();                                                                        \
        const long long check_a = (long long)(A), check_b = (long long)(B);                        \
        if (check_a != check_b) {                                                                  \
            test_fail(__FILE__, __LINE__, "%s is %lld, %s is %lld", #A, check_a, #B, check_b);     \
        }                                                                                          \
    } while (0)
#define CHECK_LE(A, B)                                                                             \
    do {                                                                                           \
        test_count_check();                                                                        \
        const long long check_a = (long long)(A), check_b = (long long)(B);                        \
        if (check_a > check_b) {                                                                   \
            test_fail(__FILE__, __LINE__, "%s is %lld, above %s, %lld", #A, check_a, #B, check_b); \
        }                                                                                          \
    } while (0)
#define CHECK_STR(A, B)    test_check_str(__FILE__, __LINE__, (A), (B))
#define CHECK_STATUS(A, B) test_check_status(__FILE__, __LINE__, #A, (A), (B))
#define CHECK_OK(A)        CHECK_STATUS((A), HR_OK)
void test_check_str(const char *file, int line, const char *is, const char *wanted);
void test_check_status(const char *file, int line, const char *call, hr_status is,
                       hr_status wanted);

#endif
