/* The broker as a process: a socket in the user's folder, one thread, one ledger in a mapped file.
 *
 * Only one runs in a folder: it holds a lock on a file there.  It takes connections of its own user only, and ends when
 * there were neither jobs nor connections for linger_ms.  A second one that finds the lock taken returns HR_E_EXISTS. */
#ifndef HRI_BROKER_DAEMON_H
#define HRI_BROKER_DAEMON_H

#include <headroom/status.h>
#include "base/prose.h"
#include "broker/observer.h"

HR_MUST_CHECK hr_status hri_daemon_run(const char *folder, const hri_observer *observer,
                                       uint64_t linger_ms, hri_prose *why);

#endif
