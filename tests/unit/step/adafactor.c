/* Adafactor against numbers that torch.optim.Adafactor gave, in parts, and what a plan and a checkpoint have of it. */
#include <headroom/headroom.h>

#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "loop/run.h"
#include "ops/common/adafactor.h"
#include "run/interpret.h"
#include "test.h"

enum { ALL = 15 + 7 + 12 };

static const struct {
    const char *name;
    int count, rows; /* rows 0: a vector */
    double scale;
} params[] = {{"matrix", 15, 3, 1}, {"vector", 7, 0, 1}, {"faint", 12, 4, 1e-4}};

/* PyTorch 2.15: parameter i starts at ((37 i) % 23 - 11) / 8; the loss is the sum of s (w - 0.25)^2 / 2 with
 * s = scale ((29 i) % 17 + 1) / 10; 8 steps of torch.optim.Adafactor(lr=0.01), then of (lr=0.5, weight_decay=0.1).  The
 * gradients of "faint" are so small that epsilon decides. */
static const struct {
    const char *options;
    float after[ALL];
} recorded[] = {
    {"optimizer=adafactor",
     {-1.35823858f,  0.332775354f,   -0.68179369f,   0.969161451f,  0.00570344599f, -1.18549073f,
      0.484135628f,  -0.571182251f,  1.06488228f,    0.0198467635f, -1.0959928f,    0.487342f,
      -0.441148847f, 1.1940465f,     0.171949998f,   -1.30717146f,  0.314354211f,   -0.682494044f,
      0.932777941f,  -0.0589549914f, -1.18221414f,   0.435199767f,  -1.28273964f,   0.356337994f,
      -0.675815165f, 0.935558438f,   -0.0910126865f, -1.17800725f,  0.468649924f,   -0.544836402f,
      1.08010006f,   0.110609852f,   -1.07891464f,   0.560849667f}},
    {"optimizer=adafactor,rate=0.5,decay=0.1",
     {-0.538101554f, 0.238748446f,  0.205815688f,   0.261559486f,  0.239290908f,  0.102744661f,
      0.221773684f,  0.21131742f,   0.226845086f,   0.207821086f,  -0.207724035f, 0.239484265f,
      0.215918824f,  0.244132325f,  0.239694208f,   -0.089814432f, 0.233088598f,  0.167614415f,
      0.223784998f,  0.233967796f,  -0.0272780154f, 0.235132471f,  0.143631339f,  0.250754505f,
      0.232829839f,  0.231647655f,  0.237518013f,   0.164391667f,  0.235325456f,  0.240843073f,
      0.236787811f,  0.0817188025f, 0.101032451f,   0.242511421f}},
};

static hr_status build(void *user, hr_graph *g, int64_t batch, int training) {
    hr_value loss = HR_NONE;
    (void)user;
    (void)training;
    for (size_t p = 0; p < sizeof params / sizeof params[0]; p++) {
        float slope[16];
        const int64_t n = params[p].count;
        const hr_shape shape =
            params[p].rows ? hr_shape_2(params[p].rows, n / params[p].rows) : hr_shape_1(n);
        for (int i = 0; i < n; i++) {
            slope[i] = (float)(params[p].scale * ((i * 29) % 17 + 1) / 10);
        }
        const hr_value w =
            hr_graph_param(g, params[p].name, HR_TYPE_F32, shape, hr_init_constant(0.0));
        const hr_value s = hr_graph_constant(g, HR_TYPE_F32, shape, slope);
        const hr_value d = hr_affine(g, w, 1.0, -0.25);
        const hr_value sum =
            hr_affine(g, hr_sum(g, hr_mul(g, s, hr_mul(g, d, d)), NULL, 0), 0.5, 0.0);
        loss = p ? hr_add(g, loss, sum) : sum;
    }
    (void)batch;
    hr_graph_result(g, loss, "loss");
    return HR_OK;
}

static hr_status begin(void *user, const hr_graph *g, hri_interp *it) {
    (void)user;
    for (size_t p = 0; p < sizeof params / sizeof params[0]; p++) {
        float *w = hri_interp_data(it, hr_graph_find(g, params[p].name));
        for (int i = 0; i < params[p].count; i++) {
            w[i] = (float)(((i * 37) % 23 - 11) / 8.0);
        }
    }
    return HR_OK;
}

