/* A fake libnvrtc.so.13: compiles CUDA C for the host with g++, so that the fake driver can run it.
 *
 * The text is preprocessed after kernels.h, the kernels in it are found by the word __global__, a caller for each is
 * added, and the whole becomes a shared object, which is the "cubin".  Misaligned accesses and indexes outside arrays
 * trap.  Options are those that Headroom gives; others are refused, as NVRTC refuses what it does not know.
 *
 * What was compiled once, by whatever runner, is taken from a folder (images.h).
 * FAKECUDA_NVRTC_FAIL=N makes the Nth compilation of the process fail; FAKECUDA_NVRTC_KEEP=1 keeps the files.
 * FAKECUDA_NVRTC_REAL=PATH compiles nothing for the host: the real library at PATH compiles the text for the
 * architectures in FAKECUDA_NVRTC_ARCHS ("sm_80 sm_90a"), one that asks which it is compiled for also for those in
 * FAKECUDA_NVRTC_ASKED, and the image is a stub that can be launched and does nothing (tools/check-kernels). */
#include "emulate.h"
#include "images.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define HRI_NVRTC_FN(RETURNS, NAME, PARAMETERS) FAKE_API RETURNS NAME PARAMETERS;
#include "device/cuda/nvrtc_api.def"
#undef HRI_NVRTC_FN

extern char **environ;

enum { MOST_WORDS = 96 };

struct _nvrtcProgram {
    char *text, *name, *log, *image;
    size_t image_bytes;
};

nvrtcResult nvrtcVersion(int *major, int *minor) {
    *major = 13;
    *minor = 0;
    return NVRTC_SUCCESS;
}

const char *nvrtcGetErrorString(nvrtcResult result) {
    switch (result) {
    case NVRTC_SUCCESS:
        return "NVRTC_SUCCESS";
    case NVRTC_ERROR_OUT_OF_MEMORY:
        return "NVRTC_ERROR_OUT_OF_MEMORY";
    case NVRTC_ERROR_INVALID_OPTION:
        return "NVRTC_ERROR_INVALID_OPTION";
    case NVRTC_ERROR_COMPILATION:
        return "NVRTC_ERROR_COMPILATION";
    default:
        return "NVRTC_ERROR_INTERNAL_ERROR";
    }
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *text, const char *name,
                               int header_count, const char *const *headers,
                               const char *const *header_names) {
    (void)headers;
    (void)header_names;
    if (!program || !text || header_count != 0) {
        return NVRTC_ERROR_INVALID_INPUT;
    }
    nvrtcProgram p = calloc(1, sizeof *p);
    if (!p) {
        return NVRTC_ERROR_OUT_OF_MEMORY;
    }
    p->text = strdup(text);
    p->name = strdup(name ? name : "default_program");
    *program = p;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program) {
    if (!program || !*program) {
        return NVRTC_ERROR_INVALID_PROGRAM;
    }
    free((*program)->text);
    free((*program)->name);
    free((*program)->log);
    free((*program)->image);
    free(*program);
    *program = NULL;
    return NVRTC_SUCCESS;
}

/* ---- files and programs ---- */

static char *read_all(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    struct stat info;
    if (file && fstat(fileno(file), &info) == 0) {
        data = malloc((size_t)info.st_size + 1);
        *bytes = data ? fread(data, 1, (size_t)info.st_size, file) : 0;
        if (data) {
            data[*bytes] = '\0';
        }
    }
    if (file) {
        fclose(file);
    }
    return data;
}

static int write_all(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    const int failed = !file || fputs(text, file) < 0;
    return file ? fclose(file) != 0 || failed : 1;
}

