/* What headroom top and headroom why read and write while every allocation fails once: a status or less to show, nothing left
 * behind, and the next call has all of it. */
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "govern/story.h"
#include "govern/view.h"
#include "pictures.h"
#include "test.h"

static hr_status look(void) {
    hri_wire rows[3] = {hri_wire_make(HRI_VERB_LIST), hri_wire_make(HRI_VERB_LIST),
                        hri_wire_make(HRI_VERB_LIST)};
    hri_watch_view v = {.order = HRI_VIEW_BY_HELD};
    rows[0].flags = HRI_WIRE_ROW_PROCESS;
    rows[1].flags = HRI_WIRE_ROW_JOB;
    rows[2].flags = HRI_WIRE_ROW_DEVICE;
    hr_status status = hri_view_put(&v, rows, 3);
    for (int i = 0; i < 2 && status == HR_OK; i++) {
        CHECK_EQ(v.count, 3);
        status = hri_view_put(&v, rows, 3);
    }
    hri_view_deinit(&v);
    return status;
}

static hr_status tell(void) {
    char program[] = "python", file[] = "a file.py";
    char *const argv[] = {program, file, NULL};
    const char *folder = test_folder();
    hri_story s = {0};
    hri_story_begin(folder, 7, argv);
    hri_story_end(folder, 7, argv, 9); /* killed */
    const hr_status status = hri_story_read(folder, 0, &s);
    if (status == HR_OK) {
        CHECK_EQ(s.job, 7);
        CHECK_EQ(s.status, 9);
    }
    hri_story_deinit(&s);
    return status;
}

static void sweep(hr_status (*work)(void)) {
    const int64_t live = hri_fault_live_allocs();
    int faults = 0;
    for (uint64_t nth = 1;; nth++) {
        hri_fault_set(HRI_FAULT_ALLOC, nth, 0);
        const hr_status status = work();
        const uint64_t delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
        CHECK_EQ(hri_fault_live_allocs(), live);
        if (!delivered) {
            CHECK_OK(status);
            break;
        }
        faults++;
        CHECK(status == HR_OK || status == HR_E_NOMEM_HOST || status == HR_E_NOT_FOUND);
    }
    CHECK(faults > 2);
}

TEST(govern, a_fault_while_looking_leaves_nothing_behind) {
    sweep(look);
}

TEST(govern, a_fault_while_a_story_is_written_and_read_leaves_nothing_behind) {
    CHECK_OK(tell());
    sweep(tell);
    hri_story s = {0};
    CHECK_OK(hri_story_read(test_folder(), 7, &s));
    CHECK_STR(hri_text_get(&s.command), "python 'a file.py'");
    hri_story_deinit(&s);
}
