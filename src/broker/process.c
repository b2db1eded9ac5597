/* See process.h. */
#include "broker/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/proc.h"

uint64_t hri_process_started(int64_t pid) {
    char path[48], line[1024];
    hri_proc f;
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    if (pid <= 0 || !hri_proc_open(&f, "", path)) {
        return 0;
    }
    const int read = hri_proc_line(&f, line, sizeof line);
    hri_proc_close(&f);
    char *at = read ? strrchr(line, ')') : NULL; /* the name before it may hold anything */
    if (!at || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X') {
        return 0;
    }
    char *rest = NULL;
    at = strtok_r(at + 1, " ", &rest); /* field 3, the state; the start is field 22 */
    for (int field = 3; at && field < 22; field++) {
        at = strtok_r(NULL, " ", &rest);
    }
    return at ? strtoull(at, NULL, 10) + 1 : 0;
}

int hri_process_is(int64_t pid, uint64_t started) {
    return started != 0 && hri_process_started(pid) == started;
}
