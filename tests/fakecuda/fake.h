/* A CUDA driver of our own for tests: libcuda.so.1, libnvidia-ml.so.1 and libnvrtc.so.13 over host memory.
 *
 * What it is for: the whole CUDA path of Headroom runs in CI on machines without a GPU, and strictly: each misuse that
 * the real driver documents is answered with its error, capacity is shared by all processes, and everything can be made
 * to fail.  The functions are those of src/device/cuda/cuda_api.def and nvml_api.def, so that no list can drift.
 *
 * Environment (read once a process, at cuInit or nvmlInit):
 *   FAKECUDA_STATE      the file that all processes share; default: fakecuda-<uid> in XDG_RUNTIME_DIR or /tmp
 *   FAKECUDA_DEVICES    how many devices (1 to 8; default 1); 0: no device
 *   FAKECUDA_CAPACITY   bytes of each device, as "4GiB" (default) or a list "4GiB,512MiB"; the last one repeats
 *   FAKECUDA_CONTEXT    what a context takes of them; default 64MiB
 *   FAKECUDA_STACK      what the stacks of kernels take more, while their limit is the usual 1,024 bytes; default 0
 *   FAKECUDA_LOCAL      bytes of stack that every kernel says it needs; default 0
 *   FAKECUDA_SHARED     bytes of shared memory that every kernel says it declares; default 0
 *   FAKECUDA_LAZY       what a context takes more at its first fill; default 2MiB
 *   FAKECUDA_FAIL       "cuMemCreate:17" fails the 17th call once, "cuMemCreate:17+" from there on, "cuInit:1=803"
 *                       with that error; several with commas between
 *   FAKECUDA_DELAY_US   every piece of queued work starts that much later; default 0
 *   FAKECUDA_ORDER      "reverse": threads and blocks of kernels run from the last to the first, and side branches of
 *                       graphs as early as they may, not as late: what differs between the two orders is a race
 *   FAKECUDA_VERSION    of the driver, as "12.2"; default 13.0.  fakecuda-11/ is a driver that lacks cuGetProcAddress_v2
 *   FAKECUDA_KILL       "cuMemAlloc:3" kills the process at the third call, "cuMemAlloc:3after" behind it
 *   FAKECUDA_HOST_NUMA  "refuse": memory of the host is not to be had by cuMemCreate, as in many containers
 *   FAKECUDA_DRAIN_MS   how long the memory of a killed process stays taken; default 0
 *   FAKECUDA_POOL_CHUNK the step in which memory pools grow; default 32MiB
 *   FAKECUDA_CXX        the compiler of kernels; default g++, then c++
 *   FAKECUDA_NVML_PIDS  "hide" or "translate": what NVML does with process numbers in some containers
 *   FAKECUDA_MODEL      the name of every device; default "Fake GPU 0", "Fake GPU 1" ...: no two are of one model
 *   FAKECUDA_COMPUTE    the capability of every device, as "8.0"; default 9.0
 *   FAKECUDA_PEERS      "none": no device may use another one's memory; "pcie": without NVLink
 *   FAKECUDA_REPORT     a file that gets fakecuda_report()'s text when the process ends, and how often each function was called
 *   CUDA_VISIBLE_DEVICES  as the real driver: numbers or GPU-... names, cut at the first wrong one
 * Devices, capacities and context costs are those of the first process; they hold until the last one has gone.
 *
 * Device memory is a memfd that only the fake copy engine touches (pread, pwrite): the addresses that the program gets
 * are readable only while a kernel runs, and cost no resident memory until then.  A page mapped at two addresses is one
 * page.  Kernels are compiled by g++ and run thread by thread (nvrtc.c, module.c, emulate.c).  Work on an address that is not mapped, or has no access, is an asynchronous fault, and the context is lost. */
#ifndef FAKECUDA_FAKE_H
#define FAKECUDA_FAKE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "device/cuda/cuda_min.h"
#include "foreign.h"

#define FAKE_API __attribute__((visibility("default")))

enum { FAKE_DEVICES = 8, FAKE_PROCESSES = 256, FAKE_PAGE = 2 << 20, FAKE_SHARED_MAX = 227 << 10 };

/* ---- state.c: what all processes share ---- */

typedef struct fake_slot {
    int64_t pid;         /* 0: free */
    uint64_t started_at; /* tells a process from a later one of the same number */
    uint64_t dead_at_ms; /* seen dead; its memory stays for drain_ms more */
    uint64_t bytes[FAKE_DEVICES];
    uint64_t host_bytes; /* of handles and pools at the host */
} fake_slot;

