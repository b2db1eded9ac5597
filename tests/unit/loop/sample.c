/* Choosing tokens: the largest, the few largest, the likely ones, and draws that a seed decides. */
#include <math.h>
#include <stdlib.h>

#include "loop/sample.h"
#include "test.h"

static int32_t pick(hri_sampling how, const float *scores, int64_t n, uint64_t index) {
    hri_sampler *s;
    CHECK_OK(hri_sampler_open(&how, n, &s));
    const int32_t token = hri_sampler_pick(s, scores, index);
    hri_sampler_close(s);
    return token;
}

TEST(sample, without_temperature_it_is_the_first_of_the_largest) {
    static const float scores[] = {1, 3, NAN, 3, -INFINITY};
    CHECK_EQ(pick((hri_sampling){0}, scores, 5, 7), 1);
    CHECK_EQ(pick((hri_sampling){.temperature = 1, .top_k = 1}, scores, 5, 7), 1);
    CHECK_EQ(pick((hri_sampling){.temperature = 1, .top_p = 1e-9}, scores, 5, 7), 1);
}

TEST(sample, scores_that_are_no_numbers_are_no_choice) {
    static const float none[] = {NAN, NAN}, large[] = {INFINITY, 0},
                       small[] = {-INFINITY, -INFINITY};
    CHECK_EQ(pick((hri_sampling){0}, none, 2, 0), -1);
    CHECK_EQ(pick((hri_sampling){.temperature = 1}, none, 2, 0), -1);
    CHECK_EQ(pick((hri_sampling){.temperature = 1}, large, 2, 0), -1);
    CHECK_EQ(pick((hri_sampling){.temperature = 1}, small, 2, 0), -1);
}

/* 4,000 draws: how often each token comes. */
static void count(hri_sampling how, const float *scores, int64_t n, int *counts) {
    hri_sampler *s;
    CHECK_OK(hri_sampler_open(&how, n, &s));
    for (int i = 0; i < 4000; i++) {
        const int32_t token = hri_sampler_pick(s, scores, (uint64_t)i);
        CHECK(token >= 0 && token < n);
        counts[token]++;
    }
    hri_sampler_close(s);
}

TEST(sample, draws_follow_the_probabilities_and_the_bounds) {
    const float scores[] = {(float)log(0.5), (float)log(0.1), (float)log(0.3), (float)log(0.1)};
    int all[4] = {0}, two[4] = {0}, part[4] = {0}, cold[4] = {0};
    count((hri_sampling){.temperature = 1, .seed = 3}, scores, 4, all);
    CHECK(abs(all[0] - 2000) < 150 && abs(all[1] - 400) < 100 && abs(all[2] - 1200) < 150);
    count((hri_sampling){.temperature = 1, .seed = 3, .top_k = 2}, scores, 4, two);
    CHECK(two[1] == 0 && two[3] == 0 && abs(two[0] - 2500) < 150);
    count((hri_sampling){.temperature = 1, .seed = 3, .top_p = 0.75}, scores, 4, part);
    CHECK(part[1] == 0 && part[3] == 0 && part[2] > 0);
    count((hri_sampling){.temperature = 0.2, .seed = 3}, scores, 4, cold);
    CHECK(cold[0] > 3500); /* 0.5^5 of 0.5^5 + 0.3^5 + 2 0.1^5 is 0.928 */
}

TEST(sample, a_seed_decides_every_draw) {
    const float scores[] = {0, 0, 0, 0, 0, 0, 0, 0};
    int same = 0;
    for (uint64_t i = 0; i < 64; i++) {
        const hri_sampling a = {.temperature = 1, .seed = 1}, b = {.temperature = 1, .seed = 2};
        CHECK_EQ(pick(a, scores, 8, i), pick(a, scores, 8, i));
        same += pick(a, scores, 8, i) == pick(b, scores, 8, i);
    }
    CHECK(same < 32);
}
