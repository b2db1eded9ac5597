/* A world of its own for each case: a fake card, a runtime folder, a broker that ends soon after the last job.
 *
 *   govern_world w;
 *   govern_start(&w, "FAKECUDA_CAPACITY=2GiB");
 *   govern_run(&w, "--budget 1GiB", "dlsym", "alloc:500M peak");      as `headroom run ... -- caller dlsym alloc:500M peak`
 *   govern_expect(&w, "alloc:500M 0");
 *   govern_end(&w); */
#ifndef TEST_GOVERN_H
#define TEST_GOVERN_H

#include <stdint.h>

typedef struct govern_world {
    char folder[256];
    char environment[1024];
    const char *driver; /* folder of the fake driver */
    char *out, *words;  /* of the last command */
    int code;
} govern_world;

void govern_start(govern_world *w, const char *environment);
void govern_end(govern_world *w);
/* Runs `headroom run OPTIONS -- caller WAY STEPS`; the case fails when it does not exit with 0 or with what it is told. */
void govern_run(govern_world *w, const char *options, const char *way, const char *steps);
/* A shell command; $HEADROOM, $CALLER and $LINKED are the programs, and it runs in the world's folder. */
void govern_shell(govern_world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* `text` is at the beginning of a line of the output. */
void govern_expect(const govern_world *w, const char *text);
int govern_count(const govern_world *w, const char *text);
/* The number behind `text`; the case fails when it is not there. */
int64_t govern_number(const govern_world *w, const char *text);

#endif
