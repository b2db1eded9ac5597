/* The table of plan_flags.h. */
#include "cli/common/plan_flags.h"

#include <stdlib.h>
#include <string.h>

#include "cli/common/spell.h"
#include "manual/train_flags.h"
#include "govern/budget.h"
#include "job/plan_job.h"
#include "step/options.h"

#define AT(MEMBER) offsetof(hri_plan_flags, MEMBER)
#define A_MODEL    "!problem"

const hri_field hri_plan_fields[] = {
    {"batch", "samples per step", AT(batch), HRI_FIELD_INT, "32", .min = 1, .max = 1e6,
     .metavar = "N", .needs = A_MODEL},
    {"budget", "memory limit, or a share of the device; default: all that is free", AT(budget),
     HRI_FIELD_SIZE, NULL, .metavar = "SIZE"},
    {"host-budget",
     "with a GPU: limit on host memory of this process, offloaded values included; default: all "
     "that is free",
     AT(host_budget), HRI_FIELD_SIZE, NULL, .metavar = "SIZE"},
    {"device",
     "host, cuda:0, several GPUs of one model (cuda:0,cuda:1), or null:SIZE for a hypothetical "
     "device",
     AT(device), HRI_FIELD_STRING, "host", .metavar = "DEVICE", .alias = "devices",
     .needs = A_MODEL},
    {"wait",
     "on a GPU: how long to wait for the --budget when other programs hold it: 30s, 10m, 2h; 0: "
     "not at all",
     AT(wait), HRI_FIELD_STRING, "0", .metavar = "TIME", .needs = "device=cuda*"},
    {"device-spec",
     "of a hypothetical device: "
     "flops=15e12,bandwidth=900e9,launch=4e-6,copy=25e9,runtime=0,page=2MiB",
     AT(device_spec), HRI_FIELD_STRING, NULL, .metavar = "KEYS", .needs = A_MODEL},
    {"data", "plan the input pipeline too: images:DIR, mnist:DIR, ... as in train", AT(data),
     HRI_FIELD_STRING, NULL, .metavar = "SRC", .needs = A_MODEL},
    {"val-data", "validation data: plan evaluation too", AT(val_data), HRI_FIELD_STRING, NULL,
     .metavar = "SRC", .needs = A_MODEL},
    {"val-split", "fraction held out for validation: plan evaluation too", AT(val_split),
     HRI_FIELD_DOUBLE, "0", .min = 0, .max = 0.9, .metavar = "SHARE", .needs = A_MODEL},
    {"val-batch", "validation batch; 0: as in training", AT(val_batch), HRI_FIELD_INT, "0",
     .min = 0, .max = 1e6, .metavar = "N", .needs = "val-data,val-split"},
    {"data-budget",
     "RAM of the input pipeline, part of the budget; default: enough for two "
     "batches",
     AT(data_budget_bytes), HRI_FIELD_BYTES, NULL, .metavar = "SIZE", .needs = "data"},
    {"optimizer", "optimizer; sgd has momentum 0.9", AT(optimizer), HRI_FIELD_ENUM, "sgd",
     .metavar = "NAME", .choices = hri_plan_optimizers, .needs = A_MODEL},
    {"momentum", "momentum of sgd (0.9) and rmsprop (0)", AT(momentum), HRI_FIELD_DOUBLE, "auto",
     .min = 0, .max = 1, .metavar = "X", .word = "auto", .needs = "optimizer=sgd/rmsprop"},
    {"precision", "precision of matmuls; parameters stay f32", AT(precision), HRI_FIELD_ENUM, "f32",
     .metavar = "TYPE", .choices = hri_plan_precisions, .needs = A_MODEL},
    {"moments", HRI_TRAIN_MOMENTS_HELP, AT(moments), HRI_FIELD_ENUM, "f32", .metavar = "TYPE",
     .choices = hri_plan_moments, .needs = A_MODEL},
    {"lora", HRI_TRAIN_LORA_HELP, AT(lora), HRI_FIELD_STRING, NULL, .metavar = "KEYS",
     .needs = A_MODEL},
    {"prune", HRI_TRAIN_PRUNE_HELP, AT(prune), HRI_FIELD_STRING, NULL, .metavar = "SHARE",
     .needs = A_MODEL},
    {"qat", HRI_TRAIN_QAT_HELP, AT(qat), HRI_FIELD_STRING, NULL, .metavar = "STEP",
     .needs = A_MODEL},
    {"freeze", HRI_TRAIN_FREEZE_HELP, AT(freeze), HRI_FIELD_STRING, NULL, .metavar = "PATTERN",
     .needs = A_MODEL},
    {"init", "initial parameters, as in train: with --lora over weights of 8 or 4 bits", AT(init),
     HRI_FIELD_STRING, NULL, .metavar = "FILE", .needs = A_MODEL},
    {"quantize", "also say what quantize saves: int8, or 8 or 4[,group=N] bits of weights",
     AT(quantize), HRI_FIELD_STRING, NULL, .metavar = "WHAT", .needs = A_MODEL},
    {"options", "more training options: clip=1,scores=kept", AT(options), HRI_FIELD_STRING, NULL,
     .metavar = "KEYS", .needs = A_MODEL},
    {"micro-batches", "number of micro-batches: auto, off, or a number", AT(micro_batches),
     HRI_FIELD_STRING, "auto", .metavar = "K", .needs = A_MODEL},
    {"replicas",
     "replicas that share each step, one or more micro-batches each; losses do not depend on it",
     AT(replicas), HRI_FIELD_INT, "1", .min = 1, .max = HRI_PLAN_REPLICAS, .metavar = "N",
     .needs = A_MODEL},
    {"shard",
     "what each replica holds only a slice of: none, states (of the optimizer), weights (and "
     "states), or auto: the first that fits; losses do not depend on it",
     AT(shard), HRI_FIELD_ENUM, "none", .metavar = "WHAT", .choices = hri_train_shards,
     .needs = A_MODEL},
    {"net",
     "plan for replicas on machines that need not be there, connected by nvlink, pcie, ib, "
     "ethernet, or LATENCY/BANDWIDTH in seconds and bytes per second; default: threads of one "
     "process",
     AT(net), HRI_FIELD_STRING, NULL, .metavar = "LINK", .needs = A_MODEL},
    {"ghost-norm", "allow splitting the batch in spite of batch norm; this changes the result",
     AT(ghost_norm), HRI_FIELD_BOOL, .value = NULL, .needs = A_MODEL},
    {"measure", "measure op times on this device (cached) instead of using the analytic model",
     AT(measure), HRI_FIELD_BOOL, "true", .needs = A_MODEL},
    {"exact", "compute f32 matmuls on a GPU in f32, not tf32", AT(exact), HRI_FIELD_BOOL,
     .value = NULL, .needs = "device=cuda*"},
    {"offload", "offload values to host memory if the device can copy", AT(offload), HRI_FIELD_BOOL,
     "true"},
    {"spill",
     "on the host: offload values to an unnamed file in this directory; 1 GB/s is assumed unless "
     "--device-spec copy= is given",
     AT(spill), HRI_FIELD_STRING, NULL, .metavar = "DIR", .needs = A_MODEL},
    {"choices", "also plan other budgets, batches and alternatives", AT(choices), HRI_FIELD_BOOL,
     "true"},
    {"effort", "search steps, in thousands", AT(effort), HRI_FIELD_INT, "16000", .min = 1,
     .max = 1e9, .metavar = "N"},
    {"json", "print one JSON object, sizes in bytes", AT(json), HRI_FIELD_BOOL, .value = NULL},
    {"curve", "print budget against time, from the minimum to unconstrained", AT(curve),
     HRI_FIELD_BOOL, .value = NULL},
    {"svg", "draw the curve", AT(svg), HRI_FIELD_STRING, NULL, .metavar = "FILE"},
    {"map", "draw the memory map: which buffer is where, step by step", AT(map), HRI_FIELD_STRING,
     NULL, .metavar = "FILE"},
    {"html", "write a page that shows memory and time, op by op", AT(html), HRI_FIELD_STRING, NULL,
     .metavar = "FILE"},
    {"record", "write a recording for report and diff", AT(record), HRI_FIELD_STRING, NULL,
     .metavar = "FILE.hrp"},
    {"dot", "write the graph for Graphviz", AT(dot), HRI_FIELD_STRING, NULL, .metavar = "FILE"},
    {"save", "write the plan", AT(save), HRI_FIELD_STRING, NULL, .metavar = "FILE"},
    {"load", "load a saved plan and check it", AT(load), HRI_FIELD_STRING, NULL, .metavar = "FILE"},
    {"compare", "compare the plan with a saved one", AT(compare), HRI_FIELD_STRING, NULL,
     .metavar = "FILE"},
    {"save-problem", "write the planner's problem as JSON", AT(save_problem), HRI_FIELD_STRING,
     NULL, .metavar = "FILE"},
    {"problem", "plan a problem from a JSON file instead of a model", AT(problem), HRI_FIELD_STRING,
     NULL, .metavar = "FILE"},
    {"try", "run N steps of the plan on synthetic data and measure", AT(tries), HRI_FIELD_INT, "0",
     .min = 0, .max = 1e6, .metavar = "STEPS"},
    {"seed", "random seed of parameters and synthetic data", AT(seed), HRI_FIELD_INT, "0", .min = 0,
     .max = 1e15, .metavar = "N", .needs = "try"},
    {0},
};

