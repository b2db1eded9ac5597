/* See env.h. */
#include "govern/env.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"

extern char **environ;

/* Set where none of `names` (one, or two of which the second is an older spelling) is. */
typedef struct setting {
    const char *name, *also, *value, *why;
} setting;

static const setting settings[] = {
    {"XLA_PYTHON_CLIENT_PREALLOCATE", NULL, "false", "JAX allocates memory as needed"},
    {"XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION", ".95",
     "JAX may use the whole budget, not three quarters of it"},
    {"TF_FORCE_GPU_ALLOW_GROWTH", NULL, "true", "TensorFlow allocates memory as needed"},
    {"TF_DEVICE_MIN_SYS_MEMORY_IN_MB", NULL, "64",
     "otherwise TensorFlow leaves up to 1.8 GiB of the budget unused"},
    {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "expandable_segments:True",
     "PyTorch fragments its memory less"},
    {"CUDA_DEVICE_ORDER", NULL, "PCI_BUS_ID", "GPUs have the same numbers in all programs"},
};

static hr_status add(hri_run_env *env, const char *name, const char *why, const char *value) {
    hri_run_variable *v = &env->variables[env->count];
    *v = (hri_run_variable){.name = name, .why = why, .kept = value == NULL};
    if (value) {
        v->value = hri_strdup(value);
        if (!v->value) {
            return HR_E_NOMEM_HOST;
        }
    }
    env->count++;
    return HR_OK;
}

static hr_status add_settings(hri_run_env *env) {
    hr_status status = HR_OK;
    for (size_t i = 0; i < sizeof settings / sizeof *settings && status == HR_OK; i++) {
        const setting *s = &settings[i];
        const int kept = getenv(s->name) || (s->also && getenv(s->also));
        status = add(env, s->name, s->why, kept ? NULL : s->value);
    }
    return status;
}

/* Programs may change their folder, so the path is whole. */
static hr_status add_record(hri_run_env *env, const char *path) {
    hri_text whole = {0};
    char folder[PATH_MAX];
    const bool here = path[0] != '/' && getcwd(folder, sizeof folder);
    hri_text_add(&whole, "%s%s%s", here ? folder : "", here ? "/" : "", path);
    hr_status status = hri_text_status(&whole);
    if (status == HR_OK) {
        status = add(env, "HEADROOM_RUN_RECORD", "the file that allocations are recorded in",
                     hri_text_get(&whole));
    }
    hri_text_deinit(&whole);
    return status;
}

static hr_status add_own(hri_run_env *env, const hri_run_env_options *o) {
    char number[32];
    hri_text preload = {0};
    const char *others = getenv("LD_PRELOAD");
    hri_text_add(&preload, "%s%s%s", o->library, others && *others ? ":" : "",
                 others ? others : "");
    hr_status status = hri_text_status(&preload);
    if (status == HR_OK) {
        status = add(env, "LD_PRELOAD", "loads the library that enforces the budget",
                     hri_text_get(&preload));
    }
    hri_text_deinit(&preload);
    if (status == HR_OK) {
        snprintf(number, sizeof number, "%llu", (unsigned long long)o->job);
        status = add(env, "HEADROOM_RUN_JOB", "the job that the processes belong to", number);
    }
    if (status == HR_OK && o->wait_ms) {
        snprintf(number, sizeof number, "%llu", (unsigned long long)o->wait_ms);
        status = add(env, "HEADROOM_RUN_WAIT_MS", "how long to wait if the GPU is full", number);
    }
    if (status == HR_OK && (o->spill_bytes || getenv("HEADROOM_RUN_SPILL"))) {
        snprintf(number, sizeof number, "%llu", (unsigned long long)o->spill_bytes);
        status =
            add(env, "HEADROOM_RUN_SPILL", "host memory for what does not fit, in bytes", number);
    }
    return status == HR_OK && o->record ? add_record(env, o->record) : status;
}

static int replaced(const hri_run_env *env, const char *entry) {
    for (size_t i = 0; i < env->count; i++) {
        const size_t length = strlen(env->variables[i].name);
        if (env->variables[i].value && strncmp(entry, env->variables[i].name, length) == 0 &&
            entry[length] == '=') {
            return 1;
        }
    }
    return 0;
}

static hr_status make_list(hri_run_env *env) {
    size_t there = 0;
    while (environ[there]) {
        there++;
    }
    env->list = hri_calloc(there + env->count + 1, sizeof *env->list);
    if (!env->list) {
        return HR_E_NOMEM_HOST;
    }
    for (size_t i = 0; i < env->count; i++) {
        const hri_run_variable *v = &env->variables[i];
        hri_text text = {0};
        if (!v->value) {
            continue;
        }
        hri_text_add(&text, "%s=%s", v->name, v->value);
        env->list[env->own] =
            hri_text_status(&text) == HR_OK ? hri_strdup(hri_text_get(&text)) : NULL;
        hri_text_deinit(&text);
        if (!env->list[env->own]) {
            return HR_E_NOMEM_HOST;
        }
        env->own++;
    }
    size_t at = env->own;
    for (size_t i = 0; i < there; i++) {
        if (!replaced(env, environ[i])) {
            env->list[at++] = environ[i];
        }
    }
    return HR_OK;
}

hr_status hri_run_env_init(hri_run_env *env, const hri_run_env_options *options) {
    *env = (hri_run_env){0};
    hr_status status = options->plain ? HR_OK : add_settings(env);
    if (status == HR_OK) {
        status = add_own(env, options);
    }
    if (status == HR_OK) {
        status = make_list(env);
    }
    if (status != HR_OK) {
        hri_run_env_deinit(env);
    }
    return status;
}

void hri_run_env_deinit(hri_run_env *env) {
    for (size_t i = 0; i < env->count; i++) {
        hri_free(env->variables[i].value);
    }
    for (size_t i = 0; i < env->own; i++) {
        hri_free(env->list[i]);
    }
    hri_free(env->list);
    *env = (hri_run_env){0};
}
