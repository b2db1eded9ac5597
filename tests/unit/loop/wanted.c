/* Metrics by name: which there are, of which task, which way is better, and their values. */
#include "loop/wanted.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "loop/scorer.h"
#include "test.h"

static const char *const names[] = {"cat", "dog", "star"};
static const hri_wanted_task classes = {
    .target = HRI_TARGET_CLASSES, .outputs = 3, .classes = names, .class_count = 3};
static const hri_wanted_task flags = {.target = HRI_TARGET_FLAGS, .outputs = 2};
static const hri_wanted_task numbers = {.target = HRI_TARGET_NUMBERS, .outputs = 2};
static const hri_wanted_task tokens = {.target = HRI_TARGET_CLASSES, .outputs = 50257, .tokens = 1};
static const hri_wanted_task pixels = {.target = HRI_TARGET_CLASSES, .outputs = 3, .pixels = 1};

static const hri_wanted_task many = {.target = HRI_TARGET_CLASSES, .outputs = 5000};

TEST(wanted, a_list_of_names_is_read_once_each) {
    hri_wanted w = {.count = 0};
    hri_prose why = {""};
    size_t last = 99;
    CHECK_OK(hri_wanted_add(&w, NULL, &classes, &last, &why));
    CHECK_OK(hri_wanted_add(&w, "", &classes, &last, &why));
    CHECK(w.count == 0 && last == 99);
    CHECK_OK(hri_wanted_add(&w, "f1,recall:star,top2,iou:1,f1", &classes, &last, &why));
    CHECK(w.count == 4 && last == 0);
    CHECK(w.of[0].kind == HRI_WANTED_F1 && w.of[0].of == -1 && w.of[0].scores);
    CHECK(w.of[1].kind == HRI_WANTED_RECALL && w.of[1].of == 2);
    CHECK(w.of[2].kind == HRI_WANTED_TOP && w.of[2].top == 2);
    CHECK(w.of[3].kind == HRI_WANTED_IOU && w.of[3].of == 1);
    CHECK_STR(w.of[1].name, "recall:star");
    CHECK_OK(hri_wanted_add(&w, "accuracy", &classes, &last, &why));
    CHECK(last == 4 && !w.of[4].scores); /* every evaluation says it */
    CHECK_OK(hri_wanted_add(&w, "perplexity,loss,accuracy", &tokens, NULL, &why));
}

