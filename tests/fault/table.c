/* Every allocation, opening and read of what stands before a training on a table fails once: looking at its columns, their
 * statistics, class weights and metrics.  The status fits, nothing is left behind, and a retry gives what a first try gives. */
#include <headroom/headroom.h>

#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/hash.h"
#include "loop/class_weights.h"
#include "loop/scorer.h"
#include "loop/survey.h"
#include "pictures.h"
#include "test.h"

static char data_text[600], weights_path[600];

static void set_up(void) {
    static const char rows[] =
        "id,area,city,kind,w\n1,10,Ulm,a,1\n2,20,Bonn,b,2\n3,,Ulm,b,0\n4,40,Jena,a,1\n";
    static const char weights[] = "b,2\na,0.5\n";
    test_write(test_folder(), "t.csv", rows, sizeof rows - 1);
    test_write(test_folder(), "w.txt", weights, sizeof weights - 1);
    snprintf(data_text, sizeof data_text, "csv:%s/t.csv,x=area+city,y=kind,key=id,weight=w",
             test_folder());
    snprintf(weights_path, sizeof weights_path, "%s/w.txt", test_folder());
}

static hr_status open_scorer(const hri_metrics_options *metrics) {
    const hri_wanted_task task = {.target = HRI_TARGET_CLASSES, .outputs = 2};
    hri_wanted wanted = {.count = 0};
    hri_scorer *s = NULL;
    hr_status status = hri_wanted_add(&wanted, "auc,f1:1", &task, NULL, NULL);
    const hri_scorer_options o = {
        .wanted = &wanted, .metrics = *metrics, .label = "label", .label_each = 1, .samples = 4};
    status = status == HR_OK ? hri_scorer_open(&o, &s) : status;
    hri_scorer_close(s);
    return status;
}

static hr_status judge(hri_hasher *h) {
    static const float scores[] = {2, 1, 0, 3, 1, 1};
    static const int32_t ids[] = {0, 1, 1};
    const hri_metrics_options o = {.target = HRI_TARGET_CLASSES, .outputs = 2, .rows = 2};
    hri_metrics *m = NULL;
    hri_metric made[HRI_METRICS_MAX];
    size_t count = 0;
    hr_status status = hri_metrics_open(&o, &m);
    if (status == HR_OK) {
        status = hri_metrics_add_ids(m, scores, ids, 3);
    }
    if (status == HR_OK) {
        status = hri_metrics_get(m, made, &count);
    }
    for (size_t i = 0; status == HR_OK && i < count; i++) {
        hri_hasher_add(h, &made[i].value, sizeof made[i].value);
    }
    hri_metrics_close(m);
    return status == HR_OK ? open_scorer(&o) : status;
}

static hr_status run(uint64_t *out) {
    hri_source s = {0};
    hri_prose why = {""};
    float counted[2] = {0}, read[2] = {0};
    hri_hasher h;
    hri_hasher_init(&h, 0);
    hr_status status = hri_source_look(data_text, NULL, &s, &why);
    if (status == HR_OK) {
        status = hri_survey_table(data_text, &s, 0, &why);
    }
    if (status == HR_OK) {
        hri_hasher_add(&h, &s.table->inputs[0].mean, sizeof(double));
        status = hri_class_weights_count(data_text, &s, 2, counted, &why);
    }
    if (status == HR_OK) {
        status = hri_class_weights_read(weights_path, &s, 2, read, &why);
    }
    if (status == HR_OK) {
        hri_hasher_add(&h, counted, sizeof counted);
        hri_hasher_add(&h, read, sizeof read);
        status = judge(&h);
    } else {
        CHECK(why.text[0]);
    }
    hri_source_deinit(&s);
    *out = hri_hasher_get(&h).lo;
    return status;
}

static hr_status look_at_images(uint64_t *out) {
    hri_source s = {0};
    hri_prose why = {""};
    const hr_status status = hri_source_look(data_text, NULL, &s, &why);
    CHECK(status == HR_OK || why.text[0]);
    *out = status == HR_OK ? s.count + 10 * (uint64_t)s.target + 100 * s.class_count : 0;
    hri_source_deinit(&s);
    return status;
}

TEST_TIMEOUT(table, any_fault_while_images_of_a_table_are_looked_at_is_a_status, 60) {
    static const hri_fault_kind kinds[] = {HRI_FAULT_ALLOC, HRI_FAULT_OPEN, HRI_FAULT_READ};
    static const char rows[] = "file,a,b\na.bmp,0,1\nb.bmp,1,1\nc.bmp,1,0\n";
    uint64_t first, again;
    test_write(test_folder(), "i.csv", rows, sizeof rows - 1);
    test_write(test_folder(), "a.bmp", rows, sizeof rows - 1);
    test_write(test_folder(), "b.bmp", rows, sizeof rows - 2);
    snprintf(data_text, sizeof data_text, "csv:%s/i.csv,image=file,y=a+b", test_folder());
    CHECK_OK(look_at_images(&first));
    CHECK_EQ(first, 3 + 10 * HRI_TARGET_FLAGS + 200);
    const int64_t live = hri_fault_live_allocs();
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (uint64_t nth = 1;; nth++) {
            hri_fault_set(kinds[k], nth, 0);
            const hr_status status = look_at_images(&again);
            const uint64_t delivered = hri_fault_delivered();
            hri_fault_set(kinds[k], 0, 0);
            CHECK_EQ(hri_fault_live_allocs(), live);
            if (!delivered) {
                CHECK_LE(2, nth);
                break;
            }
            if (status == HR_OK) {
                CHECK(again == first);
            } else {
                CHECK_STATUS(status, kinds[k] == HRI_FAULT_ALLOC ? HR_E_NOMEM_HOST : HR_E_IO);
            }
        }
    }
}

TEST_TIMEOUT(table, any_fault_before_a_training_is_a_status_and_a_retry_gives_the_same, 60) {
    static const hri_fault_kind kinds[] = {HRI_FAULT_ALLOC, HRI_FAULT_OPEN, HRI_FAULT_READ};
    set_up();
    uint64_t first, again;
    CHECK_OK(run(&first));
    const int64_t live = hri_fault_live_allocs();
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (uint64_t nth = 1;; nth++) {
            hri_fault_set(kinds[k], nth, 0);
            const hr_status status = run(&again);
            const uint64_t delivered = hri_fault_delivered();
            hri_fault_set(kinds[k], 0, 0);
            CHECK_EQ(hri_fault_live_allocs(), live);
            if (!delivered) {
                CHECK_LE(2, nth);
                break;
            }
            if (status ==
                HR_OK) { /* a row that cannot be read is left out; nothing else may change */
                CHECK(again == first || kinds[k] == HRI_FAULT_READ);
            } else {
                CHECK_STATUS(status, kinds[k] == HRI_FAULT_ALLOC ? HR_E_NOMEM_HOST : HR_E_IO);
            }
        }
        CHECK_OK(run(&again));
        CHECK(again == first);
    }
}
