/* Every allocation of building, differentiating, stepping and running a graph fails once, and once for ever: the
 * status is "no host memory", nothing is left behind, and a retry works. */
#include <headroom/headroom.h>

#include <string.h>

#include "base/fault.h"
#include "base/alloc.h"
#include "test.h"
#include "loop/run.h"

static hr_status build_net(void *user, hr_graph *g, int64_t batch, int training) {
    const int64_t in[] = {batch, 6, 6, 2}, out[] = {batch};
    (void)user;
    (void)training;
    const hr_value x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_from(4, in));
    const hr_value ids = hr_graph_input(g, "ids", HR_TYPE_I32, hr_shape_from(1, out));
    hr_value h = x;
    int channels = 2;
    for (int i = 0; i < 4; i++) {
        char name[16] = "conv0";
        name[4] = (char)('0' + i);
        hr_graph_push(g, name);
        const hr_value w = hr_graph_param(g, "weight", HR_TYPE_F32, hr_shape_4(3, 3, channels, 4),
                                          hr_init_normal(.1));
        h = hr_relu(g, hr_conv2d(g, h, w, HR_NONE, 1, 1, 1, 1));
        channels = 4;
        hr_graph_pop(g);
    }
    const int64_t flat[] = {batch, 144};
    const hr_value w = hr_graph_param(g, "fc", HR_TYPE_F32, hr_shape_2(3, 144), hr_init_normal(.1));
    h = hr_linear(g, hr_reshape(g, h, hr_shape_from(2, flat)), w, HR_NONE);
    hr_graph_result(g, hr_cross_entropy(g, h, ids, 0), "loss");
    return HR_OK;
}

static hr_status train(const char *text, int64_t part, float *losses) {
    hri_interp_job job = {
        .build = build_net, .batch = 4, .part = part, .steps = 2, .seed = 5, .limit = 3};
    hr_error why = {0};
    job.options.size = sizeof job.options;
    hr_status status = hr_train_options_parse(text, &job.options, &why);
    if (status == HR_OK) {
        status = hri_train_run(&job, losses, &why);
    }
    if (status != HR_OK) {
        CHECK(why.message[0] != '\0');
    }
    return status;
}

static void sweep(const char *text, int64_t part) {
    float want[2], is[2];
    CHECK_OK(train(text, part, want));
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        uint64_t nth = 0, delivered = 1;
        while (delivered) {
            const int64_t live = hri_fault_live_allocs();
            hri_fault_set(HRI_FAULT_ALLOC, ++nth, for_ever);
            const hr_status status = train(text, part, is);
            delivered = hri_fault_delivered();
            hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
            CHECK_EQ(hri_fault_live_allocs(), live);
            if (!delivered || status == HR_OK) { /* giving room back may fail and changes nothing */
                CHECK_OK(status);
                CHECK(!memcmp(want, is, sizeof is));
            } else {
                CHECK_STATUS(status, HR_E_NOMEM_HOST);
            }
        }
        CHECK(nth > 100);
        CHECK(!memcmp(want, is, sizeof is));
    }
}

TEST_TIMEOUT(train, an_allocation_that_fails_in_f32_leaves_nothing_behind, 120) {
    sweep("optimizer=sgd,clip=1", 0);
}

TEST_TIMEOUT(train, an_allocation_that_fails_in_parts_leaves_nothing_behind, 120) {
    sweep("optimizer=adamw", 3);
}

TEST_TIMEOUT(train, an_allocation_that_fails_in_mixed_precision_leaves_nothing_behind, 120) {
    sweep("optimizer=rmsprop,momentum=0.5,precision=f16", 0);
}
