/* From flags to the options of the library, and back to the command as it was typed; see train_run.h. */
#include "cli/common/train_run.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/plan_flags.h"
#include "cli/common/ranks.h"

static int read_batch(const hri_train_run *r, int64_t *out) {
    char *end;
    const char *text = r->flags->batch;
    const long long n = strtoll(text, &end, 10);
    if (!strcmp(text, "auto")) {
        *out = 0;
    } else if (*text && !*end && n >= 1 && n <= 1000000) {
        *out = n;
    } else {
        hri_say_error(r->cli, "--batch: \"%s\" is not auto or a number of at least 1", text);
        return HRI_EXIT_USAGE;
    }
    return HRI_EXIT_YES;
}

/* Where checkpoints go: as it is said, or runs/NAME-1, runs/NAME-2, ... */
static void name_folder(hri_train_run *r) {
    const char *slash = strrchr(r->model, '/'), *name = slash ? slash + 1 : r->model;
    const size_t length = strcspn(name, ":"), end = length > 3 ? length - 3 : 0;
    const int file = end && !strncmp(name + end, ".hr", 3) && length == strlen(name);
    if (r->flags->out) {
        hri_text_add(&r->folder, "%s", r->flags->out);
    } else {
        hri_text_add(&r->folder, "runs/%.*s-#", (int)(file ? end : length), name);
    }
}

static hr_status spell_flags(void *user, const hri_plan_way *way, hri_text *out) {
    hri_change changes[HRI_WAY_CHANGES];
    (void)user;
    hri_spell_changes(way->changes, way->change_count, changes);
    return hri_spell_flags(hri_train_flag_fields, changes, way->change_count, out);
}

static hr_status spell_command(void *user, const hri_plan_way *way, hri_text *out) {
    hri_change changes[HRI_WAY_CHANGES];
    hri_spell_changes(way->changes, way->change_count, changes);
    return hri_train_run_command(user, changes, way->change_count, out);
}

int hri_train_run_init(hri_train_run *r) {
    const hri_train_flags *f = r->flags;
    hri_train_flags_options(f, &r->training);
    hri_train_passes_add(hri_train_flag_fields, f, &r->passes);
    for (size_t i = 0; i < f->augment.count; i++) {
        hri_text_add(&r->augment, "%s%s", i ? "," : "", f->augment.items[i]);
    }
    name_folder(r);
    if (hri_text_status(&r->training) != HR_OK || hri_text_status(&r->passes) != HR_OK ||
        hri_text_status(&r->augment) != HR_OK || hri_text_status(&r->folder) != HR_OK) {
        return hri_cli_failed(r->cli, NULL, "train", HR_E_NOMEM_HOST);
    }
    r->o = (hr_job_options){.size = sizeof r->o,
                            .model = r->model,
                            .training = hri_text_get(&r->training),
                            .passes = hri_text_get(&r->passes),
                            .init = f->init,
                            .smoothing = f->smoothing,
                            .loss = f->loss,
                            .class_weights = f->class_weights,
                            .data = f->data,
                            .val_data = f->val_data,
                            .val_split = f->val_split,
                            .augment = hri_text_get(&r->augment),
                            .data_budget_bytes = f->data_budget_bytes,
                            .val_batch = f->val_batch,
                            .accumulate = f->accumulate,
                            .epochs = f->epochs > 0 ? (uint64_t)f->epochs : 0,
                            .steps = f->steps > 0 ? (uint64_t)f->steps : 0,
                            .seed = (uint64_t)f->seed,
                            .val_every = (uint64_t)f->val_every,
                            .patience = (uint64_t)f->patience,
                            .min_delta = f->min_delta,
                            .device = f->device,
                            .budget = f->budget,
                            .host_budget = f->host_budget,
                            .spill = f->spill,
                            .effort = (uint64_t)f->effort * 1000,
                            .gpu_choices = f->choices,
                            .folder = f->save ? hri_text_get(&r->folder) : NULL,
                            .save_every = (uint64_t)f->save_every,
                            .save_seconds =
                                f->save_minutes > 0 ? (uint64_t)(f->save_minutes * 60) : HR_UNKNOWN,
                            .log = f->log,
                            .tensorboard = f->tensorboard,
                            .svg = f->svg,
                            .log_every = (uint64_t)f->log_every,
                            .start = f->resume      ? HR_START_RESUME
                                     : f->overwrite ? HR_START_OVERWRITE
                                                    : HR_START_NEW,
                            .replicas = f->replicas,
                            .shard = hri_train_shards[f->shard],
                            .net = hri_ranks_net(f),
                            .split_norm = f->ghost_norm,
                            .skip_bad = f->skip_bad,
                            .no_offload = !f->offload,
                            .no_measure = !f->measure,
                            .exact_f32 = f->exact,
                            .tune = f->tune,
                            .grow = f->memory_growth};
    hri_habits_set(&f->habits, &r->o);
    hri_cli_job_settings(r->cli, &r->o);
    r->speller = (hri_plan_speller){.user = r, .flags = spell_flags, .command = spell_command};
    hri_out_init(&r->err, STDERR_FILENO);
    r->view = (hri_train_view){.out = &r->cli->out,
                               .err = &r->err,
                               .out_term = &r->cli->out_term,
                               .err_term = &r->cli->err_term,
                               .json = f->json,
                               .many = r->view.many};
    int code = read_batch(r, &r->o.batch);
    code = code == HRI_EXIT_YES ? hri_plan_read_wait(r->cli, f->wait, &r->o.wait_ms) : code;
    code = code == HRI_EXIT_YES ? hri_plan_read_wait(r->cli, f->net_deadline, &r->o.net_deadline_ms)
                                : code;
    return code == HRI_EXIT_YES ? hri_plan_read_parts(r->cli, f->micro_batches, &r->o.micro_batches)
                                : code;
}

void hri_train_run_deinit(hri_train_run *r) {
    hri_text_deinit(&r->training);
    hri_text_deinit(&r->passes);
    hri_text_deinit(&r->augment);
    hri_text_deinit(&r->folder);
}

hr_status hri_train_run_command(const hri_train_run *r, const hri_change *changes, size_t count,
                                hri_text *out) {
    hri_options o;
    hri_train_flags f;
    hr_status status = hri_options_changed(&o, hri_train_flag_fields, r->flags, sizeof f, changes,
                                           count, &f, NULL);
    if (status == HR_OK) {
        status = hri_cli_command(r->cli, "train", r->model, hri_train_flag_fields, &f, out);
        hri_options_deinit(&o);
    }
    return status;
}
