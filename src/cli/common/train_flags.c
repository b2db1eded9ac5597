/* The table of train_flags.h. */
#include "cli/common/train_flags.h"

#include <stdio.h>
#include <string.h>

#include "job/plan_job.h"
#include "step/options.h"

#define VALIDATION "val-data,val-split"

const char *const hri_train_wires[] = {"auto", "shm", "tcp", "mpi", "nccl", NULL};
const char *const hri_train_shards[] = {"none", "states", "weights", "auto", NULL};
static const char *const augmentations[] = {"none", "flip", "crop", "jitter", NULL};

#define AT(MEMBER) offsetof(hri_train_flags, MEMBER)

const hri_field hri_train_flag_fields[] = {
    {"data",
     "images:DIR, mnist:DIR, cifar10:DIR, npy:X,Y, text:FILE, tokens:FILE, synthetic, or a "
     "pipeline",
     AT(data), HRI_FIELD_STRING, NULL, .metavar = "SRC"},
    {"batch", "samples per step, or auto: the fastest batch that fits", AT(batch), HRI_FIELD_STRING,
     "32", .metavar = "N"},
    {"budget", "memory limit, or a share of the device; default: all that is free", AT(budget),
     HRI_FIELD_SIZE, NULL, .metavar = "SIZE"},
    {"host-budget",
     "with a GPU: limit on host memory of this process, offloaded values included; default: all "
     "that is free",
     AT(host_budget), HRI_FIELD_SIZE, NULL, .metavar = "SIZE"},
    {"device", "host, cuda:0, or several GPUs of one model: cuda:0,cuda:1", AT(device),
     HRI_FIELD_STRING, "host", .metavar = "DEVICE", .alias = "devices"},
    {"wait",
     "on a GPU: how long to wait for the --budget when other programs hold it: 30s, 10m, 2h; 0: "
     "not at all",
     AT(wait), HRI_FIELD_STRING, "0", .metavar = "TIME", .needs = "device=cuda*"},
    {"epochs", "passes over the data; auto: 10, or as given by --steps", AT(epochs), HRI_FIELD_INT,
     "auto", .min = 1, .max = 1e9, .metavar = "N", .word = "auto"},
    {"steps", "maximum number of steps; auto: as given by --epochs", AT(steps), HRI_FIELD_INT,
     "auto", .min = 1, .max = 1e15, .metavar = "N", .word = "auto"},
    {"seed", "random seed of parameters, order and augmentation", AT(seed), HRI_FIELD_INT, "0",
     .min = 0, .max = 1e15, .metavar = "N"},
    {"val-data", "validation data", AT(val_data), HRI_FIELD_STRING, NULL, .metavar = "SRC"},
    {"val-split", "fraction of the data held out for validation", AT(val_split), HRI_FIELD_DOUBLE,
     "0", .min = 0, .max = 0.9, .metavar = "SHARE"},
    {"val-batch", "validation batch; 0: as in training", AT(val_batch), HRI_FIELD_INT, "0",
     .min = 0, .max = 1e6, .metavar = "N", .needs = VALIDATION},
    {"val-every", "steps between validations; 0: after each epoch", AT(val_every), HRI_FIELD_INT,
     "0", .min = 0, .max = 1e15, .metavar = "N", .needs = VALIDATION},
    {"optimizer", "optimizer; sgd has momentum 0.9", AT(optimizer), HRI_FIELD_ENUM, "sgd",
     .metavar = "NAME", .choices = hri_plan_optimizers},
    {"rate", "learning rate; auto: 0.01, 0.001 for adam and adamw, 0.0001 for lion", AT(rate),
     HRI_FIELD_DOUBLE, "auto", .min = 0, .max = 1e6, .metavar = "X", .word = "auto", .alias = "lr"},
    {"schedule", "learning rate schedule", AT(schedule), HRI_FIELD_ENUM, "constant",
     .metavar = "NAME", .choices = hri_train_schedules},
    {"warmup", "warm-up steps: linear rise to the learning rate", AT(warmup), HRI_FIELD_INT, "auto",
     .min = 0, .max = 9e15, .metavar = "N", .word = "auto"},
    {"every", "schedule step: steps between decays; plateau: validations without improvement (10)",
     AT(every), HRI_FIELD_INT, "auto", .min = 1, .max = 9e15, .metavar = "N", .word = "auto",
     .needs = "schedule=step/plateau"},
    {"gamma", "schedules step and plateau: decay factor (0.1)", AT(gamma), HRI_FIELD_DOUBLE, "auto",
     .min = 0, .max = 1, .metavar = "X", .word = "auto", .needs = "schedule=step/plateau"},
    {"final-rate", "final learning rate of schedules with an end (0)", AT(final_rate),
     HRI_FIELD_DOUBLE, "auto", .min = 0, .max = 1e6, .metavar = "X", .word = "auto",
     .needs = "schedule=cosine/polynomial/onecycle/exponential"},
    {"momentum", "momentum of sgd (0.9) and rmsprop (0)", AT(momentum), HRI_FIELD_DOUBLE, "auto",
     .min = 0, .max = 1, .metavar = "X", .word = "auto", .needs = "optimizer=sgd/rmsprop"},
    {"nesterov", "Nesterov momentum", AT(nesterov), HRI_FIELD_BOOL, .value = NULL},
    {"decay", "weight decay; auto: 0, and 0.01 for adamw", AT(decay), HRI_FIELD_DOUBLE, "auto",
     .min = 0, .max = 1e6, .metavar = "X", .word = "auto", .alias = "weight-decay"},
    {"clip", "maximum global gradient norm; auto: no clipping", AT(clip), HRI_FIELD_DOUBLE, "auto",
     .min = 0, .max = 1e30, .metavar = "X", .word = "auto"},
    {"clip-value", "largest magnitude of an element of a gradient; auto: no limit", AT(clip_value),
     HRI_FIELD_DOUBLE, "auto", .min = 0, .max = 1e30, .metavar = "X", .word = "auto"},
    {"smoothing", "label smoothing", AT(smoothing), HRI_FIELD_DOUBLE, "0", .min = 0, .max = 0.99,
     .metavar = "X"},
    {"loss",
     "cross_entropy, focal[:gamma=2], bce, mse, mae, huber[:delta=1], or model: its own; default: "
     "as the labels are",
     AT(loss), HRI_FIELD_STRING, NULL, .metavar = "NAME"},
    {"class-weights",
     "weight of each class in the loss: auto (rare classes count more), or a file with a weight "
     "per line",
     AT(class_weights), HRI_FIELD_STRING, NULL, .metavar = "auto|FILE"},
    {"lora", HRI_TRAIN_LORA_HELP, AT(lora), HRI_FIELD_STRING, NULL, .metavar = "KEYS"},
    {"prune", HRI_TRAIN_PRUNE_HELP, AT(prune), HRI_FIELD_STRING, NULL, .metavar = "SHARE"},
    {"freeze", HRI_TRAIN_FREEZE_HELP, AT(freeze), HRI_FIELD_STRING, NULL, .metavar = "PATTERN"},
    {"layer-rates", "factors of the learning rate: PATTERN=FACTOR, joined by +", AT(layer_rates),
     HRI_FIELD_STRING, NULL, .metavar = "LIST"},
    {"options", "more training options: beta2=0.95,decay-all=off", AT(options), HRI_FIELD_STRING,
     NULL, .metavar = "KEYS"},
    {"precision", "precision of matmuls; parameters stay f32", AT(precision), HRI_FIELD_ENUM, "f32",
     .metavar = "TYPE", .choices = hri_plan_precisions},
    {"moments", HRI_TRAIN_MOMENTS_HELP, AT(moments), HRI_FIELD_ENUM, "f32", .metavar = "TYPE",
     .choices = hri_plan_moments},
    {"accumulate", "gradient accumulation: batches per step", AT(accumulate), HRI_FIELD_INT, "1",
     .min = 1, .max = 1e6, .metavar = "K"},
    {"micro-batches", "number of micro-batches: auto, off, or a number", AT(micro_batches),
     HRI_FIELD_STRING, "auto", .metavar = "K"},
    {"replicas",
     "replicas that share each step, one or more micro-batches each; losses do not depend on it",
     AT(replicas), HRI_FIELD_INT, "1", .min = 1, .max = HRI_PLAN_REPLICAS, .metavar = "N"},
    {"shard",
     "what each replica holds only a slice of: none, states (of the optimizer), weights (and "
     "states), or auto: the first that fits; losses do not depend on it",
     AT(shard), HRI_FIELD_ENUM, "none", .metavar = "WHAT", .choices = hri_train_shards},
    {"net",
     "how processes exchange gradients: shm, tcp, mpi or nccl; auto: as the launcher needs it, and "
     "threads "
     "of one process without one",
     AT(net), HRI_FIELD_ENUM, "auto", .metavar = "WIRE", .choices = hri_train_wires},
    {"net-deadline", "silence after which another process counts as gone: 15s, 2m",
     AT(net_deadline), HRI_FIELD_STRING, "15s", .metavar = "TIME"},
    {"ghost-norm", "allow splitting the batch in spite of batch norm; this changes the result",
     AT(ghost_norm), HRI_FIELD_BOOL, .value = NULL},
    {"measure", "measure op times on this device (cached) instead of using the analytic model",
     AT(measure), HRI_FIELD_BOOL, "true"},
    {"effort", "planning: search steps, in thousands", AT(effort), HRI_FIELD_INT, "16000", .min = 1,
     .max = 1e9, .metavar = "N"},
    {"exact", "compute f32 matmuls on a GPU in f32, not tf32", AT(exact), HRI_FIELD_BOOL,
     .value = NULL, .needs = "device=cuda*"},
    {"tune",
     "on a GPU: pick library algorithms by speed alone; results then depend on the "
     "choices",
     AT(tune), HRI_FIELD_BOOL, .value = NULL, .needs = "device=cuda*"},
    {"choices", "on a GPU: use the algorithms in this file; it is written if missing", AT(choices),
     HRI_FIELD_STRING, NULL, .metavar = "FILE", .needs = "device=cuda*"},
    {"offload", "offload values to host memory if the device can copy", AT(offload), HRI_FIELD_BOOL,
     "true", .needs = "device=cuda*,spill"},
    {"spill", "on the host: offload values to an unnamed file in this directory", AT(spill),
     HRI_FIELD_STRING, NULL, .metavar = "DIR"},
    {"augment", "random augmentation of training images: flip, crop, jitter, or none", AT(augment),
     HRI_FIELD_LIST, "none", .metavar = "LIST", .choices = augmentations},
    {"data-budget",
     "RAM of the input pipeline, part of the budget; default: enough for two "
     "batches",
     AT(data_budget_bytes), HRI_FIELD_BYTES, NULL, .metavar = "SIZE"},
    {"skip-bad", "skip samples that cannot be read", AT(skip_bad), HRI_FIELD_BOOL, .value = NULL},
    {"patience", "early stopping: validations without improvement; 0: never", AT(patience),
     HRI_FIELD_INT, "0", .min = 0, .max = 1e6, .metavar = "N", .needs = VALIDATION},
    {"min-delta", "smallest decrease in loss that counts as an improvement", AT(min_delta),
     HRI_FIELD_DOUBLE, "0", .min = 0, .max = 1e9, .metavar = "X", .needs = VALIDATION},
    {"out", "checkpoint directory; default: a new one in runs/", AT(out), HRI_FIELD_STRING, NULL,
     .metavar = "DIR", .needs = "save"},
    {"save", "write checkpoints", AT(save), HRI_FIELD_BOOL, "true"},
    {"resume", "resume from the last checkpoint in --out, if there is one", AT(resume),
     HRI_FIELD_BOOL, .value = NULL, .needs = "save"},
    {"overwrite", "start over in a directory that already contains a run", AT(overwrite),
     HRI_FIELD_BOOL, .value = NULL, .needs = "save"},
    {"save-every", "steps between checkpoints, in addition to those after each epoch; 0: none",
     AT(save_every), HRI_FIELD_INT, "0", .min = 0, .max = 1e15, .metavar = "N", .needs = "save"},
    {"save-minutes", "minutes between checkpoints; 0: none", AT(save_minutes), HRI_FIELD_DOUBLE,
     "10", .min = 0, .max = 1e6, .metavar = "X", .needs = "save"},
    {"init", "initial parameters, a safetensors file; the number of classes may differ", AT(init),
     HRI_FIELD_STRING, NULL, .metavar = "FILE"},
    {"also", "a second run, alternating in the same arena: \"MODEL --data SRC --batch N\"",
     AT(also), HRI_FIELD_STRING, NULL, .metavar = "TEXT", .once = true},
    {"memory-growth", "host: allocate memory when first needed instead of all at the start",
     AT(memory_growth), HRI_FIELD_BOOL, .value = NULL},
    {"logical-devices", "logical devices, one per run, each with its own limit",
     AT(logical_devices), HRI_FIELD_STRING, NULL, .metavar = "SIZES"},
    {"log", "write one JSON line per step, validation and epoch", AT(log), HRI_FIELD_STRING, NULL,
     .metavar = "FILE"},
    {"log-every", "steps between logged steps", AT(log_every), HRI_FIELD_INT, "1", .min = 1,
     .max = 1e9, .metavar = "N", .needs = "log,tensorboard,svg"},
    {"tensorboard", "write event files for TensorBoard", AT(tensorboard), HRI_FIELD_STRING, NULL,
     .metavar = "DIR"},
    {"svg", "draw loss and memory at the end", AT(svg), HRI_FIELD_STRING, NULL, .metavar = "FILE"},
    {"profile", "record every op and every byte of a few steps; see headroom report", AT(profile),
     HRI_FIELD_STRING, NULL, .metavar = "FILE.hrp", .once = true},
    {"profile-steps", "steps to record, op by op", AT(profile_steps), HRI_FIELD_STRING, "10-12",
     .metavar = "A-B", .needs = "profile"},
    {"json", "print one JSON object at the end, sizes in bytes", AT(json), HRI_FIELD_BOOL,
     .value = NULL},
    {0},
};

void hri_train_flags_options(const hri_train_flags *f, hri_text *out) {
    hri_train_keys_add(hri_train_flag_fields, f, out);
    if (f->options && *f->options) {
        hri_text_add(out, ",%s", f->options);
    }
}
