/* The environment of a program under `headroom run`: ours, plus what loads the library, plus settings by which frameworks
 * take memory as they need it.  A setting that the user made is left alone. */
#ifndef HRI_GOVERN_ENV_H
#define HRI_GOVERN_ENV_H

#include <stddef.h>
#include <stdint.h>
#include <headroom/status.h>

enum { HRI_RUN_ENV_MAX = 16 };

typedef struct hri_run_variable {
    const char *name;
    char *value;     /* owned */
    const char *why; /* for --explain */
    int kept;        /* the user's own stays; `value` is then NULL */
} hri_run_variable;

typedef struct hri_run_env {
    hri_run_variable variables[HRI_RUN_ENV_MAX];
    size_t count;
    char **list; /* for exec; owned, as are the "name=value" texts behind ours */
    size_t own;  /* list[0..own) are owned */
} hri_run_env;

typedef struct hri_run_env_options {
    const char *library; /* to load */
    uint64_t job, wait_ms, spill_bytes;
    const char *record; /* a file for allocations; NULL: none */
    int plain;          /* leave frameworks alone */
} hri_run_env_options;

HR_MUST_CHECK hr_status hri_run_env_init(hri_run_env *env, const hri_run_env_options *options);
void hri_run_env_deinit(hri_run_env *env);

#endif
