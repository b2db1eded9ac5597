/* Jobs: what the commands do, as library calls.
 *
 *   hr_job_options o = {.size = sizeof o, .model = "resnet18:size=64", .data = "images:flowers", .val_split = 0.1,
 *                       .batch = 32, .epochs = 10, .budget = "900MiB", .folder = "runs/flowers"};
 *   hr_plan *plan;
 *   hr_job_plan(ctx, &o, &plan, &why);          inspects model, data and device; the verdict is in the plan
 *   ...                                         plan.h: the verdict, every byte, ways out; hr_job_try runs a few steps
 *   hr_plan_destroy(plan);
 *
 * Always two steps: plan, then do.  A job that does not fit is an ordinary result of the first (plan.h has the minimum,
 * the op that sets it, and ways out) and HR_E_NO_PLAN from the second.  The commands, Python and C programs make the
 * same calls, so they get the same plans, refusals and messages.
 *
 * The library does not print, install signal handlers, or change process state (malloc settings, environment, working
 * directory).  On the host a budget covers the whole process.  Memory that your program allocates after planning is not
 * in the plan: allocate it before, or lease it from the same budget.
 *
 * Losses depend on model, data, training options, batch, micro-batches and seed, and on nothing else: neither on
 * threads, nor on replicas, nor on the budget.  With
 * micro_batches 0 the planner chooses, and a program with a larger runtime may get another number; state the number
 * where histories must be equal.
 *
 * A failure has a status, a sentence (hr_error.message) and a cause (hr_error.cause).  Sentences name options as they are
 * called here, in `backquotes` (`batch=16`) where one does not begin with the name; `start=resume` is HR_START_RESUME.
 *
 * Threads: a plan and everything made from it is used by one thread at a time.  Different plans may be used
 * concurrently, also with the same context and budget. */
#ifndef HEADROOM_JOB_H
#define HEADROOM_JOB_H

#include <headroom/budget.h>
#include <headroom/context.h>
#include <headroom/data.h>
#include <headroom/event.h>
#include <headroom/model.h>
#include <headroom/plan.h>

HR_BEGIN_DECLS

/* ---- training ---- */

typedef enum hr_start {
    HR_START_NEW = 0, /* HR_E_EXISTS if the folder already contains a run */
    HR_START_RESUME,  /* continue from the last checkpoint, or start if there is none */
    HR_START_OVERWRITE
} hr_start;

/* Set size to sizeof(hr_job_options).  Zero is the default in every field except the model.  Strings are copied by
 * hr_job_plan; objects must outlive the plan. */
