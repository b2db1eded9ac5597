/* Every allocation, opening, read and page of writing text fails once: the status fits, nothing is left behind, and a second try
 * gives the text of a first one. */
#include <headroom/headroom.h>

#include "base/fault.h"
#include "base/hash.h"
#include "test.h"
#include "untrained.h"

static const char *path;

static hr_status take(void *user, int32_t token, const char *text, size_t bytes) {
    (void)text, (void)bytes;
    hri_hasher_add(user, &token, sizeof token);
    return HR_OK;
}

static hr_status run(uint64_t *out) {
    const hr_ctx_options co = {.size = sizeof co, .no_cuda = 1};
    const hr_generate_options o = {.size = sizeof o,
                                   .checkpoint = path,
                                   .temperature = 1,
                                   .top_k = 9,
                                   .seed = 3,
                                   .max_tokens = 5,
                                   .threads = 1};
    hr_ctx *ctx = NULL;
    hr_generator *g = NULL;
    hr_error why = {0};
    hri_hasher h;
    hri_hasher_init(&h, 0);
    hr_status status = hr_ctx_create(&co, &ctx);
    if (status == HR_OK) {
        status = hr_generator_open(ctx, &o, &g, &why);
        CHECK(status == HR_OK || (why.message[0] && why.cause != HR_CAUSE_NONE));
    }
    if (status == HR_OK) {
        status = hr_generator_run(g, "abc", 3, take, &h, NULL, &why);
    }
    *out = hri_hasher_get(&h).lo;
    hr_generator_close(g);
    hr_ctx_destroy(ctx);
    return status;
}

TEST_TIMEOUT(generator, any_fault_is_a_status_and_a_retry_gives_the_same_text, 300) {
    static const hri_fault_kind kinds[] = {HRI_FAULT_ALLOC, HRI_FAULT_RESERVE, HRI_FAULT_CREATE,
                                           HRI_FAULT_MAP,   HRI_FAULT_OPEN,    HRI_FAULT_READ};
    const hri_about about = {.source = "text:x", .input = "tokens"};
    path = test_untrained("gpt2-nano:context=8,vocab=256,layers=1,width=8,heads=2", &about,
                          "best.safetensors");
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
