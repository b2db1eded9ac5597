/* What there is: the model, the data, and what one leaves open that the other knows; see train.h. */
#include <string.h>

#include "base/alloc.h"
#include "job/train.h"
#include "loop/class_weights.h"
#include "loop/labels.h"
#include "loop/survey.h"
#include "models/common/file.h"
#include "models/common/line.h"

hr_status hri_train_failed(hri_train_job *j, hr_status status, const hri_prose *why) {
    return hri_why_prose(&j->why, status == HR_E_BUSY ? HR_CAUSE_USAGE : hri_cause_of_input(status),
                         status, NULL, why);
}

/* ---- the model ---- */

/* The model as its text says, and what it takes. */
static hr_status look_at_model(hri_train_job *j) {
    hr_model *opened = NULL;
    hr_error error = {0};
    hri_prose why = {""};
    hr_status status =
        j->o.custom_model ? HR_OK : hr_model_open(hri_text_get(&j->model_text), &opened, &error);
    if (status != HR_OK) {
        return hri_why_error(&j->why, hri_cause_of(status), status, NULL, &error);
    }
    hr_model *m = opened ? opened : (hr_model *)(uintptr_t)j->o.custom_model; /* only read */
    status = hri_model_input_with(m, &j->loss, &j->want, &why);
    if (status == HR_OK && !m->family && !j->graph) { /* a plan has no folder yet */
        size_t bytes;
        status = hri_model_file_print(m, &j->graph, &bytes, &why);
        if (status != HR_OK && status != HR_E_NOMEM_HOST && j->o.custom_model && !j->o.folder) {
            status = HR_OK; /* ops of the caller's own have no text, and nothing is saved */
        }
    }
    if (status == HR_OK && m->weights && !j->o.init) {
        hri_text_add(&j->weights, "%s", m->weights);
        status = hri_text_status(&j->weights);
        j->o.init = hri_text_get(&j->weights);
    }
    hr_model_close(opened);
    return status == HR_OK ? HR_OK : hri_train_failed(j, status, &why);
}

/* The model's text with the keys that the data knows. */
static hr_status fill_model(hri_train_job *j, hri_prose *why) {
    if (j->o.custom_model || hri_line_is(j->o.model)) {
        return HR_OK;
    }
    const size_t room = strlen(j->o.model) + 256;
    char *text = hri_malloc(room);
    if (!text) {
        return HR_E_NOMEM_HOST;
    }
    hr_status status =
        hri_source_fill_model(j->o.model, &j->source, text, room, j->said, sizeof j->said, why);
    if (status == HR_OK) {
        hri_text_clear(&j->model_text);
        hri_text_add(&j->model_text, "%s", text);
        status = hri_text_status(&j->model_text);
    }
    hri_free(text);
    return status;
}

/* "net: conv(...)" becomes "net: input(28x28x1,classes=10) | conv(...)" where the data says so; else it stays as it is, and
 * opening it says what is missing. */
static hr_status fill_input(hri_train_job *j, const hri_source *s) {
    const hr_meta *m = &s->input.meta;
    const hr_shape *shape = &m->shape;
    char dims[96] = "", classes[40] = "";
    size_t used = 0;
    int known =
        shape->rank >= 1 && shape->rank <= 3 && (hr_type_is_real(m->type) || m->type == HR_TYPE_U8);
    for (int d = 0; known && d < shape->rank; d++) {
        known = shape->dim[d] > 0;
        used += (size_t)snprintf(dims + used, sizeof dims - used, "%s%lld", d ? "x" : "",
                                 (long long)shape->dim[d]);
    }
    if (!known && m->type == HR_TYPE_U8 && shape->rank == 1 && s->height) { /* files of images */
        snprintf(dims, sizeof dims, "%ux%ux3", s->height, s->width);
        known = 1;
    }
    if (!known) {
        return HR_OK;
    }
    const int numbers = j->loss.kind && !hri_loss_has_ids(&j->loss);
    if (s->class_count && !numbers) {
        snprintf(classes, sizeof classes, ",classes=%zu", s->class_count);
    }
    snprintf(j->said, sizeof j->said, "input(%s%s)", dims, classes);
    hri_text_add(&j->line, "net: %s | %s", j->said, strchr(j->o.model, ':') + 1);
    hri_text_clear(&j->model_text);
    hri_text_add(&j->model_text, "%s", hri_text_get(&j->line));
    j->o.model = hri_text_get(&j->line);
    return hri_text_status(&j->line) == HR_OK ? hri_text_status(&j->model_text) : HR_E_NOMEM_HOST;
}

