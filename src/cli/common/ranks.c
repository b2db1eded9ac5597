/* See ranks.h. */
#include "cli/common/ranks.h"

#include "cli/common/plan_flags.h"
#include "net/launch.h"
#include "net/speak.h"

const char *hri_ranks_net(const hri_train_flags *f) {
    uint32_t rank;
    return f->net ? hri_train_wires[f->net] : hri_group_size(&rank) > 1 ? "auto" : NULL;
}

bool hri_ranks_launch(hri_cli *cli, const hri_train_flags *f, int *code) {
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
        if (end.rank == 0 && end.code < 0) { /* which had said it of all others */
            hri_say_error(cli,
                          "rank 0 (process %d) ended with signal %d; --resume continues from "
                          "its last checkpoint",
                          end.pid, -end.code);
        }
    }
    return true;
}

void hri_ranks_mute(const hri_train_flags *f) {
    if (hri_ranks_net(f)) {
        hri_group_mute();
    }
}
