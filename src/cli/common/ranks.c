/* See ranks.h. */
#include "cli/common/ranks.h"

#include "cli/common/plan_flags.h"
#include "cli/common/train_run.h"
#include "net/launch.h"
#include "net/speak.h"

#define DECLINE_NS 30000000000u

/* Nobody who could say it is left. */
static void say_signal(hri_cli *cli, const hri_train_flags *f, const char *model,
                       const hri_launch_end *end) {
    const hri_train_run run = {.cli = cli, .flags = f, .model = model};
    hri_say_error(cli, "rank %d (process %d) ended with signal %d", end->rank, end->pid,
                  -end->code);
    hri_train_run_failed(&run, false);
}

const char *hri_ranks_net(const hri_train_flags *f) {
    uint32_t rank;
    return f->net ? hri_train_wires[f->net] : hri_group_size(&rank) > 1 ? "auto" : NULL;
}

bool hri_ranks_many(const hri_train_flags *f) {
    uint32_t rank;
    return hri_ranks_net(f) && hri_group_size(&rank) > 1;
}

void hri_ranks_decline(hri_cli *cli, const hri_train_flags *f) {
    hri_net_options o = {.wire = hri_ranks_net(f)};
    hri_prose ignored = {""};
    if (hri_ranks_many(f) && hri_who_am_i(&o.who, &ignored) == HR_OK) {
        const char *why = hri_text_get(&cli->failure);
        hri_out_flush(&cli->out);
        hri_net_decline(&o, *why ? why : "it does not fit", DECLINE_NS);
    }
}

bool hri_ranks_stands_in(const hri_together *t, const char *message) {
    const hri_train_job *j = &t->jobs[0];
    return j->who.rank == 1 && hri_group_first_is_gone(j->net, message);
}

bool hri_ranks_launch(hri_cli *cli, const hri_train_flags *f, const char *model, int *code) {
    uint32_t rank;
    uint64_t deadline_ms = 0;
    hri_launch_end end = {.rank = -1};
    hri_prose why = {""};
    if (!hri_launch_follow()) {
        hri_say_error(cli, "the process that started this rank has ended");
        *code = HRI_EXIT_FAULT;
        return true;
    }
    if (!f->net || f->replicas < 2 || hri_group_size(&rank) > 1) {
        return false;
    }
    *code = hri_plan_read_wait(cli, f->net_deadline, &deadline_ms);
    if (*code != HRI_EXIT_YES) {
        return true;
    }
    const hr_status status =
        hri_launch_self((uint32_t)f->replicas, deadline_ms * 1000000, &end, &why);
    if (status != HR_OK) {
        hri_say_error(cli, "%s", why.text);
        *code = HRI_EXIT_FAULT;
    } else if (end.rank >= 0) {
        *code = end.code > 0 ? end.code : HRI_EXIT_FAULT;
        if (!end.told) {
            say_signal(cli, f, model, &end);
        }
    }
    return true;
}

void hri_ranks_mute(const hri_train_flags *f) {
    if (hri_ranks_net(f)) {
        hri_group_mute();
    }
}
