/* See ranks.h. */
#include "cli/common/ranks.h"

#include <fcntl.h>
#include <unistd.h>

#include "cli/common/plan_flags.h"
#include "net/launch.h"
#include "net/net.h"

enum { KEPT = 97 }; /* where stderr of a rank that is not the first is meanwhile */

static uint32_t size_of_group(uint32_t *rank) {
    hri_who who = {.size = 1};
    hri_prose ignored = {""};
    *rank = 0;
    if (hri_who_am_i(&who, &ignored) != HR_OK) {
        return 2; /* the library says what is wrong with the variables */
    }
    *rank = who.rank;
    return who.size;
}

const char *hri_ranks_net(const hri_train_flags *f) {
    uint32_t rank;
    return f->net ? hri_train_wires[f->net] : size_of_group(&rank) > 1 ? "auto" : NULL;
}

bool hri_ranks_launch(hri_cli *cli, const hri_train_flags *f, int *code) {
    uint32_t rank;
    uint64_t deadline_ms = 0;
    hri_launch_end end = {.rank = -1};
    hri_prose why = {""};
    if (!f->net || f->replicas < 2 || size_of_group(&rank) > 1) {
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
    uint32_t rank = 0;
    if (!hri_ranks_net(f) || size_of_group(&rank) < 2 || rank == 0) {
        return;
    }
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0 && fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, KEPT) == KEPT) {
        (void)dup2(nowhere, STDOUT_FILENO);
        (void)dup2(nowhere, STDERR_FILENO);
    }
    if (nowhere >= 0) {
        close(nowhere);
    }
}

void hri_ranks_unmute(void) {
    if (fcntl(KEPT, F_GETFD) >= 0) {
        (void)dup2(KEPT, STDERR_FILENO);
        close(KEPT);
    }
}