/* Runs it with both outputs into a file; 0 when it succeeded. */
static int run(char *const *words, const char *log) {
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int code = -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    if (posix_spawnp(&pid, words[0], &actions, NULL, words, environ) == 0) {
        while (waitpid(pid, &code, 0) < 0 && errno == EINTR) {
        }
    }
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

/* ---- kernels ---- */

static int in_name(int c) {
    return isalnum(c) || c == '_';
}

/* The name of the function that is declared at `at`, just before its parameters; NULL at the end of the text. */
static const char *kernel_name(const char *at, size_t *length) {
    const char *end = strchr(at, '(');
    if (!end) {
        return NULL;
    }
    while (end > at && isspace((unsigned char)end[-1])) {
        end--;
    }
    const char *start = end;
    while (start > at && in_name((unsigned char)start[-1])) {
        start--;
    }
    *length = (size_t)(end - start);
    return start;
}

/* Appends the callers of every kernel to the preprocessed text. */
static int add_callers(const char *path) {
    size_t bytes = 0;
    char *text = read_all(path, &bytes);
    FILE *file = text ? fopen(path, "a") : NULL;
    if (!file) {
        free(text);
        return 1;
    }
    static const char seen[] = "__attribute__((visibility(\"default\")))";
    fprintf(file,
            "\nextern \"C\" %s unsigned long long fake_stamp;\nunsigned long long fake_stamp = "
            "%lluull;\n",
            seen, fake_kernels_stamp());
    for (const char *at = text; (at = strstr(at, "__global__")) != NULL;) {
        size_t length;
        at += strlen("__global__");
        const char *name = in_name((unsigned char)*at) ? NULL : kernel_name(at, &length);
        if (name && length) {
            const int n = (int)length;
            fprintf(file,
                    "extern \"C\" %s void %.*s__run(void **args) { fake_call(%.*s, args); }\n",
                    seen, n, name, n, name);
            fprintf(file,
                    "extern \"C\" %s unsigned %.*s__sizes(unsigned *out) { return fake_sizes(%.*s, "
                    "out); }\n",
                    seen, n, name, n, name);
        }
    }
    free(text);
    return fclose(file) != 0;
}

/* ---- compiling ---- */

typedef struct paths {
    char folder[256], text[300], pre[300], image[300], log[300];
} paths;

static int make_paths(paths *p) {
    const char *root = getenv("TMPDIR");
    snprintf(p->folder, sizeof p->folder, "%s/fakecuda-XXXXXX", root && *root ? root : "/tmp");
    if (!mkdtemp(p->folder)) {
        return 1;
    }
    snprintf(p->text, sizeof p->text, "%s/text.cu", p->folder);
    snprintf(p->pre, sizeof p->pre, "%s/text.ii", p->folder);
    snprintf(p->image, sizeof p->image, "%s/image.so", p->folder);
    snprintf(p->log, sizeof p->log, "%s/log", p->folder);
    return 0;
}

static void remove_paths(const paths *p) {
    if (getenv("FAKECUDA_NVRTC_KEEP")) {
        return;
    }
    unlink(p->text);
    unlink(p->pre);
    unlink(p->image);
    unlink(p->log);
    rmdir(p->folder);
}

static int wanted_option(const char *option) {
    return strncmp(option, "--gpu-architecture=sm_", 22) == 0 ||
           strcmp(option, "--std=c++17") == 0 || strcmp(option, "-default-device") == 0 ||
           strcmp(option, "--fmad=false") == 0 || strcmp(option, "--prec-div=false") == 0 ||
           strncmp(option, "-D", 2) == 0;
}

/* Kernels are full of fused multiply-adds; as calls they take a quarter of the time.  Where nothing has to be asked for, this is an option
 * that is there anyway. */
static const char *machine_option(void) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("fma")) {
        return "-mfma";
    }
#endif
    return "-fPIC";
}

static nvrtcResult compile(nvrtcProgram program, int option_count, const char *const *options,
                           const char *compiler, const paths *p) {
    const char *first[MOST_WORDS] = {compiler,    "-std=c++17", "-x",
                                     "c++",       "-E",         "-I",
                                     FAKE_SOURCE, "-include",   FAKE_SOURCE "/kernels.h"};
    int count = 9, contract = 1;
    for (int i = 0; i < option_count; i++) {
        if (!wanted_option(options[i]) || count > MOST_WORDS - 8) {
            return NVRTC_ERROR_INVALID_OPTION;
        }
        if (strncmp(options[i], "-D", 2) == 0) {
            first[count++] = options[i];
        }
        contract &= strcmp(options[i], "--fmad=false") != 0;
    }
    first[count++] = p->text;
    first[count++] = "-o";
    first[count++] = p->pre;
    static const char *const flags[] = {"-std=c++17",
                                        "-x",
                                        "c++",
                                        "-D__global__=",
                                        "-Og",
                                        "-w",
                                        "-fPIC",
                                        "-shared",
                                        "-fvisibility=hidden",
                                        "-fno-strict-aliasing",
                                        "-fno-exceptions",
                                        "-fno-rtti",
                                        "-fno-threadsafe-statics",
                                        "-fno-stack-protector",
                                        "-fsanitize=alignment,bounds",
                                        "-fsanitize-undefined-trap-on-error"};
    const char *second[MOST_WORDS] = {compiler};
    int more = 1;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        second[more++] = flags[i];
    }
    const char *const machine = machine_option();
    second[more++] = machine;
    second[more++] = contract ? "-ffp-contract=fast" : "-ffp-contract=off";
    second[more++] = p->pre;
    second[more++] = "-o";
    second[more++] = p->image;
    static const char *const libraries[] = {"-nostdlib", "-lm", "-lc", "-lgcc"};
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++) {
        second[more++] = libraries[i];
    }
    fake_image place;
    fake_image_place(&place, compiler, machine, program->text, option_count, options);
    program->image = fake_image_find(&place, &program->image_bytes);
    if (program->image) {
        return NVRTC_SUCCESS;
    }
    if (write_all(p->text, program->text) || run((char *const *)(uintptr_t)first, p->log) ||
        add_callers(p->pre) || run((char *const *)(uintptr_t)second, p->log)) {
        return NVRTC_ERROR_COMPILATION;
    }
    program->image = read_all(p->image, &program->image_bytes);
    if (!program->image) {
        return NVRTC_ERROR_INTERNAL_ERROR;
    }
    fake_image_keep(&place, program->image, program->image_bytes);
    return NVRTC_SUCCESS;
}

