/* Starting and watching the program; see program.h. */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pictures.h"
#include "test.h"

/* ---- memory cgroups ---- */

static int write_text(const char *folder, const char *name, const char *text) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    const int good = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return good;
}

static uint64_t read_bytes(const char *folder, const char *name) {
    char path[600], text[64] = "";
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "r");
    if (!f) {
        return 0;
    }
    const char *got = fgets(text, sizeof text, f);
    fclose(f);
    return got ? strtoull(got, NULL, 10) : 0;
}

/* A group of its own with a limit; the version, or 0.  Version 2 needs the controller switched on in the root. */
int program_make_cgroup(char *folder, size_t size, uint64_t bytes) {
    static unsigned count;
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
    snprintf(folder, size, "/sys/fs/cgroup/memory/headroom-test-%d-%u", (int)getpid(), count++);
    if (mkdir(folder, 0755) == 0) {
        if (write_text(folder, "memory.limit_in_bytes", text)) {
            (void)!write_text(folder, "memory.swappiness", "0");
            return 1;
        }
        rmdir(folder);
    }
    (void)!write_text("/sys/fs/cgroup", "cgroup.subtree_control", "+memory");
    snprintf(folder, size, "/sys/fs/cgroup/headroom-test-%d-%u", (int)getpid(), count++);
    if (mkdir(folder, 0755) == 0) {
        if (write_text(folder, "memory.max", text)) {
            (void)!write_text(folder, "memory.swap.max", "0");
            return 2;
        }
        rmdir(folder);
    }
    return 0;
}

void program_drop_cgroup(const char *folder) {
    for (int i = 0; i < 100 && rmdir(folder) != 0 && errno == EBUSY; i++) {
        usleep(10000); /* until the kernel has let the last process go */
    }
}

int program_has_cgroup(void) {
    char folder[128];
    const int version = program_make_cgroup(folder, sizeof folder, 1 << 30);
    if (version) {
        program_drop_cgroup(folder);
    }
    return version;
}

/* ---- running ---- */

static char *read_all(const char *path) {
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 1);
    size_t used = 0, got;
    char block[4096];
    while (f && text && (got = fread(block, 1, sizeof block, f)) > 0) {
        char *more = realloc(text, used + got + 1);
        CHECK(more);
        text = more;
        memcpy(text + used, block, got);
        text[used += got] = '\0';
    }
    if (f) {
        fclose(f);
    }
    CHECK(text);
    return text;
}

/* NVIDIA's own libraries keep a little when a process ends, which is no leak of ours. */
static const char *leaks_of(const program_options *o) {
    return o->environment && strstr(o->environment, "fakecuda") ? "ASAN_OPTIONS=detect_leaks=0"
                                                                : "";
}

/* The command for the shell, which enters the group before it becomes the program. */
static char *command_of(const program_options *o, const char *folder, const char *group,
                        const char *text, const char *out, const char *words) {
    char *command = NULL;
    size_t size;
    FILE *f = open_memstream(&command, &size);
    CHECK(f);
    fprintf(f, "cd '%s' && ", folder);
    if (group[0]) {
        fprintf(f, "echo $$ >'%s/cgroup.procs' && ", group);
    }
    if (o->as_shell) {
        fprintf(f, "export HEADROOM='%s' %s %s && { %s\n}", HEADROOM_PROGRAM, leaks_of(o),
                o->environment ? o->environment : "", text);
    } else {
        fprintf(f, "exec env %s %s '%s' %s", leaks_of(o), o->environment ? o->environment : "",
                HEADROOM_PROGRAM, text);
    }
    fprintf(f, " <'%s' >'%s' 2>'%s'", o->input ? o->input : "/dev/null", out, words);
    fclose(f);
    return command;
}

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Waits, killing it when its time has come. */
static void watch(const program_options *o, pid_t child, program_outcome *result) {
    const double start = seconds_now();
    int status = 0, signalled = 0;
    struct rusage use = {0};
    for (;;) {
        const pid_t got = wait4(child, &status, WNOHANG, &use);
        if (got == child) {
            break;
        }
        CHECK(got == 0);
        const double passed = seconds_now() - start;
        if (o->kill_ms && !signalled && passed * 1000 >= o->kill_ms) {
            kill(child, o->signal ? o->signal : SIGKILL);
            signalled = 1;
        }
        if (passed > (o->seconds ? o->seconds : 50)) {
            kill(-child, SIGKILL);
            result->timed_out = 1;
        }
        usleep(passed < 0.2 ? 2000 : 10000);
    }
    result->code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    result->killed_by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    result->resident_bytes = (uint64_t)use.ru_maxrss * 1024;
}

