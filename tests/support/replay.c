/* Replays a corpus through a fuzz target: fuzz_x FOLDER...
 *
 * Every file is one case, in a process of its own with a time-out, as in test.c.  It passes when the target returns.
 * An empty corpus is a failure: a test that cannot fail is a defect. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TIMEOUT_S = 20 };

/* The whole file in memory of exactly its size, so that a sanitizer sees a read past its end; NULL on failure. */
static uint8_t *read_whole(const char *path, size_t *out_size) {
    FILE *f = fopen(path, "rb");
    if (!f) {
        return NULL;
    }
    uint8_t *data = NULL;
    long size = -1;
    if (fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) >= 0 && fseek(f, 0, SEEK_SET) == 0) {
        data = malloc(size > 0 ? (size_t)size : 1);
        if (data && fread(data, 1, (size_t)size, f) != (size_t)size) {
            free(data);
            data = NULL;
        }
    }
    fclose(f);
    *out_size = (size_t)size;
    return data;
}

static int replay(const char *path) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        size_t size = 0;
        uint8_t *data = read_whole(path, &size);
        if (!data) {
            fprintf(stderr, "    cannot read %s\n", path);
            _exit(1);
        }
        alarm(TIMEOUT_S);
        const int answer = LLVMFuzzerTestOneInput(data, size);
        free(data);
        exit(answer == 0 ? 0 : 1); /* not _exit: leak checkers report at exit */
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        return 0;
    }
    if (WIFSIGNALED(status)) {
        fprintf(stderr, "    ended by signal %d (%s)\n", WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv) {
    int passed = 0, failed = 0;
    for (int i = 1; i < argc; i++) {
        struct dirent **entries = NULL;
        const int count = scandir(argv[i], &entries, NULL, alphasort);
        if (count < 0) {
            fprintf(stderr, "    cannot list %s\n", argv[i]);
        }
        for (int j = 0; j < count; j++) {
            if (entries[j]->d_name[0] != '.') {
                char path[4096];
                snprintf(path, sizeof path, "%s/%s", argv[i], entries[j]->d_name);
                const int good = replay(path);
                passed += good;
                failed += !good;
                printf("%s %s\n", good ? "ok     " : "FAILED ", path);
            }
            free(entries[j]);
        }
        free(entries);
    }
    if (passed + failed == 0) {
        fprintf(stderr, "    the corpus is empty\n");
        printf("FAILED  corpus\n");
        failed++;
    }
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed ? 1 : 0;
}
