/* Samples into the inputs of runs: where epochs begin and end, what fills a batch, what a place is. */
#include "loop/supply.h"

#include <headroom/headroom.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "pictures.h"
#include "test.h"

enum { BATCH = 4, SEEN = 256 };

typedef struct rig {
    hr_ctx *ctx;
    hr_model *model;
    hri_model_input want;
    hri_source source;
    hri_fit_job job;
    hri_fit fit;
    hri_fit_plans plans;
    hri_planned *planned;
    hri_supply *supply;
    int64_t seen[SEEN]; /* numbers of the samples that were put */
    size_t count;
} rig;

static void on_seen(void *user, uint32_t index, const hr_element *sample) {
    rig *r = user;
    (void)index;
    CHECK(r->count < SEEN);
    r->seen[r->count++] = *(const int64_t *)hr_element_find(sample, "x")->data;
}

static void rig_open_as(rig *r, const char *model, const char *data, int labels) {
    *r = (rig){0};
    hri_prose why = {""};
    hr_device *host;
    const hr_ctx_options o = {.size = sizeof o, .visible_devices = "", .no_cuda = 1};
    CHECK_OK(hr_ctx_create(&o, &r->ctx));
    CHECK_OK(hr_device_find(r->ctx, "host", &host));
    CHECK_OK(hr_model_open(model, &r->model, NULL));
    CHECK_OK(hri_model_input_of(r->model, &r->want, &why));
    CHECK_OK(hri_source_look(data, &r->want, &r->source, &why));
    r->job = (hri_fit_job){
        .build = hr_model_build, .user = r->model, .batch = BATCH, .parts = 1, .effort = 20000};
    r->job.options.size = sizeof r->job.options;
    CHECK_OK(hr_train_options_parse("optimizer=sgd", &r->job.options, NULL));
    CHECK_OK(hri_fit_open(&r->job, &r->fit, &why));
    CHECK_OK(hri_fit_search(&r->fit, 0, 1, &r->plans, &why));
    const hri_planned_options p = {.device = host, .plans = &r->plans, .job = &r->job};
    CHECK_OK(hri_planned_open(&p, &r->planned, &why));
    CHECK_OK(hri_planned_take(r->planned, &why));
    const hri_supply_options s = {.pipeline = data,
                                  .source = &r->source,
                                  .want = &r->want,
                                  .no_labels = !labels,
                                  .seen = labels ? NULL : on_seen,
                                  .seen_user = r,
                                  .pipeline_options = {.size = sizeof(hr_pipeline_options),
                                                       .budget_bytes = 4 << 20,
                                                       .workers = 1}};
    CHECK_OK(hri_supply_open(&s, &r->supply, &why));
    CHECK_OK(hri_supply_start(r->supply, 0, &why));
}

/* A model of one number a sample; `data` is a range renamed to x. */
static void rig_open(rig *r, const char *data) {
    rig_open_as(r, "mlp:size=1,width=2,layers=1,classes=100", data, 0);
}

static void rig_close(rig *r) {
    hri_supply_close(r->supply);
    hri_planned_close(r->planned);
    hri_fit_plans_deinit(&r->plans);
    hri_fit_close(&r->fit);
    hri_source_deinit(&r->source);
    hr_model_close(r->model);
    hr_ctx_destroy(r->ctx);
}

static hr_status feed(rig *r, uint32_t first, uint32_t samples, int evaluate, uint32_t *fed,
                      hri_prose *why) {
    const hri_planned_run run = {.exec = hri_planned_exec(r->planned),
                                 .g = hri_planned_graph(r->planned),
                                 .first_sample = first,
                                 .samples = samples,
                                 .evaluate = evaluate};
    return hri_supply_feed(r->supply, &run, fed, why);
}

static void check_seen(const rig *r, const char *wanted) {
    char text[1024] = "";
    for (size_t i = 0; i < r->count; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%lld", i ? " " : "", (long long)r->seen[i]);
    }
    CHECK_STR(text, wanted);
}

TEST(supply, an_epoch_of_whole_batches_ends_between_two_of_them) {
    rig r;
    hri_prose why = {""};
    uint32_t fed = 0;
    rig_open(&r, "range:10 | rename(value,to=x) | filter(x,min=0) | whole(4)");
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        r.count = 0;
        CHECK_OK(feed(&r, 0, 4, 0, &fed, &why));
        CHECK_OK(feed(&r, 0, 2, 0, &fed, &why));
        CHECK_OK(feed(&r, 2, 2, 0, &fed, &why));
        CHECK(!hri_supply_ended(r.supply));
        CHECK_STATUS(feed(&r, 0, 4, 0, &fed, &why), HR_E_EOF);
        CHECK_STATUS(feed(&r, 0, 4, 0, &fed, &why), HR_E_EOF);
        CHECK(hri_supply_ended(r.supply));
        check_seen(&r, "0 1 2 3 4 5 6 7");
        CHECK_OK(hri_supply_go_on(r.supply, epoch + 1, &why));
        CHECK(!hri_supply_ended(r.supply));
    }
    hr_pipeline_stats stats = {.size = sizeof stats};
    CHECK_OK(hr_pipeline_get_stats(hri_supply_pipeline(r.supply), &stats));
    CHECK_EQ(stats.left_over, 2);
    rig_close(&r);
}

