/* The flags of `headroom train`, in one table; --also takes the same ones for a second training. */
#ifndef HRI_CLI_TRAIN_FLAGS_H
#define HRI_CLI_TRAIN_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/options.h"

typedef struct hri_train_flags {
    const char *data, *batch, *budget, *device;
    int64_t epochs, steps, seed;
    const char *val_data;
    double val_split;
    int64_t val_batch, val_every;
    int optimizer, precision, schedule;
    /* numbers as text: NULL when they were not given, so that the optimizer's defaults hold */
    const char *rate, *momentum, *decay, *clip, *warmup, *every, *gamma, *final_rate;
    bool nesterov;
    double smoothing;
    const char *options;
    int64_t accumulate;
    const char *micro_batches;
    bool ghost_norm, measure, exact, offload;
    const char *spill;
    const char *augment;
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
    bool json;
} hri_train_flags;

extern const hri_field hri_train_flag_fields[];
extern const char *const hri_train_schedules[];

/* The options of training as text for hr_train_options_parse: what was given, and for a cosine its length. */
void hri_train_flags_options(const hri_train_flags *flags, uint64_t steps, char *buf, size_t size);

#endif
