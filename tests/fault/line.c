/* Every allocation while a network in one line, or a model file with weights, is opened fails once, and once for ever. */
#include <headroom/headroom.h>

#include "base/fault.h"
#include "models/common/file.h"
#include "models/common/line.h"
#include "test.h"

static hr_status open_line(void) {
    hr_model *m = NULL;
    const hr_status status = hr_model_open(
        "net: input(6x6x1,classes=3) | repeat(2, residual(conv(4) | batch_norm | elu)) | flatten | "
        "dense(classes)",
        &m, NULL);
    hr_model_close(m);
    return status;
}

TEST_TIMEOUT(line, every_allocation_of_opening_may_fail, 120) {
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        uint64_t delivered = 1;
        for (uint64_t nth = 1; delivered; nth++) {
            const int64_t live = hri_fault_live_allocs();
            hri_fault_set(HRI_FAULT_ALLOC, nth, for_ever);
            const hr_status status = open_line();
            delivered = hri_fault_delivered();
            hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
            CHECK_EQ(hri_fault_live_allocs(), live);
            CHECK_STATUS(status, delivered ? HR_E_NOMEM_HOST : HR_OK);
        }
    }
}
