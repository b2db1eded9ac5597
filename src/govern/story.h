/* What is left of jobs in the user's folder, for `headroom why`: four files, each written by who knows best.
 *
 *   page-JOB-PID    the process itself, while it runs; stays after a SIGKILL (broker/page.h)
 *   refused-JOB     the broker, when it refuses: who held what then (broker/refusal.h)
 *   job-JOB         `headroom run`: the command, and how it ended
 *   ram-JOB         `headroom run --ram`: host memory, and whether something was killed for it (govern/ram.h)
 *
 * A story is all of it about one job. */
#ifndef HRI_GOVERN_STORY_H
#define HRI_GOVERN_STORY_H

#include "base/text.h"
#include "broker/page.h"
#include "broker/refusal.h"
#include "govern/ram.h"

typedef struct hri_story {
    uint64_t job;
    hri_page *page;       /* of the process with the latest refusal, or the latest; NULL: none */
    hri_refusal *refusal; /* NULL: none */
    hri_text command;     /* of the program, quoted for a shell; "": not known */
    int ended;            /* `status` is known */
    int status;           /* as waitpid gives it */
    uint64_t ended_ns;    /* CLOCK_REALTIME */
    hri_ram_record ram;   /* limit_bytes 0: there was no limit */
} hri_story;

/* Of the job, or for 0 of the one that was refused memory, or killed, last.  HR_E_NOT_FOUND: there is none.  deinit is allowed
 * on a zeroed one. */
HR_MUST_CHECK hr_status hri_story_read(const char *folder, uint64_t job, hri_story *out);
void hri_story_deinit(hri_story *s);

/* The most that would have been granted in place of what was refused. */
uint64_t hri_story_fitting(const hri_story *s);

/* The command of a job that starts, and its end; what cannot be written is not there to be read later. */
void hri_story_begin(const char *folder, uint64_t job, char *const *argv);
/* The same with this process's own command. */
void hri_story_begin_self(const char *folder, uint64_t job);
void hri_story_end(const char *folder, uint64_t job, char *const *argv, int status);
/* Records of jobs long gone make room: those of the last 32 before `job` stay. */
void hri_story_forget(const char *folder, uint64_t job);

/* ---- of a page ---- */

/* The moment of its last refusal, or of its start where there was none; nanoseconds of CLOCK_REALTIME. */
uint64_t hri_story_moment(const hri_page *page);
/* Does its process run still? */
int hri_story_alive(const hri_page *page);
/* Why the last request was refused, as the end of a sentence. */
const char *hri_story_reason(const hri_page *page);
/* A budget in which the refused request would have fitted: it, what was held, and a little more. */
uint64_t hri_story_enough(const hri_page *page);

#endif
