/* What a caller can do, and what it has.  One process, one state: caller.c runs the steps of its command line one by one. */
#ifndef TEST_GOVERN_STEPS_H
#define TEST_GOVERN_STEPS_H

#include "caller.h"

enum { CALLER_MOST = 4096, CALLER_PAGE = 2 << 20 };

typedef struct caller_vmm {
    CUdeviceptr at;
    uint64_t bytes;
    CUmemGenericAllocationHandle handle;
} caller_vmm;

typedef struct caller_state {
    caller_driver cu;
    CUcontext context;
    CUdeviceptr plain[CALLER_MOST], pooled[CALLER_MOST], cached[CALLER_MOST];
    uint64_t plain_bytes[CALLER_MOST];
    CUarray arrays[CALLER_MOST];
    caller_vmm mapped[CALLER_MOST];
    CUmodule modules[16];
    CUcontext contexts[16]; /* beside the primary one */
    int plain_count, pooled_count, cached_count, array_count, mapped_count, module_count,
        context_count;
    CUstream captured_stream;
    uint64_t seed;
} caller_state;

extern caller_state me;

/* Does the step NAME:VALUE; *number is what it prints behind the result, if anything.  steps.c has the list. */
CUresult caller_step(const char *name, const char *value, uint64_t *number);

/* ---- steps.c ---- */

CUresult caller_alloc(uint64_t bytes);
CUresult caller_async(uint64_t bytes);
/* As XLA and PyTorch's expandable segments do it; `xla` with the properties of the former. */
CUresult caller_map(uint64_t bytes, int xla);
/* The newest; as NCCL does it (retain, release, unmap, release), or as XLA. */
CUresult caller_unmap(int retained_first);
CUresult caller_load_module(uint64_t bytes);

/* ---- ways.c ---- */

uint64_t caller_chance(void);
CUresult caller_torch(uint64_t bytes);
CUresult caller_bfc(uint64_t bytes);
CUresult caller_random(uint64_t count);
CUresult caller_pooled(uint64_t count);
CUresult caller_threads(uint64_t count);
CUresult caller_churn(uint64_t rounds);
/* Writes, or compares, everything plain and mapped. */
CUresult caller_contents(int writes);

/* ---- every.c: the functions that have a hook ---- */

/* Those that no other step comes to. */
CUresult caller_every(void);
/* Those that give the GPU work, with no arguments at all: each must be refused. */
CUresult caller_gates(void);
/* The primary context is reset, and made again. */
CUresult caller_resets(void);
/* "called NAME TIMES KIND PLACE" for each: TIMES as the driver counts, -1 when it has none; KIND plain or spill (only for programs
 * with --spill); PLACE hooked, or what the program would call instead. */
void caller_print_calls(void);

#endif