typedef struct hr_job_options {
    size_t size;
    const char *name; /* in leases, events and messages; NULL: the model's */

    /* What to train: one of these two. */
    const char *model; /* name or file (model.h); classes and size default to the data's */
    const hr_model *custom_model; /* hr_model_define */
    const char
        *training; /* train.h: "optimizer=adamw,rate=3e-4,schedule=cosine,clip=1,precision=bf16" */
    /* Over the model's graph, in order, with ';' between; NULL: none.  "lora:rank=16,alpha=32,layers=c_attn+c_proj,train=head"
     * trains low-rank adapters; "prune:sparsity=0.5:0.8,begin=0,end=3000,every=100" sets small weights to zero while training;
     * "qat:begin=0,norms=300,freeze=400" rounds weights and activations to 8 bits while training:
     * see docs/compression.md. */
    const char *passes;
    const char *init; /* safetensors file to start from; its number of classes may differ */
    double smoothing; /* of labels: 0 to 0.99 */

    /* Data: text (a source, or a pipeline of single samples) or a built pipeline of single samples, whose fields go to
     * the model's inputs of the same names.  A pipeline object brings its own budget, which the plan includes.  Neither
     * is needed for planning and hr_job_try. */
    const char *data, *val_data;
    hr_pipeline *pipeline, *val_pipeline;
    double val_split;           /* fraction of data held out for validation */
    const char *augment;        /* "flip,crop,jitter,randaugment,erase" */
    uint64_t data_budget_bytes; /* of pipelines made from text; 0: two batches */

    /* Sizes and duration. */
    int64_t batch;          /* samples per step; 0: the fastest that fits */
    int64_t val_batch;      /* 0: as in training */
    int64_t micro_batches;  /* 0: fastest that fits; 1: never split; k: about k */
    int64_t accumulate;     /* gradient accumulation: batches per step; 0: 1 */
    uint64_t epochs, steps; /* whichever ends first; both 0: 10 epochs */
    uint64_t seed;
    uint64_t val_every; /* steps between validations; 0: after each epoch */
    uint64_t patience;  /* early stopping after this many validations without improvement; 0: off */
    double min_delta;   /* smallest change (of the loss, or best_by) that counts as improvement */

    /* Where, and within what.  A budget is a size ("900MiB", "1.5GiB", bytes) or a share of the device ("50%"). */
    /* NULL: "host"; "cuda:0"; "cuda:0,cuda:1": replicas on several GPUs of one model, each with this budget; "null:24GiB"
     * plans for an absent device. */
    const char *device;
    const char
        *device_spec; /* speeds of an absent device: "flops=15e12,bandwidth=900e9,runtime=0" */
    const char
        *budget; /* the most that may ever be used; NULL: what the ledger or the device has free */
    const char *host_budget; /* GPU: the same for host memory, offloaded values included */
    hr_budget *ledger; /* shared with other jobs (budget.h): leases what is planned; NULL: none */
    uint64_t wait_ms;  /* for memory held by other jobs */
    const char *spill; /* host: directory for an unnamed file to offload values to */
    const char *plan_file;   /* use and verify a saved plan instead of searching */
    const char *gpu_choices; /* GPU: file of library algorithms to use; written if there is none */
    const char
        *cache; /* directory of measured kernel times; NULL: the user's cache directory; "": none */
    uint64_t effort;  /* search steps; 0: default */
    uint64_t threads; /* CPU threads; 0: one per core */

    /* Output. */
    /* Of checkpoints; created, and locked while training; NULL: none.  A name that ends in "-#" takes the first free number
     * ("runs/flowers-#": runs/flowers-1, then -2), or the last used one to resume. */
    const char *folder;
    uint64_t save_every;   /* steps between checkpoints, in addition to each epoch; 0: off */
    uint64_t save_seconds; /* likewise by time; 0: 600; HR_UNKNOWN: off */
    const char *log, *tensorboard, *svg; /* JSON lines file, event directory, chart */
    uint64_t log_every;                  /* steps between log lines; 0: 1 */

    int32_t start;      /* hr_start */
    int32_t split_norm; /* allow splitting although an op depends on the whole batch (ghost norm) */
    int32_t skip_bad;   /* skip and count unreadable samples */
    int32_t no_offload; /* keep all values on the device */
    int32_t no_measure; /* analytic kernel times: same plan on every machine */
    int32_t exact_f32;  /* GPU: f32 matmuls without tf32 */
    int32_t tune; /* GPU: library algorithms by time alone; results then depend on the choices */
    int32_t grow; /* host: take memory on first use, not at the start */
    int32_t keep_gradients; /* for hr_trainer_backward; their bytes are planned */
    int32_t reserved;

    hr_job_event_fn *on_event; /* during planning and training; may be NULL */
    void *user;

    /* Replicas that share each step; 0: 1.  Each computes some of its micro-batches; losses depend on the number of
     * micro-batches, never on that of replicas.  micro_batches 0 is one per replica.  On the host they are threads of
     * this process, which share its budget; on a GPU they are slices of it, which share that of the device; of an absent device (null:24GiB) each has its own, and so its own budget. */
    int64_t replicas;
    /* "auto", "shm", "tcp" or "mpi": this process is one of several ranks, each with one replica, as the variables of a
     * launcher say (mpirun, srun, torchrun, TF_CONFIG).  The budget is that of each process.  Rank 0 writes checkpoints and
     * logs; the others read the same data.  NULL: replicas are threads. */
    const char *net;
    uint64_t net_deadline_ms; /* of silence, after which a rank counts as gone; 0: 15,000 */
    /* What each replica holds only a slice of: "none" (NULL), "states" (optimizer states and sums of gradients), "weights"
     * (those and the parameters), or "auto": the first of these that fits.  Losses do not depend on it. */
    const char *shard;
    /* Planning alone: the replicas are on as many machines that need not be there, connected by "nvlink", "pcie", "ib",
     * "ethernet", "tcp", "mpi", "shm", or "LATENCY/BANDWIDTH" in seconds and bytes per second.  The budget is that of each. */
    const char *link;
    /* "cross_entropy", "focal[:gamma=2]", "bce", "mse", "mae", "huber[:delta=1]", or "model": its own.  NULL: as the labels
     * are: mse for real numbers, bce for rows of 0 and 1, else the model's.  A target that is missing (a label below 0,
     * a number that is NaN) counts for nothing. */
    const char *loss;
    /* How much each class counts in the loss of training: "auto" (each the same in all) or a file with a weight per line, in
     * the order of the classes, or NAME,WEIGHT.  NULL: as often as it comes. */
    const char *class_weights;
    /* Metrics of each validation in addition to loss and accuracy, by name, with ',' between: of classes "topK", "precision",
     * "recall", "f1" ("dice"), "iou", "auc", each but the first also of one class ("recall:star"); of numbers "mae", "rmse",
     * "r2"; of tokens "perplexity".  hr_trainer_get_metric has their values.  NULL: none. */
    const char *metric;
    const char *
        best_by; /* the metric that `best`, patience and the schedule plateau go by; NULL: the loss */
    /* Alpha of Beta(alpha, alpha): samples of a batch are mixed in pairs, or a rectangle of one is put into the other, and
     * labels become distributions, as in torchvision.transforms.v2.MixUp and CutMix.  Both: one of them by a coin.  0: off. */
    double mixup, cutmix;
    /* Seeds of parts, "data=1,init=2,dropout=3,augment=4": order and split of the data, first parameters, random ops of the model,
     * augmentation and mixing.  One that is not named, or all with NULL: `seed`. */
    const char *seeds;
    /* 1: the caller has looked, and no whole number in the data is negative, so all labels count.  Then a loss of several parts is
     * split into micro-batches where one of them is a mean over labels. */
    int32_t labels_count;
    int32_t reserved_end;
} hr_job_options;

