/* What is planned: a model or a problem from a file, a device, a budget; and one summary of an answer.
 *
 * The one idea: every way of asking (one budget, a few beside one another, a curve) is a search that ends in a row of
 * numbers.  A model is planned with fit/fit.h; a problem of another system has no model, no batch and no runtime, and
 * its budget bounds the arena alone.
 *
 * Calls return a status; hri_plan_job.why has the sentence and its cause. */
#ifndef HRI_JOB_PLAN_JOB_H
#define HRI_JOB_PLAN_JOB_H

#include "base/alloc.h"
#include "base/text.h"
#include "fit/fit.h"
#include "fit/timing.h"
#include "govern/admission.h"
#include "job/why.h"
#include "net/who.h"
#include "run/holding.h"
#include "step/objective.h"

enum {
    HRI_PLAN_EFFORT = 16000000, /* steps of search, where none are given */
    HRI_PLAN_REPLICAS = 65536   /* the most */
};
/* What planning may take for its records, however small the budget is: docs/where-the-bytes-go.md */
enum { HRI_PLANNING_LEAST = 2816 << 10 };

/* Names by number, NULL at the end. */
extern const char *const hri_plan_optimizers[], *const hri_plan_precisions[],
                                                    *const hri_plan_moments[];

/* One plan in numbers; the parts add up to peak_bytes. */
typedef struct hri_plan_row {
    bool fits;
    uint64_t budget_bytes; /* asked for; 0: none */
    uint64_t peak_bytes, runtime_bytes, persistent_bytes, arena_bytes;
    uint64_t live_peak_bytes, input_bytes;
    uint64_t
        host_peak_bytes; /* of this process on the host; of a device that is not there: what waits */
    uint64_t planning_bytes; /* the most that the process takes while it plans; 0: not counted */
    uint32_t threads;        /* of the host; 0: not the host's */
    uint64_t net_bytes;      /* that a replica receives in a step; 0: there are no several */
    uint64_t net_count;      /* exchanges and gathers of a step, where they are planned */
    double net_ns;           /* and their time on the wire */
    double net_exposed_ns;   /* of that, while nothing is computed */
    uint64_t replica_bytes;  /* of each replica of this process; 0: there are no several */
    uint32_t micro_batches;
    int64_t part;
    uint64_t recomputed_ops, offloaded_bytes;
    uint64_t spill_bytes; /* of the file */
    double time_ns, time_ratio, bound_ratio;
} hri_plan_row;

typedef struct hri_plan_road hri_plan_road; /* ways.h */

/* A further device of several: all have the plan of the first (devices.c). */
typedef struct hri_plan_other {
    hr_device *device;
    hri_engine *engine;
    hri_admission *admission;
    hri_holding holding;
} hri_plan_other;

typedef struct hri_plan_job {
    hr_job_options o; /* its texts are the caller's, and live as long */
    hri_why why;      /* of the last failure */
    hri_listener listener;
    hr_ctx *ctx;             /* the caller's */
    hr_device *device;       /* NULL: planned for a device that is not there */
    hr_model *model;         /* NULL: a problem */
    hri_passes passes;       /* over its graph */
    hri_objective objective; /* the model with them, where nothing else is asked of it */
    hri_problem problem;
    hri_plan *reference; /* of a problem */
    hri_fit_job job;
    hri_fit fit;
    hri_timing *timing;       /* NULL: times are analytic */
    hri_threads *threads;     /* of the host */
    hri_engine *engine;       /* of a GPU */
    hri_admission *admission; /* its memory, reserved between processes; NULL: nobody counts */
    hri_plan_other *others;   /* further GPUs; NULL: none */
    uint32_t other_count;
    hri_engine **engines; /* of all of them, the first included; NULL: there is one */
    char device_name[64], device_what[80];
    const char *what; /* the model or the file, for sentences */
    hri_who who;      /* of several processes; size 0 or 1: there is one */
    bool is_problem;
    bool said_waiting;
    hri_holding holding; /* of the ledger */
    uint64_t base_bytes; /* of the runtime: what was there before the job */
    uint64_t
        known_base_bytes; /* it is set before _begin: measured for the plan that this one replaces */
    uint64_t device_free;      /* what it has left now; 0: unknown */
    uint64_t device_bytes;     /* what the device could give; 0: unknown */
    uint64_t budget_bytes;     /* 0: none was given */
    const hri_plan_road *road; /* how the job changes for ways out; NULL: no ways are looked for */
    /* A GPU's host: what this process may take there (0: no bound, or the device is the host), and does before values
     * wait: code, libraries, input, the trainer. */
    uint64_t host_budget_bytes, host_runtime_bytes, host_extra_bytes;
    uint64_t data_least_bytes; /* the least that data_bytes could be; 0: not known */
    uint64_t data_bytes;       /* of the runtime: what input pipelines take at least */
    uint64_t
        comfort_bytes; /* what they would like beside that: a plan that leaves it free is looked for first */
    uint64_t floor_bytes, unplanned_bytes;
    double base_time_ns;
    hri_plan_row smallest; /* once it was looked for */
    bool finds_smallest;   /* that is what is done now, for whoever watches */
    hri_plan *least;       /* of a problem: the plan of that */
} hri_plan_job;