/* ---- by the real library, for real devices ---- */

/* The stub: eight bytes of a name, the length, the cubin. */
static nvrtcResult take_stub(const char *path, nvrtcProgram program) {
    size_t bytes = 0;
    char *cubin = read_all(path, &bytes);
    const uint64_t length = bytes;
    free(program->image);
    program->image_bytes = bytes + 16;
    program->image = cubin ? malloc(program->image_bytes) : NULL;
    if (program->image) {
        memcpy(program->image, FAKE_STUB, 8);
        memcpy(program->image + 8, &length, 8);
        memcpy(program->image + 16, cubin, bytes);
    }
    free(cubin);
    return program->image ? NVRTC_SUCCESS : NVRTC_ERROR_INTERNAL_ERROR;
}

static nvrtcResult compile_one(const char *library, nvrtcProgram program, int option_count,
                               const char *const *options, const char *architecture,
                               const paths *p) {
    char first[64];
    const char *words[MOST_WORDS] = {FAKE_COMPILE, library, p->text, p->image, first};
    int count = 5;
    snprintf(first, sizeof first, "--gpu-architecture=%s", architecture);
    for (int i = 0; i < option_count && count < MOST_WORDS - 1; i++) {
        if (strncmp(options[i], "--gpu-architecture", 18) != 0) {
            words[count++] = options[i];
        }
    }
    return write_all(p->text, program->text) || run((char *const *)(uintptr_t)words, p->log)
               ? NVRTC_ERROR_COMPILATION
               : take_stub(p->image, program);
}

static nvrtcResult compile_real(const char *library, nvrtcProgram program, int option_count,
                                const char *const *options, const paths *p) {
    const char *list = getenv("FAKECUDA_NVRTC_ARCHS"), *asked = getenv("FAKECUDA_NVRTC_ASKED");
    char names[256], *rest = NULL;
    nvrtcResult result = NVRTC_SUCCESS;
    snprintf(names, sizeof names, "%s %s", list && *list ? list : "sm_90a",
             asked && strstr(program->text, "__CUDA_ARCH") ? asked : "");
    for (char *name = strtok_r(names, " ", &rest); name && result == NVRTC_SUCCESS;
         name = strtok_r(NULL, " ", &rest)) {
        result = compile_one(library, program, option_count, options, name, p);
    }
    return result;
}

static const char *find_compiler(void) {
    const char *named = getenv("FAKECUDA_CXX");
    if (named && *named) {
        return named;
    }
    return system("command -v g++ >/dev/null 2>&1") == 0 ? "g++" : "c++";
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int option_count,
                                const char *const *options) {
    static int compilations;
    const char *fail = getenv("FAKECUDA_NVRTC_FAIL");
    paths p;
    if (!program) {
        return NVRTC_ERROR_INVALID_PROGRAM;
    }
    if (fail && ++compilations == atoi(fail)) {
        program->log = strdup("told to fail: error");
        return NVRTC_ERROR_COMPILATION;
    }
    const char *real = getenv("FAKECUDA_NVRTC_REAL");
    if (make_paths(&p)) {
        return NVRTC_ERROR_INTERNAL_ERROR;
    }
    const nvrtcResult result = real && *real
                                   ? compile_real(real, program, option_count, options, &p)
                                   : compile(program, option_count, options, find_compiler(), &p);
    size_t bytes;
    free(program->log);
    program->log = read_all(p.log, &bytes);
    remove_paths(&p);
    return result;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *bytes) {
    *bytes = program->log ? strlen(program->log) + 1 : 1;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log) {
    strcpy(log, program->log ? program->log : "");
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *bytes) {
    if (!program->image) {
        return NVRTC_ERROR_INVALID_PROGRAM;
    }
    *bytes = program->image_bytes;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *cubin) {
    if (!program->image) {
        return NVRTC_ERROR_INVALID_PROGRAM;
    }
    memcpy(cubin, program->image, program->image_bytes);
    return NVRTC_SUCCESS;
}
