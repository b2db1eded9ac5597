/* Work on a GPU, as ops and the executor see it: kernels from source text, matrix products, convolutions, attention,
 * and whole steps captured and replayed.
 *
 * The one idea: a kernel's `launch` function is called once for every call of the plan while a step is captured, with the
 * addresses already bound; it puts launches into the queue in use and returns.  Replays go round it.  So nothing here
 * has to be fast but the launches themselves, and everything found on the way (compiled modules, algorithms, engines)
 * is kept by key in the hri_gpu for the next call with the same signature.
 *
 * Set-up and memory.  Compiling, loading and choosing by timing happen in the first call with a signature ("warm-up");
 * they may take device memory for modules, which is `runtime` and is measured.  Work space is never allocated here: its
 * size is asked for before planning (the _workspace functions), and the caller gives the memory.
 *
 * Sources.  src/ops/cuda/NAME.cu is CUDA C text, put into the library by the build as hri_cu_NAME after the text of
 * prelude.cuh, which stands before every source.  NVRTC compiles it for the device that is there; cubins are cached on
 * disk.  HRI_EMULATED is defined where the tests run the same text on the host.
 *
 * Threads: one hri_gpu belongs to one thread at a time. */
#ifndef HRI_DEVICE_GPU_H
#define HRI_DEVICE_GPU_H

#include <stdint.h>
#include <headroom/device.h>
#include <headroom/graph.h>
#include "base/prose.h"

typedef struct hri_gpu hri_gpu;

/* One algorithm of a choice: `group` is the first candidate with the same bits, negative when it failed. */
typedef struct hri_gpu_candidate {
    int group;
    float ms; /* negative: not timed */
    const char *tag;
} hri_gpu_candidate;
/* With a report all candidates are timed, not those of the chosen group alone.  `count` is 0 when what was chosen runs. */
typedef void hri_gpu_report_fn(void *user, const char *key, const hri_gpu_candidate *candidates,
                               uint32_t count, uint32_t chosen);

typedef struct hri_gpu_options {
    const char *
        cache; /* folder of compiled kernels and choices; NULL: the default one, "": none is kept */
    int no_cublaslt, no_cudnn; /* as if the library were missing */
    int exact_f32;             /* 1: f32 products in f32 arithmetic; 0: tf32 is allowed */
    int fastest;               /* 1: choices by time alone; bits then follow them */
    uint32_t candidates;       /* of a choice; 0: the usual number */
    const char *choices;       /* a file of choices that come before all others; NULL: none */
    hri_gpu_report_fn *report; /* told of every choice that is made; NULL: nobody */
    void *report_user;
} hri_gpu_options;

/* HR_E_UNSUPPORTED for a device that runs no kernels (host, null) or without NVRTC; *why says which.  HR_E_FORMAT for a
 * file of choices that is none. */
HR_MUST_CHECK hr_status hri_gpu_open(hr_device *device, const hri_gpu_options *options,
                                     hri_gpu **out, hri_prose *why);
/* NULL is allowed.  Unloads all modules. */
void hri_gpu_close(hri_gpu *gpu);
/* Launches go there from now on.  The queue is the caller's. */
void hri_gpu_use(hri_gpu *gpu, hr_queue *queue);
hr_device *hri_gpu_device(const hri_gpu *gpu);
/* Those of its device. */
const struct hri_kernels *hri_gpu_kernels(const hri_gpu *gpu);
/* What failed last, in words ("batch_norm.cu:17: ..."); "" when nothing did. */
const char *hri_gpu_detail(const hri_gpu *gpu);
/* Multiprocessors; for grids. */
uint32_t hri_gpu_processors(const hri_gpu *gpu);
/* Dynamic shared memory that a block may have. */
uint32_t hri_gpu_shared_bytes(const hri_gpu *gpu);
/* Bytes of shared memory that a block may have, on a GPU with products of warpgroups (Hopper); 0 on all others. */
uint64_t hri_gpu_warpgroup_shared(const hri_gpu *gpu);

/* For other libraries: its device's context is current from enter to leave, and the driver's stream behind a queue. */
HR_MUST_CHECK hr_status hri_gpu_enter(hri_gpu *gpu, int *pushed);
void hri_gpu_leave(hri_gpu *gpu, int pushed);
void *hri_gpu_native(hri_gpu *gpu, hr_queue *queue);

/* ---- kernels of our own ---- */

typedef struct hri_gpu_source {
    const char *name; /* "batch_norm": for errors and the cache */
    const char *text;
} hri_gpu_source;

/* The source src/ops/cuda/NAME.cu. */
#define HRI_CU(NAME) extern const hri_gpu_source hri_cu_##NAME

