#include "sweep.h"

#include "base/fault.h"
#include "test.h"

#ifdef HEADROOM_FAULTS
void test_sweep(hr_status (*run)(const void *user), const void *user) {
    int failed = 0;
    CHECK_OK(run(user));
    for (uint64_t nth = 1, delivered = 1; delivered; nth++) {
        const int64_t live = hri_fault_live_allocs();
        hri_fault_set(HRI_FAULT_ALLOC, nth, nth % 2);
        const hr_status status = run(user);
        delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
        CHECK_EQ(hri_fault_live_allocs(), live);
        CHECK(status == HR_OK || status == HR_E_NOMEM_HOST || delivered);
        failed += status != HR_OK;
    }
    CHECK(failed > 10);
    CHECK_OK(run(user));
}
#endif
