/* The version of the headers that kernels are compiled with, as a hash of their bytes (FNV-1a). */
#include "emulate.h"

#include <stdio.h>

static unsigned long long add_file(unsigned long long hash, const char *path) {
    FILE *file = fopen(path, "r");
    for (int c = file ? getc(file) : EOF; c != EOF; c = getc(file)) {
        hash = (hash ^ (unsigned)c) * 0x100000001b3ull;
    }
    if (file) {
        fclose(file);
    }
    return hash;
}

unsigned long long fake_kernels_stamp(void) {
    static unsigned long long stamp; /* the same for every thread that computes it */
    if (!stamp) {
        unsigned long long hash = 0xcbf29ce484222325ull + FAKE_EMULATOR_ABI;
        hash = add_file(hash, FAKE_SOURCE "/kernels.h");
        hash = add_file(hash, FAKE_SOURCE "/emulator.h");
        stamp = add_file(hash, FAKE_SOURCE "/nvrtc.c");
    }
    return stamp;
}
