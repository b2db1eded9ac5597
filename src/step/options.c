/* Options of training and the learning rate they give. */
#include "step/options.h"

#include <math.h>
#include <stdio.h>

#include "base/grow.h"

static const char *const optimizers[] = {"sgd",  "adam",      "adamw", "rmsprop",
                                         "lion", "adafactor", NULL};
const char *const hri_train_schedules[] = {"constant", "step",    "cosine",      "polynomial",
                                           "onecycle", "plateau", "exponential", NULL};
static const char *const precisions[] = {"f32", "bf16", "f16", NULL};
static const char *const moments[] = {"f32", "bf16", "8bit", NULL};
static const char *const scores[] = {"auto", "kept", "slices", NULL};

#define AT(FIELD) offsetof(hr_train_options, FIELD)

const hri_field hri_train_fields[] = {
    {"optimizer", "optimizer", AT(optimizer), HRI_FIELD_ENUM, "sgd", .choices = optimizers},
    {"rate", "base learning rate; auto: 0.01, 0.001 for adam and adamw, 0.0001 for lion", AT(rate),
     HRI_FIELD_DOUBLE, "auto", .min = 0, .max = 1e6, .word = "auto", .alias = "lr"},
    {"momentum", "momentum of sgd and rmsprop; auto: 0.9 for sgd, 0 for rmsprop", AT(momentum),
     HRI_FIELD_DOUBLE, "auto", .min = 0, .max = 1, .word = "auto"},
    {"nesterov", "Nesterov momentum", AT(nesterov), HRI_FIELD_BOOL, NULL, .wide = true},
    {"beta1", "adam: decay rate of the first moment; lion: its share in the update", AT(beta1),
     HRI_FIELD_DOUBLE, "0.9", .min = 0, .max = 1},
    {"beta2", "adam: decay rate of the second moment (0.999); lion: of its only one (0.99)",
     AT(beta2), HRI_FIELD_DOUBLE, "auto", .min = 0, .max = 1, .word = "auto"},
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
    {"clip-value", "largest magnitude of each element of a gradient; 0: no limit", AT(clip_value),
     HRI_FIELD_DOUBLE, "0", .min = 0, .max = 1e30},
    {"check", "skip steps with non-finite gradients", AT(check), HRI_FIELD_BOOL, NULL,
     .wide = true},
    {"precision", "precision of matmuls; parameters stay f32", AT(precision), HRI_FIELD_ENUM, "f32",
     .choices = precisions},
    {"moments", HRI_TRAIN_MOMENTS_HELP, AT(moments), HRI_FIELD_ENUM, "f32", .choices = moments},
    {"scores",
     "logits of a head with many classes: never whole, kept, or in slices that are recomputed",
     AT(scores), HRI_FIELD_ENUM, "auto", .choices = scores},
    {"schedule", "learning rate schedule", AT(schedule), HRI_FIELD_ENUM, "constant",
     .choices = hri_train_schedules},
    {"steps", "schedules with an end: number of steps, warm-up included", AT(steps), HRI_FIELD_INT,
     "0", .min = 0, .max = 9e15},
    {"warmup", "steps of linear warm-up to the base learning rate; onecycle: 0: 30% of the steps",
     AT(warmup), HRI_FIELD_INT, "0", .min = 0, .max = 9e15},
    {"every", "step: steps between decays; plateau: validations without improvement (0: 10)",
     AT(every), HRI_FIELD_INT, "0", .min = 0, .max = 9e15},
    {"gamma", "step and plateau: factor of each decay", AT(gamma), HRI_FIELD_DOUBLE, "0.1",
     .min = 0, .max = 1},
    {"final-rate", "schedules with an end: final learning rate; onecycle: 0: rate / 250000",
     AT(final_rate), HRI_FIELD_DOUBLE, "0", .min = 0, .max = 1e6},
    {"power", "polynomial: its exponent", AT(power), HRI_FIELD_DOUBLE, "1", .min = 0, .max = 100},
    {"relative-step", "adafactor: steps are relative to the weights and at most 1 / sqrt(step)",
     AT(relative_step), HRI_FIELD_BOOL, "true", .wide = true},
    {"update-clip", "adafactor: largest root mean square of an update", AT(update_clip),
     HRI_FIELD_DOUBLE, "1", .min = 1e-6, .max = 1e6},
    {"root-epsilon", "rmsprop: added under the root, as the epsilon of Keras", AT(root_epsilon),
     HRI_FIELD_DOUBLE, "0", .min = 0, .max = 1e6},
    {0},
};

static int is_lion(const hr_train_options *o) {
    return o->optimizer == HR_OPTIMIZER_LION;
}

int hri_train_has_end(const hr_train_options *o) {
    return o->schedule == HR_SCHEDULE_COSINE || o->schedule == HR_SCHEDULE_POLYNOMIAL ||
           o->schedule == HR_SCHEDULE_ONECYCLE || o->schedule == HR_SCHEDULE_EXPONENTIAL;
}