typedef struct hri_gpu_grid {
    uint32_t x, y, z;      /* blocks; 0 counts as 1 */
    uint32_t threads;      /* of a block, along x */
    uint32_t shared_bytes; /* dynamic shared memory; over 48 KiB is asked for from the driver */
} hri_gpu_grid;

/* Launches `kernel` of `source` compiled with `defines` ("-DROWS=4 -DT=hr_bf16"; NULL: none).  args[i] points to the
 * i-th argument, as cuLaunchKernel takes them.  A grid without blocks or threads is HR_OK and launches nothing. */
HR_MUST_CHECK hr_status hri_gpu_launch(hri_gpu *gpu, const hri_gpu_source *source,
                                       const char *defines, const char *kernel,
                                       const hri_gpu_grid *grid, void *const *args);
/* The same for a text made at run time (a fused chain); `name` is for errors.  Products and sums are rounded one by one.
 * quick: quotients to 2 ulp, for results that are rounded to fewer bits anyway. */
HR_MUST_CHECK hr_status hri_gpu_launch_text(hri_gpu *gpu, const char *name, const char *text,
                                            int quick, const char *kernel, const hri_gpu_grid *grid,
                                            void *const *args);
/* HRI_GPU_ARGS(&a, &b) is the args array of a launch. */
#define HRI_GPU_ARGS(...) ((void *const[]){__VA_ARGS__})
HR_MUST_CHECK hr_status hri_gpu_fill(hri_gpu *gpu, hr_addr to, uint8_t value, uint64_t bytes);
HR_MUST_CHECK hr_status hri_gpu_copy(hri_gpu *gpu, hr_addr to, hr_addr from, uint64_t bytes);

/* How a tensor of four dimensions lies, for copies of whole tiles by the copy engine (Hopper); a kernel has it as a parameter (HR_TABLE).
 * Sizes are elements, the innermost first; strides bytes from the second dimension on, multiples of 16, as is `at`; a copy brings a box
 * of at most 128 bytes by 256 of each other dimension, in rows of 128 bytes whose pieces of 16 are swizzled by the row; what is outside
 * is 0. */
typedef struct hri_gpu_map {
    _Alignas(64) uint64_t opaque[16];
} hri_gpu_map;
/* 0: there are none, on this GPU or by this driver. */
int hri_gpu_maps(const hri_gpu *gpu);
HR_MUST_CHECK hr_status hri_gpu_map_make(hri_gpu *gpu, hri_gpu_map *out, hr_type type, hr_addr at,
                                         const uint64_t sizes[4], const uint64_t strides[3],
                                         const uint32_t box[4]);

/* Many copies in one launch, within the device or from one that lets this one read.  Ranges do not overlap. */
enum { HRI_GPU_RANGES = 170 }; /* of a launch, at most */
typedef struct hri_gpu_range {
    hr_addr to, from;
    uint64_t bytes;
} hri_gpu_range;
HR_MUST_CHECK hr_status hri_gpu_copy_ranges(hri_gpu *gpu, const hri_gpu_range *ranges,
                                            uint32_t count);
/* Loads what that needs, so that it is there when runtime is measured. */
HR_MUST_CHECK hr_status hri_gpu_load_ranges(hri_gpu *gpu);

/* ---- matrix products ---- */

/* y (batch, M, N) = a (batch, M, K) b (batch, K, N) [+ y] [+ bias (N)], row-major; a is (K, M) in memory with ta, b is
 * (N, K) with tb.  Sums are f32. */
typedef enum hri_gpu_epilogue {
    HRI_GPU_PLAIN = 0,
    HRI_GPU_BIAS /* of `bias_type` */
} hri_gpu_epilogue;

typedef struct hri_gpu_matmul {
    hr_type a_type, b_type, y_type, bias_type;
    uint8_t ta, tb;
    uint8_t add;      /* y is added to */
    uint8_t epilogue; /* hri_gpu_epilogue */
    int64_t batch, m, n, k;
    int64_t lda, ldb, ldy;          /* elements from row to row as they lie */
    int64_t a_step, b_step, y_step; /* elements from matrix to matrix; 0: the same one */
} hri_gpu_matmul;

/* Work space that pays for its memory: ops pass these as `limit`. */
enum {
    HRI_GPU_LIMIT_MATMUL = 32 << 20,
    HRI_GPU_LIMIT_CONV = 256 << 20,
    HRI_GPU_LIMIT_ATTENTION = 640 << 20
};

