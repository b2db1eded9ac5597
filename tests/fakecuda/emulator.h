/* What a kernel on the host and the fake driver that runs it know of each other.  Plain enough to be read as C (the
 * driver) and as C++ (the kernels, compiled by the fake NVRTC after kernels.h). */
#ifndef FAKECUDA_EMULATOR_H
#define FAKECUDA_EMULATOR_H

#define FAKE_EMULATOR_ABI 2

typedef struct fake_uint3 {
    unsigned x, y, z;
} fake_uint3;

/* What cuTensorMapEncodeTiled leaves in a CUtensorMap here: a tensor of four dimensions, the innermost first, and the box that one copy
 * brings; strides are bytes, from the second dimension on. */
#define FAKE_MAP_MARK 0x7e5a11edu
typedef struct fake_map {
    unsigned long long at, sizes[4], strides[3];
    unsigned box[4], bytes, mark; /* bytes: of an element */
} fake_map;

/* Of the thread that runs now; the driver changes it at every switch.  There is one, as one kernel runs at a time. */
typedef struct fake_emulator {
    fake_uint3 thread, block, block_dim, grid_dim;
    unsigned char *shared; /* dynamic shared memory */
    unsigned shared_bytes;

    /* All threads of the block, those that have returned excepted. */
    void (*barrier)(void);
    /* The same, and counts over them. */
    unsigned (*barrier_count)(int predicate);
    /* All lanes of `mask`, those that have returned excepted: gives in `bytes` (at most 64), and gets the values of all
     * 32 lanes one after another, valid until the thread's next call; *there says whose are real. */
    const void *(*exchange)(unsigned mask, const void *value, unsigned bytes, unsigned *there);
    /* cp.async: copies are made when they are waited for, and not before, so that a missing wait shows. */
    void (*async_copy)(void *to, const void *from, unsigned bytes, unsigned source_bytes);
    void (*async_commit)(void);
    void (*async_wait)(unsigned groups_left);
    /* mbarrier, in 8 bytes of shared memory: a phase is over when so many have arrived; waits until the phase of that parity is. */
    void (*phase_init)(void *bar, unsigned count);
    void (*phase_arrive)(void *bar);
    void (*phase_wait)(void *bar, unsigned parity);
    /* Ends the launch with an error. */
    void (*fail)(const char *why);
} fake_emulator;

#endif
