/* Losses by name: texts, what they are of numbers worked out in double, what is missing, class weights, other models. */
#include <headroom/headroom.h>

#include <math.h>
#include <string.h>

#include "passes/common/losses.h"
#include "run/interpret.h"
#include "step/objective.h"
#include "test.h"

enum { N = 6, C = 3 };

static const float scores[N][C] = {{0.5f, -1.0f, 2.0f}, {3.0f, 0.25f, -0.5f}, {-2.0f, 1.5f, 0.0f},
                                   {0.0f, 0.0f, 0.0f},  {4.0f, -4.0f, 1.0f},  {0.1f, 0.2f, 0.3f}};
static const int32_t ids[N] = {2, 0, -1, 1, 1, -100};

TEST(losses, texts_are_read_and_printed) {
    hri_loss l;
    hri_prose why = {""};
    char text[HRI_LOSS_TEXT];
    for (int k = 0; hri_loss_names[k]; k++) {
        hri_loss again;
        CHECK_OK(hri_loss_parse(hri_loss_names[k], &l, &why));
        CHECK_EQ(l.kind, k);
        CHECK_OK(hri_loss_parse(hri_loss_print(&l, text, sizeof text), &again, &why));
        CHECK(again.kind == l.kind && again.delta == l.delta && again.gamma == l.gamma);
    }
    CHECK_OK(hri_loss_parse("huber:delta=0.3", &l, &why));
    CHECK(l.delta == 0.3);
    CHECK_STR(hri_loss_print(&l, text, sizeof text), "huber:delta=0.29999999999999999");
    CHECK_STATUS(hri_loss_parse("hubert", &l, &why), HR_E_NOT_FOUND);
    CHECK(strstr(why.text, "hubert") && strstr(why.text, "huber"));
    CHECK_STATUS(hri_loss_parse("huber:delta=-1", &l, &why), HR_E_RANGE);
    CHECK_STATUS(hri_loss_parse("mse:delta=1", &l, &why), HR_E_NOT_FOUND);
    CHECK_STATUS(hri_loss_parse("", &l, &why), HR_E_NOT_FOUND);
    CHECK(l.kind == HRI_LOSS_HUBER); /* untouched by failures */
}

/* The loss of these scores, and its gradient for them by differences of the graph's own. */
static double weighted_loss(const char *text, const void *label, double smoothing,
                            const float *weights, const float *sample_weights, double bump,
                            size_t at) {
    hri_loss l;
    hr_graph *g;
    hri_interp *it;
    CHECK_OK(hri_loss_parse(text, &l, NULL));
    CHECK_OK(hr_graph_create(&g));
    const hr_value x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_2(N, C));
    const hr_meta meta = hr_graph_meta(g, x), labels = hri_loss_label(&l, &meta);
    const hr_value t = hr_graph_input(g, "label", labels.type, labels.shape);
    const hr_value w =
        sample_weights ? hr_graph_input(g, "sample_weight", HR_TYPE_F32, hr_shape_1(N)) : HR_NONE;
    const hri_loss_parts of = {.scores = x,
                               .label = t,
                               .sample_weight = w,
                               .smoothing = smoothing,
                               .weights = weights,
                               .weight_count = weights ? C : 0};
    hr_graph_result(g, hri_loss_build(g, &l, &of), "loss");
    CHECK_OK(hr_graph_freeze(g));
    CHECK_OK(hri_interp_create(g, NULL, 1, &it));
    memcpy(hri_interp_data(it, x), scores, sizeof scores);
    ((float *)hri_interp_data(it, x))[at] += (float)bump;
    memcpy(hri_interp_data(it, t), label, hr_meta_bytes(&labels));
    if (sample_weights) {
        memcpy(hri_interp_data(it, w), sample_weights, N * sizeof(float));
    }
    CHECK_OK(hri_interp_run(it, 0, NULL));
    const double is = (double)*(float *)hri_interp_data(it, hr_graph_find(g, "loss"));
    hri_interp_destroy(it);
    hr_graph_destroy(g);
    return is;
}

static double loss_of(const char *text, const void *label, double smoothing, const float *weights,
                      double bump, size_t at) {
    return weighted_loss(text, label, smoothing, weights, NULL, bump, at);
}

static double surprise(int i, int id) {
    double sum = 0;
    for (int c = 0; c < C; c++) {
        sum += exp((double)scores[i][c]);
    }
    return log(sum) - (double)scores[i][id];
}

