/* The flags of `headroom train`, in one table; --also takes the same ones for a second training. */
#ifndef HRI_MANUAL_TRAIN_FLAGS_H
#define HRI_MANUAL_TRAIN_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/options.h"
#include "job/habits.h"
#include "step/option_keys.h"

typedef struct hri_train_flags {
    const char *data, *batch, *budget, *host_budget, *device, *wait;
    int64_t epochs, steps, seed;
    const char *val_data;
    double val_split;
    int64_t val_batch, val_every;
    int optimizer, precision, moments, schedule;
    double rate, momentum, decay, clip, clip_value, gamma,
        final_rate;        /* NAN: auto, as the optimizer has it */
    int64_t warmup, every; /* INT64_MIN: auto */
    bool nesterov;
    double smoothing;
    const char *loss, *class_weights;
    hri_habits habits;
    const char *lora, *prune, *qat, *freeze, *layer_rates, *ema; /* of the passes; NULL: none */
    const char *options;
    int64_t accumulate, replicas, effort;
    int shard; /* of the modes: 0 is none */
    int net;   /* of the wires: 0 is auto */
    const char *net_deadline;
    const char *micro_batches;
    bool ghost_norm, measure, exact, tune, offload;
    const char *choices;
    const char *spill;
    hri_list augment;
    uint64_t data_budget_bytes;
    bool skip_bad;
    int64_t patience;
    double min_delta;
    const char *out;
    bool save, resume, overwrite;
    int64_t save_every;
    double save_minutes;
    const char *init, *also;
    bool memory_growth;
    const char *logical_devices;
    const char *log, *tensorboard, *svg;
    int64_t log_every;
    const char *profile, *profile_steps;
    bool json;
} hri_train_flags;

extern const hri_field hri_train_flag_fields[];
extern const char *const hri_train_shards[]; /* of --shard */
extern const char *const hri_train_wires[];  /* of --net */

/* The options of training that they set, for hr_job_options. */
void hri_train_flags_options(const hri_train_flags *flags, hri_text *out);

#endif
