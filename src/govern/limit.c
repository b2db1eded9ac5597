/* See limit.h. */
#include "govern/limit.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <headroom/bytes.h>

enum { ANSWER_MS = 10000 };

hr_status hri_limit_job(hri_link *link, uint64_t job, uint64_t bytes, hri_prose *said) {
    char wanted[32], left[32];
    const unsigned long long number = job;
    hri_wire w = hri_wire_make(HRI_VERB_LIMIT);
    w.job = job;
    w.limit_bytes = bytes;
    const hr_status status = hri_client_ask(&link->client, &w, ANSWER_MS);
    if (status != HR_OK) {
        return hri_prose_set(said, HR_E_IO, "the broker does not respond");
    }
    hr_bytes_print(bytes, wanted, sizeof wanted);
    switch (w.said) {
    case HRI_SAID_OK:
        if (w.granted_bytes > bytes) {
            return hri_prose_set(said, HR_OK,
                                 "job %llu: budget is now %s; it holds %s, was asked to release "
                                 "memory and gets no more until it is below the limit",
                                 number, wanted,
                                 hr_bytes_print(w.granted_bytes, left, sizeof left));
        }
        return hri_prose_set(said, HR_OK, "job %llu: budget is now %s", number, wanted);
    case HRI_SAID_NOT_FOUND:
        return hri_prose_set(said, HR_E_NOT_FOUND, "there is no job %llu", number);
    case HRI_SAID_LIMIT:
        return hri_prose_set(said, HR_E_RANGE, "%s is more than the GPU has (%s)", wanted,
                             hr_bytes_print(w.total_bytes, left, sizeof left));
    case HRI_SAID_WRONG:
        return hri_prose_set(said, HR_E_UNSUPPORTED,
                             "job %llu is a headroom train run with a fixed plan; stop it and "
                             "resume it with another --budget",
                             number);
    default:
        return hri_prose_set(said, HR_E_AGAIN,
                             "%s is not available: others hold the rest, %s is free", wanted,
                             hr_bytes_print(w.free_bytes, left, sizeof left));
    }
}

hr_status hri_limit_end(hri_link *link, uint64_t job, int number, hri_prose *said) {
    hri_wire row;
    int found = 0, error = 0;
    for (uint32_t r = 0; hri_link_row(link, r, &row) == HR_OK; r++) {
        const uint32_t kind =
            number == SIGKILL ? HRI_WIRE_ROW_PROCESS | HRI_WIRE_ROW_JOB : HRI_WIRE_ROW_JOB;
        if (row.job != job || !(row.flags & kind) || row.pid <= 0 ||
            (row.flags & HRI_WIRE_DRAINING)) {
            continue;
        }
        found++;
        error = kill(row.pid, number) != 0 && errno != ESRCH ? errno : error;
    }
    if (!found) {
        return hri_prose_set(said, HR_E_NOT_FOUND, "there is no job %llu", (unsigned long long)job);
    }
    return error ? hri_prose_set(said, HR_E_IO, "job %llu: %s", (unsigned long long)job,
                                 strerror(error))
                 : hri_prose_set(said, HR_OK, "signal %d sent to job %llu", number,
                                 (unsigned long long)job);
}
