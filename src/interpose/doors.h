/* The doors through which programs reach the driver, and the functions behind them.
 *
 * A program finds a driver function by ELF binding (our symbol stands before the driver's), by dlsym, or by
 * cuGetProcAddress, which libcudart's own lookups end in.  All three lead to the hook of exactly the function that the
 * driver itself would have given: the driver is asked first, and the address it answers with is looked up in the table of
 * addresses that have a hook.  A name is never made up, and an address without a hook passes untouched.
 *
 * dlsym itself is replaced by a few instructions (dlsym.c) that jump on to the real one with every register as it was, so
 * that RTLD_NEXT and RTLD_DEFAULT mean what they mean to the caller.  Only names beginning cu[A-Z] or nvml[A-Z] that are
 * asked of an explicit handle are looked at.
 *
 * No constructor, no lock, no dlopen inside dlsym: the loader may be holding its own lock, and another thread's. */
#ifndef HRI_INTERPOSE_DOORS_H
#define HRI_INTERPOSE_DOORS_H

#include "interpose/cuda_abi.h"

#define HRI_EXPORT __attribute__((visibility("default")))

typedef enum hri_hook {
#define HRI_HOOK(NAME, PARAMETERS)            HRI_HOOK_##NAME,
#define HRI_NVML_HOOK(NAME, PARAMETERS)       HRI_HOOK_##NAME,
#define HRI_SPILL_HOOK(NAME, PARAMETERS)      HRI_HOOK_##NAME,
#define HRI_GATE(NAME, PARAMETERS, ARGUMENTS) HRI_HOOK_##NAME,
#include "interpose/hooks.def"
    HRI_HOOKS_COUNTED, /* gates have no line on the page */
    HRI_HOOKS_BEFORE_GATES_ = HRI_HOOKS_COUNTED - 1,
#include "interpose/gates.def"
    HRI_HOOKS
#undef HRI_HOOK
#undef HRI_NVML_HOOK
#undef HRI_SPILL_HOOK
#undef HRI_GATE
} hri_hook;

#define HRI_HOOK(NAME, PARAMETERS)            HRI_EXPORT CUresult NAME PARAMETERS;
#define HRI_NVML_HOOK(NAME, PARAMETERS)       HRI_EXPORT nvmlReturn_t NAME PARAMETERS;
#define HRI_SPILL_HOOK(NAME, PARAMETERS)      HRI_EXPORT CUresult NAME PARAMETERS;
#define HRI_GATE(NAME, PARAMETERS, ARGUMENTS) HRI_EXPORT CUresult NAME PARAMETERS;
#include "interpose/hooks.def"
#include "interpose/gates.def"
#undef HRI_HOOK
#undef HRI_NVML_HOOK
#undef HRI_SPILL_HOOK
#undef HRI_GATE

typedef void (*hri_function)(void);

/* The driver's function behind a hook; NULL when the driver has none. */
hri_function hri_real(hri_hook hook);
const char *hri_hook_name(hri_hook hook);
/* The driver's function of that name, hook or not; NULL when there is none. */
hri_function hri_driver_function(const char *name);
hri_function hri_nvml_function(const char *name);

/* The real function as a pointer of the hook's type. */
#define HRI_REAL(NAME) ((__typeof__(&NAME))hri_real(HRI_HOOK_##NAME))
/* Calls it; a driver that does not have it answers CUDA_ERROR_NOT_FOUND. */
#define HRI_CALL(NAME, ...)                                                                        \
    (__extension__({                                                                               \
        __typeof__(&NAME) hri_call = HRI_REAL(NAME);                                               \
        hri_call ? hri_call(__VA_ARGS__) : CUDA_ERROR_NOT_FOUND;                                   \
    }))

/* What to give a caller to whom the driver gave `address` for the name `symbol`. */
void *hri_door_route(const char *symbol, void *address);

/* Counters for the page; relaxed atomics. */
typedef struct hri_doors {
    uint64_t by_binding, by_dlsym, by_resolver, unknown;
} hri_doors;
extern hri_doors hri_door_counts;
/* The names of the first allocating functions without a hook that were handed out; NULL behind the last. */
extern const char *hri_door_unknown[9];

/* Called by the code in dlsym.c: the address to answer with, or NULL to jump on. */
void *hri_dlsym_pick(void *handle, const char *name);
/* The real dlsym; set by hri_dlsym_pick before it returns. */
extern void *(*hri_dlsym_real)(void *handle, const char *name);

#endif