TEST(losses, of_classes_are_means_over_labels_that_count) {
    static const float weights[C] = {0.5f, 2.0f, 1.0f};
    double plain = 0, focal = 0, weighted = 0, smooth = 0;
    for (int i = 0; i < N; i++) {
        if (ids[i] >= 0) {
            const double l = surprise(i, ids[i]);
            double all = 0;
            for (int c = 0; c < C; c++) {
                all += surprise(i, c) / C;
            }
            plain += l / 4;
            focal += pow(1 - exp(-l), 2) * l / 4;
            weighted += (double)weights[ids[i]] * l / 4;
            smooth += (0.9 * l + 0.1 * all) / 4;
        }
    }
    CHECK(fabs(loss_of("cross_entropy", ids, 0, NULL, 0, 0) - plain) < 1e-6);
    CHECK(fabs(loss_of("cross_entropy", ids, 0, weights, 0, 0) - weighted) < 1e-6);
    CHECK(fabs(loss_of("cross_entropy", ids, 0.1, NULL, 0, 0) - smooth) < 1e-6);
    CHECK(fabs(loss_of("focal", ids, 0, NULL, 0, 0) - focal) < 1e-6);
    CHECK(fabs(loss_of("focal:gamma=0", ids, 0, NULL, 0, 0) - plain) < 1e-6);
    static const int32_t none[N] = {-1, -1, -1, -1, -1, -1};
    CHECK(loss_of("cross_entropy", none, 0, weights, 0, 0) == 0);
    /* a score of a row that does not count changes nothing */
    CHECK(loss_of("focal", ids, 0, NULL, 5, 2 * C) == loss_of("focal", ids, 0, NULL, 0, 0));
}

TEST(losses, of_numbers_leave_out_what_is_missing) {
    float t[N][C];
    double mse = 0, mae = 0, huber = 0, bce = 0;
    int count = 0;
    for (int i = 0; i < N; i++) {
        for (int c = 0; c < C; c++) {
            t[i][c] = (i + c) % 4 == 1 ? NAN : (float)((i * C + c) % 2);
            if (!isnan(t[i][c])) {
                const double x = (double)scores[i][c], d = fabs(x - (double)t[i][c]);
                mse += d * d;
                mae += d;
                huber += d < 0.7 ? d * d / 2 : 0.7 * (d - 0.35);
                bce += (x > 0 ? x : 0) - x * (double)t[i][c] + log1p(exp(-fabs(x)));
                count++;
            }
        }
    }
    CHECK(count > 0 && count < N * C);
    CHECK(fabs(loss_of("mse", t, 0, NULL, 0, 0) - mse / count) < 1e-5);
    CHECK(fabs(loss_of("mae", t, 0, NULL, 0, 0) - mae / count) < 1e-5);
    CHECK(fabs(loss_of("huber:delta=0.7", t, 0, NULL, 0, 0) - huber / count) < 1e-5);
    CHECK(fabs(loss_of("bce", t, 0, NULL, 0, 0) - bce / count) < 1e-5);
    for (int i = 0; i < N * C; i++) {
        ((float *)t)[i] = NAN;
    }
    CHECK(loss_of("mae", t, 0, NULL, 0, 0) == 0);
}

