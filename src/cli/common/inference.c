/* Around a predictor of the library; see inference.h. */
#include "cli/common/inference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/common/plan_flags.h"
#include "cli/common/spell.h"

static hr_status on_event(void *user, const hr_job_event *e) {
    hri_inference *i = user;
    const uint64_t now = hri_clock_ns();
    if (e->kind == HR_EVENT_BAD_SAMPLE) {
        hri_progress_hide(&i->progress);
        hri_say_note("skipped: %s", e->text);
    } else if (e->kind == HR_EVENT_TICK && i->begun_ns) {
        hri_out_flush(&i->cli->out);                        /* batch by batch */
        if (!i->quiet && now - i->begun_ns > 1000000000u) { /* work of a second needs no bar */
            hri_progress_step(&i->progress, e->done, "", now);
        }
    } else {
        return hri_cli_on_event(i->cli, e);
    }
    return HR_OK;
}

static int read_batch(hri_cli *cli, const char *text, int64_t *out) {
    char *end;
    const long long n = strtoll(text, &end, 10);
    if (!strcmp(text, "auto")) {
        *out = 0;
    } else if (*text && !*end && n >= 1 && n <= 1000000) {
        *out = n;
    } else {
        hri_say_error(cli, "--batch: \"%s\" is not auto or a number of at least 1", text);
        return HRI_EXIT_USAGE;
    }
    return HRI_EXIT_YES;
}

/* For a script, no is an answer like any other. */
static int refuse(const hri_inference *i) {
    hri_json j;
    char data[32];
    hri_say_error(i->cli, "does not fit: %s (including %s for the input pipeline)", i->info.refusal,
                  hr_bytes_print(i->info.pipeline_bytes, data, sizeof data));
    if (i->info.minimum_bytes) {
        hri_say_hint(i->cli, "--budget %lluMiB",
                     (unsigned long long)((i->info.minimum_bytes + (1 << 20) - 1) >> 20));
    }
    if (!i->flags->json) {
        return HRI_EXIT_NO;
    }
    hri_cli_json_start(&j);
    hri_infer_refusal_json(i->info.model, i->info.checkpoint, i->info.budget_bytes, i->info.refusal,
                           i->info.minimum_bytes, &j);
    return hri_cli_json_end(i->cli, &j, HRI_EXIT_NO);
}

/* A run, or a model and a file. */
static int read_model(hri_cli *cli, const hri_inference_flags *flags, hr_infer_options *o) {
    if (flags->model && flags->weights && !o->checkpoint) {
        o->model = flags->model;
        o->checkpoint = flags->weights;
    } else if (flags->model || !o->checkpoint) {
        hri_say_error(cli, flags->model && flags->weights
                               ? "both a CHECKPOINT and --model are given"
                               : "a CHECKPOINT is required, or --model NAME --weights FILE");
        return HRI_EXIT_USAGE;
    }
    return HRI_EXIT_YES;
}

int hri_inference_open(hri_cli *cli, const hri_inference_flags *flags,
                       const hr_infer_options *options, hri_inference *i) {
    hr_infer_options o = *options;
    hr_error error = {0};
    i->cli = cli;
    i->flags = flags;
    i->split = options->split;
    o.data_budget_bytes = flags->data_budget_bytes;
    o.device = flags->device;
    o.budget = flags->budget;
    o.threads = cli->settings->threads > 0 ? (uint64_t)cli->settings->threads : 0;
    o.skip_bad = flags->skip_bad;
    o.on_event = on_event;
    o.user = i;
    int code = read_model(cli, flags, &o);
    code = code == HRI_EXIT_YES ? read_batch(cli, flags->batch, &o.batch) : code;
    code = code == HRI_EXIT_YES ? hri_plan_read_wait(cli, flags->wait, &o.wait_ms) : code;
    code = code == HRI_EXIT_YES ? hri_cli_open_for(cli, flags->device, &i->ctx) : code;
    if (code != HRI_EXIT_YES) {
        return code;
    }
    hr_status status = hr_predictor_open(i->ctx, &o, &i->predictor, &error);
    if (status != HR_OK) {
        return hri_cli_error(cli, &error);
    }
    i->info.size = sizeof i->info;
    i->result.size = sizeof i->result;
    status = hr_predictor_get_info(i->predictor, &i->info);
    if (status != HR_OK || !i->info.fits) {
        return status != HR_OK ? hri_cli_failed(cli, NULL, "checkpoint", status) : refuse(i);
    }
    hri_out_init(&i->err, STDERR_FILENO);
    i->begun_ns = hri_clock_ns();
    hri_progress_init(&i->progress, &i->err, &cli->err_term, "",
                      i->info.sample_count == HR_UNKNOWN ? 0 : i->info.sample_count, i->begun_ns);
    return HRI_EXIT_YES;
}

void hri_inference_close(hri_inference *i) {
    hr_predictor_close(i->predictor);
    hr_ctx_destroy(i->ctx);
}

int hri_inference_end(hri_inference *i, hr_status status, const hr_error *error) {
    int code = HRI_EXIT_YES;
    hri_progress_hide(&i->progress);
    if (status != HR_OK) {
        code = hri_cli_error(i->cli, error);
        const bool nothing = status == HR_E_NOT_FOUND && error->cause == HR_CAUSE_DATA;
        if (!i->flags->skip_bad && code == HRI_EXIT_USAGE && !nothing) {
            hri_say_note("--skip-bad skips samples that cannot be read");
        }
    }
    const unsigned long long bad = i->result.bad_samples;
    if (bad) {
        hri_say_warning(i->cli, "%llu of %llu samples could not be read and were skipped", bad,
                        bad + i->result.samples);
    }
    return code;
}

hri_infer_sheet hri_inference_sheet(const hri_inference *i) {
    return (hri_infer_sheet){
        .predictor = i->predictor, .info = &i->info, .result = &i->result, .split = i->split};
}

int hri_inference_verdict(const hri_inference *i, int code) {
    if (!i->result.over_budget) {
        return code;
    }
    hri_say_error(i->cli,
                  "the process used up to %llu bytes, over the budget of %llu: this is a bug in "
                  "Headroom, please report it",
                  (unsigned long long)i->result.measured_peak_bytes,
                  (unsigned long long)i->info.budget_bytes);
    return HRI_EXIT_FAULT;
}
