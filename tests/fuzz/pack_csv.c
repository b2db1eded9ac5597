/* Fuzz target: packing problems as CSV, and the packer on those that can be read. */
#include <stdint.h>
#include <stdlib.h>

#include "plan/pack_csv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hri_pack_file file;
    hri_prose why;
    if (hri_pack_file_parse((const char *)data, size, &file, &why) != HR_OK) {
        return 0;
    }
    uint64_t *offsets = calloc(file.count + 1, sizeof *offsets);
    const hri_pack_options options = {.align = 64, .effort = 20};
    hri_pack_result r;
    size_t bad[2];
    if (offsets && file.count < 200 &&
        hri_pack(file.buffers, file.count, &options, offsets, &r) == HR_OK &&
        !hri_pack_check(file.buffers, file.count, 64, offsets, r.height, bad)) {
        abort(); /* the packer and its checker do not agree */
    }
    free(offsets);
    hri_pack_file_deinit(&file);
    return 0;
}
