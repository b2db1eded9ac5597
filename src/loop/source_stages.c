/* The text of the pipeline that follows from a source and a model; see source.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "base/number.h"
#include "loop/source.h"

typedef struct text {
    char *out;
    size_t size, used;
} text;

static void say(text *t, const char *format, ...) HR_PRINTF(2, 3);
static void say(text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (t->used < t->size) {
        const int n = hri_vsnprintf(t->out + t->used, t->size - t->used, format, args);
        t->used += n > 0 ? (size_t)n : 0;
    }
    va_end(args);
}

static int wants(const char *augment, const char *what) {
    const size_t n = strlen(what);
    for (const char *at = augment ? strstr(augment, what) : NULL; at; at = strstr(at + 1, what)) {
        const char before = at > augment ? at[-1] : ',';
        if ((before == ',' || before == ' ') && (at[n] == ',' || at[n] == '\0' || at[n] == ' ')) {
            return 1;
        }
    }
    return 0;
}

static int is_encoded(const hri_source *s) {
    return s->input.meta.shape.rank == 1 && s->input.meta.type == HR_TYPE_U8 &&
           s->input.meta.shape.dim[0] < 0;
}

/* A class for every pixel: images are stretched instead of cropped, so that predictions cover all of them. */
static int is_of_pixels(const hri_model_input *want) {
    return want->sample.shape.rank == 3 && want->label.type == HR_TYPE_I32 &&
           want->label.shape.rank == 2;
}

static int is_picture(const hri_source *s, const hri_model_input *want) {
    return want->sample.shape.rank == 3 && (s->input.meta.shape.rank == 3 || is_encoded(s));
}

/* One channel is centred, colours are as the torchvision models expect them. */
void hri_source_pixels(const hri_source *s, const hri_model_input *want, hri_pixels *out) {
    static const double mean[] = {0.485, 0.456, 0.406}, std[] = {0.229, 0.224, 0.225};
    const int64_t channels = want->sample.shape.rank == 3 ? want->sample.shape.dim[2] : 0;
    *out = (hri_pixels){.channels = 0};
    if (!is_picture(s, want) || s->input.meta.type != HR_TYPE_U8 ||
        want->sample.type != HR_TYPE_F32 || channels < 1 || channels > HRI_PIXELS_CHANNELS) {
        return;
    }
    out->channels = (uint32_t)channels;
    memcpy(out->name, want->name, sizeof out->name);
    for (uint32_t c = 0; c < out->channels; c++) {
        out->mean[c] = channels == 3 ? mean[c] : 0.5;
        out->std[c] = channels == 3 ? std[c] : 0.5;
    }
}

/* What follows where the model has another number than the data: how to state it, if it can be. */
static const char *change(int stated, const char *key, int64_t number, char out[64]) {
    if (stated) {
        snprintf(out, 64, "; add %s=%lld to the model string", key, (long long)number);
    } else {
        snprintf(out, 64, "; a model with %lld %s is needed", (long long)number, key);
    }
    return out;
}

static hr_status say_picture(text *t, const hri_source *s, const hri_model_input *want,
                             const char *augment, hri_prose *why) {
    const hr_shape *is = &s->input.meta.shape;
    const int64_t h = want->sample.shape.dim[0], w = want->sample.shape.dim[1];
    const int64_t channels = want->sample.shape.dim[2];
    const int encoded = is_encoded(s), other = strcmp(s->input.name, "image") != 0;
    const size_t before = t->used;
    if (encoded && channels != 1 && channels != 3) {
        return hri_prose_set(why, HR_E_SHAPE,
                             "images have 1 or 3 channels, but the model "
                             "expects %lld",
                             (long long)channels);
    }
    if (other) { /* what the stages below look for */
        say(t, " | rename(%s,to=image)", s->input.name);
    }
    const size_t began = t->used;
    if (encoded) {
        const int crop = wants(augment, "crop");
        say(t, " | decode(size=%lldx%lld,channels=%lld,%s%s)", (long long)h, (long long)w,
            (long long)channels,
            crop                 ? "random_crop=on,min_area=0.35"
            : is_of_pixels(want) ? "fit=stretch"
                                 : "centre=1",
            wants(augment, "flip") ? ",flip=on" : "");
    } else {
        if (is->dim[2] != channels) {
            char way[64];
            return hri_prose_set(why, HR_E_SHAPE,
                                 "%s has %lld channels, but the model expects %lld%s", s->text,
                                 (long long)is->dim[2], (long long)channels,
                                 change(want->states_channels, "channels", is->dim[2], way));
        }
        const int scaled = is->dim[0] != h || is->dim[1] != w;
        if (scaled && s->input.meta.type != HR_TYPE_U8) {
            char a[256], b[256];
            return hri_prose_set(why, HR_E_SHAPE,
                                 "%s has %s, but the model expects %s, height x width x channels; "
                                 "only images of u8 are scaled",
                                 s->text, hr_meta_print(&s->input.meta, a, sizeof a),
                                 hr_meta_print(&want->sample, b, sizeof b));
        }
        if (scaled) {
            say(t, " | resize(size=%lldx%lld)", (long long)h, (long long)w);
        }
        if (wants(augment, "flip")) {
            say(t, " | flip");
        }
    }
    if (wants(augment, "jitter")) {
        say(t, " | jitter");
    }
    if (wants(augment, "randaugment")) {
        say(t, " | randaugment");
    }
    if (wants(augment, "erase")) {
        say(t, " | erase");
    }
    if (t->used == began && s->input.meta.type == HR_TYPE_U8) {
        say(t, " | load"); /* as many threads as the other stages would have */
    }
    if (other && t->used == began) {
        t->used = before; /* nothing looked for it */
        t->out[before] = '\0';
    } else if (other) {
        say(t, " | rename(image,to=%s)", s->input.name);
    }
    if (s->input.meta.type == HR_TYPE_U8 && channels > HRI_PIXELS_CHANNELS) {
        return hri_prose_set(why, HR_E_SHAPE,
                             "images can have at most %d channels, not %lld; channels are the last "
                             "dimension: height x width x channels",
                             HRI_PIXELS_CHANNELS, (long long)channels);
    }
    return HR_OK;
}

