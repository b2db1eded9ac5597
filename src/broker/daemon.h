/* The broker as a process: a socket in the user's folder, one thread, one ledger in a mapped file.
 *
 * Only one runs in a folder: it holds a lock on a file there.  It takes connections of its own user only, and ends when
 * there were neither jobs nor connections for linger_ms. */
#ifndef HRI_BROKER_DAEMON_H
#define HRI_BROKER_DAEMON_H

#include <stdbool.h>
#include <headroom/status.h>
#include "base/prose.h"
#include "broker/observer.h"

/* Goes on in a process that is nobody's child, so that whoever started this one is not left with a dead child when it ends.  True in
 * that process: *out_ready is for hri_daemon_run.  False in this one, when the other answers or has ended: *out_code is its exit
 * code, 0 when it answers.  Before any thread and any library with state of its own. */
bool hri_daemon_detach(int *out_ready, int *out_code);

/* Makes the folder; HR_E_INVALID: it is there, and others can write to it. */
HR_MUST_CHECK hr_status hri_daemon_folder(const char *folder, hri_prose *why);
/* Makes the folder and takes its lock; HR_E_EXISTS: a broker runs there, or is about to.  To be asked before anything else: of many
 * that are started at once one looks at the GPUs, and what the others would see of them at that moment does not matter. */
HR_MUST_CHECK hr_status hri_daemon_lock(const char *folder, int *out_lock, hri_prose *why);

/* lock: of hri_daemon_lock; it is closed here.  ready: a descriptor that is written to and closed as soon as it answers, or -1. */
HR_MUST_CHECK hr_status hri_daemon_run(int lock, const char *folder, const hri_observer *observer,
                                       uint64_t linger_ms, int ready, hri_prose *why);

#endif
