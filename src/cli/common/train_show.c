/* What follows from how a training went: the exit code, and the next command; see train_run.h. */
#include "cli/common/train_run.h"

#include <stdio.h>

#include "cli/common/command.h"
#include "device/device.h"

/* The command again, as it was given, to continue with. */
static hr_status resume_command(const hri_train_run *s, hri_text *out) {
    const char *folder = s->view.job && s->view.job->folder ? s->view.job->folder : s->flags->out;
    const hri_change changes[] = {
        {"out", folder}, {"resume", "true"}, {"overwrite", NULL}, {"init", NULL}};
    return hri_train_run_command(s, changes, sizeof changes / sizeof changes[0], out);
}

/* How good it is: on the data that was held out, where that has a name. */
static hr_status eval_command(const hri_train_run *s, hri_text *out) {
    const hri_train_job *j = s->view.job;
    const hri_train_flags *f = s->flags;
    hri_text_add(out, "headroom eval ");
    hri_text_word(out, j->folder);
    hri_text_add(out, " --data ");
    hri_text_word(out, f->val_data ? f->val_data : f->data);
    hri_text_add(out, "%s", f->val_split > 0 ? " --split val" : "");
    if (!hri_device_name_is_host(f->device)) {
        hri_text_add(out, " --device ");
        hri_text_word(out, f->device);
    }
    hri_text_add(out, "%s", f->skip_bad ? " --skip-bad" : "");
    return hri_text_status(out);
}

static void say_next(hri_train_run *s) {
    const hri_train_job *j = s->view.job;
    const hri_trainer_end end = hri_trainer_over(j->trainer);
    const hri_change save = {"save", "true"};
    hri_text command = {0};
    hr_status status;
    if (s->view.many && j->index == 0) {
        return; /* one next command at the very end */
    }
    if (!j->folder) {
        status = s->view.many ? HR_E_UNSUPPORTED : hri_train_run_command(s, &save, 1, &command);
    } else if (!s->view.many && (!hri_command_find("eval") || end == HRI_TRAINER_INTERRUPTED)) {
        status = resume_command(s, &command);
    } else {
        status = eval_command(s, &command);
    }
    if (status == HR_OK) {
        hri_say_next(s->cli, hri_text_get(&command));
    }
    hri_text_deinit(&command);
}

/* It never happens; if it does, nobody may take it for a success. */
static int check_kept(const hri_train_run *s, const hri_measured *m) {
    const hri_train_job *j = s->view.job;
    char budget[32], measured[32];
    if (!hri_train_over_budget(j, m)) {
        return HRI_EXIT_YES;
    }
    hri_say_error(s->cli,
                  "the budget was exceeded: the peak was %s, the budget %s; the checkpoint is "
                  "valid, but this is a bug in Headroom: please report it",
                  hr_bytes_print(m->peak_bytes, measured, sizeof measured),
                  hr_bytes_print(j->plan->budget_bytes, budget, sizeof budget));
    return HRI_EXIT_FAULT;
}

int hri_train_run_end(hri_train_run *s) {
    const hri_train_job *j = s->view.job;
    hri_measured m;
    hri_planned_measure(j->planned, &m);
    hri_train_show_hide(&s->view);
    if (!s->flags->json) {
        hri_train_show_end(&s->view);
        say_next(s);
    }
    if (hri_trainer_over(j->trainer) == HRI_TRAINER_INTERRUPTED) {
        hri_refuse(s->cli, "interrupted", "stopped by a signal after step %llu",
                   (unsigned long long)hri_trainer_progress(j->trainer)->state.step);
        return HRI_EXIT_NO;
    }
    return check_kept(s, &m);
}

void hri_train_run_failed(const hri_train_run *s, bool alone) {
    const hri_train_job *j = s->view.job;
    uint64_t step;
    hri_text command = {0};
    const bool saved = j && j->trainer && *hri_trainer_saved(j->trainer, &step);
    /* Of ranks, whoever speaks may not be the one who saves: --resume begins where nothing was saved. */
    if ((saved || (!alone && s->flags->save && s->flags->out)) && !s->view.many) {
        if (resume_command(s, &command) == HR_OK) {
            hri_say_hint(s->cli, "%s", hri_text_get(&command));
        }
        hri_text_deinit(&command);
    }
}

/* Two that do not fit together. */
static int refuse_two(const hri_train_run *s, const hri_train_run *first, const hri_together *t) {
    uint64_t floor, least;
    char size[32];
    hri_text command = {0};
    hri_together_least(t, &floor, &least);
    hri_refuse(s->cli, "does_not_fit", "the minimum of both is %llu bytes, the budget %llu",
               (unsigned long long)floor, (unsigned long long)s->view.job->plan->budget_bytes);
    if (s->flags->json) {
        hri_json json;
        hri_cli_json_start(&json);
        hri_train_refusal_json(t, &json);
        return hri_cli_json_end(s->cli, &json, HRI_EXIT_NO);
    }
    hri_train_show_refusal(&s->view, t);
    snprintf(size, sizeof size, "%lluMiB", (unsigned long long)((least + (1 << 20) - 1) >> 20));
    const hri_change change = {"budget", size};
    if (hri_train_run_command(first, &change, 1, &command) == HR_OK) {
        hri_say_next(s->cli, hri_text_get(&command));
    }
    hri_text_deinit(&command);
    return HRI_EXIT_NO;
}

int hri_train_run_refusal(hri_train_run *runs, const hri_together *t) {
    hri_train_run *s = &runs[t->which];
    const hri_train_job *j = s->view.job;
    if (!j->plan->floor_bytes) { /* it came to no plan, and why was said */
        return HRI_EXIT_NO;
    }
    if (t->count > 1 && !t->slices[0]) {
        return refuse_two(s, &runs[0], t);
    }
    const hri_plan_sheet sheet = {.job = j->plan, .answer = j->answer, .speller = &s->speller};
    const int code = hri_cli_answer(s->cli, &sheet, s->flags->json);
    if (code == HRI_EXIT_NO && !s->flags->json) {
        hri_cli_next_way(s->cli, &sheet);
    }
    return code;
}
