/* The input pipelines: their texts, what they need, what they get; see train.h. */
#include <headroom/bytes.h>
#include <stdio.h>
#include <string.h>

#include "base/cores.h"
#include "data/pipeline.h"
#include "job/train.h"
#include "job/trained.h"

#define KIB (UINT64_C(1) << 10)

uint32_t hri_train_threads(const hri_train_job *j) {
    return j->o.threads ? (uint32_t)j->o.threads : hri_cores_usable();
}

hr_pipeline_options hri_train_pipeline_options(const hri_train_job *j, uint64_t budget) {
    return (hr_pipeline_options){.size = sizeof(hr_pipeline_options),
                                 .budget_bytes = budget,
                                 .seed = j->seeds.augment,
                                 .workers = j->workers ? j->workers : 1,
                                 .skip_bad = j->o.skip_bad};
}

static hr_status write_train(hri_train_job *j, const hri_source_use *more, char *out, size_t size,
                             hri_prose *why) {
    const int split = j->o.val_split > 0;
    hri_source_use train = *more;
    train.training = 1;
    train.augment = hri_text_get(&j->augment);
    train.seed = j->seeds.data;
    train.part_first = split ? j->val_count : 0;
    train.part_count = split ? j->train_count : 0;
    return hri_source_pipeline(&j->source, &j->want, &train, out, size, why);
}

hr_status hri_train_write_pipelines(hri_train_job *j, int64_t batch, hri_prose *why) {
    const int split = j->o.val_split > 0;
    const hri_source_use train = {.batch = (uint64_t)batch};
    const hri_source_use val = {.seed = j->seeds.data, .part_count = split ? j->val_count : 0};
    hr_status status = HR_OK;
    if (!j->o.pipeline) {
        status = write_train(j, &train, j->train_text, sizeof j->train_text, why);
    }
    if (status == HR_OK && j->val_count && !j->o.val_pipeline) {
        status = hri_source_pipeline(split ? &j->source : &j->val_source, &j->want, &val,
                                     j->val_text, sizeof j->val_text, why);
    }
    return status;
}

/* The stage that needs most at least, "shuffle(buffer=10000)": for the sentence of a refusal. */
static void find_largest_stage(hr_pipeline *p, hri_largest_stage *out) {
    hr_stage_stats s = {.size = sizeof s};
    for (size_t i = 0; hr_pipeline_get_stage_stats(p, i, &s) == HR_OK; i++) {
        if (s.smallest_bytes > out->bytes) {
            out->bytes = s.smallest_bytes;
            memcpy(out->name, s.name, sizeof out->name);
        }
    }
}

/* What a pipeline needs at least, and what one of its samples takes. */
static hr_status measure_pipeline(const hri_train_job *j, const char *text, uint64_t *smallest,
                                  uint64_t *each, hri_largest_stage *largest, hri_prose *why) {
    hr_pipeline *p = NULL;
    hr_error error = {0};
    hr_pipeline_stats stats = {.size = sizeof stats};
    hr_pipeline_options o =
        hri_train_pipeline_options(j, UINT64_C(1) << 40); /* nothing is read yet */
    o.workers = 1;
    const hr_status status = hri_pipeline_open_with(&o, text, j->source.table, &error, &p);
    if (status != HR_OK) {
        return hri_prose_set(why, status, "%s", error.message);
    }
    hr_pipeline_get_stats(p, &stats);
    *smallest = stats.smallest_bytes;
    find_largest_stage(p, largest);
    *each = 0;
    for (size_t i = 0; i < hr_pipeline_field_count(p); i++) {
        const hr_field *f = hr_pipeline_field(p, i);
        *each += f->meta.shape.rank > 0 && f->meta.shape.dim[0] < 0 ? 0 : hr_meta_bytes(&f->meta);
    }
    hr_pipeline_destroy(p);
    return HR_OK;
}

static uint64_t whole_units(uint64_t bytes) {
    return (bytes + 64 * KIB - 1) / (64 * KIB) * (64 * KIB);
}

uint64_t hri_input_least_bytes(uint64_t smallest) {
    return whole_units(smallest + smallest / 4 + 64 * KIB);
}

