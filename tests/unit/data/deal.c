/* deal(...): what each rank gets of the one order, and places that know of no ranks. */
#include <stdio.h>
#include <string.h>
#include <headroom/data.h>

#include "test.h"

enum { ALL = 103, BATCH = 10, PART = 3 };

/* Which ranks train on sample i of a batch: parts of 3, 3, 3 and 1. */
static uint32_t rank_of(uint64_t i, uint32_t ranks) {
    return (uint32_t)(i % BATCH / PART) % ranks;
}

static hr_pipeline *open_rank(uint32_t ranks, uint32_t rank) {
    char text[160];
    hr_pipeline *p = NULL;
    int used = snprintf(text, sizeof text, "range:%d | shuffle(seed=3)", ALL);
    if (ranks) {
        snprintf(text + used, sizeof text - (size_t)used,
                 " | deal(batch=%d,part=%d,ranks=%u,rank=%u)", BATCH, PART, ranks, rank);
    }
    CHECK_OK(hr_pipeline_open(&(hr_pipeline_options){.size = sizeof(hr_pipeline_options)}, text,
                              NULL, &p));
    return p;
}

static int64_t next_of(hr_pipeline *p) {
    hr_element *e = NULL;
    if (hr_pipeline_next(p, &e) != HR_OK) {
        return -1;
    }
    const int64_t value = *(const int64_t *)hr_element_find(e, "value")->data;
    hr_element_unref(e);
    return value;
}

TEST(deal, ranks_get_their_samples_of_the_one_order) {
    for (uint32_t ranks = 1; ranks <= 4; ranks++) {
        hr_pipeline *whole = open_rank(0, 0), *of[4];
        for (uint32_t r = 0; r < ranks; r++) {
            of[r] = open_rank(ranks, r);
            CHECK_EQ(hr_pipeline_fingerprint(of[r]), hr_pipeline_fingerprint(whole));
        }
        for (int epoch = 0; epoch < 2; epoch++) {
            for (uint64_t i = 0; i < ALL / BATCH * BATCH; i++) {
                CHECK_EQ(next_of(of[rank_of(i, ranks)]), next_of(whole));
            }
            CHECK_OK(hr_pipeline_rewind(whole));
            for (uint32_t r = 0; r < ranks; r++) {
                CHECK_EQ(next_of(of[r]), -1); /* what fills no batch is nobody's */
                CHECK_OK(hr_pipeline_rewind(of[r]));
            }
        }
        for (uint32_t r = 0; r < ranks; r++) {
            hr_pipeline_destroy(of[r]);
        }
        hr_pipeline_destroy(whole);
    }
}

/* Rank 0 of 3 saves between two batches; one alone, and both of two, go on there.  Then from a place that is no multiple of a
 * batch, as bad samples that were left out make it. */
TEST(deal, a_place_between_batches_is_the_same_for_all) {
    hr_pipeline *whole = open_rank(0, 0), *first = open_rank(3, 0), *two[2];
    void *place, *alone;
    size_t bytes, alone_bytes;
    for (int i = 0; i < 4 * BATCH; i++) {
        const int64_t value = next_of(whole);
        if (rank_of((uint64_t)i, 3) == 0) {
            CHECK_EQ(next_of(first), value);
        }
    }
    CHECK_OK(hr_pipeline_save(first, &place, &bytes));
    CHECK_OK(hr_pipeline_save(whole, &alone, &alone_bytes));
    CHECK(bytes == alone_bytes && memcmp(place, alone, bytes) == 0);
    for (int odd = 0; odd < 2; odd++) {
        for (uint32_t r = 0; r < 2; r++) {
            two[r] = open_rank(2, r);
            CHECK_OK(hr_pipeline_restore(two[r], place, bytes));
        }
        for (uint64_t i = 0; i < 3 * BATCH; i++) {
            CHECK_EQ(next_of(two[rank_of(i, 2)]), next_of(whole));
        }
        hr_pipeline_destroy(two[0]);
        hr_pipeline_destroy(two[1]);
        CHECK_EQ(next_of(whole) >= 0, 1); /* one more than a batch */
        hr_pipeline_state_free(place);
        CHECK_OK(hr_pipeline_save(whole, &place, &bytes));
    }
    hr_pipeline_state_free(place);
    hr_pipeline_state_free(alone);
    hr_pipeline_destroy(first);
    hr_pipeline_destroy(whole);
}

TEST(deal, what_has_no_random_access_is_refused) {
    hr_pipeline *p = NULL;
    hr_error error = {0};
    CHECK_STATUS(hr_pipeline_open(NULL, "range:20 | deal(4,part=2,ranks=2,rank=2)", &error, &p),
                 HR_E_RANGE);
    CHECK_STATUS(hr_pipeline_open(NULL, "range:20 | deal(4,part=4,ranks=2,rank=1)", &error, &p),
                 HR_E_UNSUPPORTED);
    CHECK_STATUS(hr_pipeline_open(NULL, "range:20 | prefetch | deal(4,part=2,ranks=2)", &error, &p),
                 HR_E_UNSUPPORTED);
}
