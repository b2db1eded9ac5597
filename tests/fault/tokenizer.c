/* Every allocation of reading a tokenizer and encoding a text fails once: a status, nothing left behind, a retry works. */
#include "data/text/bpe.h"

#include <stdio.h>
#include "base/fault.h"
#include <headroom/data.h>
#include "data/text/bpe_train.h"
#include "data/text/tokenizer_file.h"
#include "small_tokenizer.h"
#include "job/tokenize.h"
#include "pictures.h"
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

static hr_status run_words(void) {
    static const char words[] =
        "{\"added_tokens\":[{\"id\":0,\"content\":\"[UNK]\"}],\"normalizer\":{\"type\":"
        "\"BertNormalizer\"},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"model\":{\"type\":"
        "\"WordPiece\",\"vocab\":{\"[UNK]\":0,\"un\":1,\"##do\":2}}}";
    hri_tokenizer_file f;
    hri_prose why = {""};
    hri_tokens out = {0};
    hr_status status = hri_tokenizer_file_parse(words, sizeof words - 1, &f, &why);
    if (status != HR_OK) {
        return status;
    }
    status = hri_wordpiece_encode(&f.wordpiece, &f.bpe, "Undo it", 7, &out);
    if (status == HR_OK) {
        CHECK(out.count == 3 && out.items[0] == 1 && out.items[1] == 2 && out.items[2] == 0);
    }
    hri_tokens_deinit(&out);
    hri_tokenizer_file_deinit(&f);
    return status;
}

static hr_status open_words(void) {
    static const char vocab[] = "[PAD]\n[UNK]\nun\n", config[] = "{\"do_lower_case\":false}";
    hri_tokenizer_file f;
    hri_prose why = {""};
    char path[512];
    snprintf(path, sizeof path, "%s/words", test_folder());
    test_write(test_folder(), "words/vocab.txt", vocab, sizeof vocab - 1);
    test_write(test_folder(), "words/tokenizer_config.json", config, sizeof config - 1);
    const hr_status status = hri_tokenizer_file_read(path, &f, &why);
    if (status == HR_OK) {
        hri_tokenizer_file_deinit(&f);
    }
    return status;
}

static hr_status tokenize(void) {
    char from[512], to[512];
    const char *const paths[] = {from, from};
    hri_tokenize_result r;
    hri_why why = {0};
    snprintf(from, sizeof from, "%s/text", test_folder());
    snprintf(to, sizeof to, "%s/tokens", test_folder());
    return hri_tokenize(
        &(hri_tokenize_options){.paths = paths, .count = 2, .out = to, .threads = 3}, &r, &why);
}

/* Tokens that are kept for the source of text: nothing is left of a file that could not be made. */
static hr_status open_text(void) {
    static unsigned round;
    char text[2048];
    const char *d = test_folder();
    const hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 8 << 20, .workers = 1};
    hr_pipeline *p = NULL;
    hr_error error;
    snprintf(text, sizeof text, "text:%s/text,length=4,tokenizer=%s/t.json,cache=%s/kept%u", d, d,
             d, round++);
    const hr_status status = hr_pipeline_open(&o, text, &error, &p);
    if (status == HR_OK) {
        hr_pipeline_destroy(p);
    }
    return status;
}

static hr_status keep_going(void *user, uint64_t merges, uint64_t total) {
    (void)user, (void)merges, (void)total;
    return HR_OK;
}

/* Counting and merging; the same file without PCRE2 would be refused. */
static hr_status train_bpe(void) {
    static const char *const words[] = {"lower", "lowest", "newest", "aaaa", "low"};
    hri_word_counts c = {.most_bytes = 1 << 20};
    hri_bpe_merges merges = {0};
    hr_status status = HR_OK;
    for (size_t i = 0; i < 25 && status == HR_OK; i++) {
        status = hri_word_counts_add(&c, words[i % 5], strlen(words[i % 5]));
    }
    status = status == HR_OK ? hri_bpe_train(&c, 1, 266, 0, &merges, keep_going, NULL) : status;
    if (status == HR_OK) {
        CHECK_EQ(merges.count, 9);
    }
    hri_bpe_merges_deinit(&merges);
    hri_word_counts_deinit(&c);
    return status;
}

/* `bearable`: as many as can be done without. */
static void fails_everywhere(hr_status (*what)(void), unsigned bearable) {
    unsigned borne = 0;
    CHECK_OK(what());
    const int64_t live = hri_fault_live_allocs();
    for (uint64_t nth = 1;; nth++) {
        hri_fault_set(HRI_FAULT_ALLOC, nth, 0);
        const hr_status status = what();
        const uint64_t delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
        CHECK_EQ(hri_fault_live_allocs(), live);
        if (!delivered) {
            CHECK_OK(status);
            CHECK_LE(2, nth);
            CHECK_LE(borne, bearable);
            break;
        }
        borne += status == HR_OK;
        if (status != HR_OK) {
            CHECK_STATUS(status, HR_E_NOMEM_HOST);
        }
    }
}

TEST_TIMEOUT(tokenizer, every_allocation_may_fail, 30) {
    fails_everywhere(run, 0);
}

TEST_TIMEOUT(tokenizer, so_may_those_of_pieces_side_by_side, 30) {
    test_write(test_folder(), "text", "one line\nand another", 20);
    fails_everywhere(tokenize, 7); /* cores are counted otherwise */
}

TEST_TIMEOUT(tokenizer, so_may_those_of_tokens_that_are_kept, 60) {
    test_write(test_folder(), "text", "one line\nand another", 20);
    write_small_tokenizer("t.json");
    fails_everywhere(open_text, 12); /* cores and notes */
}

TEST_TIMEOUT(tokenizer, so_may_those_of_training_one, 60) {
    fails_everywhere(train_bpe, 0);
}

TEST_TIMEOUT(tokenizer, so_may_those_of_wordpiece, 30) {
    fails_everywhere(run_words, 0);
    fails_everywhere(open_words, 0);
}