TEST(wanted, what_a_task_has_not_is_refused_with_what_it_has) {
    static const struct {
        const hri_wanted_task *task;
        const char *list, *says;
    } cases[] = {
        {&classes, "r2",
         "\"r2\" is not a metric of a model that predicts classes (loss, accuracy, "
         "topK, precision, recall, f1, dice, iou, auc)"},
        {&classes, "perplexity", "predicts classes"},
        {&classes, "f2", "\"f2\" is not a metric"},
        {&classes, "top", "\"top\" is not a metric"},
        {&classes, "top0", "the model has 3 classes"},
        {&classes, "top4", "the model has 3 classes"},
        {&classes, "recall:bird", "\"bird\" is not a class of the model, which has 3 (from 0)"},
        {&classes, "recall:3", "\"3\" is not a class"},
        {&classes, "recall:", "\"\" is not a class"},
        {&classes, "accuracy:star", "accuracy is not of a single class"},
        {&classes, "f1,,iou", "\"\" is not a metric"},
        {&flags, "top2", "predicts 0 or 1 for each class (loss, accuracy, precision"},
        {&numbers, "f1", "predicts numbers (loss, mae, rmse, r2)"},
        {&tokens, "f1", "predicts tokens (loss, accuracy, perplexity)"},
        {&pixels, "auc", "predicts a class per pixel"},
        {&many, "f1", "needs a model with 1 to 1000 outputs"},
        {&classes,
         "1234567890123456789012345678901234567890123456789012345678901234567890123456789012345",
         "is not a metric"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hri_wanted w = {.count = 0};
        hri_prose why = {""};
        CHECK(hri_wanted_add(&w, cases[i].list, cases[i].task, NULL, &why) != HR_OK);
        if (!strstr(why.text, cases[i].says)) {
            printf("%s: %s\n", cases[i].list, why.text);
        }
        CHECK(strstr(why.text, cases[i].says));
    }
    hri_wanted w = {.count = 0};
    hri_prose why = {""};
    CHECK_STATUS(hri_wanted_add(&w,
                                "f1:0,f1:1,f1:2,iou:0,iou:1,iou:2,auc:0,auc:1,auc:2,recall:0,"
                                "recall:1,recall:2,precision:0,precision:1,precision:2,dice:0,dice",
                                &classes, NULL, &why),
                 HR_E_RANGE);
    CHECK_STR(why.text, "more than 16 metrics");
}

TEST(wanted, the_better_direction_is_known) {
    static const struct {
        const hri_wanted_task *task;
        const char *name;
        int rises;
    } cases[] = {{&classes, "loss", 0},      {&classes, "accuracy", 1}, {&classes, "top2", 1},
                 {&classes, "precision", 1}, {&classes, "recall", 1},   {&classes, "f1", 1},
                 {&classes, "dice", 1},      {&classes, "iou", 1},      {&classes, "auc", 1},
                 {&numbers, "mae", 0},       {&numbers, "rmse", 0},     {&numbers, "r2", 1},
                 {&tokens, "perplexity", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hri_wanted w = {.count = 0};
        CHECK_OK(hri_wanted_add(&w, cases[i].name, cases[i].task, NULL, NULL));
        CHECK_EQ(hri_wanted_rises(&w.of[0]), cases[i].rises);
    }
}

/* Four rows of three classes; the last has a tie, which the smaller number wins. */
static const float scores[4][3] = {{3, 2, 1}, {1, 2, 3}, {2, 3, 1}, {1, 1, 0}};
static const int32_t ids[4] = {0, 1, 1, 1};

static double value(const char *name, hri_metrics *m, const hri_wanted_task *task) {
    const hri_wanted_sums sums = {.loss = 2, .accuracy = 0.25};
    hri_wanted w = {.count = 0};
    double out = -1;
    CHECK_OK(hri_wanted_add(&w, name, task, NULL, NULL));
    CHECK_OK(hri_wanted_value(&w.of[0], m, &sums, &out));
    return out;
}

TEST(wanted, values_are_of_the_mean_or_of_one_class) {
    hri_metrics *m;
    const hri_metrics_options o = {.target = HRI_TARGET_CLASSES, .outputs = 3, .rows = 4};
    CHECK_OK(hri_metrics_open(&o, &m));
    for (int again = 0; again < 2; again++) { /* the same after all was forgotten */
        CHECK_OK(hri_metrics_add_ids(m, &scores[0][0], ids, 4));
        CHECK(value("top1", m, &classes) == 0.5);
        CHECK(value("top2", m, &classes) == 1);
        CHECK(value("top3", m, &classes) == 1);
        CHECK(fabs(value("recall:dog", m, &classes) - 1.0 / 3) < 1e-12);
        CHECK(value("precision:dog", m, &classes) == 1);
        CHECK(value("dice:dog", m, &classes) == 0.5);
        CHECK(value("f1:star", m, &classes) == 0);
        CHECK(value("dice", m, &classes) == value("f1", m, &classes));
        CHECK(isnan(value("auc:star", m, &classes))); /* no sample is of it */
        CHECK(!isnan(value("auc:cat", m, &classes)));
        hri_metrics_clear(m);
        CHECK(isnan(value("top1", m, &classes)));
    }
    CHECK(value("accuracy", m, &classes) == 0.25 && value("loss", m, &classes) == 2);
    CHECK(fabs(value("perplexity", NULL, &tokens) - exp(2.0)) < 1e-12);
    CHECK(isnan(value("f1", NULL, &classes))); /* there were no scores */
    hri_metrics_close(m);
}

TEST(wanted, top_k_follows_the_order_of_scores_whatever_is_not_a_number) {
    static const float odd[2][3] = {{NAN, 1, 2}, {1, NAN, 2}};
    static const int32_t first[2] = {0, 0};
    hri_metrics *m;
    const hri_metrics_options o = {.target = HRI_TARGET_CLASSES, .outputs = 3};
    CHECK_OK(hri_metrics_open(&o, &m));
    CHECK_OK(hri_metrics_add_ids(m, &odd[0][0], first, 2));
    CHECK(hri_metrics_top(m, 1) == 0);
    CHECK(hri_metrics_top(m, 2) == 0.5);
    CHECK(hri_metrics_top(m, 3) == 1);
    hri_metrics_close(m);
}

TEST(wanted, room_for_auc_is_bounded_and_counted) {
    hri_metrics_options o = {.target = HRI_TARGET_CLASSES, .outputs = 10, .rows = 100};
    const uint64_t few = hri_metrics_bytes(&o);
    o.rows = UINT64_C(1) << 40;
    CHECK(hri_metrics_bytes(&o) < (UINT64_C(64) << 20) && hri_metrics_bytes(&o) > few);
    o.no_auc = 1;
    CHECK(hri_metrics_bytes(&o) < few);
}
