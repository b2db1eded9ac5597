/* Allocations fail while a model is shrunk: a status, nothing left behind, no file half written, and a retry works. */
#include <headroom/headroom.h>

#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "job/shrink.h"
#include "pictures.h"
#include "test.h"
#include "untrained.h"

TEST_TIMEOUT(shrink, every_failed_allocation_is_a_status, 120) {
    char path[600], out[600];
    const hri_about about = {.source = "synthetic", .input = "image"};
    snprintf(path, sizeof path, "%s",
             test_untrained("resnet18:size=8,width=4,layers=1,classes=2", &about, "a.safetensors"));
    snprintf(out, sizeof out, "%s/b.safetensors", test_folder());
    const hri_shrink_job job = {.checkpoint = path,
                                .out = out,
                                .batch = 2,
                                .how = {.by = HRI_SHRINK_KEEP, .keep = 0.5, .multiple = 2}};
    hri_shrink_result r;
    hri_why first = {0};
    CHECK_OK(hri_shrink(&job, &r, &first));
    int failed = 0;
    uint64_t delivered = 1;
    /* Building graphs makes thousands of allocations; their failures are swept elsewhere, so the steps grow. */
    for (uint64_t nth = 1; delivered; nth += 1 + nth / 12) {
        const int64_t live = hri_fault_live_allocs();
        hri_why why = {0};
        hri_fault_set(HRI_FAULT_ALLOC, nth, nth % 2);
        const hr_status status = hri_shrink(&job, &r, &why);
        delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
        CHECK_EQ(hri_fault_live_allocs(), live);
        CHECK(status == HR_OK || status == HR_E_NOMEM_HOST || delivered);
        failed += status != HR_OK;
    }
    CHECK(failed > 10);
    CHECK_OK(hri_shrink(&job, &r, &first));
}