static hr_status check_schedule(const hr_train_options *t, hri_prose *why) {
    if (t->schedule == HR_SCHEDULE_STEP && t->every < 1) {
        return hri_prose_set(why, HR_E_INVALID, "schedule=step needs every=N, 1 or more");
    }
    if (hri_train_has_end(t) && t->steps <= t->warmup) {
        return hri_prose_set(why, HR_E_INVALID,
                             "schedule=%s needs steps=N, more than the warm-up of %lld",
                             hri_train_schedules[t->schedule], (long long)t->warmup);
    }
    if (t->schedule == HR_SCHEDULE_EXPONENTIAL && !(t->rate > 0 && t->final_rate > 0)) {
        return hri_prose_set(why, HR_E_INVALID,
                             "schedule=exponential needs final-rate=X, and both rates above 0");
    }
    return HR_OK;
}

hr_status hri_train_options_settle(hr_train_options *o, hri_prose *why) {
    const int adam = o->optimizer == HR_OPTIMIZER_ADAM || o->optimizer == HR_OPTIMIZER_ADAMW;
    hr_train_options t = *o;
    /* auto is not a number */
    t.rate = !(t.rate >= 0) ? (adam ? 1e-3 : is_lion(&t) ? 1e-4 : 1e-2) : t.rate;
    t.momentum = !(t.momentum >= 0) ? (t.optimizer == HR_OPTIMIZER_SGD ? 0.9 : 0.0) : t.momentum;
    t.beta2 = !(t.beta2 >= 0) ? (is_lion(&t) ? 0.99 : 0.999) : t.beta2;
    t.decay = !(t.decay >= 0) ? (t.optimizer == HR_OPTIMIZER_ADAMW ? 1e-2 : 0.0) : t.decay;
    if (t.nesterov && (t.optimizer != HR_OPTIMIZER_SGD || !(t.momentum > 0))) {
        return hri_prose_set(why, HR_E_INVALID, "nesterov needs sgd with momentum");
    }
    if (adam && (t.beta1 >= 1 || t.beta2 >= 1)) {
        return hri_prose_set(why, HR_E_RANGE, "beta1 and beta2 must be below 1 (got %g and %g)",
                             t.beta1, t.beta2);
    }
    if (t.optimizer == HR_OPTIMIZER_ADAFACTOR && t.moments != HR_MOMENTS_F32) {
        return hri_prose_set(why, HR_E_INVALID,
                             "moments=%s does not go with adafactor, whose state is small already",
                             moments[t.moments]);
    }
    if (t.clip_value > 0 && t.precision == HR_PRECISION_F16) {
        return hri_prose_set(why, HR_E_INVALID,
                             "clip-value does not work with precision=f16, whose gradients are "
                             "scaled; use bf16");
    }
    const hr_status status = check_schedule(&t, why);
    if (status != HR_OK) {
        return status;
    }
    *o = t;
    return HR_OK;
}

int hri_train_feeds_velocity(const hr_train_options *o) {
    return o->optimizer == HR_OPTIMIZER_SGD && o->momentum > 0.0 && !o->nesterov &&
           !(o->clip > 0.0) && !(o->clip_value > 0.0) && !o->check &&
           o->precision != HR_PRECISION_F16 && !o->ignored && o->moments == HR_MOMENTS_F32;
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

/* From a to b by half a cosine. */
static double half_cosine(double a, double b, double done) {
    const double pi = 3.14159265358979323846;
    return b + (a - b) * 0.5 * (1.0 + cos(pi * done));
}

/* As torch.optim.lr_scheduler.OneCycleLR, whose constants these are: the top is step 30 % - 1, or that of the warm-up. */
static double one_cycle(const hr_train_options *o, double step) {
    const double top = o->warmup ? (double)o->warmup : 0.3 * (double)o->steps - 1.0;
    const double last = (double)o->steps - 1.0, begin = o->rate / 25.0;
    const double end = o->final_rate > 0 ? o->final_rate : begin / 1e4;
    if (step < top) {
        return half_cosine(begin, o->rate, step / top);
    }
    return step >= last ? end : half_cosine(o->rate, end, (step - top) / (last - top));
}

double hr_train_rate(const hr_train_options *theirs, uint64_t step) {
    const hr_train_options own = hri_train_options_known(theirs), *o = &own;
    const uint64_t warmup = (uint64_t)o->warmup;
    if (o->schedule == HR_SCHEDULE_ONECYCLE) {
        return one_cycle(o, (double)step);
    }
    if (step < warmup) {
        return o->rate * (double)(step + 1) / (double)warmup;
    }
    if (o->schedule == HR_SCHEDULE_STEP) {
        return o->rate * pow(o->gamma, (double)(step / (uint64_t)o->every));
    }
    if (!hri_train_has_end(o)) {
        return o->rate;
    }
    const double share = (double)(step - warmup) / (double)((uint64_t)o->steps - warmup);
    const double done = share < 1.0 ? share : 1.0;
    if (o->schedule == HR_SCHEDULE_EXPONENTIAL) {
        return o->rate * pow(o->final_rate / o->rate, done);
    }
    return o->schedule == HR_SCHEDULE_COSINE
               ? half_cosine(o->rate, o->final_rate, done)
               : o->final_rate + (o->rate - o->final_rate) * pow(1.0 - done, o->power);
}
