/* Inference inside a budget: evaluation and prediction with a trained model.
 *
 *   hr_infer_options o = {.size = sizeof o, .checkpoint = "runs/flowers", .data = "images:test", .budget = "100MiB"};
 *   hr_predictor *p;
 *   hr_predictor_open(ctx, &o, &p, &why);             plans, takes the memory, loads the parameters
 *   hr_predictor_evaluate(p, &result, &why);          one pass over the data: loss, accuracy, classes
 *   hr_predictor_set_data(p, "images:more", &why);    other data of the same kind, within the same plan
 *   hr_predictor_run(p, on_prediction, user, &result, &why);
 *   hr_predictor_close(p);
 *
 * What does not fit can be opened but not run: hr_infer_info.fits is 0, and the refusal has the minimum and the op that
 * sets it.
 * Samples go through the same preprocessing as in the run's validation.  Classes are matched by name: the data may have
 * fewer of them than the model, in any order.  The batch affects speed, not results.
 *
 * Failures have a cause, as in job.h.  Threads: one at a time. */
#ifndef HEADROOM_PREDICTOR_H
#define HEADROOM_PREDICTOR_H

#include <headroom/job.h>

HR_BEGIN_DECLS

typedef struct hr_predictor hr_predictor;

typedef enum hr_split {
    HR_SPLIT_ALL = 0,
    HR_SPLIT_TRAIN, /* samples that the run trained on (val_split) */
    HR_SPLIT_VAL    /* samples that it held out */
} hr_split;

/* Set size to sizeof(hr_infer_options).  Zero is the default in every field except checkpoint and data or pipeline. */
typedef struct hr_infer_options {
    size_t size;
    const char *checkpoint;     /* a file, or the folder of a run */
    const char *data;           /* text; preprocessed as in the run's validation */
    uint64_t data_budget_bytes; /* 0: as little as serves */
    int64_t batch;              /* at most, halved until it fits; 0: 64; does not affect results */
    const char *device;         /* NULL: "host" */
    const char *budget;         /* as in hr_job_options */
    hr_budget *ledger;
    uint64_t wait_ms;
    uint64_t threads; /* 0: one per core */
    int32_t split;    /* hr_split: of the checkpoint's run */
    int32_t skip_bad;
    int32_t no_labels; /* for prediction: ignore any labels */
    int32_t reserved;
    hr_job_event_fn *on_event;
    void *user;
    /* In place of data: a built pipeline of single samples as in hr_job_options, with a budget of its own.  Every pass
     * begins a new epoch of it. */
    hr_pipeline *pipeline;
    const hr_model *custom_model; /* of a checkpoint that cannot contain its graph (custom ops) */
    uint64_t
        own_bytes; /* host memory that the caller needs beside it: planned as part of the peak */
    const char *model; /* its name: checkpoint is then a file of its parameters alone, not a run */
    const char
        *metric; /* more metrics of hr_predictor_evaluate, as in hr_job_options; NULL: none */
} hr_infer_options;

/* HR_OK whether it fits or not.  HR_E_NOT_FOUND, HR_E_FORMAT: checkpoint or data.  HR_E_INVALID: an option, or the data has
 * a class that the model does not know.  HR_E_UNSUPPORTED: the device runs no kernels.  *why may be NULL.  The context
 * must outlive the predictor. */
HR_API HR_MUST_CHECK hr_status hr_predictor_open(hr_ctx *ctx, const hr_infer_options *options,
                                                 hr_predictor **out, hr_error *why);
/* NULL is allowed. */
HR_API void hr_predictor_close(hr_predictor *p);

/* Set size to sizeof(hr_infer_info). */
typedef struct hr_infer_info {
    size_t size;
    uint64_t sample_count; /* of the data; HR_UNKNOWN: not known beforehand */
    uint64_t class_count;  /* of the model; 0: it does not classify whole samples */
    int64_t batch;
    uint64_t budget_bytes; /* 0: none was given */
    uint64_t peak_bytes, minimum_bytes, runtime_bytes, persistent_bytes, arena_bytes,
        pipeline_bytes;
    const char *model, *checkpoint, *device; /* valid as long as the predictor */
    const char *refusal;                     /* one sentence if it does not fit, else "" */
    int64_t
        fits; /* 0: peak_bytes, batch and all below are 0, and nothing can be run; minimum_bytes would be enough */
    uint64_t
        output_count; /* numbers that it predicts for a sample (a regression); 0: classes, or blocks */
    const char *key; /* the column of a table that names its samples; NULL: none */
    uint64_t
        pixel_classes;   /* of a model that predicts masks, one class per pixel; 0: it does not */
    int64_t multi_label; /* 1: a sample may have any number of its classes */
} hr_infer_info;