program_outcome program_run(const program_options *options, const char *format, ...) {
    static unsigned count;
    const program_options o = options ? *options : (program_options){0};
    char group[128] = "", out[600], words[600], text[16384];
    program_outcome result = {0};
    va_list arguments;
    va_start(arguments, format);
    CHECK_LE(vsnprintf(text, sizeof text, format, arguments), (int)sizeof text - 1);
    va_end(arguments);
    static char own[512];
    if (!own[0]) {
        snprintf(own, sizeof own, "%s", test_folder());
    }
    snprintf(out, sizeof out, "%s/.out%u", own, count);
    snprintf(words, sizeof words, "%s/.words%u", own, count++);
    if (o.cgroup_bytes) {
        CHECK(program_make_cgroup(group, sizeof group, o.cgroup_bytes));
    }
    char *command = command_of(&o, o.folder ? o.folder : own, group, text, out, words);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        setpgid(0, 0);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    watch(&o, child, &result);
    free(command);
    if (group[0]) {
        const uint64_t first = read_bytes(group, "memory.max_usage_in_bytes");
        result.cgroup_bytes = first ? first : read_bytes(group, "memory.peak");
        program_drop_cgroup(group);
    }
    result.out = read_all(out);
    result.words = read_all(words);
    result.json = json_loads(result.out, 0, NULL);
    unlink(out);
    unlink(words);
    return result;
}

void program_end(program_outcome *outcome) {
    json_decref(outcome->json);
    free(outcome->out);
    free(outcome->words);
    *outcome = (program_outcome){0};
}

void program_expect(const program_outcome *outcome, int code, const char *sentence) {
    test_count_check();
    if (outcome->code != code || (sentence && !strstr(outcome->words, sentence))) {
        test_fail(__FILE__, __LINE__,
                  "exit code %d (signal %d), wanted %d%s%s; out: %.2000s; said: %.4000s",
                  outcome->code, outcome->killed_by, code, sentence ? " with " : "",
                  sentence ? sentence : "", outcome->out, outcome->words);
    }
}

static const json_t *member(const program_outcome *outcome, const char *path) {
    const json_t *at = outcome->json;
    char name[128];
    for (const char *p = path; at && *p;) {
        const size_t length = strcspn(p, ".");
        snprintf(name, sizeof name, "%.*s", (int)length, p);
        at = json_object_get(at, name);
        p += length + (p[length] == '.');
    }
    if (!at) {
        test_fail(__FILE__, __LINE__, "\"%s\" is missing in: %.1500s; said: %.1500s", path,
                  outcome->out, outcome->words);
    }
    return at;
}

const char *program_text(const program_outcome *outcome, const char *path) {
    const char *text = json_string_value(member(outcome, path));
    if (!text) {
        test_fail(__FILE__, __LINE__, "\"%s\" is not a string", path);
    }
    return text;
}

double program_number(const program_outcome *outcome, const char *path) {
    const json_t *value = member(outcome, path);
    if (!json_is_number(value)) {
        test_fail(__FILE__, __LINE__, "\"%s\" is not a number", path);
    }
    return json_number_value(value);
}

uint64_t program_runtime_bytes(void) {
    program_outcome o =
        program_run(NULL, "plan mlp:width=8 --batch 1 --no-measure --no-choices --json");
    program_expect(&o, 0, NULL);
    const uint64_t bytes = (uint64_t)program_number(&o, "runtime_bytes");
    program_end(&o);
    return bytes;
}
