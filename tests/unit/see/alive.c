/* Lifetimes from what calls touch: made-up runs, and a plan that says something else. */
#include "see/alive.h"

#include "test.h"

enum { KEEP = HRI_TOUCH_KEEP, READ = HRI_TOUCH_READ, WRITE = HRI_TOUCH_WRITE };

#define TOUCH(OP, HOW, AT, BYTES)                                                                  \
    { .op = OP, .how = HOW, .at = AT, .bytes = BYTES }
#define COUNT(A) (sizeof(A) / sizeof(A)[0])

static void check_life(const hri_see_lives *lives, uint64_t at, uint64_t bytes, uint32_t birth,
                       uint32_t death) {
    size_t found = 0;
    for (size_t i = 0; i < lives->count; i++) {
        const hri_see_life *l = &lives->items[i];
        found += l->at == at && l->bytes == bytes && l->birth == birth && l->death == death;
    }
    CHECK_EQ(found, 1);
}

TEST(see_alive, from_the_write_to_the_last_read) {
    const hri_see_touch t[] = {TOUCH(0, KEEP, 0, 64),    TOUCH(0, WRITE, 64, 32),
                               TOUCH(0, READ, 64, 32),   TOUCH(0, READ, 0, 64),
                               TOUCH(0, WRITE, 128, 16), TOUCH(1, READ, 128, 16),
                               TOUCH(1, WRITE, 64, 8),   TOUCH(3, READ, 128, 8),
                               TOUCH(3, WRITE, 0, 64),   TOUCH(4, READ, 64, 8)};
    hri_see_lives lives = {0};
    CHECK_OK(hri_see_alive(t, COUNT(t), 5, &lives));
    CHECK_EQ(lives.count, 4);
    check_life(&lives, 0, 64, 0, UINT32_MAX); /* a parameter stays itself when it is updated */
    check_life(&lives, 64, 32, 0, 1);         /* an input whose place is taken by another value */
    check_life(&lives, 128, 16, 0, 4);        /* part of it is read late */
    check_life(&lives, 64, 8, 1, 5);
    /* the second graph of a step has the same parameter */
    const hri_see_touch again[] = {TOUCH(5, KEEP, 0, 64), TOUCH(5, WRITE, 64, 4)};
    CHECK_OK(hri_see_alive(again, COUNT(again), 6, &lives));
    CHECK_EQ(lives.count, 5);
    check_life(&lives, 64, 4, 5, 6); /* nobody reads it */
    hri_see_lives_deinit(&lives);
}

TEST(see_alive, in_place_is_alive_once) {
    const hri_see_touch t[] = {TOUCH(0, WRITE, 0, 32), TOUCH(1, READ, 0, 32),
                               TOUCH(1, WRITE, 0, 32), TOUCH(2, READ, 0, 32),
                               TOUCH(2, WRITE, 32, 8), TOUCH(2, WRITE, 64, 8)};
    hri_see_lives lives = {0};
    CHECK_OK(hri_see_alive(t, COUNT(t), 3, &lives));
    CHECK_EQ(lives.count, 4);
    check_life(&lives, 0, 32, 0, 1);
    check_life(&lives, 0, 32, 1, 3);
    check_life(&lives, 32, 8, 2, 3);
    check_life(&lives, 64, 8, 2, 3);
    hri_see_lives_deinit(&lives);
}

TEST(see_alive, a_plan_that_frees_an_op_too_early_disagrees_there) {
    for (uint32_t death = 2; death <= 3; death++) {
        hri_recording r = {0};
        hri_see_agreement a;
        for (uint64_t i = 0; i < 4; i++) {
            const hri_see_op op = {.live_bytes = i < 3 ? 100 : 60};
            CHECK_OK(hri_recording_add(&r, HRI_SEE_OPS, &op));
        }
        const hri_see_buffer buffers[] = {{.bytes = 64, .asked_bytes = 60, .death = UINT32_MAX},
                                          {.bytes = 40, .offset = 64, .death = death}};
        CHECK_OK(hri_recording_add(&r, HRI_SEE_BUFFERS, &buffers[0]));
        CHECK_OK(hri_recording_add(&r, HRI_SEE_BUFFERS, &buffers[1]));
        CHECK_OK(hri_recording_finish(&r));
        CHECK_OK(hri_see_agree(&r, &a));
        CHECK_EQ(a.ops, 4);
        CHECK_EQ(a.equal, death == 3 ? 4 : 3);
        if (death == 2) {
            CHECK_EQ(a.first_different, 2);
            CHECK_EQ(a.planned_bytes, 60);
        }
        CHECK_EQ(a.measured_bytes, 100);
        hri_recording_deinit(&r);
    }
}