/* Which rank of how many this process is, as the options say; size 1: it is alone. */
HR_MUST_CHECK hr_status hri_plan_job_who(const hr_job_options *o, hri_who *out, hri_why *why);
/* What replicas hold in slices, and how fast the wire between them is, as the options say (shard.c). */
HR_MUST_CHECK hr_status hri_plan_job_read_shard(hri_plan_job *job);
/* Several GPUs of this process, opened: the slowest connection between two of them, unless one was named. */
void hri_plan_job_link_peers(hri_plan_job *job);
/* The modes that "auto" stands for, one after the other; NULL: there are no more, or the options name one. */
const char *hri_plan_job_shard_at(const hr_job_options *o, uint32_t at);
/* What its wire takes of this process. */
HR_MUST_CHECK hr_status hri_plan_job_wire_bytes(hri_plan_job *job, uint64_t *out);
/* The same of its GPU. */
HR_MUST_CHECK hr_status hri_plan_job_wire_device_bytes(hri_plan_job *job, uint64_t *out);

/* Opens model and device and reads the budgets; nothing is planned.  The options are copied, their texts are not; *out may not move.  After
 * a failure out->why has the reason; close is allowed, and on a zeroed one. */
/* `out` is zeroed, apart from known_base_bytes. */
HR_MUST_CHECK hr_status hri_plan_job_begin(hr_ctx *ctx, const hr_job_options *options,
                                           hri_plan_job *out);
/* Plans without a bound: what is measured and compared with later.  Between the two the job may be changed.  HR_OK with
 * job->fit.too_large: the budget leaves no room for planning, so nothing fits it. */
HR_MUST_CHECK hr_status hri_plan_job_fit(hri_plan_job *job);
/* A problem in place of a model, and the plan without a bound.  name is for sentences; of the options budget, effort and
 * offloading count. */
HR_MUST_CHECK hr_status hri_plan_job_problem(const hr_job_options *options, const char *name,
                                             const char *text, size_t bytes, hri_plan_job *out);
void hri_plan_job_close(hri_plan_job *job);

/* For roads: whether values wait in a file. */
void hri_plan_job_spill(const hri_plan_job *j, const char *folder, hri_fit_job *out);
/* What the host could give this process in all, what it has included; UINT64_MAX: nobody knows.  GPU: what is free. */
uint64_t hri_plan_job_there(const hri_plan_job *job);
/* Right before the plan runs: what is reserved of a GPU becomes what the plan takes.  HR_E_AGAIN: others have it. */
HR_MUST_CHECK hr_status hri_plan_job_reserve(hri_plan_job *job, uint64_t peak_bytes, hri_why *why);
/* For begin and fit: how much there may be and is (budget.c). */
HR_MUST_CHECK hr_status hri_plan_job_check_spill(hri_plan_job *job);
HR_MUST_CHECK hr_status hri_plan_job_read_budgets(hri_plan_job *job);
/* Leases all that the plan in this row takes beside what was there, less what its pipelines lease themselves, and waits
 * for it as long as the options say.  HR_E_AGAIN, HR_E_LIMIT with who holds it. */
HR_MUST_CHECK hr_status hri_plan_job_lease(hri_plan_job *job, uint64_t own_bytes,
                                           const hri_plan_row *row, hri_why *why);
