/* See train_rig.h. */
#include "train_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pictures.h"
#include "weights/checkpoint.h"

const char *where(void) {
    static char folder[256];
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "%s", test_folder());
    }
    return folder;
}

const char *in(const char *name) {
    static char paths[4][400];
    static unsigned at;
    char *path = paths[at++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", where(), name);
    return path;
}

/* Three colours with noise: 20 images of each. */
void make_pictures(const char *name, int classes) {
    uint8_t pixels[24 * 20 * 3];
    uint64_t state = 99;
    for (int c = 0; c < classes; c++) {
        for (int i = 0; i < 20; i++) {
            for (size_t p = 0; p < sizeof pixels; p++) {
                const unsigned base = p % 3 == (size_t)c % 3 ? 190 : c >= 3 ? 120 : 40;
                pixels[p] = (uint8_t)(base + test_random(&state) % 60);
            }
            size_t bytes;
            char path[64];
            unsigned char *jpeg = test_jpeg(pixels, 24, 20, NULL, &bytes);
            snprintf(path, sizeof path, "%s/class%d/%02d.jpg", name, c, i);
            test_write(where(), path, jpeg, bytes);
            free(jpeg);
        }
    }
}

void begin(void) {
    make_pictures("pics", 3);
}

void read_text(const char *name, char *buf, size_t size) {
    FILE *f = fopen(in(name), "r");
    CHECK(f);
    buf[fread(buf, 1, size - 1, f)] = '\0';
    fclose(f);
}

void check_checkpoint(const char *path) {
    hri_checkpoint c;
    hri_prose why = {""};
    if (access(path, F_OK) == 0) {
        CHECK_STATUS(hri_checkpoint_open(path, &c, &why), HR_OK);
        hri_checkpoint_close(&c);
    }
}

program_outcome run_killed(const char *arguments, unsigned after_ms, int signal) {
    const program_options o = {
        .folder = where(), .seconds = 140, .kill_ms = after_ms, .signal = signal};
    return program_run(&o, "train %s --no-measure --json", arguments);
}

program_outcome run(const char *arguments) {
    return run_killed(arguments, 0, 0);
}

program_outcome run_well(const char *arguments) {
    program_outcome o = run(arguments);
    if (o.code != 0 || !o.json) {
        test_fail(__FILE__, __LINE__, "train %s: exit code %d: %s", arguments, o.code, o.words);
    }
    return o;
}

void refused(const char *arguments, int code, const char *sentence) {
    program_outcome o = run(arguments);
    if (o.code != code || !strstr(o.words, sentence)) {
        test_fail(__FILE__, __LINE__, "train %s: exit code %d, wanted %d with \"%s\"; said: %s",
                  arguments, o.code, code, sentence, o.words);
    }
    test_count_check();
    program_end(&o);
}
