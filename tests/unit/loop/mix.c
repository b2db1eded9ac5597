/* Mixup and cutmix: what is drawn, what becomes of samples and labels. */
#include "loop/mix.h"

#include <math.h>
#include <string.h>

#include "test.h"

static const hri_mix_options mixup = {.mixup = 0.4, .seed = 5, .classes = 4};
static const hri_mix_options cutmix = {.cutmix = 1, .seed = 5, .classes = 4};

/* Beta(a, a) has mean 1/2 and variance 1 / (4 (2 a + 1)). */
TEST(mix, shares_are_from_a_beta_distribution) {
    static const double alphas[] = {0.05, 0.2, 0.4, 1, 3};
    for (size_t k = 0; k < sizeof alphas / sizeof alphas[0]; k++) {
        const hri_mix_options o = {.mixup = alphas[k], .seed = 9, .classes = 2};
        const double n = 20000, var = 1 / (4 * (2 * alphas[k] + 1));
        double sum = 0, squares = 0;
        for (uint32_t i = 0; i < 20000; i++) {
            hri_mix m;
            hri_mix_draw(&o, i / 16, i % 16, 1, 1, &m);
            CHECK(m.share >= 0 && m.share <= 1 && !m.cut);
            sum += m.share - 0.5;
            squares += (m.share - 0.5) * (m.share - 0.5);
        }
        CHECK(fabs(sum / n) < 5 * sqrt(var / n));
        CHECK(fabs(squares / n - var) < 0.02 * var + 0.004);
    }
}

TEST(mix, draws_depend_on_seed_step_and_pair_and_nothing_else) {
    hri_mix a, b;
    hri_mix_options other = mixup;
    other.seed = 6;
    hri_mix_draw(&mixup, 7, 3, 1, 1, &a);
    hri_mix_draw(&mixup, 7, 3, 1, 1, &b);
    CHECK(a.share == b.share);
    hri_mix_draw(&mixup, 7, 4, 1, 1, &b);
    CHECK(a.share != b.share);
    hri_mix_draw(&mixup, 8, 3, 1, 1, &b);
    CHECK(a.share != b.share);
    hri_mix_draw(&other, 7, 3, 1, 1, &b);
    CHECK(a.share != b.share);
}

TEST(mix, a_rectangle_is_inside_and_the_share_is_what_it_leaves) {
    int cuts = 0;
    for (uint32_t i = 0; i < 500; i++) {
        hri_mix m;
        hri_mix_draw(&cutmix, i, 0, 20, 30, &m);
        CHECK(m.cut && m.top >= 0 && m.left >= 0 && m.bottom <= 20 && m.right <= 30);
        CHECK(m.top <= m.bottom && m.left <= m.right);
        const double area = (double)((m.bottom - m.top) * (m.right - m.left));
        CHECK(fabs(m.share - (1 - area / 600)) < 1e-12);
        cuts += area > 0;
    }
    CHECK(cuts > 400);
    hri_mix_options both = cutmix;
    both.mixup = 0.2;
    cuts = 0;
    for (uint32_t i = 0; i < 400; i++) {
        hri_mix m;
        hri_mix_draw(&both, i, 0, 20, 30, &m);
        cuts += m.cut;
    }
    CHECK(cuts > 150 && cuts < 250); /* a coin */
}

static hr_field field_of(void *data, hr_type type, int64_t h, int64_t w, int64_t c) {
    hr_field f = {.name = "image", .data = data};
    f.meta = (hr_meta){type, hr_shape_from(3, (const int64_t[]){h, w, c})};
    f.bytes = hr_meta_bytes(&f.meta);
    return f;
}

TEST(mix, samples_are_mixed_by_the_formula) {
    uint8_t a[12], b[12], to[12];
    float x[2] = {1, -2}, y[2] = {3, 4}, z[2];
    for (int i = 0; i < 12; i++) {
        a[i] = (uint8_t)(10 * i);
        b[i] = (uint8_t)(255 - i);
    }
    const hr_field fa = field_of(a, HR_TYPE_U8, 2, 3, 2), fb = field_of(b, HR_TYPE_U8, 2, 3, 2);
    const hri_mix quarter = {.share = 0.25};
    CHECK_OK(hri_mix_field(&quarter, &fa, &fb, to, NULL));
    for (int i = 0; i < 12; i++) {
        CHECK_EQ(to[i], (int)(0.25f * (float)a[i] + 0.75f * (float)b[i] + 0.5f));
    }
    const hri_mix box = {.share = 0.5, .cut = 1, .top = 1, .left = 1, .bottom = 2, .right = 3};
    CHECK_OK(hri_mix_field(&box, &fa, &fb, to, NULL));
    for (int i = 0; i < 12; i++) {
        CHECK_EQ(to[i], i >= 8 ? b[i] : a[i]);
    }
    const hr_field fx = field_of(x, HR_TYPE_F32, 1, 1, 2), fy = field_of(y, HR_TYPE_F32, 1, 1, 2);
    CHECK_OK(hri_mix_field(&quarter, &fx, &fy, z, NULL));
    CHECK(z[0] == 2.5f && z[1] == 2.5f);
    hri_prose why = {""};
    CHECK_STATUS(hri_mix_field(&quarter, &fx, &fa, z, &why), HR_E_SHAPE);
    CHECK(strstr(why.text, "must have one form"));
}

TEST(mix, targets_are_distributions) {
    const hri_mix m = {.share = 0.75};
    float t[4];
    hri_mix_target(&m, 2, 0, 4, t);
    CHECK(t[0] == 0.25f && t[1] == 0 && t[2] == 0.75f && t[3] == 0);
    hri_mix_target(&m, 1, 1, 4, t);
    CHECK(t[0] == 0 && t[1] == 1 && t[2] == 0 && t[3] == 0);
}
