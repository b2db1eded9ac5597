/* The stack of this process: a shell may have left little of it (ulimit -s). */
#ifndef HRI_BASE_STACK_H
#define HRI_BASE_STACK_H

#include <headroom/status.h>
#include "base/prose.h"

enum { HRI_STACK_LEAST = 1 << 19, HRI_STACK_WANTED = 1 << 23 };

/* For main(), before any thread: raises a limit below HRI_STACK_WANTED as far as this user may, for the main thread and for threads to
 * come.  HR_E_LIMIT with a sentence: less than HRI_STACK_LEAST is left, and deep calls would end in a signal. */
HR_MUST_CHECK hr_status hri_stack_raise(hri_prose *why);

#endif