/* Bytes that the product will ask for, at most `limit`; 0 when it needs none. */
uint64_t hri_gpu_matmul_workspace(hri_gpu *gpu, const hri_gpu_matmul *x, uint64_t limit);
/* Never HR_E_UNSUPPORTED: without cuBLASLt, or for what it refuses, our own kernel does it. */
HR_MUST_CHECK hr_status hri_gpu_matmul_run(hri_gpu *gpu, const hri_gpu_matmul *x, hr_addr a,
                                           hr_addr b, hr_addr bias, hr_addr y, hr_addr workspace,
                                           uint64_t workspace_bytes);

/* ---- convolutions ---- */

typedef enum hri_gpu_conv_kind {
    HRI_GPU_CONV_FORWARD = 0, /* x, w -> y */
    HRI_GPU_CONV_INPUT,       /* dy, w -> dx */
    HRI_GPU_CONV_WEIGHT       /* x, dy -> dw */
} hri_gpu_conv_kind;

/* x (N, H, W, C), y (N, P, Q, O).  w lies as (KH, KW, C / groups, O), as everywhere in Headroom; what a library wants
 * otherwise is turned round in work space. */
typedef struct hri_gpu_conv {
    uint8_t kind;   /* hri_gpu_conv_kind */
    hr_type type;   /* of x, w, y */
    hr_type w_type; /* of dw with CONV_WEIGHT; else as type */
    int64_t n, h, w, c, o, p, q, kh, kw;
    int64_t stride_h, stride_w, pad_top, pad_left, pad_bottom, pad_right, dilation_h, dilation_w,
        groups;
} hri_gpu_conv;

/* The limit that ops pass: HRI_GPU_LIMIT_CONV, or half of what the operands take where that is more, so that a large
 * batch finds the engines that a small one has. */
uint64_t hri_gpu_conv_limit(const hri_gpu_conv *x);
uint64_t hri_gpu_conv_workspace(hri_gpu *gpu, const hri_gpu_conv *x, uint64_t limit);
/* The two operands that are read and the one that is written, in the order of the kind.  Never HR_E_UNSUPPORTED. */
HR_MUST_CHECK hr_status hri_gpu_conv_run(hri_gpu *gpu, const hri_gpu_conv *x, hr_addr first,
                                         hr_addr second, hr_addr result, hr_addr workspace,
                                         uint64_t workspace_bytes);

/* ---- attention ---- */

/* q (B, H, T, D), k and v (B, H, S, D) by their strides in elements; o like q by its own; statistics (B, H, T) f32: the
 * logarithm of each row's sum of exponentials. */
typedef struct hri_gpu_attention {
    hr_type type;
    int64_t b, heads, t, s, d;
    int64_t q_stride[3], k_stride[3], v_stride[3],
        o_stride[3]; /* of batch, head, row; the last one is 1 */
    int64_t dq_stride[3], dk_stride[3], dv_stride[3], do_stride[3]; /* backward */
    float scale;
    uint8_t causal, backward;
    uint8_t lengths; /* of queries and keys, for each sample, stand in the device's memory */
    uint8_t
        masked; /* numbers of mask_type are added to the scaled scores: (B or 1, H or 1, T or 1, S), close together */
    hr_type mask_type;
    int64_t mask_dim[3];
    float
        low; /* forward: masked scores are no less, so that minus infinity is a number like others */
} hri_gpu_attention;

typedef struct hri_gpu_attention_at {
    hr_addr q, k, v, o, stats, dout, dq, dk, dv, mask;
    hr_addr of_queries, of_keys; /* with lengths: (B) i32 each */
} hri_gpu_attention_at;

/* What is made up and what is looked at when one of the ways to do it is chosen; arrays of the sizes below. */
enum { HRI_GPU_ATTENTION_OPERANDS = 7, HRI_GPU_ATTENTION_RESULTS = 3 };
struct hri_gpu_contest;
struct hri_gpu_operand;
struct hri_gpu_result;
void hri_gpu_attention_contest(const hri_gpu_attention *x, const hri_gpu_attention_at *at,
                               struct hri_gpu_contest *c, struct hri_gpu_operand *operands,
                               struct hri_gpu_result *results);

/* HR_E_UNSUPPORTED: cuDNN is missing or refuses it; then the op's own kernels do it.  Of a query that the mask hides everything
 * from, o is what all keys give together and stats about `low`: who calls mends them. */
HR_MUST_CHECK hr_status hri_gpu_attention_workspace(hri_gpu *gpu, const hri_gpu_attention *x,
                                                    uint64_t *out);
HR_MUST_CHECK hr_status hri_gpu_attention_run(hri_gpu *gpu, const hri_gpu_attention *x,
                                              const hri_gpu_attention_at *at, hr_addr workspace);

/* ---- choices ---- */

/* Which of several algorithms does a job is chosen by a rule that no clock can sway (device/cuda/gpu_tune.h): all of
 * them run once on operands made up from the shape alone, those that give the same bits are a group, the group is chosen
 * by the order in which the candidates stand, and times only pick the fastest inside it. */

