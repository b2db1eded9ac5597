/* The headroom program as users run it: started by a shell in a folder, watched by the kernel, with a time-out, and where
 * the machine allows it inside a memory cgroup of its own.
 *
 *   program_outcome o = program_run(&(program_options){.folder = dir, .cgroup_bytes = 64 << 20}, "train mlp --batch %d", 8);
 *   CHECK_EQ(o.code, 0);
 *   program_end(&o);
 *
 * The build defines HEADROOM_PROGRAM for program.c; a runner that uses it lists support/program.c among its sources. */
#ifndef HR_TEST_PROGRAM_H
#define HR_TEST_PROGRAM_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

typedef struct program_options {
    const char *folder;      /* to run in; NULL: the case's own (test_folder) */
    const char *environment; /* "A=1 B=2" in front of the program; NULL: nothing */
    const char *input;       /* a file for standard input; NULL: /dev/null */
    uint64_t cgroup_bytes;   /* > 0: in a memory cgroup with this limit; see program_has_cgroup */
    unsigned seconds;        /* then SIGKILL; 0: 50 */
    unsigned kill_ms;        /* > 0: `signal` (0: SIGKILL) after so long */
    int signal;
    int as_shell; /* the text is a whole shell command; $HEADROOM is the program */
} program_options;

typedef struct program_outcome {
    int code;                /* exit code; -1: killed by `killed_by` */
    int killed_by;           /* 0: it ended by itself */
    int timed_out;           /* it was killed after `seconds` */
    uint64_t resident_bytes; /* most of the process, as the kernel counted it */
    uint64_t cgroup_bytes;   /* most of the cgroup, file pages included; 0: no cgroup */
    json_t *json;            /* standard output parsed; NULL: it is not JSON */
    char *out, *words;       /* standard output and error, never NULL */
} program_outcome;

/* Never fails for what the program does; fails the case when it could not be started. */
program_outcome program_run(const program_options *options, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void program_end(program_outcome *outcome);
/* The case fails unless the exit code is `code` and `sentence` (may be NULL) is in its words. */
void program_expect(const program_outcome *outcome, int code, const char *sentence);
/* A member of the JSON, by a path of names ("error.code"); the case fails when it is not there. */
const char *program_text(const program_outcome *outcome, const char *path);
double program_number(const program_outcome *outcome, const char *path);
/* What the program itself takes of a budget on this machine: its code is half as large again on x86-64 as on arm64. */
uint64_t program_runtime_bytes(void);
/* Can this machine make memory cgroups for us?  version: 1 or 2, or 0: no. */
int program_has_cgroup(void);
/* One of a case's own: path gets its folder (128 bytes), the version is returned; dropped when everybody has left it. */
int program_make_cgroup(char *path, size_t size, uint64_t bytes);
void program_drop_cgroup(const char *path);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PROGRAM_NEED_MEMORY() test_skip("the resident set holds the sanitizer's own memory")
#define PROGRAM_NEED_SPEED()  test_skip("so much planning takes minutes under a sanitizer")
#else
#define PROGRAM_NEED_MEMORY() (void)0
#define PROGRAM_NEED_SPEED()  (void)0
#endif
#define PROGRAM_NEED_CGROUP()                                                                      \
    do {                                                                                           \
        PROGRAM_NEED_MEMORY();                                                                     \
        if (!program_has_cgroup()) {                                                               \
            test_skip("no memory cgroup can be made here");                                        \
        }                                                                                          \
    } while (0)

#endif