/* A line that leaves its input to the data has none before the data was looked at. */
static hr_status fill_line(hri_train_job *j, hri_prose *why) {
    if (!j->o.model || !hri_line_lacks_input(j->o.model) || !j->o.data) {
        return HR_OK;
    }
    hri_source s = {0};
    hr_status status = hri_source_look(j->o.data, NULL, &s, why);
    if (status == HR_OK) {
        status = fill_input(j, &s);
        hri_source_deinit(&s);
    }
    return status;
}

/* ---- the data ---- */

/* What the data leaves out or ignores. */
static void say_notes(const hri_train_job *j, const hri_source *s) {
    for (size_t i = 0; i < s->note_count; i++) {
        hri_listener_warn(&j->listener, NULL, "%s", s->notes[i]);
    }
}

static hr_status look_at_validation(hri_train_job *j) {
    hri_prose why = {""};
    const hr_status status =
        j->o.val_pipeline
            ? hri_source_look_at(j->o.val_pipeline, &j->want, &j->val_source, &why)
            : hri_source_look_with(j->o.val_data, &j->want, j->source.table, &j->val_source, &why);
    if (status != HR_OK) {
        return hri_train_failed(j, status, &why);
    }
    say_notes(j, &j->val_source);
    const hri_source *a = &j->source, *b = &j->val_source;
    for (size_t i = 0; a->classes && b->classes && i < b->class_count; i++) {
        if (i >= a->class_count || strcmp(a->classes[i], b->classes[i]) != 0) {
            return hri_why_option(&j->why, HR_E_INVALID, "val_data",
                                  ": class %zu is %s, but %s in the training data", i,
                                  b->classes[i], i < a->class_count ? a->classes[i] : "none");
        }
    }
    j->val_count = b->count;
    return HR_OK;
}

static hr_status split_data(hri_train_job *j) {
    const uint64_t all = j->source.count;
    if (all == HR_COUNT_UNKNOWN) {
        return hri_why_option(&j->why, HR_E_INVALID, "val_split",
                              ": the number of samples in %s is unknown; use `val_data` instead",
                              j->source.text);
    }
    j->val_count = (uint64_t)((double)all * j->o.val_split + 0.5);
    j->val_count = j->val_count ? j->val_count : 1;
    if (j->val_count >= all) {
        return hri_why_option(&j->why, HR_E_INVALID, "val_split",
                              " leaves no training samples (%llu in total)",
                              (unsigned long long)all);
    }
    j->train_count = all - j->val_count;
    return HR_OK;
}

/* "flip,crop" for the source; stages it leaves no trace in are named. */
static hr_status read_augment(hri_train_job *j, hri_prose *why) {
    char plain[512], with[512];
    hri_text_clear(&j->augment);
    hr_status status = hri_source_stages(&j->source, &j->want, NULL, plain, sizeof plain, why);
    for (const char *at = j->o.augment ? j->o.augment : ""; *at && status == HR_OK;) {
        const size_t n = strcspn(at, ",");
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)n, at);
        at += n + (at[n] == ',');
        if (!n || !strcmp(word, "none")) {
            continue;
        }
        status = hri_source_stages(&j->source, &j->want, word, with, sizeof with, why);
        if (status == HR_OK && !strcmp(plain, with)) {
            hri_listener_warn(&j->listener, "augment", " %s has no effect on %s", word,
                              j->source.text);
        }
        hri_text_add(&j->augment, "%s%s", j->augment.used ? "," : "", word);
    }
    return status == HR_OK ? hri_text_status(&j->augment) : status;
}

static hr_status check_sources(hri_train_job *j) {
    const hr_job_options *o = &j->o;
    const int val = (o->val_data != NULL) + (o->val_pipeline != NULL) + (o->val_split > 0);
    if (o->val_data && o->val_split > 0) {
        return hri_why_set(&j->why, HR_CAUSE_USAGE, HR_E_INVALID,
                           "`val_data` and `val_split` cannot be combined");
    }
    if (val > 1 || (o->data && o->pipeline)) {
        return hri_why_set(&j->why, HR_CAUSE_USAGE, HR_E_INVALID,
                           "data is given twice: as a string and as a pipeline");
    }
    if (o->pipeline && (o->val_split > 0 || (o->augment && *o->augment))) {
        return hri_why_option(
            &j->why, HR_E_INVALID, "pipeline",
            " is used as it is: val_split and augment need data given as a string");
    }
    return HR_OK;
}

/* ---- the loss ---- */

static hr_status read_loss(hri_train_job *j) {
    hri_prose why = {""};
    const hr_status status = j->o.loss ? hri_loss_parse(j->o.loss, &j->loss, &why) : HR_OK;
    return status == HR_OK ? HR_OK
                           : hri_why_option(&j->why, HR_E_INVALID, "loss", ": %s", why.text);
}