/* Two batches beside the smallest working set, so that one is made while the other is trained. */
static uint64_t wanted_bytes(uint64_t smallest, uint64_t each, int64_t samples) {
    const uint64_t least = hri_input_least_bytes(smallest);
    const uint64_t wanted = whole_units(smallest + 2 * (uint64_t)samples * (each + KIB) + 64 * KIB);
    return wanted > least ? wanted : least;
}

/* "the input pipeline needs 640 MiB at least: shuffle holds 625 MiB; ..." */
void hri_train_explain_input(const hri_train_job *j, char *text, size_t size) {
    const hri_largest_stage *s = &j->largest_stage;
    const uint64_t all = j->train_least + (j->val_count ? j->val_bytes : 0);
    char b1[32], b2[32], b3[32];
    const char *way =
        !strcmp(s->name, "shuffle")
            ? "; shuffle(N) in `data` with a smaller N needs less, and nothing at all with "
              "random access (index=on, or before stages such as decode)"
        : !strcmp(s->name, "whole")                            ? "; a smaller `batch` needs less"
        : !strcmp(s->name, "csv") || !strcmp(s->name, "lines") ? "; a smaller max_bytes= needs less"
                                                               : "";
    const int used = snprintf(text, size, "the input pipeline needs at least %s of a budget of %s",
                              hr_bytes_print(all, b1, sizeof b1),
                              hr_bytes_print(j->plan->budget_bytes, b2, sizeof b2));
    if (s->name[0] && used > 0 && (size_t)used < size) { /* of a built one nobody knows */
        snprintf(text + used, size - (size_t)used, ": %s uses %s%s", s->name,
                 hr_bytes_print(s->bytes, b3, sizeof b3), way);
    }
}

/* A pipeline that somebody built has a budget of its own. */
static uint64_t budget_of(hr_pipeline *p) {
    hr_pipeline_stats stats = {.size = sizeof stats};
    hr_pipeline_get_stats(p, &stats);
    return stats.budget_bytes;
}

static hr_status size_train(hri_train_job *j, int64_t samples, hri_prose *why) {
    uint64_t smallest = 0, each = 0;
    if (j->o.pipeline) {
        j->train_bytes = j->train_least = j->train_wanted = budget_of(j->o.pipeline);
        return HR_OK;
    }
    const hr_status status =
        measure_pipeline(j, j->train_text, &smallest, &each, &j->largest_stage, why);
    if (status != HR_OK) {
        return status;
    }
    smallest += j->mix.classes ? 2 * each : 0; /* a pair is held while it is mixed */
    j->train_bytes = j->train_least = hri_input_least_bytes(smallest);
    j->train_wanted = wanted_bytes(smallest, each, samples);
    if (j->o.data_budget_bytes) {
        j->train_bytes = j->train_wanted = j->o.data_budget_bytes;
    }
    return HR_OK;
}

static hr_status size_validation(hri_train_job *j, int64_t samples, hri_prose *why) {
    uint64_t smallest = 0, each = 0;
    if (j->o.val_pipeline) {
        j->val_bytes = j->val_wanted = budget_of(j->o.val_pipeline);
        return HR_OK;
    }
    const hr_status status =
        measure_pipeline(j, j->val_text, &smallest, &each, &j->largest_stage, why);
    j->val_bytes = hri_input_least_bytes(smallest);
    /* Beside a GPU memory is there for whole batches; on the host weights and activations need it more. */
    j->val_wanted = wanted_bytes(smallest, each, j->plan->threads ? 1 : samples);
    return status;
}

hr_status hri_train_size_input(hri_train_job *j, int64_t samples) {
    hri_prose why = {""};
    hr_status status = hri_train_write_pipelines(j, samples * j->o.accumulate, &why);
    if (status == HR_OK) {
        status = size_train(j, samples, &why);
    }
    if (status == HR_OK && j->val_count) {
        status = size_validation(j, samples, &why);
    }
    return status == HR_OK ? HR_OK : hri_train_failed(j, status, &why);
}

