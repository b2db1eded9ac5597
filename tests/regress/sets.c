/* Making them; see sets.h. */
#include "sets.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pictures.h"
#include "program.h"
#include "test.h"

void set_of_pictures(const char *folder, const char *name, int each) {
    uint8_t pixels[28 * 28 * 3];
    for (int k = 0; k < 2 * each; k++) {
        char path[128];
        size_t bytes;
        test_picture(pixels, 28, 28, (uint64_t)k + 1);
        unsigned char *png = test_png(pixels, 28, 28, 8, 2, 0, &bytes);
        snprintf(path, sizeof path, "%s/%s/%d.png", name, k < each ? "a" : "b", k % each);
        test_write(folder, path, png, bytes);
        free(png);
    }
}

void set_of_npy(const char *folder, const char *name, unsigned char version, const char *header,
                unsigned bytes) {
    unsigned char file[4096] = "\x93NUMPY";
    const size_t length = strlen(header);
    CHECK_LE(10 + length + bytes, sizeof file);
    file[6] = version;
    file[8] = (unsigned char)(length & 255);
    file[9] = (unsigned char)(length >> 8);
    memcpy(file + 10, header, length);
    test_write(folder, name, file, 10 + length + bytes);
}

void set_of_run(const char *folder) {
    set_of_pictures(folder, "set", 4);
    program_outcome o = program_run(
        &(program_options){.folder = folder},
        "train lenet --data images:set --batch 4 --steps 1 --out run --no-measure --threads 1");
    program_expect(&o, 0, NULL);
    program_end(&o);
}
