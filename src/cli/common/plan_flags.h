/* The flags of `headroom plan`, in one table, and the job that they describe. */
#ifndef HRI_CLI_PLAN_FLAGS_H
#define HRI_CLI_PLAN_FLAGS_H

#include <headroom/job.h>
#include "cli/common/cli.h"

typedef struct hri_plan_flags {
    int64_t batch;
    const char *data, *val_data;
    double val_split;
    int64_t val_batch;
    uint64_t data_budget_bytes;
    const char *budget, *host_budget;
    const char *device, *device_spec, *wait;
    int optimizer, precision, moments;
    double momentum;                         /* NAN: auto */
    const char *lora, *prune, *qat, *freeze; /* options of the passes; NULL: none */
    const char *init;                        /* whose small weights are trained over; NULL: none */
    const char *quantize;                    /* int8, or bits of weights; NULL: nothing */
    const char *options;                     /* keys without a flag of their own */
    const char *micro_batches;
    bool ghost_norm, measure, exact, offload, choices;
    const char *spill;
    int64_t effort, replicas;
    int shard;       /* of the modes: 0 is none */
    const char *net; /* a link between machines that need not be there; NULL: threads */
    bool json, curve;
    const char *svg, *map, *html, *record, *dot, *save, *load, *compare, *save_problem, *problem;
    int64_t tries, seed;
} hri_plan_flags;

extern const hri_field hri_plan_fields[];

/* "auto", "off" or a number: 0, 1 or that.  An exit code, after the reason was said. */
int hri_plan_read_parts(hri_cli *cli, const char *text, int64_t *out);
/* "30s", "10m", "2h" in milliseconds; likewise. */
int hri_plan_read_wait(hri_cli *cli, const char *text, uint64_t *out_ms);
/* The job of these flags but for the model; training and passes get its texts of those, which *out points to. */
int hri_plan_flags_job(hri_cli *cli, const hri_plan_flags *flags, hri_text *training,
                       hri_text *passes, hr_job_options *out);

#endif