/* Says who holds the rest of a shared budget, where somebody does. */
void hri_plan_job_name_holders(const hri_plan_job *job);
/* What the host budget leaves for values that wait: measured once kernels and libraries are there. */
HR_MUST_CHECK hr_status hri_plan_job_bound_other(hri_plan_job *job);
/* The device and what is known of its speed (device.c). */
HR_MUST_CHECK hr_status hri_plan_job_open_device(hri_plan_job *job);

/* Several of them (devices.c): how many a list has, the first (of one rank of several: its own), and the others once that one is
 * open. */
uint32_t hri_device_list_count(const char *list);
HR_MUST_CHECK hr_status hri_plan_job_first_device(hri_plan_job *job, const char *list,
                                                  char name[HR_NAME_SIZE]);
HR_MUST_CHECK hr_status hri_plan_job_open_others(hri_plan_job *job, const hri_gpu_options *o);
/* What is reserved and leased of the first is reserved and leased of each. */
HR_MUST_CHECK hr_status hri_plan_job_admit(hri_plan_job *job, hr_device *device,
                                           hri_admission **out);
HR_MUST_CHECK hr_status hri_plan_job_reserve_others(hri_plan_job *job, uint64_t bytes,
                                                    hri_prose *why);
HR_MUST_CHECK hr_status hri_plan_job_lease_others(hri_plan_job *job, const hri_holding_ask *ask,
                                                  hr_error *why);
void hri_plan_job_close_others(hri_plan_job *job);
/* Device number `at` of several, as planned: its name, replicas and peak.  False: there are no more, or there is one. */
bool hri_plan_job_device(const hri_plan_job *job, const hri_plan_row *row, uint32_t at,
                         const char **name, uint32_t *replicas, uint64_t *peak_bytes);

/* Bounds what this thread takes while it plans the job by what the budget leaves the process (planning.c); the caller
 * closes it.  decides: of what is planned now the verdict follows, so that whatever fits has its room; else only what the
 * process has left.  No bound where the budget is not the process's. */
void hri_plan_job_bound(const hri_plan_job *job, bool decides, hri_alloc_bound *out);
/* When that kept the smallest budget from being found: it is this or more. */
uint64_t hri_plan_job_least(const hri_plan_job *job);
/* Persistent bytes, or of a job too large to be planned parameters and their states at least: counted in the forward
 * graph of one sample; 0: there is no room for that either. */
uint64_t hri_plan_job_persistent(const hri_plan_job *job);

/* Plans for a budget (0: none).  HR_E_NO_PLAN leaves row->fits false.  plans (may be NULL) gets the plans of a model,
 * plan (may be NULL) that of a problem. */
HR_MUST_CHECK hr_status hri_plan_job_search(hri_plan_job *job, uint64_t budget_bytes,
                                            uint32_t share, hri_plan_row *row, hri_fit_plans *plans,
                                            hri_plan **plan, hri_prose *why);
/* Before each search for a plan: tells the listener, who may end it (HR_E_CANCELLED). */
HR_MUST_CHECK hr_status hri_plan_job_tick(const hri_plan_job *job);
/* The smallest budget for which a plan is found. */
HR_MUST_CHECK hr_status hri_plan_job_smallest(hri_plan_job *job, hri_plan_row *row, hri_prose *why);
/* The same where it was looked for, all ways of splitting the batch included; 0: it was not. */
uint64_t hri_plan_job_known_smallest(const hri_plan_job *job);
/* As many threads as the plans were made for: fewer than asked for where the budget is tight.  Measured times end here. */
void hri_plan_job_set_threads(hri_plan_job *job, const hri_fit_plans *plans);
void hri_plan_row_of(const hri_plan_job *job, const hri_fit_plans *plans, hri_plan_row *row);
/* Of a model's plans, or a problem's plan. */
void hri_plan_row_of_either(const hri_plan_job *job, const hri_fit_plans *plans,
                            const hri_plan *plan, hri_plan_row *row);

/* Adds the path of the last checkpoint of a run in `folder`, of "runs/NAME-#" the run that would be resumed; it need not be there. */
HR_MUST_CHECK hr_status hri_train_last_path(const char *folder, hri_text *out);

#endif
