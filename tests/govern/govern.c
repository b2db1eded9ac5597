/* See govern.h. */
#include "govern.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program.h"
#include "test.h"

void govern_start(govern_world *w, const char *environment) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    test_skip("a library with a sanitizer cannot be loaded into a program without one");
#endif
    memset(w, 0, sizeof *w);
    snprintf(w->folder, sizeof w->folder, "/tmp/headroom-govern-XXXXXX");
    CHECK(mkdtemp(w->folder) != NULL);
    snprintf(w->environment, sizeof w->environment, "%s", *environment ? environment : "GOVERN=1");
    w->driver = "fakecuda";
}

static void forget(govern_world *w) {
    free(w->out);
    free(w->words);
    w->out = w->words = NULL;
}

void govern_shell(govern_world *w, const char *format, ...) {
    char command[8192];
    char line[12288];
    va_list args;
    va_start(args, format);
    CHECK(vsnprintf(command, sizeof command, format, args) < (int)sizeof command);
    va_end(args);
    CHECK(snprintf(line, sizeof line,
                   "cd %s && export HEADROOM_RUNTIME_DIR=%s/r HEADROOM_BROKER=on "
                   "HEADROOM_BROKER_LINGER_MS=300 "
                   "FAKECUDA_STATE=%s/state CALLER=%s/govern_caller LINKED=%s/govern_linked "
                   "LD_LIBRARY_PATH=%s/%s:%s/fakecuda; export %s; %s",
                   w->folder, w->folder, w->folder, CALLER_ROOT, CALLER_ROOT, FAKECUDA_ROOT,
                   w->driver, FAKECUDA_ROOT, w->environment, command) < (int)sizeof line);
    program_outcome o = program_run(&(program_options){.as_shell = 1, .seconds = 55}, "%s", line);
    forget(w);
    w->code = o.code;
    w->out = strdup(o.out);
    w->words = strdup(o.words);
    CHECK(!o.timed_out);
    program_end(&o);
}

void govern_run(govern_world *w, const char *options, const char *way, const char *steps) {
    govern_shell(w, "$HEADROOM run %s -- %s %s %s", options,
                 strcmp(way, "linked") ? "$CALLER" : "$LINKED", way, steps);
}

void govern_end(govern_world *w) {
    /* The broker ends by itself; its folder goes when it has. */
    govern_shell(
        w, "i=0; while [ -e r/lock ] && ! flock -n r/lock true && [ $i -lt 100 ]; do sleep 0.05; "
           "i=$((i+1)); done; flock -n r/lock echo ended 2>/dev/null || [ ! -e r/lock ] && echo "
           "ended");
    govern_expect(w, "ended");
    char command[320];
    snprintf(command, sizeof command, "rm -rf %s", w->folder);
    CHECK(system(command) == 0);
    forget(w);
}

int govern_count(const govern_world *w, const char *text) {
    int count = 0;
    for (const char *at = strstr(w->out, text); at; at = strstr(at + 1, text)) {
        count++;
    }
    return count;
}

void govern_expect(const govern_world *w, const char *text) {
    if (!govern_count(w, text)) {
        test_fail(__FILE__, __LINE__, "\"%s\" is not in the output (code %d):\n%s%s", text, w->code,
                  w->out, w->words);
    }
    test_count_check();
}

int64_t govern_number(const govern_world *w, const char *text) {
    govern_expect(w, text);
    return strtoll(strstr(w->out, text) + strlen(text), NULL, 10);
}