hr_status hri_source_stages(const hri_source *s, const hri_model_input *want, const char *augment,
                            char *out, size_t size, hri_prose *why) {
    text t = {.out = out, .size = size};
    const hr_shape *is = &s->input.meta.shape, *should = &want->sample.shape;
    hr_status status = HR_OK;
    out[0] = '\0';
    if (!strcmp(s->kind, "masks") && !is_of_pixels(want)) {
        status = hri_prose_set(why, HR_E_SHAPE,
                               "%s has a class for every pixel, but the model predicts one per "
                               "image; use unet, or images:DIR for classes of whole images",
                               s->text);
    } else if (is_picture(s, want)) {
        status = say_picture(&t, s, want, augment, why);
    } else if (hri_source_count(is) != hr_shape_count(should)) {
        char a[256], b[256];
        status = hri_prose_set(why, HR_E_SHAPE, "%s has %s, but the model expects %s %s", s->text,
                               hr_meta_print(&s->input.meta, a, sizeof a), want->name,
                               hr_meta_print(&want->sample, b, sizeof b));
    }
    if (status == HR_OK && t.used >= size) {
        status = hri_prose_set(why, HR_E_RANGE, "the data string is too long");
    }
    return status;
}

/* Labels that the model cannot have are refused before anything is planned. */
static hr_status check_labels(const hri_source *s, const hri_model_input *want, hri_prose *why) {
    char way[64];
    return s->labels_known && want->label.type == HR_TYPE_I32 && want->classes > 0 &&
                   s->labels.max >= want->classes && !hri_source_has_stage(s, "filter")
               ? hri_prose_set(
                     why, HR_E_INVALID,
                     "%s has labels up to %lld, but the model has %lld classes (0-%lld)%s", s->text,
                     (long long)s->labels.max, (long long)want->classes,
                     (long long)want->classes - 1,
                     change(want->states_classes, "classes", s->labels.max + 1, way))
               : HR_OK;
}

const char *const hri_augmentations[] = {"none",        "flip",  "crop", "jitter",
                                         "randaugment", "erase", NULL};

static hr_status check_augment(const char *augment, hri_prose *why) {
    const char *const *known = hri_augmentations;
    enum { KNOWN = sizeof hri_augmentations / sizeof hri_augmentations[0] - 1 };
    for (const char *at = augment; at && *at;) {
        at += strspn(at, ", ");
        const size_t n = strcspn(at, ", ");
        char word[64];
        size_t k = 0;
        snprintf(word, sizeof word, "%.*s", (int)(n < 63 ? n : 63), at);
        while (k < KNOWN && strcmp(word, known[k]) != 0) {
            k++;
        }
        if (n && k == KNOWN) {
            const char *near = hri_nearest(word, known, KNOWN, sizeof *known);
            return hri_prose_set(why, HR_E_INVALID,
                                 "`augment`: unknown value \"%s\"%s%s%s; use flip, crop, jitter, "
                                 "randaugment, erase or none",
                                 word, near ? ", did you mean \"" : "", near ? near : "",
                                 near ? "\"?" : "");
        }
        at += n;
    }
    return HR_OK;
}

bool hri_source_has_stage(const hri_source *s, const char *name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    for (const char *at = strchr(s->text, '|'); at; at = strchr(at, '|')) {
        at += 1 + strspn(at + 1, " \t\n");
        const size_t length = strspn(at, letters);
        if (length == strlen(name) && !strncmp(at, name, length)) {
            return true;
        }
    }
    return false;
}

hr_status hri_source_pipeline(const hri_source *s, const hri_model_input *want,
                              const hri_source_use *use, char *out, size_t size, hri_prose *why) {
    text t = {.out = out, .size = size};
    char stages[512];
    hr_status status = check_augment(use->augment, why);
    if (status == HR_OK) {
        status = check_labels(s, want, why);
    }
    stages[0] = '\0';
    if (status == HR_OK && !use->bare) {
        status = hri_source_stages(s, want, use->training ? use->augment : NULL, stages,
                                   sizeof stages, why);
    }
    if (status != HR_OK) {
        return status;
    }
    say(&t, "%s", s->text);
    if (use->part_count) {
        /* An order of its own, always the same: which samples are whose never changes. */
        say(&t, " | shuffle(seed=%llu,reshuffle=off) | skip(%llu) | take(%llu)",
            (unsigned long long)(use->seed & 0xffffffffu) + 7, (unsigned long long)use->part_first,
            (unsigned long long)use->part_count);
    }
    if (use->training && !hri_source_has_stage(s, "shuffle")) {
        say(&t, " | shuffle(seed=%llu)", (unsigned long long)(use->seed & 0xffffffffu));
    }
    if (use->batch && s->count == HR_COUNT_UNKNOWN) { /* here what goes on is tickets as a rule */
        say(&t, " | whole(%llu)", (unsigned long long)use->batch);
    }
    if (use->ranks) {
        say(&t, " | deal(batch=%llu,part=%llu,ranks=%u,rank=%u)",
            (unsigned long long)use->deal_batch, (unsigned long long)use->part, use->ranks,
            use->rank);
    }
    say(&t, "%s", stages);
    return t.used < size ? HR_OK : hri_prose_set(why, HR_E_RANGE, "the data string is too long");
}
