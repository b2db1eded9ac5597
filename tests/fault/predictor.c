/* Every allocation, opening, read and page of an inference fails once: the status fits, nothing is left behind, and a
 * second try gives the scores of a first one. */
#include <headroom/headroom.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/hash.h"
#include "pictures.h"
#include "test.h"
#include "untrained.h"
#include "loop/predictor.h"

static char run_path[512], data_text[600];

static void set_up(void) {
    const hri_about about = {
        .source = "images:x", .pixels = {.channels = 3, .std = {1, 1, 1}}, .input = "image"};
    snprintf(run_path, sizeof run_path, "%s",
             test_untrained("mlp:size=8,channels=3,classes=3,layers=1,width=8", &about,
                            "best.safetensors"));
    for (int i = 0; i < 3; i++) {
        char name[32];
        size_t bytes;
        unsigned char *jpeg = test_jpeg_of(12, 10, (uint64_t)i, NULL, &bytes);
        snprintf(name, sizeof name, "set/%d.jpg", i);
        test_write(test_folder(), name, jpeg, bytes);
        free(jpeg);
    }
    snprintf(data_text, sizeof data_text, "images:%s/set,classes=off", test_folder());
}

typedef struct work {
    hr_ctx *ctx;
    hri_checkpoint checkpoint;
    hr_model *model;
    hri_source source;
    hri_supply *supply;
    hri_predictor *predictor;
} work;

static hr_status open_all(work *w, hri_prose *why) {
    hri_model_input want;
    hr_device *host;
    char text[HRI_SOURCE_TEXT + 64];
    const hr_ctx_options co = {.size = sizeof co, .no_cuda = 1};
    hr_status status = hr_ctx_create(&co, &w->ctx);
    if (status == HR_OK) {
        status = hr_device_find(w->ctx, "host", &host);
    }
    if (status == HR_OK) {
        status = hri_checkpoint_open(run_path, &w->checkpoint, why);
    }
    if (status == HR_OK) {
        status = hri_checkpoint_model(&w->checkpoint, &w->model, why);
    }
    if (status == HR_OK) {
        status = hri_model_input_of(w->model, &want, why);
    }
    if (status == HR_OK) {
        status = hri_source_look(data_text, &want, &w->source, why);
    }
    if (status == HR_OK) {
        const size_t used = (size_t)snprintf(text, sizeof text, "%s", data_text);
        status = hri_source_stages(&w->source, &want, NULL, text + used, sizeof text - used, why);
    }
    if (status == HR_OK) {
        const hri_supply_options so = {.pipeline = text,
                                       .source = &w->source,
                                       .want = &want,
                                       .no_labels = 1,
                                       .pipeline_options = {.size = sizeof(hr_pipeline_options),
                                                            .budget_bytes = 4 << 20,
                                                            .workers = 1}};
        status = hri_supply_open(&so, &w->supply, why);
    }
    if (status == HR_OK) {
        const hri_predictor_options po = {.device = host,
                                          .model = w->model,
                                          .checkpoint = &w->checkpoint,
                                          .supply = w->supply,
                                          .batch = 2,
                                          .threads = 1};
        status = hri_predictor_open(&po, &w->predictor, why);
    }
    return status;
}

/* All scores, hashed. */
static hr_status run(uint64_t *out) {
    work w = {.checkpoint = {.file = {.fd = -1}}};
    hri_prose why = {0};
    hri_hasher h;
    hri_hasher_init(&h, 0);
    uint64_t samples = 0;
    hr_status status = open_all(&w, &why);
    while (status == HR_OK) {
        status = hri_predictor_next(w.predictor, &why);
        if (status == HR_OK) {
            const uint32_t fed = hri_predictor_fed(w.predictor);
            hri_hasher_add(&h, hri_predictor_scores(w.predictor), fed * 3 * sizeof(float));
            samples += fed;
        }
    }
    if (status == HR_E_EOF && samples == 3) {
        *out = hri_hasher_get(&h).lo;
        status = HR_OK;
    }
    hri_predictor_close(w.predictor);
    hri_supply_close(w.supply);
    hri_source_deinit(&w.source);
    hr_model_close(w.model);
    hri_checkpoint_close(&w.checkpoint);
    hr_ctx_destroy(w.ctx);
    return status;
}

TEST_TIMEOUT(predictor, any_fault_is_a_status_and_a_retry_gives_the_same_scores, 300) {
    static const hri_fault_kind kinds[] = {HRI_FAULT_ALLOC, HRI_FAULT_RESERVE, HRI_FAULT_CREATE,
                                           HRI_FAULT_MAP,   HRI_FAULT_OPEN,    HRI_FAULT_READ};
    set_up();
    uint64_t first = 0, again = 1;
    CHECK_OK(run(&first));
    const int64_t live = hri_fault_live_allocs();
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        int faults = 0;
        /* Each of the first ones, then ever fewer: there are thousands of allocations. */
        for (uint64_t nth = 1; nth < 100000; nth += 1 + nth / 16) {
            uint64_t is = 0;
            hri_fault_set(kinds[k], nth, 0);
            const hr_status status = run(&is);
            const uint64_t delivered = hri_fault_delivered();
            hri_fault_set(kinds[k], 0, 0);
            CHECK_EQ(hri_fault_live_allocs(), live);
            if (delivered == 0) {
                CHECK_OK(status);
                break;
            }
            faults++;
            CHECK(status != HR_E_EOF && status != HR_E_INTERNAL);
            if (status == HR_OK) { /* a fault that costs nothing must change nothing */
                CHECK(is == first);
            }
        }
        CHECK(faults > 0);
        CHECK_OK(run(&again));
        CHECK(again == first);
    }
}
