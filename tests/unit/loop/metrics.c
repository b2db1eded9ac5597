/* Metrics against numbers that scikit-learn 1.9.1 gave for the same inputs (tools/sklearn-metrics prints them). */
#include "loop/metrics.h"

#include <headroom/headroom.h>

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "test.h"

static uint32_t next(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

typedef struct class_case {
    uint32_t seed;
    int64_t rows, classes;
    uint32_t used, levels; /* ids are below `used`; few levels make ties */
    double should[6];
} class_case;

static const class_case class_cases[] = {
    {1,
     200,
     2,
     2,
     1000,
     {0.4850000000, 0.4843750000, 0.4843859474, 0.4843683512, 0.3197689625, 0.4694475028}},
    {2,
     200,
     5,
     5,
     1000,
     {0.2100000000, 0.2073160020, 0.2033005259, 0.2049082132, 0.1156507585, 0.5347168006}},
    {3,
     300,
     7,
     4,
     6,
     {0.1700000000, 0.1396343484, 0.0967977949, 0.1124530395, 0.0628599286, 0.5399223112}},
    {4,
     50,
     3,
     2,
     3,
     {0.4200000000, 0.3716475096, 0.3055555556, 0.3038548753, 0.1988017429, 0.6195833333}},
    {5,
     40,
     10,
     10,
     4,
     {0.1000000000, 0.0666666667, 0.0735714286, 0.0678571429, 0.0386446886, 0.4740403068}},
};

TEST(metrics, of_classes_are_those_of_scikit_learn_with_ties_and_empty_classes) {
    static const char *const names[] = {"accuracy", "precision", "recall", "f1", "iou", "auc"};
    for (size_t k = 0; k < sizeof class_cases / sizeof class_cases[0]; k++) {
        const class_case *c = &class_cases[k];
        uint32_t state = c->seed;
        float *scores = hri_malloc((size_t)(c->rows * c->classes) * sizeof *scores);
        int32_t *ids = hri_malloc((size_t)c->rows * sizeof *ids);
        CHECK(scores && ids);
        for (int64_t i = 0; i < c->rows * c->classes; i++) {
            scores[i] = (float)(next(&state) % c->levels) / 8.0f;
        }
        for (int64_t i = 0; i < c->rows; i++) {
            ids[i] = (int32_t)(next(&state) % c->used);
        }
        hri_metrics *m;
        const hri_metrics_options o = {.target = HRI_TARGET_CLASSES, .outputs = c->classes};
        CHECK_OK(hri_metrics_open(&o, &m));
        CHECK_OK(hri_metrics_add_ids(m, scores, ids, 7)); /* in two pieces */
        CHECK_OK(hri_metrics_add_ids(m, scores + 7 * c->classes, ids + 7, (uint64_t)c->rows - 7));
        const int32_t none = -1;
        CHECK_OK(hri_metrics_add_ids(m, scores, &none, 1)); /* counts for nothing */
        hri_metric made[HRI_METRICS_MAX];
        size_t count = 0;
        CHECK_OK(hri_metrics_get(m, made, &count));
        CHECK_EQ(count, 6);
        for (size_t i = 0; i < count; i++) {
            CHECK_STR(made[i].name, names[i]);
            CHECK(fabs(made[i].value - c->should[i]) < 1e-8);
        }
        hri_metrics_close(m);
        hri_free(scores);
        hri_free(ids);
    }
}

TEST(metrics, of_numbers_are_those_of_scikit_learn) {
    static const struct {
        uint32_t seed;
        int64_t rows, outputs;
        double should[3];
    } cases[] = {{6, 100, 1, {43.5550000000, 53.2132120577, -1.1031007729}},
                 {7, 60, 3, {46.7180555556, 55.3321051975, -1.2858416871}},
                 {8, 2, 2, {58.7187500000, 62.5211993140, -2.0172639153}}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        float is[600], should[600];
        uint32_t state = cases[k].seed;
        const int64_t n = cases[k].rows * cases[k].outputs;
        for (int64_t i = 0; i < n; i++) {
            is[i] = (float)(next(&state) % 1000) / 8.0f;
        }
        for (int64_t i = 0; i < n; i++) {
            should[i] = (float)(next(&state) % 1000) / 8.0f;
        }
        hri_metrics *m;
        hri_metric made[HRI_METRICS_MAX];
        size_t count = 0;
        const hri_metrics_options o = {.target = HRI_TARGET_NUMBERS, .outputs = cases[k].outputs};
        CHECK_OK(hri_metrics_open(&o, &m));
        CHECK_OK(hri_metrics_add_reals(m, is, should, (uint64_t)cases[k].rows));
        CHECK_OK(hri_metrics_get(m, made, &count));
        CHECK_EQ(count, 3);
        for (size_t i = 0; i < count; i++) {
            CHECK(fabs(made[i].value - cases[k].should[i]) < 1e-6);
        }
        hri_metrics_close(m);
    }
}

TEST(metrics, of_flags_count_each_output_and_leave_out_what_is_missing) {
    static const float scores[4][2] = {{1, -1}, {2, 3}, {-1, 1}, {-2, -2}};
    static const float targets[4][2] = {{1, 0}, {1, 1}, {1, 0}, {0, NAN}};
    hri_metrics *m;
    hri_class_metrics r;
    const hri_metrics_options o = {.target = HRI_TARGET_FLAGS, .outputs = 2};
    CHECK_OK(hri_metrics_open(&o, &m));
    CHECK_OK(hri_metrics_add_reals(m, &scores[0][0], &targets[0][0], 4));
    CHECK_OK(hri_metrics_class(m, 0, &r));
    CHECK(r.samples == 3 && r.predicted == 2 && r.right == 2);
    CHECK(r.precision == 1 && fabs(r.recall - 2.0 / 3) < 1e-12 && r.auc == 1);
    CHECK_OK(hri_metrics_class(m, 1, &r));
    CHECK(r.samples == 1 && r.predicted == 2 && r.right == 1 && r.precision == 0.5 && r.auc == 1);
    hri_metric made[HRI_METRICS_MAX];
    size_t count;
    CHECK_OK(hri_metrics_get(m, made, &count));
    CHECK(fabs(made[0].value - 5.0 / 7) < 1e-12); /* of seven flags */
    hri_metrics_close(m);
    CHECK_STATUS(hri_metrics_open(&(hri_metrics_options){.outputs = 100000}, &m), HR_E_RANGE);
}