static hr_status compare(void *user, const hr_graph *g, hri_interp *it) {
    const float *want = user;
    for (size_t p = 0; p < sizeof params / sizeof params[0]; p++) {
        const float *w = hri_interp_data(it, hr_graph_find(g, params[p].name));
        for (int i = 0; i < params[p].count; i++, want++) {
            test_count_check();
            if (!(fabs((double)w[i] - (double)*want) <= 1e-5 * fmax(0.1, fabs((double)*want)))) {
                test_fail(__FILE__, __LINE__, "%s[%d] is %.9g, torch has %.9g", params[p].name, i,
                          (double)w[i], (double)*want);
            }
        }
    }
    return HR_OK;
}

TEST(adafactor, goes_where_torch_goes_for_8_steps_in_parts_too) {
    for (size_t k = 0; k < sizeof recorded / sizeof recorded[0]; k++) {
        for (int64_t part = 0; part <= 2; part += 2) {
            hr_train_options o = {.size = sizeof o};
            float losses[8];
            hr_error why = {0};
            CHECK_OK(hr_train_options_parse(recorded[k].options, &o, NULL));
            const hri_interp_job job = {.options = o,
                                        .build = build,
                                        .user = (void *)(uintptr_t)recorded[k].after,
                                        .batch = 4,
                                        .part = part,
                                        .steps = 8,
                                        .begin = begin,
                                        .end = compare};
            if (hri_train_run(&job, losses, &why) != HR_OK) {
                test_fail(__FILE__, __LINE__, "%s: %s", recorded[k].options, why.message);
            }
            CHECK(losses[7] < losses[0]);
        }
    }
}

static hr_status is_still(void *user, const hr_graph *g, hri_interp *it) {
    const float *w = hri_interp_data(it, hr_graph_find(g, "vector"));
    const float *rows = hri_interp_data(it, hr_graph_find(g, "matrix.rows"));
    (void)user;
    CHECK(w[0] == -11 / 8.0f && rows[0] == 0); /* neither weights nor averages have moved */
    return HR_OK;
}

static hr_status begin_badly(void *user, const hr_graph *g, hri_interp *it) {
    const hr_status status = begin(user, g, it);
    ((float *)hri_interp_data(it, hr_graph_find(g, "matrix")))[0] = NAN;
    return status;
}

TEST(adafactor, a_step_that_is_not_finite_is_skipped) {
    hr_train_options o = {.size = sizeof o};
    float losses[2];
    CHECK_OK(hr_train_options_parse("optimizer=adafactor,check", &o, NULL));
    const hri_interp_job job = {.options = o,
                                .build = build,
                                .batch = 1,
                                .steps = 2,
                                .begin = begin_badly,
                                .end = is_still};
    CHECK_OK(hri_train_run(&job, losses, NULL));
}

TEST(adafactor, tensors_are_cut_where_rows_and_columns_are_fewest) {
    static const struct {
        hr_shape shape;
        int64_t rows, columns;
    } cuts[] = {{{.rank = 0}, 1, 1},
                {{.rank = 1, .dim = {9}}, 1, 9},
                {{.rank = 2, .dim = {1, 9}}, 1, 9},
                {{.rank = 2, .dim = {9, 1}}, 1, 9},
                {{.rank = 2, .dim = {50257, 768}}, 50257, 768},
                {{.rank = 3, .dim = {1, 197, 768}}, 197, 768},
                {{.rank = 4, .dim = {64, 3, 3, 64}}, 192, 192},
                {{.rank = 4, .dim = {64, 7, 7, 3}}, 64, 147},
                {{.rank = 2, .dim = {0, 4}}, 1, 0}};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        int64_t rows, columns;
        hri_adafactor_cut(&cuts[i].shape, &rows, &columns);
        CHECK_EQ(rows, cuts[i].rows);
        CHECK_EQ(columns, cuts[i].columns);
    }
}

TEST(adafactor, small_moments_are_refused) {
    hr_train_options o = {.size = sizeof o};
    hr_error why = {0};
    CHECK_STATUS(hr_train_options_parse("optimizer=adafactor,moments=8bit", &o, &why),
                 HR_E_INVALID);
    CHECK(strstr(why.message, "adafactor"));
}
