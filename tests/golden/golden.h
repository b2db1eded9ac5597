/* Running the built program and comparing what it says, byte for byte.
 *
 *   golden_result r = GOLDEN_RUN("devices", .columns = 40);
 *   CHECK_EQ(r.code, 0);
 *   golden_compare("devices_narrow", r.out);
 *
 * The program gets a clean environment (PATH, HOME, LANG=C.UTF-8, TERM=xterm-256color and what the case adds), stdout
 * through a pipe, or through a pseudo-terminal of `columns` columns, or to a file, and stderr through a pipe.
 *
 * Expected texts are tests/golden/<name>.txt.  To write them again:  HEADROOM_GOLDEN=write build/dev/tests/test_golden
 * (docs/commands.md too), then read the difference before you commit it.  The version is masked as VERSION. */
#ifndef HR_GOLDEN_H
#define HR_GOLDEN_H

#include <stddef.h>
#include "test.h"

enum { GOLDEN_ENV = 8 };

typedef struct golden_spec {
    const char *args;            /* split at spaces */
    const char *env[GOLDEN_ENV]; /* "NAME=value" */
    unsigned columns;            /* > 0: stdout is a terminal that wide */
    const char *
        stdout_to; /* a file for stdout; "close": stdout is closed; "early": the reader leaves at once */
    const char *program;  /* NULL: headroom */
    const char *last_arg; /* one more argument, spaces and all */
    int merge;            /* stderr goes where stdout goes */
} golden_spec;

typedef struct golden_result {
    char *out, *err; /* NUL-terminated; never freed, a case is a process */
    size_t out_bytes, err_bytes;
    int code; /* exit code; 128 + signal */
} golden_result;

golden_result golden_run(const golden_spec *spec);
#define GOLDEN_RUN(ARGS, ...) golden_run(&(golden_spec){.args = ARGS, ##__VA_ARGS__})

/* Compares with tests/golden/<name>.txt, or writes it. */
void golden_compare(const char *name, const char *text);
/* The same for a file named from the root of the source; nothing is masked. */
void golden_compare_file(const char *path, const char *text);

/* text with every `from` replaced by `to`, in new memory. */
char *golden_replace(const char *text, const char *from, const char *to);
/* 1 when a control character other than a newline is in the text. */
int golden_has_control(const char *text);
int golden_has_program(const char *name);

#endif
