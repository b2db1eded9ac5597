#include "net/speak.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/prose.h"
#include "net/meeting.h"

enum { KEPT = 97 }; /* where stderr of a rank that is not the first is meanwhile */

uint32_t hri_group_size(uint32_t *rank) {
    hri_who who = {.size = 1};
    hri_prose ignored = {""};
    *rank = 0;
    if (hri_who_am_i(&who, &ignored) != HR_OK) {
        return 2;
    }
    *rank = who.rank;
    return who.size;
}

void hri_group_mute(void) {
    uint32_t rank = 0;
    if (hri_group_size(&rank) < 2 || rank == 0) {
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

bool hri_group_first_is_gone(hri_net *net, const char *why) {
    hri_net_end end;
    if (net) {
        return hri_net_cause(net, &end) && end.rank == 0 && end.status == HR_E_PEER;
    }
    return strncmp(why, HRI_FIRST_GONE, sizeof HRI_FIRST_GONE - 1) == 0;
}

void hri_group_unmute(void) {
    if (fcntl(KEPT, F_GETFD) >= 0) {
        (void)dup2(KEPT, STDERR_FILENO);
        close(KEPT);
    }
}