TEST(supply, an_epoch_that_ends_inside_a_batch_is_told_once) {
    rig r;
    hri_prose why = {""};
    uint32_t fed = 0;
    rig_open(&r, "range:6 | rename(value,to=x) | filter(x,min=0)");
    CHECK_OK(feed(&r, 0, 4, 0, &fed, &why));
    CHECK(!hri_supply_ended(r.supply));
    CHECK_OK(feed(&r, 0, 4, 0, &fed, &why));
    CHECK(hri_supply_ended(r.supply));
    CHECK_OK(hri_supply_go_on(r.supply, 1, &why)); /* it has begun already */
    CHECK(!hri_supply_ended(r.supply));
    CHECK_OK(feed(&r, 0, 4, 0, &fed, &why));
    CHECK(!hri_supply_ended(r.supply));
    check_seen(&r, "0 1 2 3 4 5 0 1 2 3 4 5");
    CHECK_STATUS(feed(&r, 0, 4, 0, &fed, &why), HR_E_EOF);
    CHECK_OK(hri_supply_go_on(r.supply, 2, &why));
    /* In the second part of a batch: the batch is filled up, too. */
    r.count = 0;
    CHECK_OK(feed(&r, 0, 4, 0, &fed, &why));
    CHECK_OK(feed(&r, 0, 2, 0, &fed, &why));
    CHECK_OK(feed(&r, 2, 2, 0, &fed, &why));
    check_seen(&r, "0 1 2 3 4 5 0 1");
    CHECK(hri_supply_ended(r.supply));
    rig_close(&r);
}

TEST(supply, a_place_leads_back_to_the_same_samples) {
    rig r;
    hri_prose why = {""};
    uint32_t fed = 0;
    void *place;
    size_t bytes;
    rig_open(&r, "range:40 | rename(value,to=x) | filter(x,min=0) | shuffle(8,seed=3) | whole(4)");
    CHECK_OK(hri_supply_start(r.supply, 1, &why));
    CHECK_OK(feed(&r, 0, 4, 0, &fed, &why));
    CHECK_OK(feed(&r, 0, 4, 0, &fed, &why));
    CHECK_OK(hr_pipeline_save(hri_supply_pipeline(r.supply), &place, &bytes));
    r.count = 0;
    CHECK_OK(feed(&r, 0, 4, 0, &fed, &why));
    int64_t next[4];
    memcpy(next, r.seen, sizeof next);
    CHECK_OK(hri_supply_start(r.supply, 7, &why));
    CHECK_OK(hri_supply_restore(r.supply, place, bytes, 1, &why));
    r.count = 0;
    CHECK_OK(feed(&r, 0, 4, 0, &fed, &why));
    CHECK(memcmp(next, r.seen, sizeof next) == 0);
    for (int i = 3; i < 10; i++) {
        CHECK_OK(feed(&r, 0, 4, 0, &fed, &why));
    }
    CHECK_STATUS(feed(&r, 0, 4, 0, &fed, &why), HR_E_EOF);
    CHECK_STATUS(hri_supply_restore(r.supply, place, bytes - 1, 1, &why), HR_E_FORMAT);
    hr_pipeline_state_free(place);
    rig_close(&r);
}

TEST(supply, evaluation_ends_with_the_data_and_fills_its_last_batch_with_nothing) {
    rig r;
    hri_prose why = {""};
    uint32_t fed = 0;
    rig_open(&r, "range:6 | rename(value,to=x) | filter(x,min=0)");
    CHECK_OK(feed(&r, 0, 4, 1, &fed, &why));
    CHECK_EQ(fed, 4);
    CHECK_OK(feed(&r, 0, 4, 1, &fed, &why));
    CHECK_EQ(fed, 2);
    CHECK_STATUS(feed(&r, 0, 4, 1, &fed, &why), HR_E_EOF);
    CHECK_EQ(fed, 2);
    check_seen(&r, "0 1 2 3 4 5");
    rig_close(&r);
}

TEST(supply, data_without_a_whole_batch_is_refused_with_its_count) {
    rig r;
    hri_prose why = {""};
    rig_open(&r, "range:3 | rename(value,to=x) | filter(x,min=0) | whole(4)");
    CHECK_STATUS(feed(&r, 0, 4, 0, NULL, &why), HR_E_INVALID);
    CHECK(strstr(why.text, "3 samples, fewer than one batch"));
    rig_close(&r);
    rig_open(&r, "range:3 | rename(value,to=x) | filter(x,min=9)");
    CHECK_STATUS(feed(&r, 0, 4, 0, NULL, &why), HR_E_INVALID);
    CHECK(strstr(why.text, "the data set is empty"));
    rig_close(&r);
}