/* As (weight * loss).mean() of PyTorch and NumPy over the targets that count: the division is by their number. */
TEST(losses, weights_of_samples_multiply_and_the_division_stays_that_by_the_number_of_targets) {
    static const float w[N] = {0.5f, 0.0f, 9.0f, 3.0f, 1.25f, 100.0f};
    static const float classes[C] = {0.5f, 2.0f, 1.0f};
    float t[N][C];
    double plain = 0, both = 0, mse = 0, mae = 0, huber = 0, bce = 0, focal = 0;
    int count = 0;
    for (int i = 0; i < N; i++) {
        const double weight = (double)w[i];
        if (ids[i] >= 0) {
            const double l = surprise(i, ids[i]);
            plain += weight * l / 4;
            both += weight * (double)classes[ids[i]] * l / 4;
            focal += weight * pow(1 - exp(-l), 2) * l / 4;
        }
        for (int c = 0; c < C; c++) {
            t[i][c] = (i + c) % 4 == 1 ? NAN : (float)((i * C + c) % 2);
            if (!isnan(t[i][c])) {
                const double x = (double)scores[i][c], d = fabs(x - (double)t[i][c]);
                mse += weight * d * d;
                mae += weight * d;
                huber += weight * (d < 0.7 ? d * d / 2 : 0.7 * (d - 0.35));
                bce += weight * ((x > 0 ? x : 0) - x * (double)t[i][c] + log1p(exp(-fabs(x))));
                count++;
            }
        }
    }
    CHECK(fabs(weighted_loss("cross_entropy", ids, 0, NULL, w, 0, 0) - plain) < 1e-5);
    CHECK(fabs(weighted_loss("cross_entropy", ids, 0, classes, w, 0, 0) - both) < 1e-5);
    CHECK(fabs(weighted_loss("focal", ids, 0, NULL, w, 0, 0) - focal) < 1e-5);
    CHECK(fabs(weighted_loss("mse", t, 0, NULL, w, 0, 0) / (mse / count) - 1) < 1e-5);
    CHECK(fabs(weighted_loss("mae", t, 0, NULL, w, 0, 0) / (mae / count) - 1) < 1e-5);
    CHECK(fabs(weighted_loss("huber:delta=0.7", t, 0, NULL, w, 0, 0) / (huber / count) - 1) < 1e-5);
    CHECK(fabs(weighted_loss("bce", t, 0, NULL, w, 0, 0) / (bce / count) - 1) < 1e-5);
}

/* The first parameter of a model after one step of 4 samples at once, or in two parts; and the label that it asks for. */
static double step_of(const char *model, const hri_objective *of, hr_meta *label) {
    hr_model *m;
    hr_graph *g;
    hri_interp *it;
    hri_objective o = *of;
    hr_train_options options = {.size = sizeof options};
    hr_error why = {0};
    CHECK_OK(hr_model_open(model, &m, NULL));
    o.build = hr_model_build;
    o.user = m;
    CHECK_OK(hr_train_options_parse("optimizer=sgd,rate=0.1,momentum=0", &options, NULL));
    const hr_status status =
        hr_step_build(&options, hri_objective_build, &o, HR_STEP_WHOLE, 4, &g, &why);
    if (status != HR_OK) {
        hr_model_close(m);
        return NAN;
    }
    const hr_value v = hr_graph_find(g, "label");
    *label = hr_graph_meta(g, v);
    CHECK_OK(hri_interp_create(g, NULL, 1, &it));
    *(float *)hri_interp_data(it, hr_graph_find(g, "train.rate")) = 0.1f;
    CHECK_OK(hri_interp_run(it, 0, NULL));
    const double loss = (double)*(float *)hri_interp_data(it, hr_graph_find(g, "loss"));
    hri_interp_destroy(it);
    hr_graph_destroy(g);
    hr_model_close(m);
    return loss;
}

TEST(losses, every_model_takes_another_one_and_its_label_is_what_that_wants) {
    static const char *const models[] = {"mlp:size=4,width=8,classes=3", "gpt2-nano",
                                         "unet:size=16,width=4,depth=2"};
    static const char *const names[] = {"cross_entropy", "focal", "bce", "mse", "mae", "huber"};
    for (size_t m = 0; m < 3; m++) {
        for (size_t k = 0; k < 6; k++) {
            hri_objective o = {0};
            hr_meta label = {0};
            CHECK_OK(hri_loss_parse(names[k], &o.loss, NULL));
            const double loss = step_of(models[m], &o, &label);
            CHECK(isfinite(loss));
            CHECK_EQ(label.type, k < 2 ? HR_TYPE_I32 : HR_TYPE_F32);
        }
    }
}

TEST(losses, class_weights_must_be_as_many_as_classes_and_of_classes) {
    static const float weights[3] = {1, 2, 3};
    hr_meta label;
    hri_objective o = {.class_weights = weights, .class_weight_count = 3};
    CHECK(isfinite(step_of("mlp:size=4,width=8,classes=3", &o, &label)));
    CHECK(isnan(step_of("mlp:size=4,width=8,classes=4", &o, &label)));
    o.loss.kind = HRI_LOSS_MSE;
    CHECK(isnan(step_of("mlp:size=4,width=8,classes=3", &o, &label)));
    o = (hri_objective){.smoothing = 0.1, .loss = {.kind = HRI_LOSS_MAE}};
    CHECK(isnan(step_of("mlp:size=4,width=8,classes=3", &o, &label)));
}