/* Runs way `index` once, in the queue in use, and leaves what it reads as it was. */
typedef hr_status hri_gpu_try_fn(void *user, uint32_t index);

/* What is filled before candidates run.  The element k = (i mod period) / stride of `extent` is the inner dimension's. */
typedef struct hri_gpu_operand {
    hr_addr at;
    hr_type type;
    int8_t top; /* numbers are under 2^(top + 1) */
    uint8_t
        negate; /* of the two operands of a product, this one's second half is the first one's negative */
    int64_t count, stride, period, extent;
} hri_gpu_operand;

typedef struct hri_gpu_result {
    hr_addr at;
    uint64_t bytes; /* even */
} hri_gpu_result;

typedef struct hri_gpu_contest {
    uint32_t count; /* candidates, at most HRI_GPU_CONTEST_MOST */
    uint32_t
        first; /* the one whose bits are wanted, if it runs; the others follow in their order */
    hri_gpu_try_fn *run;
    void *user;
    const hri_gpu_operand *operands;
    const hri_gpu_result *results;
    uint32_t operand_count, result_count;
} hri_gpu_contest;
enum { HRI_GPU_CONTEST_MOST = 16 };

/* A trial: until it ends, everything that calls read or write is memory that may be spoiled, and choices are made.  `at`
 * is HRI_GPU_TRIAL_BYTES of device memory; 0 ends it.  Outside a trial, what was not chosen takes its first candidate. */
enum { HRI_GPU_TRIAL_BYTES = 4096 };
void hri_gpu_trial(hri_gpu *gpu, hr_addr at);
/* The next launch is of several calls that could also be launched one by one: outside a trial, a kernel that wants a larger stack
 * than others had is HR_E_UNSUPPORTED then, because nobody has counted that memory.  A GPU of NULL has none. */
void hri_gpu_set_together(hri_gpu *gpu, int together);

/* Reals (f32, bf16 or f16) of either sign under 2 that differ from one another, in the queue in use.  Products of equal numbers take
 * less power than those of a step, and a GPU's clock follows the power: times of kernels are of such numbers. */
HR_MUST_CHECK hr_status hri_gpu_make_up(hri_gpu *gpu, hr_addr at, hr_type type, int64_t count);

/* One of the ways to do what `key` names (with its library's version, where one is involved): chosen in the first trial,
 * then kept, on disk too.  Ways that fail are left out.  HR_E_BUSY outside a trial when nothing was chosen yet;
 * HR_E_UNSUPPORTED when all failed. */
HR_MUST_CHECK hr_status hri_gpu_choose(hri_gpu *gpu, const char *key,
                                       const hri_gpu_contest *contest, uint32_t *out);
/* What was chosen; -1: nothing yet. */
int hri_gpu_chosen(hri_gpu *gpu, const char *key);

/* `gpu` does everything as `like`, of the same kind, has chosen to: before its first call. */
HR_MUST_CHECK hr_status hri_gpu_follow(hri_gpu *gpu, const hri_gpu *like);

/* What the bits of results stand on besides the program and the GPU's model.  Choices are noted while `on` when they are
 * used outside trials; they are what a run that goes on elsewhere must have too. */
void hri_gpu_note(hri_gpu *gpu, int on);
typedef struct hri_gpu_environment {
    char cublaslt[24], cudnn[24]; /* versions; "none" */
    char choices[40];             /* the digest of what the noted choices compute */
    uint32_t noted, untried;      /* choices; of them, those that no trial made */
} hri_gpu_environment;
void hri_gpu_environment_get(hri_gpu *gpu, hri_gpu_environment *out);
/* The noted choices as a file for hri_gpu_options.choices. */
HR_MUST_CHECK hr_status hri_gpu_choices_write(hri_gpu *gpu, const char *path, hri_prose *why);

/* ---- whole steps ---- */

typedef struct hri_gpu_graph hri_gpu_graph;

/* Everything put into the queue in use, and into queues joined to it by events, between begin and end becomes one
 * graph.  Nothing runs meanwhile.  A failure between them ends the capture. */
HR_MUST_CHECK hr_status hri_gpu_capture_begin(hri_gpu *gpu);
HR_MUST_CHECK hr_status hri_gpu_capture_end(hri_gpu *gpu, hri_gpu_graph **out);
/* After a failure inside: leaves the queue usable, drops what was captured. */
void hri_gpu_capture_drop(hri_gpu *gpu);
HR_MUST_CHECK hr_status hri_gpu_graph_launch(hri_gpu *gpu, hri_gpu_graph *graph);
void hri_gpu_graph_destroy(hri_gpu *gpu, hri_gpu_graph *graph);

#endif
