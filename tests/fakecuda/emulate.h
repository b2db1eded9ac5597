/* Kernels on the host: a whole launch, block after block, the threads of a block as fibers. */
#ifndef FAKECUDA_EMULATE_H
#define FAKECUDA_EMULATE_H

#include "emulator.h"
#include "fake.h"

/* An image that starts so holds a cubin for real devices, and launches of it do nothing here. */
#define FAKE_STUB "fakestub"

typedef struct fake_kernel {
    const char *name;
    void (*run)(void **arguments);
    void **arguments;
    fake_uint3 grid, block;
    unsigned shared_bytes;
} fake_kernel;

/* Runs it; one at a time in a process.  What is wrong (a bad address, a barrier that some threads never reach) is
 * printed to stderr, and the result is what a real device would give. */
CUresult fake_emulate(const fake_kernel *kernel);
/* What kernels see of the driver. */
fake_emulator *fake_emulator_now(void);
/* A number that differs between versions of kernels.h and emulator.h (stamp.c). */
unsigned long long fake_kernels_stamp(void);

#endif