/* What was planned. */
HR_API HR_MUST_CHECK hr_status hr_predictor_get_info(const hr_predictor *p, hr_infer_info *out);
/* The data of the next pass.  Its samples must have the form of those that were planned for. */
HR_API HR_MUST_CHECK hr_status hr_predictor_set_data(hr_predictor *p, const char *data,
                                                     hr_error *why);

/* Of one pass over the data.  Set size to sizeof(hr_infer_result). */
typedef struct hr_infer_result {
    size_t size;
    uint64_t samples, bad_samples;
    double loss, accuracy, top5; /* NAN without labels */
    uint64_t
        counted; /* labels that are not negative: loss, accuracy and top5 are means over them */
    uint64_t measured_peak_bytes;
    double seconds, samples_per_second;
    uint64_t class_count; /* of the tables below; 0: no tables for this model */
    int64_t over_budget;  /* 1: measured above the budget, which is a bug in Headroom */
} hr_infer_result;

/* HR_E_NO_PLAN: does not fit.  HR_E_NOT_FOUND: no sample could be read, or no label counts. */
HR_API HR_MUST_CHECK hr_status hr_predictor_evaluate(hr_predictor *p, hr_infer_result *result,
                                                     hr_error *why);

typedef struct hr_class_result {
    size_t size;
    const char *name; /* valid as long as the predictor; NULL if it has none */
    uint64_t samples, correct;
    int64_t confused_with; /* the class it was most often mistaken for; -1: none */
    uint64_t confused_count;
    uint64_t predicted;                /* samples that were taken for it */
    double precision, recall, f1, iou; /* 0 without a denominator; f1 is Dice */
    double
        auc; /* against the others; NAN: it has no positives or no negatives, or they are too many */
} hr_class_result;

/* Set size to sizeof(hr_metric). */
typedef struct hr_metric {
    size_t size;
    const char *name; /* "f1" */
    double value;     /* NAN: it cannot be told */
} hr_metric;

/* After hr_predictor_evaluate, until HR_E_EOF: accuracy, precision, recall, f1, iou and auc, means over the classes that
 * occur; mae, rmse and r2 of numbers, in the units of a table's columns; all as scikit-learn defines them.  perplexity, the
 * exponential of the loss, of models that predict tokens.  Behind them those of hr_infer_options.metric that are others. */
HR_API HR_MUST_CHECK hr_status hr_predictor_get_metric(hr_predictor *p, size_t index,
                                                       hr_metric *out);
/* The confusion matrix as CSV, or as a picture if the name ends in .svg: a row per label, a column per prediction.
 * HR_E_NOT_FOUND: the model has none.  HR_E_IO.  *why may be NULL. */
HR_API HR_MUST_CHECK hr_status hr_predictor_save_confusion(hr_predictor *p, const char *path,
                                                           hr_error *why);
/* After hr_predictor_evaluate, until HR_E_EOF. */
HR_API HR_MUST_CHECK hr_status hr_predictor_get_class(hr_predictor *p, size_t index,
                                                      hr_class_result *out);
/* Number of samples with this label and this prediction. */
HR_API uint64_t hr_predictor_confusion(const hr_predictor *p, uint64_t label, uint64_t predicted);

/* One sample; valid until the callback returns. */
typedef struct hr_prediction {
    size_t size;
    uint64_t index;
    const char *name;            /* a path, as the data has it; NULL: it has none */
    const float *scores;         /* (class_count), before softmax; NULL: it has no classes */
    const double *probabilities; /* (class_count), by class */
    const int32_t *order;        /* (class_count), classes by falling probability */
    uint64_t class_count;
    /* The model's result "logits" for this sample, in its own shape: (class_count) where it classifies whole samples.  Numbers
     * of a table are in the units of its columns. */
    const float *output;
    hr_meta output_meta;
} hr_prediction;

/* In data order, on the calling thread.  The return value works as in event.h. */
typedef hr_status hr_prediction_fn(void *user, const hr_prediction *p);

/* Calls fn for every sample.  A model that does not classify whole samples has class_count 0 and only output.
 * HR_E_UNSUPPORTED if it has no result "logits" with one row or block per sample.  After a failure *result (may be NULL)
 * covers the samples before it. */
HR_API HR_MUST_CHECK hr_status hr_predictor_run(hr_predictor *p, hr_prediction_fn *fn, void *user,
                                                hr_infer_result *result, hr_error *why);
/* "star", or of predicted numbers the column's name; NULL if there is no such class or it has no name.  Valid as long as
 * the predictor. */
HR_API const char *hr_predictor_class_name(const hr_predictor *p, uint64_t index);

HR_END_DECLS
#endif
