/* Every allocation of a piece of work fails once; in builds with faults only. */
#ifndef HR_TEST_SWEEP_H
#define HR_TEST_SWEEP_H

#include <headroom/status.h>

/* Runs it with the Nth allocation failing, and for every other N all after it, too, until there is none left to fail: a status each time,
 * nothing left behind, and a retry works.  Fewer than ten failures are a mistake of the case. */
void test_sweep(hr_status (*run)(const void *user), const void *user);

#endif
