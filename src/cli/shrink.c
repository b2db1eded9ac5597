/* headroom shrink: a run's model without the channels that matter least. */
#include "cli/common/command.h"
#include "cli/common/outputs.h"
#include "cli/common/spell.h"
#include "show/shrink.h"

typedef struct shrink_options {
    const char *out;
    double keep, threshold;
    int64_t multiple, batch;
    int norm;
    bool dry_run, json;
} shrink_options;

#define AT(FIELD) offsetof(shrink_options, FIELD)

static const char *const norms[] = {"l2", "l1", NULL};

static const hri_field fields[] = {
    {"keep", "share of the channels of each group that stay", AT(keep), HRI_FIELD_DOUBLE, "0",
     .min = 0, .max = 1, .metavar = "SHARE"},
    {"threshold", "remove channels whose norm is below this share of the layer's mean",
     AT(threshold), HRI_FIELD_DOUBLE, "0", .min = 0, .max = 1e9, .metavar = "SHARE"},
    {"norm", "how a channel's weights are measured", AT(norm), HRI_FIELD_ENUM, "l2",
     .choices = norms},
    {"multiple", "keep a multiple of N channels; default: 8, or 1 where nothing read the others",
     AT(multiple), HRI_FIELD_INT, "0", .min = 0, .max = 65536, .metavar = "N"},
    {"batch", "batch size of the training that is compared; default: the run's", AT(batch),
     HRI_FIELD_INT, "0", .min = 0, .max = 1e9, .metavar = "N"},
    {"dry-run", "print what it would save, and write nothing", AT(dry_run), HRI_FIELD_BOOL,
     .value = NULL, .alias = "plan"},
    {"out", "file to write, and the model file next to it", AT(out), HRI_FIELD_STRING, NULL,
     .metavar = "FILE", .letter = 'o'},
    {"json", "print one JSON object", AT(json), HRI_FIELD_BOOL, .value = NULL},
    {0},
};

static int print(hri_cli *cli, const hri_shrink_job *job, const hri_shrink_result *r) {
    hri_text next = {0};
    const hr_status status = hri_shrink_show(job, r, &cli->out, &cli->out_term);
    if (job->out && status == HR_OK) {
        hri_text_add(&next, "headroom train ");
        hri_text_word(&next, r->model_path);
        hri_text_add(&next, " --data SRC");
        hri_say_next(cli, hri_text_get(&next));
    }
    hri_text_deinit(&next);
    return status == HR_OK ? HRI_EXIT_YES : hri_cli_failed(cli, NULL, "shrink", status);
}

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    const shrink_options *o = options;
    const int by = o->keep > 0        ? HRI_SHRINK_KEEP
                   : o->threshold > 0 ? HRI_SHRINK_THRESHOLD
                                      : HRI_SHRINK_ZEROS;
    const hri_shrink_job job = {.checkpoint = arguments[0],
                                .out = o->dry_run ? NULL : o->out,
                                .batch = o->batch,
                                .how = {.by = by,
                                        .keep = o->keep,
                                        .threshold = o->threshold,
                                        .l1 = o->norm,
                                        .multiple = o->multiple              ? o->multiple
                                                    : by == HRI_SHRINK_ZEROS ? 1
                                                                             : 8}};
    hri_shrink_result r;
    hri_why why = {0};
    hri_json json;
    (void)count;
    if ((!o->out && !o->dry_run) || (o->keep > 0 && o->threshold > 0)) {
        hri_say_error(cli, o->out || o->dry_run
                               ? "shrink: --keep and --threshold cannot be combined"
                               : "shrink: --out or --dry-run is required, for example -o "
                                 "small.safetensors");
        return HRI_EXIT_USAGE;
    }
    const int code = hri_cli_output_check(cli, "--out", job.out, HRI_OUTPUT_FILE);
    if (code != HRI_EXIT_YES) {
        return code;
    }
    const hr_status status = hri_shrink(&job, &r, &why);
    if (status != HR_OK) {
        return hri_cli_why(cli, &why, status);
    }
    if (!o->json) {
        return print(cli, &job, &r);
    }
    hri_cli_json_start(&json);
    hri_shrink_json(&job, &r, &json);
    return hri_cli_json_end(cli, &json, HRI_EXIT_YES);
}

const hri_command hri_command_shrink = {
    .name = "shrink",
    .summary = "remove whole channels from a trained model",
    .arguments = "CHECKPOINT",
    .choices = "",
    .arguments_min = 1,
    .arguments_max = 1,
    .help = hri_shrink_help,
    .examples = {{"headroom shrink runs/flowers --keep 0.5 --dry-run", "what half would save"},
                 {"headroom shrink runs/flowers --keep 0.5 -o small.safetensors", "do it"},
                 {"headroom train small.hr --data images:flowers --lr 0.001", "train it further"}},
    .fields = fields,
    .options_bytes = sizeof(shrink_options),
    .run = run,
};