int hri_plan_read_parts(hri_cli *cli, const char *text, int64_t *out) {
    char *end;
    const long long k = strtoll(text, &end, 10);
    if (!strcmp(text, "auto")) {
        *out = 0;
    } else if (!strcmp(text, "off")) {
        *out = 1;
    } else if (*text && !*end && k >= 1 && k <= 1000000) {
        *out = k;
    } else {
        hri_say_error(cli, "--micro-batches: \"%s\" is not auto, off or a number of at least 1",
                      text);
        return HRI_EXIT_USAGE;
    }
    return HRI_EXIT_YES;
}

int hri_plan_read_wait(hri_cli *cli, const char *text, uint64_t *out_ms) {
    hri_prose why = {0};
    const hr_status status = hri_run_wait_parse(text, out_ms, &why);
    if (status != HR_OK) {
        hri_say_error(cli, "%s", why.text);
    }
    return status == HR_OK ? HRI_EXIT_YES : HRI_EXIT_USAGE;
}

int hri_plan_flags_job(hri_cli *cli, const hri_plan_flags *f, hri_text *training, hri_text *passes,
                       hr_job_options *out) {
    hri_text_clear(passes);
    hri_train_passes_add(hri_plan_fields, f, passes);
    hri_text_clear(training);
    hri_train_keys_add(hri_plan_fields, f, training);
    if (f->options && *f->options) {
        hri_text_add(training, ",%s", f->options);
    }
    if (hri_text_status(training) != HR_OK || hri_text_status(passes) != HR_OK) {
        return hri_cli_failed(cli, NULL, "plan", HR_E_NOMEM_HOST);
    }
    *out = (hr_job_options){.size = sizeof *out,
                            .training = hri_text_get(training),
                            .passes = hri_text_get(passes),
                            .init = f->init,
                            .data = f->data,
                            .val_data = f->val_data,
                            .val_split = f->val_split,
                            .data_budget_bytes = f->data_budget_bytes,
                            .batch = f->batch,
                            .val_batch = f->val_batch,
                            .seed = (uint64_t)f->seed,
                            .device = f->device,
                            .device_spec = f->device_spec,
                            .budget = f->budget,
                            .host_budget = f->host_budget,
                            .spill = f->spill,
                            .effort = (uint64_t)f->effort * 1000,
                            .replicas = f->replicas,
                            .shard = hri_train_shards[f->shard],
                            .link = f->net,
                            .split_norm = f->ghost_norm,
                            .no_offload = !f->offload,
                            .no_measure = !f->measure,
                            .exact_f32 = f->exact};
    hri_cli_job_settings(cli, out);
    const int code = hri_plan_read_wait(cli, f->wait, &out->wait_ms);
    return code == HRI_EXIT_YES ? hri_plan_read_parts(cli, f->micro_batches, &out->micro_batches)
                                : code;
}
