/* What the tests of the CUDA back end share: a rig is one opened device, reached through the vtable alone.
 *
 * The runner uses whatever libcuda.so.1 the process finds.  Under ctest that is the fake one; on a machine with a GPU,
 * without LD_LIBRARY_PATH, the real one.  A case that needs a knob of the fake driver says need_fake() and is skipped
 * on a real one; every case is skipped where there is no CUDA at all.  Call knob() before the first rig_open(). */
#ifndef TESTS_CUDA_RIG_H
#define TESTS_CUDA_RIG_H

#include <stddef.h>
#include <stdint.h>
#include "base/fault.h"
#include "device/backend.h"
#include "test.h"

extern const hri_backend hri_backend_cuda;
#define cuda hri_backend_cuda /* as in cuda.copy(...) */

typedef struct rig {
    hri_log log;
    hri_lib *lib;
    hri_dev *dev;
    const hri_page_source *source;
    uint64_t page; /* bytes */
} rig;

/* The functions that only the fake driver has; all NULL on a real one. */
typedef struct fake_driver {
    uint64_t (*used_bytes)(int device);
    uint64_t (*peak_bytes)(int device, int reset);
    int64_t (*report)(char *buf, size_t size);
    int64_t (*calls)(const char *name);
    void (*schedule)(const char *text);
} fake_driver;

/* Gives the case a fake machine of its own (a state file that nobody else has).  Called by all below. */
void rig_isolate(void);
/* Sets an environment variable of the fake driver. */
void knob(const char *name, const char *value);
const fake_driver *fake(void);
int is_fake(void);
/* Skips the case on a real driver. */
void need_fake(void);

/* Opens device `index`; skips the case when there is none. */
void rig_open(rig *r, int index);
/* Closes it, and on the fake driver checks that nothing is left in this process. */
void rig_close(rig *r);
/* Checks that the device is down to what its context costs: on a real one to 8 MiB, where NVML shows it. */
void rig_check_idle(rig *r);

/* A reserved, mapped run of `count` pages, from calls that must succeed. */
typedef struct run {
    hr_addr at;
    size_t count;
    uint64_t pages[64];
} run;
void run_open(rig *r, size_t count, run *out);
void run_close(rig *r, run *mem);

/* Writes and reads device memory through a queue of its own, and waits. */
void put_bytes(rig *r, hr_addr to, const void *from, size_t bytes);
void get_bytes(rig *r, void *to, hr_addr from, size_t bytes);
/* An address of host memory. */
hr_addr host_addr(const void *memory);

#endif
