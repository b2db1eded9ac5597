/* Options of training and the learning rate they give. */
#include "step/options.h"

#include <math.h>
#include <stdio.h>

#include "base/grow.h"

static const char *const optimizers[] = {"sgd", "adam", "adamw", "rmsprop", NULL};
static const char *const schedules[] = {"constant", "step", "cosine", NULL};
static const char *const precisions[] = {"f32", "bf16", "f16", NULL};
static const char *const moments[] = {"f32", "bf16", "8bit", NULL};
static const char *const scores[] = {"auto", "kept", "slices", NULL};

#define AT(FIELD) offsetof(hr_train_options, FIELD)

const hri_field hri_train_fields[] = {
    {"optimizer", "optimizer", AT(optimizer), HRI_FIELD_ENUM, "sgd", .choices = optimizers},
    {"rate", "base learning rate; auto: 0.01, and 0.001 for adam and adamw", AT(rate),
     HRI_FIELD_DOUBLE, "auto", .min = 0, .max = 1e6, .word = "auto", .alias = "lr"},
    {"momentum", "momentum of sgd and rmsprop; auto: 0.9 for sgd, 0 for rmsprop", AT(momentum),
     HRI_FIELD_DOUBLE, "auto", .min = 0, .max = 1, .word = "auto"},
    {"nesterov", "Nesterov momentum", AT(nesterov), HRI_FIELD_BOOL, NULL, .wide = true},
    {"beta1", "adam: decay rate of the first moment", AT(beta1), HRI_FIELD_DOUBLE, "0.9", .min = 0,
     .max = 1},
    {"beta2", "adam: decay rate of the second moment", AT(beta2), HRI_FIELD_DOUBLE, "0.999",
     .min = 0, .max = 1},
    {"alpha", "rmsprop: decay rate of the squared average", AT(alpha), HRI_FIELD_DOUBLE, "0.99",
     .min = 0, .max = 1},
    {"epsilon", "adam and rmsprop: added to the denominator", AT(epsilon), HRI_FIELD_DOUBLE, "1e-8",
     .min = 0, .max = 1},
    {"decay", "weight decay; auto: 0.01 for adamw, else 0", AT(decay), HRI_FIELD_DOUBLE, "auto",
     .min = 0, .max = 1e6, .word = "auto", .alias = "weight-decay"},
    {"decay-all", "apply weight decay to biases and norms, too", AT(decay_all), HRI_FIELD_BOOL,
     "true", .wide = true},
    {"clip", "maximum global gradient norm; 0: no clipping", AT(clip), HRI_FIELD_DOUBLE, "0",
     .min = 0, .max = 1e30},
    {"check", "skip steps with non-finite gradients", AT(check), HRI_FIELD_BOOL, NULL,
     .wide = true},
    {"precision", "precision of matmuls; parameters stay f32", AT(precision), HRI_FIELD_ENUM, "f32",
     .choices = precisions},
    {"moments", HRI_TRAIN_MOMENTS_HELP, AT(moments), HRI_FIELD_ENUM, "f32", .choices = moments},
    {"scores", "logits of a head with many classes: kept, or computed in slices and recomputed",
     AT(scores), HRI_FIELD_ENUM, "auto", .choices = scores},
    {"schedule", "learning rate schedule", AT(schedule), HRI_FIELD_ENUM, "constant",
     .choices = schedules},
    {"steps", "cosine: number of steps, warm-up included", AT(steps), HRI_FIELD_INT, "0", .min = 0,
     .max = 9e15},
    {"warmup", "steps of linear warm-up to the base learning rate", AT(warmup), HRI_FIELD_INT, "0",
     .min = 0, .max = 9e15},
    {"every", "step: steps between decays", AT(every), HRI_FIELD_INT, "0", .min = 0, .max = 9e15},
    {"gamma", "step: factor of each decay", AT(gamma), HRI_FIELD_DOUBLE, "0.1", .min = 0, .max = 1},
    {"final-rate", "cosine: final learning rate", AT(final_rate), HRI_FIELD_DOUBLE, "0", .min = 0,
     .max = 1e6},
    {0},
};