/* Words and their tags for one batch, three a sentence, as NumPy files in a folder of their own. */
static void write_tags(const char *folder, const char *name, const int32_t *data) {
    char head[128] = "\x93NUMPY\x01";
    const char *const text = "{'descr': '<i4', 'fortran_order': False, 'shape': (4, 3), }";
    char file[sizeof head + 3 * BATCH * sizeof *data];
    head[8] = (char)(sizeof head - 10);
    memset(head + 10, ' ', sizeof head - 10);
    memcpy(head + 10, text, strlen(text));
    head[sizeof head - 1] = '\n';
    memcpy(file, head, sizeof head);
    memcpy(file + sizeof head, data, 3 * BATCH * sizeof *data);
    test_write(folder, name, file, sizeof file);
}

TEST(supply, a_tagger_may_have_fewer_classes_than_words) {
    const char *const tagger = "net: input(3, vocab=30) | embedding(4, 30) | dense(5)";
    const int32_t words[3 * BATCH] = {29, 0, 5, 7, 11, 13, 28, 27, 26, 1, 2, 3};
    int32_t tags[3 * BATCH] = {0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1};
    const char *folder = test_folder();
    char data[512];
    rig r;
    hri_prose why = {""};
    uint32_t fed = 0;
    write_tags(folder, "words.npy", words);
    write_tags(folder, "tags.npy", tags);
    snprintf(data, sizeof data, "npy(%s/words.npy,%s/tags.npy,names=tokens,label)", folder, folder);
    rig_open_as(&r, tagger, data, 1);
    CHECK_OK(feed(&r, 0, BATCH, 0, &fed, &why));
    CHECK_EQ(fed, BATCH);
    rig_close(&r);
    tags[4] = 5;
    write_tags(folder, "tags.npy", tags);
    rig_open_as(&r, tagger, data, 1);
    CHECK_STATUS(feed(&r, 0, BATCH, 0, &fed, &why), HR_E_INVALID);
    CHECK(strstr(why.text, "out of range"));
    rig_close(&r);
}

TEST(supply, words_that_the_table_has_no_rows_for_are_refused) {
    const char *const tagger = "net: input(3, vocab=30) | embedding(4, 20) | dense(5)";
    int32_t words[3 * BATCH] = {19, 0, 5, 7};
    const int32_t tags[3 * BATCH] = {0};
    static const int32_t wrong[] = {20, -1};
    const char *folder = test_folder();
    char data[512];
    rig r;
    hri_prose why = {""};
    uint32_t fed = 0;
    write_tags(folder, "words.npy", words);
    write_tags(folder, "tags.npy", tags);
    snprintf(data, sizeof data, "npy(%s/words.npy,%s/tags.npy,names=tokens,label)", folder, folder);
    rig_open_as(&r, tagger, data, 1);
    CHECK_OK(feed(&r, 0, BATCH, 0, &fed, &why));
    rig_close(&r);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        words[4] = wrong[i];
        write_tags(folder, "words.npy", words);
        rig_open_as(&r, tagger, data, 1);
        CHECK_STATUS(feed(&r, 0, BATCH, 0, &fed, &why), HR_E_INVALID);
        CHECK(strstr(why.text, "number 1 of a sample, is out of range: the model has 20 "
                               "tokens (0-19)"));
        rig_close(&r);
    }
}

TEST(supply, labels_that_are_no_classes_all_count) {
    static const char form[] = "%1 = input \"x\" f32[N,3]\n%2 = input \"label\" i32[N,3]\n"
                               "%3 = param \"w\" f32[3] constant 1 0\n%4 = mul(%1 %3) @\"\"\n%5 = "
                               "cast(%2) {to=f32} @\"\"\n"
                               "%6 = mean_squared_error(%4 %5) @\"\"\nresult \"loss\" %6\n";
    const int32_t x[3 * BATCH] = {1, 2, 3}, label[3 * BATCH] = {-4, 5, 6};
    const char *folder = test_folder();
    char data[512], model[300], own[1024];
    rig r;
    hri_prose why = {""};
    uint64_t counted = 0;
    write_tags(folder, "x.npy", x);
    write_tags(folder, "label.npy", label);
    const int bytes = snprintf(
        own, sizeof own, "headroom model 1\nname \"own\"\nform train\n%sform eval\n%s", form, form);
    test_write(folder, "own.hr", own, (size_t)bytes);
    snprintf(model, sizeof model, "%s/own.hr", folder);
    snprintf(data, sizeof data, "npy(%s/x.npy,%s/label.npy,names=x,label)", folder, folder);
    rig_open_as(&r, model, data, 1);
    const hri_planned_run run = {.exec = hri_planned_exec(r.planned),
                                 .g = hri_planned_graph(r.planned),
                                 .samples = BATCH,
                                 .counted = &counted};
    CHECK_OK(hri_supply_feed(r.supply, &run, NULL, &why));
    CHECK_EQ(counted, 3 * BATCH);
    rig_close(&r);
}
