/* The table of train_flags.h. */
#include "cli/common/train_flags.h"

#include <stdio.h>
#include <string.h>

#include "cli/common/plan_job.h"

const char *const hri_train_schedules[] = {"constant", "step", "cosine", NULL};

#define AT(MEMBER) offsetof(hri_train_flags, MEMBER)

const hri_field hri_train_flag_fields[] = {
    {"data", "images:DIR, mnist:DIR, cifar10:DIR, npy:X,Y, tokens:FILE, synthetic, or a pipeline",
     AT(data), HRI_FIELD_STRING, NULL, .metavar = "SRC"},
    {"batch", "samples in a step, or auto: the most that fit", AT(batch), HRI_FIELD_STRING, "32",
     .metavar = "N"},
    {"budget",
     "the most that may ever be used, or a share of the device; default: what it has free",
     AT(budget), HRI_FIELD_SIZE, NULL, .metavar = "SIZE"},
    {"device", "host or cuda:0", AT(device), HRI_FIELD_STRING, "host", .metavar = "DEVICE"},
    {"epochs", "times through the data; default 10, or as --steps says", AT(epochs), HRI_FIELD_INT,
     "0", .min = 0, .max = 1e9, .metavar = "N"},
    {"steps", "updates of the weights, at most", AT(steps), HRI_FIELD_INT, "0", .min = 0,
     .max = 1e15, .metavar = "N"},
    {"seed", "of weights, order and augmentation", AT(seed), HRI_FIELD_INT, "0", .min = 0,
     .max = 1e15, .metavar = "N"},
    {"val-data", "data to validate on", AT(val_data), HRI_FIELD_STRING, NULL, .metavar = "SRC"},
    {"val-split", "share of the data kept apart to validate on", AT(val_split), HRI_FIELD_DOUBLE,
     "0", .min = 0, .max = 0.9, .metavar = "SHARE"},
    {"val-batch", "samples validated at once; 0: as many as are trained at once", AT(val_batch),
     HRI_FIELD_INT, "0", .min = 0, .max = 1e6, .metavar = "N"},
    {"val-every", "steps between validations; 0: after each epoch", AT(val_every), HRI_FIELD_INT,
     "0", .min = 0, .max = 1e15, .metavar = "N"},
    {"optimizer", "sgd has momentum 0.9", AT(optimizer), HRI_FIELD_ENUM, "sgd", .metavar = "NAME",
     .choices = hri_plan_optimizers},
    {"rate", "learning rate; default 0.01, and 0.001 for adam and adamw", AT(rate),
     HRI_FIELD_STRING, NULL, .metavar = "X"},
    {"schedule", "of the learning rate", AT(schedule), HRI_FIELD_ENUM, "constant",
     .metavar = "NAME", .choices = hri_train_schedules},
    {"warmup", "steps of linear rise to the rate", AT(warmup), HRI_FIELD_STRING, NULL,
     .metavar = "N"},
    {"every", "schedule step: steps between falls", AT(every), HRI_FIELD_STRING, NULL,
     .metavar = "N"},
    {"gamma", "schedule step: factor of each fall (0.1)", AT(gamma), HRI_FIELD_STRING, NULL,
     .metavar = "X"},
    {"final-rate", "schedule cosine: the last rate (0)", AT(final_rate), HRI_FIELD_STRING, NULL,
     .metavar = "X"},
    {"momentum", "of sgd (0.9) and rmsprop (0)", AT(momentum), HRI_FIELD_STRING, NULL,
     .metavar = "X"},
    {"nesterov", "momentum that looks ahead", AT(nesterov), HRI_FIELD_BOOL, .value = NULL},
    {"decay", "weight decay; default 0, and 0.01 for adamw", AT(decay), HRI_FIELD_STRING, NULL,
     .metavar = "X"},
    {"clip", "largest norm of all gradients", AT(clip), HRI_FIELD_STRING, NULL, .metavar = "X"},
    {"smoothing", "label smoothing", AT(smoothing), HRI_FIELD_DOUBLE, "0", .min = 0, .max = 0.99,
     .metavar = "X"},
    {"options", "further options of training: beta2=0.95,decay-all=off", AT(options),
     HRI_FIELD_STRING, NULL, .metavar = "KEYS"},
    {"precision", "of products; weights stay f32", AT(precision), HRI_FIELD_ENUM, "f32",
     .metavar = "TYPE", .choices = hri_plan_precisions},
    {"accumulate", "so many batches make one step", AT(accumulate), HRI_FIELD_INT, "1", .min = 1,
     .max = 1e6, .metavar = "K"},
    {"micro-batches", "parts of a batch: auto, off, or a number", AT(micro_batches),
     HRI_FIELD_STRING, "auto", .metavar = "K"},
    {"ghost-norm", "cut the batch even where batch norm couples its samples: another function",
     AT(ghost_norm), HRI_FIELD_BOOL, .value = NULL},
    {"measure", "time the ops of this device (kept on disk) in place of the analytic model",
     AT(measure), HRI_FIELD_BOOL, "true"},
    {"exact", "f32 products of a GPU in f32 arithmetic, not tf32", AT(exact), HRI_FIELD_BOOL,
     .value = NULL},
    {"offload", "let values wait in the host's memory where the device can copy", AT(offload),
     HRI_FIELD_BOOL, "true"},
    {"spill", "on the host: let values wait in a file without a name in this folder", AT(spill),
     HRI_FIELD_STRING, NULL, .metavar = "DIR"},
    {"augment", "what happens to training pictures by chance: flip, crop, jitter, or none",
     AT(augment), HRI_FIELD_STRING, "none", .metavar = "LIST"},
    {"data-budget", "RAM of the input pipeline, out of the budget; default: two batches' worth",
     AT(data_budget_bytes), HRI_FIELD_BYTES, NULL, .metavar = "SIZE"},
    {"skip-bad", "leave samples out that cannot be read", AT(skip_bad), HRI_FIELD_BOOL,
     .value = NULL},
    {"patience", "stop after so many validations without a better one; 0: never", AT(patience),
     HRI_FIELD_INT, "0", .min = 0, .max = 1e6, .metavar = "N"},
    {"min-delta", "how much less loss counts as better", AT(min_delta), HRI_FIELD_DOUBLE, "0",
     .min = 0, .max = 1e9, .metavar = "X"},
    {"out", "folder of checkpoints; default: a new one in runs/", AT(out), HRI_FIELD_STRING, NULL,
     .metavar = "DIR"},
    {"save", "write checkpoints", AT(save), HRI_FIELD_BOOL, "true"},
    {"resume", "go on from the last checkpoint in the folder, if there is one", AT(resume),
     HRI_FIELD_BOOL, .value = NULL},
    {"overwrite", "begin anew in a folder that holds a training", AT(overwrite), HRI_FIELD_BOOL,
     .value = NULL},
    {"save-every", "steps between checkpoints, beside those of epochs; 0: none", AT(save_every),
     HRI_FIELD_INT, "0", .min = 0, .max = 1e15, .metavar = "N"},
    {"save-minutes", "minutes between checkpoints; 0: none", AT(save_minutes), HRI_FIELD_DOUBLE,
     "10", .min = 0, .max = 1e6, .metavar = "X"},
    {"init", "weights to begin with, a safetensors file; another number of classes is allowed",
     AT(init), HRI_FIELD_STRING, NULL, .metavar = "FILE"},
    {"also", "a second training, by turns, in the same arena: \"MODEL --data SRC --batch N\"",
     AT(also), HRI_FIELD_STRING, NULL, .metavar = "TEXT"},
    {"memory-growth", "host: take memory when it is first needed, not all of it at the start",
     AT(memory_growth), HRI_FIELD_BOOL, .value = NULL},
    {"logical-devices", "slices of the device with limits of their own, one for each training",
     AT(logical_devices), HRI_FIELD_STRING, NULL, .metavar = "SIZES"},
    {"log", "write a JSON line a step, validation and epoch", AT(log), HRI_FIELD_STRING, NULL,
     .metavar = "FILE"},
    {"log-every", "steps between lines of steps", AT(log_every), HRI_FIELD_INT, "1", .min = 1,
     .max = 1e9, .metavar = "N"},
    {"tensorboard", "write event files for TensorBoard", AT(tensorboard), HRI_FIELD_STRING, NULL,
     .metavar = "DIR"},
    {"svg", "draw loss and memory at the end", AT(svg), HRI_FIELD_STRING, NULL, .metavar = "FILE"},
    {"json", "print one JSON object at the end, sizes in bytes", AT(json), HRI_FIELD_BOOL,
     .value = NULL},
    {0},
};

void hri_train_flags_options(const hri_train_flags *f, uint64_t steps, char *buf, size_t size) {
    const struct {
        const char *name, *value;
    } given[] = {{"rate", f->rate},   {"momentum", f->momentum},    {"decay", f->decay},
                 {"clip", f->clip},   {"warmup", f->warmup},        {"every", f->every},
                 {"gamma", f->gamma}, {"final-rate", f->final_rate}};
    size_t used = (size_t)snprintf(buf, size, "schedule=%s", hri_train_schedules[f->schedule]);
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        if (given[i].value && used < size) {
            used +=
                (size_t)snprintf(buf + used, size - used, ",%s=%s", given[i].name, given[i].value);
        }
    }
    if (f->nesterov && used < size) {
        used += (size_t)snprintf(buf + used, size - used, ",nesterov");
    }
    if (f->schedule == HR_SCHEDULE_COSINE && used < size &&
        !(f->options && strstr(f->options, "steps="))) {
        used += (size_t)snprintf(buf + used, size - used, ",steps=%llu", (unsigned long long)steps);
    }
    if (f->options && *f->options && used < size) {
        snprintf(buf + used, size - used, ",%s", f->options);
    }
}