hr_status hri_train_options_settle(hr_train_options *o, hri_prose *why) {
    const int adam = o->optimizer == HR_OPTIMIZER_ADAM || o->optimizer == HR_OPTIMIZER_ADAMW;
    hr_train_options t = *o;
    /* auto is not a number */
    t.rate = !(t.rate >= 0) ? (adam ? 1e-3 : 1e-2) : t.rate;
    t.momentum = !(t.momentum >= 0) ? (t.optimizer == HR_OPTIMIZER_SGD ? 0.9 : 0.0) : t.momentum;
    t.decay = !(t.decay >= 0) ? (t.optimizer == HR_OPTIMIZER_ADAMW ? 1e-2 : 0.0) : t.decay;
    if (t.nesterov && (t.optimizer != HR_OPTIMIZER_SGD || !(t.momentum > 0))) {
        return hri_prose_set(why, HR_E_INVALID, "nesterov needs sgd with momentum");
    }
    if (adam && (t.beta1 >= 1 || t.beta2 >= 1)) {
        return hri_prose_set(why, HR_E_RANGE, "beta1 and beta2 must be below 1 (got %g and %g)",
                             t.beta1, t.beta2);
    }
    if (t.schedule == HR_SCHEDULE_STEP && t.every < 1) {
        return hri_prose_set(why, HR_E_INVALID, "schedule=step needs every=N, 1 or more");
    }
    if (t.schedule == HR_SCHEDULE_COSINE && t.steps <= t.warmup) {
        return hri_prose_set(why, HR_E_INVALID,
                             "schedule=cosine needs steps=N, more than the warm-up of %lld",
                             (long long)t.warmup);
    }
    *o = t;
    return HR_OK;
}

int hri_train_feeds_velocity(const hr_train_options *o) {
    return o->optimizer == HR_OPTIMIZER_SGD && o->momentum > 0.0 && !o->nesterov &&
           !(o->clip > 0.0) && !o->check && o->precision != HR_PRECISION_F16 && !o->ignored &&
           o->moments == HR_MOMENTS_F32;
}

hr_status hr_train_options_parse(const char *text, hr_train_options *out, hr_error *why) {
    hr_train_options t = {.size = sizeof t};
    hri_options o = {0};
    hri_prose prose = {0};
    hr_status status = hri_options_init(&o, hri_train_fields, &t, &prose);
    if (status == HR_OK && text) {
        status = hri_options_set_text(&o, text, &prose);
    }
    hri_options_deinit(&o);
    if (status == HR_OK) {
        status = hri_train_options_settle(&t, &prose);
    }
    if (status != HR_OK) {
        if (why) {
            *why = (hr_error){.code = status};
            snprintf(why->message, sizeof why->message, "%s", prose.text);
        }
        return status;
    }
    return hri_give(out, &t, sizeof t);
}

hr_train_options hri_train_options_known(const hr_train_options *theirs) {
    hr_train_options o;
    if (hri_take(&o, sizeof o, theirs) != HR_OK) {
        o = (hr_train_options){.size = sizeof o, .rate = NAN};
    }
    return o;
}

double hr_train_rate(const hr_train_options *theirs, uint64_t step) {
    const hr_train_options own = hri_train_options_known(theirs), *o = &own;
    const uint64_t warmup = (uint64_t)o->warmup;
    if (step < warmup) {
        return o->rate * (double)(step + 1) / (double)warmup;
    }
    if (o->schedule == HR_SCHEDULE_STEP) {
        return o->rate * pow(o->gamma, (double)(step / (uint64_t)o->every));
    }
    if (o->schedule == HR_SCHEDULE_COSINE) {
        const double pi = 3.14159265358979323846;
        const double done = (double)(step - warmup) / (double)((uint64_t)o->steps - warmup);
        const double share = 0.5 * (1.0 + cos(pi * (done < 1.0 ? done : 1.0)));
        return o->final_rate + (o->rate - o->final_rate) * share;
    }
    return o->rate;
}