typedef struct fake_state { /* tests/regress/f18_02_nccl.c reads peak at its place in the file */
    uint64_t magic;
    uint64_t devices, context_bytes, stack_bytes, local_bytes, shared_bytes, lazy_bytes, drain_ms;
    uint64_t capacity[FAKE_DEVICES];
    uint64_t peak[FAKE_DEVICES];
    uint64_t refused[FAKE_DEVICES];      /* how often there was not enough */
    uint64_t process_peak[FAKE_DEVICES]; /* the most that one process had */
    uint64_t host_peak;                  /* of all processes together */
    fake_slot slots[FAKE_PROCESSES];
} fake_state;

/* Opens the state file; with `join` also takes a slot.  0 on success. */
int fake_state_open(int join);
/* Gives the slot back.  The mapping stays. */
void fake_state_leave(void);
/* All of the following lock.  take: 0, or -1 when the capacity does not allow it. */
int fake_state_take(int device, uint64_t bytes);
void fake_state_give(int device, uint64_t bytes);
uint64_t fake_state_used(int device);
/* Memory of the host that a device sees: counted, never refused. */
void fake_state_host(int64_t more_bytes);
uint64_t fake_state_host_used(void);
uint64_t fake_state_host_peak(void);
uint64_t fake_state_peak(int device, int reset);
uint64_t fake_state_refused(int device);
uint64_t fake_state_process_peak(int device);
uint64_t fake_state_capacity(int device);
uint64_t fake_state_devices(void);
uint64_t fake_state_context_bytes(void);
uint64_t fake_state_stack_bytes(void);
uint64_t fake_state_local_bytes(void);
uint64_t fake_state_shared_bytes(void);
uint64_t fake_state_lazy_bytes(void);
/* Copies (pid, bytes) of the processes on a device; returns how many there are. */
unsigned fake_state_processes(int device, int64_t *pids, uint64_t *bytes, unsigned room);
/* "64MiB" -> bytes; `otherwise` for NULL or nonsense. */
uint64_t fake_bytes(const char *text, uint64_t otherwise);
uint64_t fake_env_bytes(const char *name, uint64_t otherwise);

/* The bus id and the UUID of a device, the same in both libraries. */
void fake_bus_id(int device, char *buf, size_t size);
void fake_uuid(int device, unsigned char out[16]);
void fake_uuid_text(int device, char *buf, size_t size);

/* ---- one lock for everything inside a process, and the objects ---- */

extern pthread_mutex_t fake_lock;
extern pthread_cond_t fake_changed; /* any queue moved */

enum { FAKE_PROCESSORS = 4, FAKE_THREADS = 2048, FAKE_LIMITS = 3 };

/* A context: alive while it is retained; one that was created is retained once. */
struct CUctx_st {
    int device; /* number of the shared state */
    int retains;
    int owed;     /* releases that a reset has made needless */
    int warm;     /* the lazy bytes are taken */
    CUresult bad; /* sticky: an asynchronous fault happened in it */
    uint64_t taken_bytes;
    uint64_t limit[FAKE_LIMITS];      /* 0: the usual */
    int64_t limit_bytes[FAKE_LIMITS]; /* of them, what limits cost beside the usual ones */
    struct CUctx_st *next;
};

/* The device number behind an ordinal, or -1; and back. */
int fake_device_of(CUdevice ordinal);
int fake_ordinal_of(int device);
/* CUDA_SUCCESS with the current context, or why there is none.  Under the lock. */
CUresult fake_current(struct CUctx_st **out);

/* What the process still has; under no lock. */
typedef struct fake_counts {
    int64_t reservations, handles, mappings, pinned, streams, events, modules, graphs, contexts;
} fake_counts;
extern fake_counts fake_live; /* under the lock */

/* memory.c: whose work this thread does now: only what that device may use is there.  -1: anybody's. */
extern _Thread_local int fake_at_work;
/* The engine's access to device memory.  0, or -1 for an address that faults. */
int fake_memory_copy(uint64_t to, uint64_t from, uint64_t bytes);
int fake_memory_fill(uint64_t to, unsigned char value, uint64_t bytes);
/* Makes device memory readable and writable for a kernel, and unreadable again after the last close. */
void fake_memory_open(void);
void fake_memory_close(void);
/* What is mapped at `at`: its device, or -1 for the host; *base and *bytes are the mapping.  -2: nothing.  Under the lock. */
int fake_memory_place(uint64_t at, uint64_t *base, uint64_t *bytes, uint32_t *access);
/* Whether a fill may name this address: reserved or pinned.  Under the lock. */
int fake_memory_fillable(uint64_t at);