/* HR_OK whether it fits or not, see hr_plan_summary.fits.  Takes no memory but its own records, and no lease but
 * "runtime" (budget.h).
 * Otherwise: HR_E_INVALID, HR_E_NOT_FOUND, HR_E_FORMAT, HR_E_SHAPE or HR_E_RANGE for model, data or options;
 * HR_E_EXISTS for the folder; HR_E_CANCELLED.  *why (may be NULL) has the message and its cause.  The context must
 * outlive the plan. */
HR_API HR_MUST_CHECK hr_status hr_job_plan(hr_ctx *ctx, const hr_job_options *options,
                                           hr_plan **out, hr_error *why);

typedef enum hr_explore {
    HR_EXPLORE_BATCH = 1,   /* summary.largest_batch */
    HR_EXPLORE_CHOICES = 2, /* a few other budgets */
    HR_EXPLORE_CURVE = 4    /* time over budget, up to 16 points */
} hr_explore;

/* Adds more answers to a plan, with reduced effort each.  `what`: hr_explore values, added.  (Ways out of a refusal are
 * always there.)  HR_E_BUSY after the plan was tried or a trainer was opened. */
HR_API HR_MUST_CHECK hr_status hr_job_explore(hr_plan *plan, uint32_t what, hr_error *why);
/* Plans the same job with the changes of a way out.  The refused plan stays valid. */
HR_API HR_MUST_CHECK hr_status hr_job_plan_way(const hr_plan *refused, size_t way, hr_plan **out,
                                               hr_error *why);

/* Set size to sizeof(hr_try_result). */
typedef struct hr_try_result {
    size_t size;
    uint64_t steps; /* that ran */
    uint64_t planned_arena_bytes, measured_arena_bytes;
    uint64_t planned_peak_bytes, measured_peak_bytes;
    double seconds;
} hr_try_result;

/* Runs a few steps on synthetic data and measures, instead of training.  `losses` (may be NULL) has room for `steps`
 * numbers.  Frees the plan's details first, as opening a trainer does.  HR_E_NO_PLAN: does not fit.  HR_E_UNSUPPORTED:
 * the device runs no kernels.  HR_E_LIMIT: this process has grown since planning.  HR_E_BUSY: the plan was used before. */
HR_API HR_MUST_CHECK hr_status hr_job_try(hr_plan *plan, uint64_t steps, float *losses,
                                          hr_try_result *result, hr_error *why);

/* ---- failures ---- */

/* Who has to act: a status alone cannot tell a mistyped option from a broken image in the middle of an epoch.  In
 * hr_error.cause, set by all calls of this header.  The one table behind exit codes and Python's exception classes. */
typedef enum hr_cause {
    HR_CAUSE_NONE = 0,
    HR_CAUSE_NO_FIT,    /* does not fit, or memory is held by others   exit code 1 */
    HR_CAUSE_CANCELLED, /*                                             exit code 1 */
    HR_CAUSE_USAGE,     /* options, model, missing files               exit code 2 */
    HR_CAUSE_DATA,      /* a bad sample or file                        exit code 2 */
    HR_CAUSE_TRAINING,  /* the loss is not finite                      exit code 3 */
    HR_CAUSE_MACHINE,   /* device, disk, host memory                   exit code 3 */
    HR_CAUSE_BUG        /* in Headroom                                 exit code 3 */
} hr_cause;

HR_END_DECLS
#endif
