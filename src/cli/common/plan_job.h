/* What `headroom plan` is about: a model or a problem from a file, a device, a budget; and one summary of an answer.
 *
 * The one idea: every way of asking (one budget, a few beside one another, a curve) is a search that ends in a row of
 * numbers.  A model is planned with train/fit.h; a problem of another system has no model, no batch and no runtime, and
 * its budget bounds the arena alone. */
#ifndef HRI_CLI_PLAN_JOB_H
#define HRI_CLI_PLAN_JOB_H

#include "cli/common/cli.h"
#include "fit/fit.h"
#include "fit/timing.h"

typedef struct hri_plan_flags {
    int64_t batch;
    const char *budget, *host_budget;
    const char *device, *device_spec;
    int optimizer, precision;
    double momentum;        /* NAN: auto */
    const char *options;    /* keys without a flag of their own */
    const char *train_text; /* all options as text, where another table has them; NULL: as above */
    const char *micro_batches;
    bool ghost_norm, measure, exact, offload, choices;
    bool tune;               /* of train alone, */
    const char *gpu_choices; /* as this is */
    const char *spill;
    int64_t effort;
    bool json, curve;
    const char *svg, *map, *dot, *save, *load, *compare, *save_problem, *problem;
    int64_t tries, seed;
} hri_plan_flags;

extern const hri_field hri_plan_fields[];
/* Names by number, NULL at the end. */
extern const char *const hri_plan_optimizers[], *const hri_plan_precisions[];

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
    uint32_t micro_batches;
    int64_t part;
    uint64_t recomputed_ops, offloaded_bytes;
    uint64_t spill_bytes; /* of the file */
    double time_ns, time_ratio, bound_ratio;
} hri_plan_row;

typedef struct hri_plan_road hri_plan_road; /* plan_ways.h */

typedef struct hri_plan_job {
    hri_cli *cli;
    const hri_plan_flags *flags;
    hr_ctx *ctx;
    hr_device *device; /* NULL: planned for a device that is not there */
    hr_model *model;   /* NULL: a problem */
    hri_problem problem;
    hri_plan *reference; /* of a problem */
    hri_fit_job job;
    hri_fit fit;
    hri_timing *timing;   /* NULL: times are analytic */
    hri_threads *threads; /* of the host */
    hri_engine *engine;   /* of a GPU */
    char device_name[64], device_what[80], what[256];
    uint64_t device_free;      /* what it has left now; 0: unknown */
    uint64_t device_bytes;     /* what the device could give; 0: unknown */
    uint64_t budget_bytes;     /* 0: none was given */
    const char *given_model;   /* as it was typed */
    const hri_plan_road *road; /* of the command that asks */
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
    hri_plan *least;       /* of a problem: the plan of that */
} hri_plan_job;

/* Opens device and model (or problem) and plans without a bound.  Returns an exit code, after the reason was said.
 * close accepts a half-made one. */
int hri_plan_job_open(hri_cli *cli, const hri_plan_flags *flags, int count,
                      const char *const *arguments, hri_plan_job *out);
void hri_plan_job_close(hri_plan_job *job);
/* The same for a model in two steps, for those who change the job in between: model, device and budget; then the plan
 * without a bound. */
int hri_plan_job_begin(hri_cli *cli, const hri_plan_flags *flags, const char *model,
                       hri_plan_job *out);
int hri_plan_job_fit(hri_cli *cli, hri_plan_job *job);

/* The road of `plan` itself, for hri_plan_job.road. */
void hri_plan_job_road(hri_plan_job *job, hri_plan_road *out);
/* For roads: "auto", "off" or a number; whether values wait in a file. */
int hri_plan_read_parts(hri_cli *cli, const char *text, int64_t *out);
void hri_plan_job_spill(const hri_plan_job *j, const char *folder, hri_fit_job *out);
/* What the host could give this process in all, what it has included; UINT64_MAX: nobody knows.  GPU: what is free. */
uint64_t hri_plan_job_there(const hri_plan_job *job);

/* Plans for a budget (0: none).  HR_E_NO_PLAN leaves row->fits false.  plans (may be NULL) gets the plans of a model,
 * plan (may be NULL) that of a problem. */
HR_MUST_CHECK hr_status hri_plan_job_search(hri_plan_job *job, uint64_t budget_bytes,
                                            uint32_t share, hri_plan_row *row, hri_fit_plans *plans,
                                            hri_plan **plan, hri_prose *why);
/* The smallest budget for which a plan is found. */
HR_MUST_CHECK hr_status hri_plan_job_smallest(hri_plan_job *job, hri_plan_row *row, hri_prose *why);
/* As many threads as the plans were made for: fewer than asked for where the budget is tight.  Measured times end here. */
void hri_plan_job_set_threads(hri_plan_job *job, const hri_fit_plans *plans);
void hri_plan_row_of(const hri_plan_job *job, const hri_fit_plans *plans, hri_plan_row *row);
/* The training options as text for hr_train_options_parse, and read by it. */
void hri_plan_train_text(const hri_plan_flags *flags, hri_text *out);
HR_MUST_CHECK hr_status hri_plan_train_options(const hri_plan_flags *flags, hr_train_options *out,
                                               hr_error *why);

#endif
