/* Spilling: host memory that stands in for the device's, and comes back.
 *
 * A request that the device has no room for is served from host memory that is mapped into the GPU's address space.  The
 * program sees device memory; kernels reach it over the bus.  Whole new requests are spilled, the large ones first: those of
 * at least HRI_SPILL_LARGE go to the host while a thirty-second of the budget is still left for small ones, and below 2 MiB
 * nothing is spilled.  Never while a stream captures.
 *
 * When room appears, memory comes back: new physical memory on the device takes the place of the host's *at the same address*.
 * For that moment the GPU must be idle and stay so: calls that give it work pass a gate (gates.def), which is closed, then
 * the context is synchronised, the bytes are copied and the mapping is changed.  It happens inside a call of the program
 * that waits for the GPU, takes or frees memory, at most twice a second.  Handles that the program has for spilled memory are numbers of ours, because
 * the driver's handle changes; the program's references and mappings are counted under that number.
 *
 * What is taken of the host is counted by the broker for the whole job (--spill), and is refused when the machine itself
 * would have too little left.  Stream-ordered memory lies in a pool of ours at the host and does not come back by itself:
 * it is asked for again at every step.
 *
 * Without --spill nothing of this runs, and the functions that are hooked only for it are the driver's own. */
#ifndef HRI_INTERPOSE_SPILL_H
#define HRI_INTERPOSE_SPILL_H

#include "interpose/govern.h"

#define HRI_SPILL_HANDLE 0x4848520000000000ull /* | number: a handle of ours */
enum { HRI_SPILL_LARGE = 16 << 20 };

typedef enum hri_spill_flags {
    HRI_SPILL_HOST = 1, /* it lies on the host now */
    HRI_SPILL_STAYS =
        2 /* somebody else knows the driver's handle: it cannot be replaced any more */
} hri_spill_flags;

/* The program was started with --spill. */
bool hri_spill_on(void);
/* Anything of this process on the host, or that was: the only case in which hooks have to look closer. */
bool hri_spill_any(void);

/* ---- taking (spill.c) ---- */

/* As hri_take, with the host as the second choice: *out_host says where the bytes were taken. */
CUresult hri_spill_take(int device, uint64_t bytes, hri_hook call, bool *out_host);
/* The host alone; false: it has not so much left for the job. */
bool hri_spill_take_host(int device, uint64_t bytes, hri_hook call);
void hri_spill_give_host(int device, uint64_t bytes);
/* Would the device have too little left for small requests?  Then the host is asked first. */
bool hri_spill_prefers_host(int device, uint64_t bytes);
/* May a request of so many bytes be spilled at all, now? */
bool hri_spill_may(uint64_t bytes);

/* ---- memory on the host; the bytes were taken (spill_memory.c) ---- */

/* In place of cuMemCreate: a handle of ours. */
CUresult hri_spill_create(int device, uint64_t bytes, const CUmemAllocationProp *prop,
                          CUmemGenericAllocationHandle *out);
/* In place of cuMemAlloc: a range of our own. */
CUresult hri_spill_alloc(int device, uint64_t asked, uint64_t bytes, CUdeviceptr *out);
/* In place of cuMemFree: false when `at` is none of these.  Waits until the GPU has done with it, except while a stream
 * captures: then the memory goes later. */
bool hri_spill_free(CUdeviceptr at, hri_hook call);
/* What the context had is gone with it. */
void hri_spill_context_ended(int device);

/* Is it a number of ours?  The rest is for those. */
bool hri_spill_is_handle(CUmemGenericAllocationHandle handle);
/* The driver's handle behind it; 0: there is none.  Under spill. */
CUmemGenericAllocationHandle hri_spill_real(CUmemGenericAllocationHandle handle);
/* Our number for a driver's handle; 0: it is not one of these.  Under spill. */
CUmemGenericAllocationHandle hri_spill_number(CUmemGenericAllocationHandle real);
/* The last reference has gone: the memory goes back to where it was taken.  Under spill. */
void hri_spill_drop(CUmemGenericAllocationHandle handle, hri_hook call);
/* From now on the driver's handle must stay as it is. */
void hri_spill_keep(CUmemGenericAllocationHandle handle);

typedef struct hri_spill_place {
    int device;
    bool host, plain; /* plain: of cuMemAlloc, at `base`, `bytes` as asked */
    uint64_t base, bytes;
} hri_spill_place;
/* Where an address lies that was spilled; false: it is not one of these. */
bool hri_spill_find(CUdeviceptr at, hri_spill_place *out);

/* ---- coming back (spill_return.c) ---- */

/* A safe point: brings back what has room now. */
void hri_spill_tick(void);

/* Calls that give the GPU work: true when hri_gate_leave() has to follow. */
bool hri_gate_enter(void);
void hri_gate_leave(void);
void hri_gate_forget_in_child(void);

#endif
