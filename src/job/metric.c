/* Which metrics a training tells of its validations, and what `best` goes by; see train.h. */
#include <string.h>

#include "job/train.h"

hri_target hri_train_target(const hri_loss *l) {
    return l->kind == HRI_LOSS_MODEL || hri_loss_has_ids(l) ? HRI_TARGET_CLASSES
           : l->kind == HRI_LOSS_BCE                        ? HRI_TARGET_FLAGS
                                                            : HRI_TARGET_NUMBERS;
}

void hri_train_task(const hri_model_input *want, const hri_loss *loss, hri_wanted_task *out) {
    const hr_shape *label = &want->label.shape;
    const hri_target target = hri_train_target(loss);
    *out = (hri_wanted_task){.target = target,
                             .outputs = target == HRI_TARGET_CLASSES ? want->classes
                                        : label->rank                ? label->dim[label->rank - 1]
                                                                     : 1,
                             .tokens =
                                 target == HRI_TARGET_CLASSES && hri_model_input_is_sequence(want),
                             .pixels = want->sample.shape.rank == 3 &&
                                       want->label.type == HR_TYPE_I32 && label->rank == 2};
}

hr_status hri_train_read_metrics(hri_train_job *j) {
    hri_wanted_task task;
    hri_prose why = {""};
    const int by = j->o.best_by && *j->o.best_by;
    j->best_by = HRI_BEST_BY_LOSS;
    if (!by && (!j->o.metric || !*j->o.metric)) {
        return HR_OK;
    }
    if (!j->val_count) {
        return hri_why_option(&j->why, HR_E_INVALID, by ? "best_by" : "metric",
                              " needs validation data: `val_data` or `val_split`");
    }
    hri_train_task(&j->want, &j->loss, &task);
    task.classes = (const char *const *)j->source.classes;
    task.class_count = j->source.class_count;
    hr_status status = hri_wanted_add(&j->wanted, j->o.metric, &task, NULL, &why);
    if (status != HR_OK) {
        return hri_why_option(&j->why, status, "metric", ": %s", why.text);
    }
    status = hri_wanted_add(&j->wanted, j->o.best_by, &task, &j->best_by, &why);
    if (status == HR_OK && by && strchr(j->o.best_by, ',')) {
        status = hri_prose_set(&why, HR_E_INVALID, "\"%s\" is more than one metric", j->o.best_by);
    }
    return status == HR_OK ? HR_OK : hri_why_option(&j->why, status, "best_by", ": %s", why.text);
}

static hri_scorer_options scorer_options(const hri_train_job *j) {
    hri_wanted_task task;
    const hri_source *s = j->o.val_split > 0 ? &j->source : &j->val_source;
    hri_scorer_options o = {.wanted = &j->wanted,
                            .label = s->label.name,
                            .label_each = (uint64_t)hr_shape_count(&j->want.label.shape),
                            .samples =
                                (uint64_t)(j->o.val_batch > j->batch ? j->o.val_batch : j->batch)};
    hri_train_task(&j->want, &j->loss, &task);
    o.metrics = (hri_metrics_options){.target = task.target,
                                      .outputs = task.outputs,
                                      .table = j->source.table,
                                      .no_auc = 1,
                                      .rows = j->val_count == HR_COUNT_UNKNOWN ? 0 : j->val_count};
    for (size_t i = 0; i < j->wanted.count; i++) {
        o.metrics.no_auc &= j->wanted.of[i].kind != HRI_WANTED_AUC;
    }
    return o;
}

uint64_t hri_train_metric_bytes(const hri_train_job *j) {
    const hri_scorer_options o = scorer_options(j);
    return j->wanted.count ? hri_scorer_bytes(&o) : 0;
}

hr_status hri_train_open_scorer(hri_train_job *j, hri_prose *why) {
    const hri_scorer_options o = scorer_options(j);
    return !j->wanted.count || hri_scorer_open(&o, &j->scorer) == HR_OK
               ? HR_OK
               : hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for metrics");
}
