/* Every allocation of reading a tokenizer and encoding a text fails once: a status, nothing left behind, a retry works. */
#include "data/text/bpe.h"

#include "base/fault.h"
#include "data/text/tokenizer_file.h"
#include "test.h"

static const char file[] =
    "{\"added_tokens\":[{\"id\":3,\"content\":\"<e>\"}],\"pre_tokenizer\":{\"type\":\"Sequence\","
    "\"pretokenizers\":[{\"type\":\"ByteLevel\"}]},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,"
    "\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}";

static hr_status run(void) {
    hri_tokenizer_file f;
    hri_prose why = {""};
    hri_bpe b;
    hri_bpe_work *w = NULL;
    hri_tokens out = {0};
    /* bytes without a token: a whole one is read up to there */
    hr_status status = hri_tokenizer_file_parse(file, sizeof file - 1, &f, &why);
    status = status == HR_E_FORMAT ? HR_OK : status == HR_OK ? HR_E_INTERNAL : status;
    hri_bpe_init(&b);
    status = status == HR_OK ? hri_bpe_add(&b, "a", 0, 0, &why) : status;
    status = status == HR_OK ? hri_bpe_add(&b, "aa", 1, 0, &why) : status;
    status = status == HR_OK ? hri_bpe_merge(&b, "a", 1, "a", 1, &why) : status;
    status = status == HR_OK ? hri_bpe_work_open(&w) : status;
    status = status == HR_OK ? hri_bpe_encode(&b, w, "aaaaa", 5, 0, &out) : status;
    if (status == HR_OK) {
        CHECK(out.count == 3 && out.items[0] == 1 && out.items[2] == 0);
    }
    hri_bpe_work_close(w);
    hri_bpe_deinit(&b);
    hri_tokens_deinit(&out);
    return status;
}

TEST_TIMEOUT(tokenizer, every_allocation_may_fail, 30) {
    CHECK_OK(run());
    const int64_t live = hri_fault_live_allocs();
    for (uint64_t nth = 1;; nth++) {
        hri_fault_set(HRI_FAULT_ALLOC, nth, 0);
        const hr_status status = run();
        const uint64_t delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
        CHECK_EQ(hri_fault_live_allocs(), live);
        if (!delivered) {
            CHECK_OK(status);
            CHECK_LE(2, nth);
            break;
        }
        CHECK_STATUS(status, HR_E_NOMEM_HOST);
    }
}