/* driver.c: 13000 for 13.0. */
int fake_version(void);
/* memory.c: a reservation; low: at an address of 32 bits. */
CUresult fake_reserve(CUdeviceptr *at, size_t bytes, size_t alignment, int low);
/* memory.c, for share.c: handles.  make: without any accounting. */
typedef struct fake_handle {
    CUmemAllocationProp prop;
    uint64_t bytes, multicast_bytes;
    int device; /* -1: of the host, or of no device */
} fake_handle;
CUresult fake_handle_make(CUmemGenericAllocationHandle *handle, uint64_t bytes, int device,
                          const CUmemAllocationProp *prop);
int fake_handle_look(CUmemGenericAllocationHandle handle, fake_handle *out);
void fake_handle_mark(CUmemGenericAllocationHandle handle, int imported, uint64_t multicast_bytes);
/* plain.c: the piece of plain memory that `at` lies in; 0 when there is none.  Under the lock. */
int fake_piece_range(uint64_t at, uint64_t *base, uint64_t *bytes);
/* stream.c: waits until nothing is queued in the context.  Under the lock. */
void fake_streams_drain(const struct CUctx_st *context);
/* pool.c, for share.c: the device of a pool that may be shared, or -1; a pool that was. */
int fake_pool_share(CUmemoryPool pool);
CUmemoryPool fake_pool_imported(int device);
/* pool.c: a stream was synchronised, pools may shrink.  Under the lock. */
void fake_pools_synced(void);
/* pool.c: a graph with so much memory is launched; 0, or -1 when there is none.  Under the lock. */
int fake_graph_memory(int device, uint64_t bytes);

/* A context goes, and its streams, code, executable graphs (under the lock) and plain memory (not under it). */
void fake_streams_end(struct CUctx_st *context);
void fake_modules_end(const struct CUctx_st *context);
void fake_graphs_end(const struct CUctx_st *context);
void fake_pieces_end(const struct CUctx_st *context);

/* The functions behind the exported ones: the exported ones check cuInit and the failure schedule first. */
#define HRI_CU_FN(NEED, NAME, FEATURE, PARAMETERS, ARGUMENTS)                                      \
    FAKE_API CUresult NAME PARAMETERS;                                                             \
    CUresult fake_##NAME PARAMETERS;
#include "fake_api.def"
#undef HRI_CU_FN
#define HRI_NVML_FN(RETURNS, NAME, PARAMETERS) FAKE_API RETURNS NAME PARAMETERS;
#include "device/cuda/nvml_api.def"
#undef HRI_NVML_FN

/* ---- for tests, by dlsym: their presence tells the fake driver from a real one ---- */

/* Of the whole device, all processes; `device` counts without CUDA_VISIBLE_DEVICES. */
FAKE_API uint64_t fakecuda_used_bytes(int device);
/* The most that used_bytes has been since the first process came, or since the last reset. */
FAKE_API uint64_t fakecuda_peak_bytes(int device, int reset);
/* How often the device had less than was asked for, and the most that one process ever had. */
FAKE_API uint64_t fakecuda_refused(int device);
FAKE_API uint64_t fakecuda_process_peak(int device);
/* Of the host, by cuMemCreate and pools, of all processes: now, and at most. */
FAKE_API uint64_t fakecuda_host_bytes(int unused);
FAKE_API uint64_t fakecuda_host_peak(int unused);
/* What this process has not given back, in words ("" when nothing), contexts excepted.  Returns how many things. */
FAKE_API int64_t fakecuda_report(char *buf, size_t size);
/* Replaces FAKECUDA_FAIL's schedule; calls are counted from 1 again.  No other thread may be in the driver. */
FAKE_API void fakecuda_schedule(const char *text);
/* How often the schedule was asked for this function ("cuMemCreate"); -1: no such function. */
/* The driver takes memory by itself, as for a stack; 0 or -1. */
FAKE_API int fakecuda_take(int device, uint64_t bytes);
FAKE_API int64_t fakecuda_calls(const char *name);

#endif