/* What nobody said follows from the labels. */
static hr_status choose_loss(hri_train_job *j, hri_prose *why) {
    if (!j->o.loss) {
        j->loss = hri_source_loss(&j->source, &j->want);
    }
    if (j->o.smoothing > 0 && j->loss.kind && !hri_loss_has_ids(&j->loss)) {
        return hri_prose_set(why, HR_E_INVALID, "`smoothing` needs a loss over classes, not %s",
                             hri_loss_names[j->loss.kind]);
    }
    if (j->source.weighted && !j->loss.kind && !j->want.counts) {
        return hri_prose_set(why, HR_E_INVALID,
                             "%s has weights of samples, but the model brings its own loss; "
                             "name one with `loss`",
                             j->source.text);
    }
    j->loss.weighted = j->source.weighted;
    return j->o.loss ? hri_source_set_loss(&j->source, &j->loss, why) : HR_OK;
}

static void say_loss(hri_train_job *j) {
    const size_t used = strlen(j->said);
    if (!j->o.loss && j->loss.kind) {
        snprintf(j->said + used, sizeof j->said - used, "%sloss=%s (labels are %s)",
                 used ? ", " : "", hri_loss_names[j->loss.kind],
                 j->source.target == HRI_TARGET_FLAGS ? "0 or 1 for each class" : "real numbers");
    }
}

/* The training samples as the source has them. */
static hr_status write_bare(hri_train_job *j, char *text, size_t size, hri_prose *why) {
    const int split = j->o.val_split > 0;
    const hri_source_use use = {.bare = 1,
                                .seed = j->seeds.data,
                                .part_first = split ? j->val_count : 0,
                                .part_count = split ? j->train_count : 0};
    return hri_source_pipeline(&j->source, &j->want, &use, text, size, why);
}

/* Means and deviations of the columns of a table. */
static hr_status fit_table(hri_train_job *j) {
    char text[HRI_SOURCE_TEXT + 1024];
    hri_prose why = {""};
    const hri_tabular *t = j->source.table;
    if (!t || !t->input_count) { /* masks have classes alone */
        return HR_OK;
    }
    const int numbers = j->loss.kind == HRI_LOSS_MSE || j->loss.kind == HRI_LOSS_MAE ||
                        j->loss.kind == HRI_LOSS_HUBER;
    if (!hri_tabular_has_numbers(t) &&
        (!t->target_count || hri_tabular_has_classes(t) || !numbers)) {
        j->source.table->fitted = 1; /* of texts, images and classes nothing is to be measured */
        return HR_OK;
    }
    hr_status status = write_bare(j, text, sizeof text, &why);
    if (status == HR_OK) {
        status = hri_survey_table(text, &j->source, numbers, &why);
    }
    return status == HR_OK ? HR_OK : hri_train_failed(j, status, &why);
}

static hr_status weigh_classes(hri_train_job *j) {
    char text[HRI_SOURCE_TEXT + 1024];
    hri_prose why = {""};
    const int64_t classes = j->want.classes;
    if (!j->o.class_weights) {
        return HR_OK;
    }
    if (!j->o.data || classes < 1 || j->want.label.type != HR_TYPE_I32) {
        return hri_why_option(&j->why, HR_E_INVALID, "class_weights",
                              " need data with a class for each sample, given as a string");
    }
    j->class_weights = hri_calloc((size_t)classes, sizeof *j->class_weights);
    if (!j->class_weights) {
        return hri_why_set(&j->why, HR_CAUSE_MACHINE, HR_E_NOMEM_HOST,
                           "out of memory for class weights");
    }
    hr_status status = HR_OK;
    if (strcmp(j->o.class_weights, "auto") != 0) {
        status =
            hri_class_weights_read(j->o.class_weights, &j->source, classes, j->class_weights, &why);
    } else {
        status = write_bare(j, text, sizeof text, &why);
        if (status == HR_OK) {
            status = hri_class_weights_count(text, &j->source, classes, j->class_weights, &why);
        }
    }
    return status == HR_OK ? HR_OK
                           : hri_why_option(&j->why, status, "class_weights", ": %s", why.text);
}