/* What is left beside the plan goes to the input: room for more samples first, then threads that make them. */
static uint64_t share_out(hri_train_job *j, uint64_t left) {
    const uint64_t before = left, pipelines = j->val_count ? 2 : 1;
    const uint64_t train = j->train_wanted - j->train_bytes, val = j->val_wanted - j->val_bytes;
    const uint64_t for_val = val < left ? val : left;
    j->val_bytes += for_val;
    left -= for_val;
    const uint64_t for_train = train < left ? train : left;
    j->train_bytes += for_train;
    left -= for_train;
    const uint64_t most = hri_train_threads(j), more = left / (pipelines * HRI_TRAIN_WORKER_BYTES);
    j->workers = (uint32_t)(more + HRI_TRAIN_WORKERS < most ? more + HRI_TRAIN_WORKERS : most);
    const uint64_t beyond = j->workers > HRI_TRAIN_WORKERS ? j->workers - HRI_TRAIN_WORKERS : 0;
    return before - left + beyond * pipelines * HRI_TRAIN_WORKER_BYTES;
}

uint64_t hri_train_share_out(hri_train_job *j, uint64_t left_bytes) {
    if (!j->plan->threads) { /* a GPU's budget has nothing to do with it */
        (void)share_out(j, j->spare_host ? UINT64_MAX / 4 : 0);
        return 0;
    }
    return share_out(j, left_bytes);
}

void hri_train_count_input(hri_train_job *j, uint64_t bytes) {
    j->plan->data_bytes += bytes;
    j->row.runtime_bytes += bytes;
    j->row.peak_bytes += bytes;
    j->row.host_peak_bytes += bytes;
    j->answer->row = j->row;
}

/* ---- opening ---- */

static hr_status open_supply(hri_train_job *j, const hri_source *source, hr_pipeline *built,
                             const char *text, uint64_t bytes, int dealt, hri_supply **out,
                             hri_prose *why) {
    hri_supply_options o = {.pipeline = text,
                            .dealt = dealt,
                            .built = built,
                            .source = source,
                            .want = &j->want,
                            .table = j->source.table,
                            .pipeline_options = hri_train_pipeline_options(j, bytes)};
    if (out == &j->train && (j->mix.mixup > 0 || j->mix.cutmix > 0)) {
        o.mix = &j->mix;
        o.mix_batch = (uint64_t)j->batch;
    }
    if (out == &j->validation && j->scorer) {
        o.seen = hri_scorer_seen;
        o.seen_user = j->scorer;
    }
    o.pipeline_options.budget = j->plan->holding.shared ? j->plan->holding.budget : NULL;
    return hri_supply_open(&o, out, why);
}

uint64_t hri_train_leased_input(const hri_train_job *j) {
    const uint64_t train = j->o.pipeline ? 0 : j->train_bytes;
    return !j->plan->holding.shared ? 0
           : j->val_count           ? train + (j->o.val_pipeline ? 0 : j->val_bytes)
                                    : train;
}

/* A rank reads its own samples alone, where the data has random access.  Bad samples that are left out would move those of
 * others: then everybody reads everything. */
static hr_status open_dealt(hri_train_job *j, hri_prose *why) {
    const int64_t part = hri_planned_part_samples(j->planned);
    const hri_source_use deal = {.batch = (uint64_t)(j->batch * j->o.accumulate),
                                 .deal_batch = (uint64_t)j->batch,
                                 .part = (uint64_t)part,
                                 .ranks = j->who.size,
                                 .rank = j->who.rank};
    char text[sizeof j->train_text];
    if (!j->net || part == 0 || j->mix.mixup > 0 || j->mix.cutmix > 0 || j->o.pipeline ||
        j->o.skip_bad || j->o.accumulate > 1 || !j->steps_per_epoch ||
        write_train(j, &deal, text, sizeof text, why) != HR_OK) {
        return HR_E_UNSUPPORTED;
    }
    return open_supply(j, &j->source, NULL, text, j->train_bytes, 1, &j->train, why);
}

hr_status hri_train_open_input(hri_train_job *j) {
    hri_prose why = {""};
    hr_status status = open_dealt(j, &why);
    if (status == HR_E_UNSUPPORTED) {
        status = open_supply(j, &j->source, j->o.pipeline, j->train_text, j->train_bytes, 0,
                             &j->train, &why);
    }
    if (status == HR_OK) {
        status = hri_train_open_scorer(j, &why);
    }
    if (status == HR_OK && j->val_count) {
        status = open_supply(j, j->o.val_split > 0 ? &j->source : &j->val_source, j->o.val_pipeline,
                             j->val_text, j->val_bytes, 0, &j->validation, &why);
    }
    j->feeds = (hri_feeds){.train = j->train, .validation = j->validation};
    return status == HR_OK ? HR_OK : hri_train_failed(j, status, &why);
}
