/* Training steps: options, schedules, the loss scale, optimizers against naive double, clipping, parts, skips. */
#include <headroom/headroom.h>

#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "base/random.h"
#include "run/interpret.h"
#include "test.h"
#include "loop/run.h"
#include "step/synthetic.h"

static hr_train_options options(const char *text) {
    hr_train_options o = {.size = sizeof o};
    hr_error why = {0};
    if (hr_train_options_parse(text, &o, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    return o;
}

static void check_refused(const char *text, hr_status code, const char *part) {
    hr_train_options o = {.size = sizeof o};
    hr_error why = {0};
    CHECK_STATUS(hr_train_options_parse(text, &o, &why), code);
    if (!strstr(why.message, part)) {
        test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", why.message, part);
    }
}

TEST(train, options_have_the_defaults_of_their_optimizer) {
    const hr_train_options sgd = options(NULL), adamw = options("optimizer=adamw");
    CHECK(sgd.momentum == 0.9 && sgd.decay == 0.0 && sgd.rate == 0.01);
    CHECK(adamw.rate == 1e-3 && adamw.decay == 1e-2 && adamw.beta2 == 0.999);
    CHECK(options("optimizer=rmsprop").momentum == 0.0);
    CHECK(options("decay=0.5,optimizer=adamw").decay == 0.5);
}

TEST(train, options_that_make_no_sense_are_refused_by_name) {
    check_refused("optimzer=adam", HR_E_NOT_FOUND, "optimizer");
    check_refused("rate=-3", HR_E_RANGE, "rate");
    check_refused("nesterov,momentum=0", HR_E_INVALID, "nesterov");
    check_refused("schedule=step", HR_E_INVALID, "every");
    check_refused("schedule=cosine,steps=5,warmup=5", HR_E_INVALID, "warm-up of 5");
    check_refused("optimizer=adam,beta1=1", HR_E_RANGE, "beta1");
}

TEST(train, schedules_are_what_they_say) {
    hr_train_options o = options("rate=0.5");
    CHECK(hr_train_rate(&o, 0) == 0.5 && hr_train_rate(&o, 1000000) == 0.5);
    o = options("rate=1,schedule=step,every=3,gamma=0.5");
    CHECK(hr_train_rate(&o, 2) == 1.0 && hr_train_rate(&o, 3) == 0.5);
    CHECK(hr_train_rate(&o, 6) == 0.25);
    o = options("rate=1,schedule=cosine,steps=14,warmup=4,final-rate=0.2");
    CHECK(hr_train_rate(&o, 0) == 0.25 && hr_train_rate(&o, 3) == 1.0);
    CHECK(hr_train_rate(&o, 4) == 1.0);
    CHECK(fabs(hr_train_rate(&o, 9) - 0.6) < 1e-12);
    CHECK(fabs(hr_train_rate(&o, 14) - 0.2) < 1e-12 && hr_train_rate(&o, 99) == 0.2);
    for (uint64_t s = 4; s < 14; s++) {
        CHECK(hr_train_rate(&o, s + 1) < hr_train_rate(&o, s));
    }
}

TEST(train, polynomial_and_exponential_are_their_formulas) {
    hr_train_options o = options("rate=1,schedule=polynomial,steps=12,warmup=2,final-rate=0.1,"
                                 "power=2");
    CHECK(hr_train_rate(&o, 0) == 0.5 && hr_train_rate(&o, 1) == 1.0);
    for (uint64_t s = 2; s < 20; s++) {
        const double done = fmin((double)(s - 2) / 10, 1);
        CHECK(fabs(hr_train_rate(&o, s) - (0.1 + 0.9 * (1 - done) * (1 - done))) < 1e-12);
    }
    o = options("rate=1e-6,schedule=exponential,steps=7,final-rate=1");
    for (int s = 0; s < 9; s++) {
        CHECK(fabs(hr_train_rate(&o, (uint64_t)s) / pow(10, s < 7 ? 6.0 * s / 7 - 6 : 0) - 1) <
              1e-9);
    }
    check_refused("schedule=exponential,steps=9", HR_E_INVALID, "final-rate");
    check_refused("schedule=polynomial", HR_E_INVALID, "schedule=polynomial needs steps");
    check_refused("clip-value=1,precision=f16", HR_E_INVALID, "bf16");
}

/* What torch.optim.lr_scheduler.OneCycleLR(max_lr=1, total_steps=20) gives. */
TEST(train, onecycle_is_that_of_torch) {
    static const double torch[] = {
        0.04, 0.1316718427000253, 0.3716718427000253, 0.6683281572999748, 0.9083281572999748,
        1.0,  0.9874640062350873};
    hr_train_options o = options("rate=1,schedule=onecycle,steps=20");
    for (uint64_t s = 0; s < 7; s++) {
        CHECK(fabs(hr_train_rate(&o, s) - torch[s]) < 1e-9);
    }
    CHECK(fabs(hr_train_rate(&o, 19) - 4e-6) < 1e-15 && hr_train_rate(&o, 30) == 0.04 / 1e4);
    o = options("rate=1,schedule=onecycle,steps=20,warmup=3,final-rate=0.01");
    CHECK(hr_train_rate(&o, 3) == 1.0 && hr_train_rate(&o, 19) == 0.01);
}

/* ---- the loss scale ---- */

static void count_lines(void *user, hr_log_level level, const char *line) {
    CHECK(level == HR_LOG_WARN && strstr(line, "skipped") != NULL);
    ++*(int *)user;
}

TEST(train, the_loss_scale_halves_on_a_skip_and_doubles_after_2000_good_steps) {
    const hr_train_options o = options("precision=f16");
    hr_step_state s;
    int lines = 0;
    hr_step_state_init(&o, &s);
    CHECK(s.scale == 32768.0);
    CHECK(hr_step_done(&o, &s, 0.0f, count_lines, &lines) == 1);
    CHECK(s.scale == 16384.0 && s.skipped == 1 && s.updates == 0 && s.step == 1);
    CHECK(hr_step_next(&o, &s).update == 1.0f);
    for (int i = 0; i < 1999; i++) {
        CHECK(hr_step_done(&o, &s, 1.0f, count_lines, &lines) == 0);
    }
    CHECK(s.scale == 16384.0);
    hr_step_done(&o, &s, 1.0f, NULL, NULL);
    CHECK(s.scale == 32768.0 && s.good == 0 && s.updates == 2000);
    for (int i = 0; i < 1999; i++) {
        hr_step_done(&o, &s, 0.5f, NULL, NULL);
    }
    hr_step_done(&o, &s, 0.0f, NULL, NULL); /* one short of doubling */
    CHECK(s.scale == 16384.0 && s.good == 0);
    for (int i = 0; i < 40; i++) {
        hr_step_done(&o, &s, 0.0f, count_lines, &lines);
    }
    CHECK(s.scale == 1.0);
    CHECK_EQ(lines, 41);
}

TEST(train, without_f16_the_scale_stays_1_and_a_skip_is_still_counted) {
    const hr_train_options o = options("check");
    hr_step_state s;
    int lines = 0;
    hr_step_state_init(&o, &s);
    for (int i = 0; i < 2500; i++) {
        hr_step_done(&o, &s, 1.0f, count_lines, &lines);
    }
    CHECK_EQ(lines, 0);
    hr_step_done(&o, &s, 0.0f, count_lines, &lines);
    CHECK(s.scale == 1.0 && s.skipped == 1);
    CHECK_EQ(lines, 1);
}

/* ---- trajectories: loss = sum of s (w - c)^2 / 2 over a matrix and a vector ---- */

enum { SIZE = 6 };
static const float targets[SIZE] = {1.0f, -2.0f, 0.5f, 3.0f, -0.25f, 0.0f};
static const float slopes[SIZE] = {0.1f, 1.0f, 0.5f, 2.0f, 0.7f, 0.3f};

static hr_value bowl(hr_graph *g, const char *name, hr_shape shape) {
    const hr_value w = hr_graph_param(g, name, HR_TYPE_F32, shape, hr_init_constant(0.75));
    const hr_value c = hr_graph_constant(g, HR_TYPE_F32, shape, targets);
    const hr_value s = hr_graph_constant(g, HR_TYPE_F32, shape, slopes);
    const hr_value d = hr_sub(g, w, c);
    return hr_affine(g, hr_sum(g, hr_mul(g, s, hr_mul(g, d, d)), NULL, 0), 0.5, 0.0);
}

static hr_status build_bowls(void *user, hr_graph *g, int64_t batch, int training) {
    (void)user;
    (void)batch;
    (void)training;
    hr_value a = bowl(g, "matrix", hr_shape_2(2, 3)), b = bowl(g, "vector", hr_shape_1(6));
    hr_graph_result(g, hr_add(g, a, b), "loss");
    return HR_OK;
}

typedef struct naive_state {
    double w[2][SIZE], a[2][SIZE], b[2][SIZE];
} naive_state;

static void naive_update(const hr_train_options *o, double rate, double t, double decay, double g,
                         double *w, double *a, double *b) {
    if (o->optimizer == HR_OPTIMIZER_ADAMW || o->optimizer == HR_OPTIMIZER_LION) {
        *w -= rate * decay * *w;
    } else {
        g += decay * *w;
    }
    if (o->optimizer == HR_OPTIMIZER_SGD) {
        *a = o->momentum * *a + g;
        *w -= rate * (o->nesterov ? g + o->momentum * *a : *a);
    } else if (o->optimizer == HR_OPTIMIZER_LION) {
        const double x = o->beta1 * *a + (1 - o->beta1) * g;
        *w -= rate * ((x > 0) - (x < 0));
        *a = o->beta2 * *a + (1 - o->beta2) * g;
    } else if (o->optimizer == HR_OPTIMIZER_RMSPROP) {
        *a = o->alpha * *a + (1 - o->alpha) * g * g;
        *b = o->momentum * *b + g / (sqrt(*a) + o->epsilon);
        *w -= rate * *b;
    } else {
        *a = o->beta1 * *a + (1 - o->beta1) * g;
        *b = o->beta2 * *b + (1 - o->beta2) * g * g;
        *w -=
            rate * (*a / (1 - pow(o->beta1, t))) / (sqrt(*b / (1 - pow(o->beta2, t))) + o->epsilon);
    }
}

static void naive_step(const hr_train_options *o, uint64_t step, naive_state *s) {
    double norm = 0.0, grad[2][SIZE];
    for (int p = 0; p < 2; p++) {
        for (int i = 0; i < SIZE; i++) {
            grad[p][i] = (double)slopes[i] * (s->w[p][i] - (double)targets[i]);
            if (o->clip_value > 0) {
                grad[p][i] = fmin(fmax(grad[p][i], -o->clip_value), o->clip_value);
            }
            norm += grad[p][i] * grad[p][i];
        }
    }
    const double limit = o->clip > 0 ? fmin(1.0, o->clip / (sqrt(norm) + 1e-6)) : 1.0;
    for (int p = 0; p < 2; p++) {
        for (int i = 0; i < SIZE; i++) {
            const double decay = p == 0 || o->decay_all ? o->decay : 0.0;
            naive_update(o, hr_train_rate(o, step), (double)(step + 1), decay, limit * grad[p][i],
                         &s->w[p][i], &s->a[p][i], &s->b[p][i]);
        }
    }
}

static naive_state naive_after;

static hr_status compare_weights(void *user, const hr_graph *g, hri_interp *it) {
    static const char *const names[] = {"matrix", "vector"};
    (void)user;
    for (int p = 0; p < 2; p++) {
        const float *w = hri_interp_data(it, hr_graph_find(g, names[p]));
        for (int i = 0; i < SIZE; i++) {
            test_count_check();
            if (!(fabs((double)w[i] - naive_after.w[p][i]) <= 2e-5)) {
                test_fail(__FILE__, __LINE__, "%s[%d] is %.8g, wanted %.8g", names[p], i,
                          (double)w[i], naive_after.w[p][i]);
            }
        }
    }
    return HR_OK;
}

static void check_trajectory(const char *text) {
    const hr_train_options o = options(text);
    float losses[50];
    hr_error why = {0};
    memset(&naive_after, 0, sizeof naive_after);
    for (int p = 0; p < 2; p++) {
        for (int i = 0; i < SIZE; i++) {
            naive_after.w[p][i] = 0.75;
        }
    }
    for (uint64_t s = 0; s < 50; s++) {
        naive_step(&o, s, &naive_after);
    }
    const hri_interp_job job = {
        .options = o, .build = build_bowls, .batch = 1, .steps = 50, .end = compare_weights};
    if (hri_train_run(&job, losses, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", text, why.message);
    }
    CHECK(losses[49] < losses[0]);
}

TEST(train, sgd_goes_where_the_formula_goes_for_50_steps) {
    check_trajectory("optimizer=sgd,momentum=0,rate=0.1");
    check_trajectory("optimizer=sgd,rate=0.03,decay=0.01");
    check_trajectory("optimizer=sgd,rate=0.03,nesterov,decay=0.1,decay-all=false");
    check_trajectory("optimizer=sgd,rate=0.1,clip=0.5,schedule=cosine,steps=60,warmup=5");
}

TEST(train, adam_and_adamw_go_where_the_formula_goes_for_50_steps) {
    check_trajectory("optimizer=adam,rate=0.05");
    check_trajectory("optimizer=adam,rate=0.05,decay=0.1,beta1=0.8,beta2=0.95,epsilon=1e-4");
    check_trajectory("optimizer=adamw,rate=0.05,decay=0.1");
    check_trajectory("optimizer=adamw,rate=0.05,decay=0.1,decay-all=false,clip=1,schedule=step,"
                     "every=10,gamma=0.7");
}

TEST(train, rmsprop_goes_where_the_formula_goes_for_50_steps) {
    check_trajectory("optimizer=rmsprop,rate=0.01");
    check_trajectory("optimizer=rmsprop,rate=0.005,momentum=0.9,decay=0.05,clip=2");
}

TEST(train, lion_goes_where_the_formula_goes_for_50_steps) {
    check_trajectory("optimizer=lion,rate=0.01");
    check_trajectory("optimizer=lion,rate=0.02,decay=0.1,beta1=0.8,beta2=0.95,clip=1");
    check_trajectory("optimizer=lion,rate=0.01,decay=0.1,decay-all=false,schedule=polynomial,"
                     "steps=50,power=2");
}

TEST(train, gradients_are_clipped_by_value_before_their_norm) {
    check_trajectory("optimizer=sgd,rate=0.1,clip-value=0.2");
    check_trajectory("optimizer=sgd,momentum=0,rate=0.1,clip-value=0.3,clip=0.5,decay=0.1");
    check_trajectory("optimizer=adamw,rate=0.05,clip-value=0.01,schedule=onecycle,steps=50");
}

/* ---- a net of two layers ---- */

static hr_status build_net(void *user, hr_graph *g, int64_t batch, int training) {
    (void)user;
    (void)training;
    const int64_t in[] = {batch, 5}, out[] = {batch};
    const hr_value x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_from(2, in));
    const hr_value ids = hr_graph_input(g, "ids", HR_TYPE_I32, hr_shape_from(1, out));
    hr_graph_push(g, "a");
    hr_value w = hr_graph_param(g, "weight", HR_TYPE_F32, hr_shape_2(16, 5), hr_init_normal(.5));
    hr_value b = hr_graph_param(g, "bias", HR_TYPE_F32, hr_shape_1(16), hr_init_constant(0));
    const hr_value h = hr_relu(g, hr_linear(g, x, w, b));
    hr_graph_pop(g);
    hr_graph_push(g, "b");
    w = hr_graph_param(g, "weight", HR_TYPE_F32, hr_shape_2(3, 16), hr_init_normal(.3));
    b = hr_graph_param(g, "bias", HR_TYPE_F32, hr_shape_1(3), hr_init_constant(0));
    const hr_value y = hr_linear(g, h, w, b);
    hr_graph_pop(g);
    hr_graph_result(g, hr_cross_entropy(g, y, ids, 0), "loss");
    return HR_OK;
}

static void train_net(const char *text, int64_t part, uint64_t steps, uint64_t cycle,
                      hri_threads *threads, float *losses) {
    const hri_interp_job job = {.options = options(text),
                                .build = build_net,
                                .batch = 8,
                                .part = part,
                                .steps = steps,
                                .cycle = cycle,
                                .seed = 3,
                                .limit = 3,
                                .threads = threads};
    hr_error why = {0};
    if (hri_train_run(&job, losses, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", text, why.message);
    }
}

TEST(train, a_net_learns_one_batch_by_heart_with_the_same_bits_on_3_threads) {
    float one[150], three[150];
    hri_threads *pool;
    CHECK_OK(hri_threads_create(3, &pool));
    train_net("optimizer=adamw,rate=0.02,clip=1", 0, 150, 1, NULL, one);
    train_net("optimizer=adamw,rate=0.02,clip=1", 0, 150, 1, pool, three);
    hri_threads_destroy(pool);
    CHECK(one[0] > 0.5f && one[149] < 0.02f);
    CHECK(!memcmp(one, three, sizeof one));
}

TEST(train, parts_of_any_size_give_the_losses_of_the_whole_batch) {
    static const char *const texts[] = {"rate=0.1,clip=0.3", "optimizer=adamw,rate=0.02",
                                        "rate=0.1,momentum=0.8,decay=0.01",
                                        "rate=0.05,nesterov,decay=0.01"};
    for (int k = 0; k < 4; k++) {
        float whole[20], parts[20];
        train_net(texts[k], 0, 20, 0, NULL, whole);
        for (int64_t part = 1; part < 8; part += 2) {
            train_net(texts[k], part, 20, 0, NULL, parts);
            for (int s = 0; s < 20; s++) {
                CHECK(fabsf(whole[s] - parts[s]) <= 1e-5f);
            }
        }
    }
}

static hr_graph *step_graph(const char *text, hr_step_kind kind) {
    const hr_train_options o = options(text);
    hr_graph *g = NULL;
    hr_error why = {0};
    if (hr_step_build(&o, build_net, NULL, kind, 4, &g, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", text, why.message);
    }
    return g;
}

TEST(train, a_graph_has_the_small_inputs_and_states_it_needs_and_no_others) {
    hr_graph *g = step_graph("optimizer=sgd,momentum=0", HR_STEP_WHOLE);
    CHECK(hr_graph_find(g, "train.rate") && !hr_graph_find(g, "train.update"));
    CHECK(!hr_graph_find(g, "train.factor") && !hr_graph_find(g, "a.weight.velocity"));
    hr_graph_destroy(g);
    g = step_graph("optimizer=adam,clip=1", HR_STEP_LAST);
    CHECK(hr_graph_find(g, "train.update") && hr_graph_find(g, "train.first"));
    CHECK(hr_graph_find(g, "a.weight.first") && hr_graph_find(g, "b.bias.second"));
    CHECK(hr_graph_find(g, "a.weight.sum") && hr_graph_find(g, "train.norm"));
    hr_graph_destroy(g);
    g = step_graph("optimizer=adam,clip=1", HR_STEP_PART);
    CHECK(!hr_graph_find(g, "train.rate") && !hr_graph_find(g, "a.weight.first"));
    CHECK(hr_graph_find(g, "a.weight.sum"));
    hr_graph_destroy(g);
    /* Sgd keeps the sum of the parts where its velocity is, unless somebody must see the gradient before. */
    static const char *const texts[] = {"momentum=0.9", "nesterov", "clip=1", "check",
                                        "precision=f16"};
    for (int k = 0; k < 5; k++) {
        g = step_graph(texts[k], HR_STEP_PART);
        CHECK_EQ(hr_graph_find(g, "a.weight.sum") != HR_NONE, k > 0);
        CHECK_EQ(hr_graph_find(g, "a.weight.velocity") != HR_NONE, k == 0);
        hr_graph_destroy(g);
    }
    g = step_graph("optimizer=adam", HR_STEP_EVALUATE);
    CHECK_EQ(hr_graph_node_count(g), 4);
    hr_graph_destroy(g);
}

/* ---- skips ---- */

static hr_status build_overflow(void *user, hr_graph *g, int64_t batch, int training) {
    const int64_t dims[] = {batch};
    (void)user;
    (void)training;
    const hr_value x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_from(1, dims));
    const hr_value w = hr_graph_param(g, "w", HR_TYPE_F32, hr_shape_0(), hr_init_constant(1));
    hr_graph_result(g, hr_sum(g, hr_mul(g, x, w), NULL, 0), "loss");
    return HR_OK;
}

static int fill_bad_in_step_1(void *user, const char *name, const hr_meta *meta, uint64_t step,
                              uint32_t first_sample, void *out) {
    (void)user;
    (void)name;
    (void)first_sample;
    for (int64_t i = 0; i < hr_shape_count(&meta->shape); i++) {
        ((float *)out)[i] = step == 1 ? NAN : 1.0f;
    }
    return 1;
}

static hr_status weight_is_two_steps_away(void *user, const hr_graph *g, hri_interp *it) {
    (void)user;
    CHECK(fabsf(*(float *)hri_interp_data(it, hr_graph_find(g, "w")) - 0.8f) < 1e-6f);
    CHECK(*(float *)hri_interp_data(it, hr_graph_find(g, "train.factor")) == 1.0f);
    return HR_OK;
}

TEST(train, a_step_with_a_gradient_that_is_not_a_number_changes_nothing_and_is_logged) {
    int lines = 0;
    float losses[3];
    const hri_interp_job job = {.options = options("momentum=0,rate=0.05,check"),
                                .build = build_overflow,
                                .batch = 2,
                                .steps = 3,
                                .fill = fill_bad_in_step_1,
                                .end = weight_is_two_steps_away,
                                .log = count_lines,
                                .log_user = &lines};
    CHECK_OK(hri_train_run(&job, losses, NULL));
    CHECK(losses[0] == 2.0f && isnan(losses[1]) && fabsf(losses[2] - 1.8f) < 1e-6f);
    CHECK_EQ(lines, 1);
}

/* ---- what is refused ---- */

static hr_status build_wrong(void *user, hr_graph *g, int64_t batch, int training) {
    const hr_value x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_1(3));
    const int what = *(int *)user;
    (void)batch;
    (void)training;
    if (what == 0) {
        hr_graph_result(g, hr_relu(g, x), "loss"); /* no scalar */
    } else if (what == 1) {
        hr_graph_result(g, hr_sum(g, x, NULL, 0), "loss"); /* nothing to train */
    } else if (what == 2) {
        hr_graph_push(g, "open");
        hr_graph_result(g, hr_sum(g, x, NULL, 0), "/loss");
    } else if (what == 3) {
        return HR_E_IO;
    }
    return HR_OK;
}

TEST(train, a_model_without_a_loss_or_without_parameters_is_refused_with_the_reason) {
    static const char *const says[] = {"\"loss\"", "any parameter", "open", "could not be built"};
    static const hr_status codes[] = {HR_E_SHAPE, HR_E_INVALID, HR_E_INVALID, HR_E_IO};
    const hr_train_options o = options("");
    for (int what = 0; what < 4; what++) {
        hr_graph *g = NULL;
        hr_error why = {0};
        CHECK_STATUS(hr_step_build(&o, build_wrong, &what, HR_STEP_WHOLE, 1, &g, &why),
                     codes[what]);
        CHECK(g == NULL);
        if (!strstr(why.message, says[what])) {
            test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", why.message, says[what]);
        }
    }
    hr_graph *g = NULL;
    CHECK_STATUS(hr_step_build(&o, build_net, NULL, HR_STEP_WHOLE, 0, &g, NULL), HR_E_RANGE);
}

/* ---- synthetic batches ---- */

TEST(train, synthetic_numbers_follow_the_rule_and_do_not_depend_on_parts) {
    float whole[4][6], part[2][6];
    const hr_meta all = {HR_TYPE_F32, hr_shape_2(4, 6)}, two = {HR_TYPE_F32, hr_shape_2(2, 6)};
    hri_synthetic_fill(&all, 0x123456789abcdefull, 5, 1, 0, 0, whole);
    hri_synthetic_fill(&two, 0x123456789abcdefull, 5, 1, 2, 0, part);
    CHECK(!memcmp(whole[2], part, sizeof part));
    const uint32_t counter[4] = {5 / 4, 3, HRI_SYNTHETIC_NODE + 1, 5}; /* sample 3, element 5 */
    const uint32_t key[2] = {0x89abcdefu, 0x1234567u};
    uint32_t block[4];
    hri_philox(counter, key, block);
    CHECK(whole[3][5] == (float)(block[1] >> 8) * 0x1p-22f - 2.0f);
    int32_t ids[50];
    const hr_meta meta = {HR_TYPE_I32, hr_shape_1(50)};
    hri_synthetic_fill(&meta, 1, 0, 0, 0, 7, ids);
    int seen = 0;
    for (int i = 0; i < 50; i++) {
        CHECK(ids[i] >= 0 && ids[i] < 7);
        seen |= 1 << ids[i];
    }
    CHECK_EQ(seen, 127);
}

/* ---- mixed precision ---- */

TEST(train, bf16_and_f16_follow_f32_closely) {
    float full[30], bf16[30], f16[30];
    train_net("rate=0.05", 0, 30, 2, NULL, full);
    train_net("rate=0.05,precision=bf16", 0, 30, 2, NULL, bf16);
    train_net("rate=0.05,precision=f16", 0, 30, 2, NULL, f16);
    int differs = 0;
    for (int s = 0; s < 30; s++) {
        CHECK(fabsf(bf16[s] - full[s]) <= 2e-2f * (full[s] + 0.1f));
        CHECK(fabsf(f16[s] - full[s]) <= 5e-3f * (full[s] + 0.1f));
        differs |= bf16[s] != full[s];
    }
    CHECK(differs);
    train_net("rate=0.05,precision=bf16", 3, 30, 2, NULL, f16); /* in parts */
    for (int s = 0; s < 30; s++) {
        CHECK(fabsf(bf16[s] - f16[s]) <= 2e-2f * (bf16[s] + 0.1f));
    }
}

TEST(train, mixed_precision_keeps_f32_weights_casts_each_once_and_makes_small_gradients) {
    hr_graph *g = step_graph("optimizer=adamw,precision=bf16", HR_STEP_WHOLE);
    CHECK_EQ(hr_graph_meta(g, hr_graph_find(g, "a.weight")).type, HR_TYPE_F32);
    CHECK_EQ(hr_graph_meta(g, hr_graph_find(g, "a.weight.first")).type, HR_TYPE_F32);
    CHECK_EQ(hr_graph_meta(g, hr_graph_find(g, "loss")).type, HR_TYPE_F32);
    int casts = 0, turned = 0, updates = 0;
    for (uint32_t n = 0; n < g->node_count; n++) {
        const hri_node_record *node = &g->nodes[n];
        casts += node->live && !strcmp(node->sig.op->name, "cast");
        turned += node->live && !strcmp(node->sig.op->name, "cast_turned");
        if (!strcmp(node->sig.op->name, "adamw")) {
            updates++;
            CHECK_EQ(node->sig.in[1].type, HR_TYPE_BF16);
        }
    }
    CHECK_EQ(casts + turned, 5); /* four parameters and the input */
    CHECK_EQ(turned, 1);         /* the weight with 16 outputs */
    CHECK_EQ(updates, 4);
    hr_graph_destroy(g);
}

static int fill_large(void *user, const char *name, const hr_meta *meta, uint64_t step,
                      uint32_t first_sample, void *out) {
    (void)user;
    (void)step;
    (void)first_sample;
    for (int64_t i = 0; !strcmp(name, "x") && i < hr_shape_count(&meta->shape); i++) {
        ((float *)out)[i] = 300.0f + (float)i; /* gradients of about 1e2: too large times 2^15 */
    }
    return !strcmp(name, "x");
}

TEST(train, an_overflow_in_f16_lowers_the_scale_until_the_step_goes_through) {
    int lines = 0;
    float losses[25];
    const hri_interp_job job = {.options = options("rate=1e-6,precision=f16"),
                                .build = build_net,
                                .batch = 8,
                                .steps = 25,
                                .limit = 3,
                                .fill = fill_large,
                                .log = count_lines,
                                .log_user = &lines};
    CHECK_OK(hri_train_run(&job, losses, NULL));
    CHECK(lines > 1 && lines < 14);
    CHECK(losses[1] != losses[24]);
    for (int s = 0; s < 25; s++) {
        CHECK(isfinite(losses[s]));
    }
}