/* Samples that are mixed have a class each, and are numbers. */
static hr_status read_mix(hri_train_job *j) {
    const hr_job_options *o = &j->o;
    const char *name = o->cutmix > 0 ? "cutmix" : "mixup";
    if (!(o->mixup > 0) && !(o->cutmix > 0)) {
        return HR_OK;
    }
    const int one = j->want.classes > 0 && j->want.label.type == HR_TYPE_I32 &&
                    hr_shape_count(&j->want.label.shape) == 1 && j->source.label.name[0];
    if (!one || j->want.sample.type != HR_TYPE_F32 ||
        (j->loss.kind && j->loss.kind != HRI_LOSS_CROSS_ENTROPY) || j->class_weights ||
        j->loss.weighted) {
        return hri_why_option(&j->why, HR_E_INVALID, name,
                              " needs samples of numbers with one class each and a cross entropy "
                              "without weights of classes or samples");
    }
    if (o->cutmix > 0 && j->want.sample.shape.rank != 3) {
        return hri_why_option(&j->why, HR_E_INVALID, "cutmix", " needs images");
    }
    j->mix = (hri_mix_options){.mixup = o->mixup,
                               .cutmix = o->cutmix,
                               .seed = j->seeds.augment,
                               .classes = j->want.classes};
    return HR_OK;
}

/* Zero is the default of every option. */
static void fill_defaults(hr_job_options *o) {
    o->device = o->device ? o->device : "host";
    o->accumulate = o->accumulate > 0 ? o->accumulate : 1;
    o->log_every = o->log_every ? o->log_every : 1;
    o->save_seconds = o->save_seconds == HR_UNKNOWN ? 0 : o->save_seconds ? o->save_seconds : 600;
    o->training = o->training ? o->training : "";
}

hr_status hri_train_look(hri_train_job *j, hr_ctx *ctx, const hr_job_options *options) {
    hri_prose why = {""};
    j->ctx = ctx;
    j->o = *options;
    j->listener = (hri_listener){options->on_event, options->user};
    j->resume.file.fd = -1;
    fill_defaults(&j->o);
    hr_status status = hri_plan_job_who(&j->o, &j->who, &j->why);
    if (status == HR_OK && j->who.rank > 0) { /* what is written is rank 0's */
        j->o.log = j->o.tensorboard = j->o.svg = NULL;
    }
    status = status == HR_OK ? check_sources(j) : status;
    status = status == HR_OK ? read_loss(j) : status;
    if (status == HR_OK &&
        (status = hri_seeds_parse(j->o.seeds, j->o.seed, &j->seeds, &why)) != HR_OK) {
        return hri_why_option(&j->why, status, "seeds", ": %s", why.text);
    }
    if (status == HR_OK && !j->o.custom_model) {
        if (!j->o.model) {
            return hri_why_option(&j->why, HR_E_INVALID, "model", " is missing");
        }
        hri_text_add(&j->model_text, "%s", j->o.model);
        status = hri_text_status(&j->model_text);
    }
    if (status == HR_OK && (status = fill_line(j, &why)) != HR_OK) {
        return hri_train_failed(j, status, &why);
    }
    if (status == HR_OK) {
        status = look_at_model(j);
    }
    if (status != HR_OK) {
        return status;
    }
    status = j->o.pipeline ? hri_source_look_at(j->o.pipeline, &j->want, &j->source, &why)
                           : hri_source_look(j->o.data, &j->want, &j->source, &why);
    if (status == HR_OK) {
        status = choose_loss(j, &why);
    }
    if (status == HR_OK) {
        status = fill_model(j, &why);
    }
    if (status != HR_OK) {
        return hri_train_failed(j, status, &why);
    }
    say_loss(j);
    say_notes(j, &j->source);
    if (j->loss.kind || j->loss.weighted ||
        (j->o.model && strcmp(j->o.model, hri_text_get(&j->model_text)) != 0)) {
        status = look_at_model(j); /* with the data's own numbers, and its loss */
    }
    if (status == HR_OK) {
        status = hri_source_check_labels(&j->source, &j->want, &why);
        status = status == HR_OK ? HR_OK : hri_train_failed(j, status, &why);
    }
    j->train_count = j->source.count;
    j->all_labels_count =
        (!j->want.counts && !j->want.leaves_out) || j->o.labels_count ||
        (j->want.label_name[0] && !j->want.other_labels && hri_labels_all_count(&j->source));
    if (status == HR_OK && !j->o.pipeline) {
        status = read_augment(j, &why);
        status = status == HR_OK ? HR_OK : hri_train_failed(j, status, &why);
    }
    if (status == HR_OK && (j->o.val_data || j->o.val_pipeline)) {
        status = look_at_validation(j);
    } else if (status == HR_OK && j->o.val_split > 0) {
        status = split_data(j);
    }
    status = status == HR_OK ? fit_table(j) : status;
    status = status == HR_OK ? weigh_classes(j) : status;
    status = status == HR_OK ? read_mix(j) : status;
    return status == HR_OK ? hri_train_read_metrics(j) : status;
}
