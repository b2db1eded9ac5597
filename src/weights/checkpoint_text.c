/* Reading the text of a checkpoint: token by token, every number into its range, every text under its limit.
 *
 * One table says which texts there are and which letters they may hold, another which numbers.  What is not known is read
 * over, so that a later version may add to the text; what is there twice is refused. */
#include "weights/checkpoint.h"

#include <headroom/data.h>
#include <headroom/model.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json_stream.h"
#include "base/number.h"
#include "passes/common/pass.h"
#include "step/options.h"
#include "weights/checkpoint_table.h"

typedef struct reading {
    hri_checkpoint *c;
    hri_json_stream *s;
    const char *stages; /* of version 1 */
    uint64_t seen;      /* bits of `keys` */
    hri_prose *why;
} reading;

static hr_status next(reading *r, hri_json_token *out) {
    return hri_json_stream_next(r->s, out, r->why);
}

static hr_status wrong(const reading *r, const char *key, const char *what) {
    return hri_prose_set(r->why, HR_E_FORMAT, "\"%s\" %s", key, what);
}

static hr_status no_memory(const reading *r) {
    return hri_prose_set(r->why, HR_E_NOMEM_HOST, "out of memory");
}

/* A text of at most `most` bytes, kept. */
static hr_status keep_text(reading *r, const hri_json_token *t, const char *key, size_t most,
                           const char **out) {
    if (t->kind != HRI_JSON_STRING || t->nul) {
        return wrong(r, key, "is not a string");
    }
    if (t->cut || t->bytes > most) {
        return hri_prose_set(r->why, HR_E_RANGE, "\"%s\" is longer than %zu bytes", key, most);
    }
    char *kept = hri_arena_strdup(&r->c->texts, t->text);
    if (!kept) {
        return no_memory(r);
    }
    *out = kept;
    return HR_OK;
}

static hr_status get_number(const reading *r, const hri_json_token *t, const char *key,
                            uint64_t *out) {
    if (t->kind != HRI_JSON_INTEGER || t->integer < 0) {
        return wrong(r, key, "is not an integer >= 0");
    }
    *out = (uint64_t)t->integer;
    return HR_OK;
}

static hr_status get_bits(const reading *r, const hri_json_token *t, const char *key,
                          uint64_t *out) {
    char *end = NULL;
    const int digits =
        t->kind == HRI_JSON_STRING && t->bytes == 16 && strspn(t->text, "0123456789abcdef") == 16;
    const unsigned long long bits = digits ? strtoull(t->text, &end, 16) : 0;
    if (!digits) {
        return wrong(r, key, "is not 16 hexadecimal digits");
    }
    *out = bits;
    return HR_OK;
}

/* ---- version 1: the stages as text ---- */

static int take(const char **at, const char *word) {
    const size_t n = strlen(word);
    const int same = !strncmp(*at, word, n);
    *at += same ? n : 0;
    return same;
}

static int take_number(const char **at, double low, double high, double *out) {
    char number[32];
    const size_t n = strspn(*at, "0123456789.");
    if (n == 0 || n >= sizeof number) {
        return 0;
    }
    memcpy(number, *at, n);
    number[n] = '\0';
    char *end;
    *out = hri_strtod(number, &end);
    *at += n;
    return !*end && *out >= low && *out <= high;
}

static int take_size(const char **at) {
    double height, width;
    return take_number(at, 1, 65536, &height) && take(at, "x") && take_number(at, 1, 65536, &width);
}

/* "0.485,0.456,0.406": up to the first thing that is no number. */
static uint32_t take_list(const char **at, double low, double high, double *out) {
    uint32_t count = 0;
    while (count < HRI_PIXELS_CHANNELS && take_number(at, low, high, &out[count])) {
        count++;
        if ((*at)[0] != ',' || (*at)[1] < '0' || (*at)[1] > '9') {
            return count;
        }
        ++*at;
    }
    return 0;
}

/* Exactly what 0.1.0 wrote: one stage of each kind at most, in this order, with numbers in them and nothing else. */
static int take_stages(const char *at, hri_pixels *pixels) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    double number;
    if (take(&at, " | rename(")) {
        const size_t n = strspn(at, letters);
        at += n;
        if (!n || n >= HR_FIELD_NAME_SIZE || !take(&at, ",to=image)")) {
            return 0;
        }
    }
    if (take(&at, " | decode(size=")) {
        if (!take_size(&at) || !take(&at, ",channels=") || !take_number(&at, 1, 4, &number) ||
            !take(&at, ",centre=1)")) {
            return 0;
        }
    } else if (take(&at, " | resize(size=") && (!take_size(&at) || !take(&at, ")"))) {
        return 0;
    }
    if (take(&at, " | normalise(mean=")) {
        const uint32_t means = take_list(&at, 0, 1, pixels->mean);
        if (!means || !take(&at, ",std=") || take_list(&at, 1e-6, 1e6, pixels->std) != means ||
            !take(&at, ")")) {
            return 0;
        }
        pixels->channels = means;
    }
    return !*at;
}

static hr_status read_stages(const reading *r) {
    hri_pixels pixels = {.channels = 0};
    if (!take_stages(r->stages, &pixels)) {
        return hri_prose_set(r->why, HR_E_UNSUPPORTED,
                             "its stages are not those that version 0.1.0 wrote; stages from a "
                             "file are never run: %.200s",
                             r->stages);
    }
    snprintf(pixels.name, sizeof pixels.name, "%s", r->c->about.input);
    r->c->about.pixels = pixels;
    return HR_OK;
}

/* ---- parts of the text ---- */

static hr_status read_reals(reading *r, const hri_json_token *first, double *out, uint32_t *count) {
    hri_json_token t = *first;
    hr_status status = HR_OK;
    *count = 0;
    if (t.kind != HRI_JSON_ARRAY) {
        return wrong(r, "normalise", "lacks lists of numbers");
    }
    while ((status = next(r, &t)) == HR_OK && t.kind != HRI_JSON_ARRAY_END) {
        if ((t.kind != HRI_JSON_REAL && t.kind != HRI_JSON_INTEGER) ||
            *count == HRI_PIXELS_CHANNELS || fabs(t.real) > 1e6) {
            return hri_prose_set(
                r->why, HR_E_FORMAT,
                "\"normalise\": mean and std must be 1 to %d numbers each, up to a million",
                HRI_PIXELS_CHANNELS);
        }
        out[(*count)++] = t.real;
    }
    return status;
}

static hr_status read_pixels(reading *r, const hri_json_token *first) {
    hri_pixels p = {.channels = 0};
    uint32_t means = 0, stds = 0;
    hri_json_token t = *first;
    hr_status status = HR_OK;
    if (t.kind != HRI_JSON_OBJECT) {
        return wrong(r, "normalise", "is not an object");
    }
    while ((status = next(r, &t)) == HR_OK && t.kind != HRI_JSON_OBJECT_END) {
        status = !strcmp(t.key, "mean")  ? read_reals(r, &t, p.mean, &means)
                 : !strcmp(t.key, "std") ? read_reals(r, &t, p.std, &stds)
                                         : hri_json_stream_skip(r->s, &t, r->why);
        if (status != HR_OK) {
            return status;
        }
    }
    for (uint32_t i = 0; status == HR_OK && i < stds; i++) {
        if (fabs(p.std[i]) < 1e-6) {
            return wrong(r, "normalise", "has a std of 0, or close to 0");
        }
    }
    if (status == HR_OK && (means != stds || !means)) {
        return wrong(r, "normalise", "mean and std differ in length");
    }
    p.channels = means;
    r->c->about.pixels = p;
    return status;
}

static hr_status read_classes(reading *r, const hri_json_token *first) {
    const char **names = NULL;
    size_t count = 0, room = 0;
    hri_json_token t = *first;
    hr_status status = HR_OK;
    if (t.kind != HRI_JSON_ARRAY) {
        return wrong(r, "classes", "is not a list");
    }
    while (status == HR_OK && (status = next(r, &t)) == HR_OK && t.kind != HRI_JSON_ARRAY_END) {
        if (count == HRI_CHECKPOINT_CLASSES_MAX) {
            status = hri_prose_set(r->why, HR_E_RANGE, "more than %d classes",
                                   HRI_CHECKPOINT_CLASSES_MAX);
            break;
        }
        if (count == room) {
            room = room ? 2 * room : 64;
            const char **more = hri_realloc(names, room * sizeof *names);
            status = more ? HR_OK : no_memory(r);
            names = more ? more : names;
        }
        if (status == HR_OK) {
            status = keep_text(r, &t, "classes", HRI_CHECKPOINT_NAME_MAX, &names[count++]);
        }
    }
    if (status == HR_OK) {
        r->c->about.classes =
            hri_arena_copy(&r->c->texts, names, count * sizeof *names, _Alignof(char *));
        r->c->about.class_count = count;
        status = r->c->about.classes ? HR_OK : no_memory(r);
    }
    hri_free(names);
    return status;
}

static hr_status read_facts(reading *r, const hri_json_token *first, const char *key,
                            const hri_fact **out, size_t *out_count) {
    hri_fact *facts = HRI_ARENA_ARRAY(&r->c->texts, hri_fact, HRI_CHECKPOINT_FACTS_MAX);
    size_t count = 0;
    hri_json_token t = *first;
    hr_status status = HR_OK;
    if (!facts || t.kind != HRI_JSON_OBJECT) {
        return facts ? wrong(r, key, "is not an object") : no_memory(r);
    }
    while ((status = next(r, &t)) == HR_OK && t.kind != HRI_JSON_OBJECT_END) {
        if (count == HRI_CHECKPOINT_FACTS_MAX) {
            return hri_prose_set(r->why, HR_E_RANGE, "\"%s\" has more than %d entries", key,
                                 HRI_CHECKPOINT_FACTS_MAX);
        }
        facts[count].name = hri_arena_strdup(&r->c->texts, t.key);
        status = facts[count].name
                     ? keep_text(r, &t, key, HRI_CHECKPOINT_NAME_MAX, &facts[count].value)
                     : no_memory(r);
        if (status != HR_OK) {
            return status;
        }
        count++;
    }
    *out = facts;
    *out_count = count;
    return status;
}

static hr_status read_split(reading *r, const hri_json_token *first) {
    hri_split s = {0};
    hri_json_token t = *first;
    hr_status status = HR_OK;
    if (t.kind != HRI_JSON_OBJECT) {
        return wrong(r, "split", "is not an object");
    }
    while (status == HR_OK && (status = next(r, &t)) == HR_OK && t.kind != HRI_JSON_OBJECT_END) {
        uint64_t *number = !strcmp(t.key, "seed")          ? &s.seed
                           : !strcmp(t.key, "val_count")   ? &s.val_count
                           : !strcmp(t.key, "train_count") ? &s.train_count
                                                           : NULL;
        if (!strcmp(t.key, "fraction")) {
            s.fraction = t.real;
            status =
                (t.kind == HRI_JSON_REAL || t.kind == HRI_JSON_INTEGER) && t.real >= 0 && t.real < 1
                    ? HR_OK
                    : wrong(r, "fraction", "is not between 0 and 1");
        } else {
            status =
                number ? get_number(r, &t, t.key, number) : hri_json_stream_skip(r->s, &t, r->why);
        }
    }
    if (status == HR_OK && (s.val_count > UINT32_MAX || s.train_count > UINT32_MAX)) {
        return wrong(r, "split", "has more samples than possible");
    }
    r->c->about.split = s;
    return status;
}

/* ---- where the training is ---- */

static hr_status read_progress(reading *r, const hri_json_token *first) {
    hri_progress_state *p = &r->c->progress;
    enum { NUMBER, REAL, BITS };
    const struct {
        const char *key;
        int kind;
        void *to;
    } fields[] = {{"step", NUMBER, &p->state.step},
                  {"updates", NUMBER, &p->state.updates},
                  {"good", NUMBER, &p->state.good},
                  {"skipped", NUMBER, &p->state.skipped},
                  {"epoch", NUMBER, &p->epoch},
                  {"epoch_step", NUMBER, &p->epoch_step},
                  {"batch", NUMBER, &p->batch},
                  {"seed", NUMBER, &p->seed},
                  {"parts", NUMBER, &p->parts},
                  {"samples", NUMBER, &p->samples},
                  {"best_epoch", NUMBER, &p->best_epoch},
                  {"bad_epochs", NUMBER, &p->bad_epochs},
                  {"seconds_ns", NUMBER, &p->seconds_ns},
                  {"scale", REAL, &p->state.scale},
                  {"loss_sum", REAL, &p->loss_sum},
                  {"right_sum", REAL, &p->right_sum},
                  {"top_sum", REAL, &p->top_sum},
                  {"best", REAL, &p->best},
                  {"input_print", BITS, &p->input_print},
                  {"digest", BITS, &p->digest},
                  {"counted", NUMBER, &p->counted}, /* version 1 has none */
                  {"plateau", REAL, &p->state.reserved[0]}};
    enum { COUNT = sizeof fields / sizeof fields[0], NEEDED = COUNT - 2 };
    uint32_t seen = 0;
    hri_json_token t = *first;
    hr_status status = HR_OK;
    if (t.kind != HRI_JSON_OBJECT) {
        return wrong(r, "training", "is not an object");
    }
    while (status == HR_OK && (status = next(r, &t)) == HR_OK && t.kind != HRI_JSON_OBJECT_END) {
        size_t i = 0;
        uint64_t bits = 0;
        while (i < COUNT && strcmp(t.key, fields[i].key) != 0) {
            i++;
        }
        if (i == COUNT) {
            status = hri_json_stream_skip(r->s, &t, r->why);
            continue;
        }
        status = seen & 1u << i             ? wrong(r, fields[i].key, "is given twice")
                 : fields[i].kind == NUMBER ? get_number(r, &t, fields[i].key, &bits)
                                            : get_bits(r, &t, fields[i].key, &bits);
        seen |= 1u << i;
        memcpy(fields[i].to, &bits, sizeof bits); /* a real has its bits in the text */
    }
    for (size_t i = 0; status == HR_OK && i < NEEDED; i++) {
        if (!(seen & 1u << i)) {
            status = wrong(r, fields[i].key, "is missing");
        }
    }
    if (!(seen & 1u << NEEDED)) {
        p->counted = p->samples; /* sums went by samples then */
    }
    if (status == HR_OK && !(hri_step_plateau(&p->state) <= 1)) {
        status = wrong(r, "plateau", "is not between 0 and 1");
    }
    r->c->whole = status == HR_OK;
    return status;
}

/* ---- the whole ---- */

enum key {
    VERSION,
    MODEL,
    PRECISION,
    SOURCE,
    INPUT,
    STAGES,
    NORMALISE,
    CLASSES,
    SPLIT,
    RUN,
    ENVIRONMENT,
    TRAINING,
    LOSS,
    TABLE,
    PASSES,
    KEYS
};
static const char *const keys[KEYS] = {"version",     "model",     "precision", "source", "input",
                                       "stages",      "normalise", "classes",   "split",  "run",
                                       "environment", "training",  "loss",      "table",  "passes"};

/* Letters of names and options: nothing that a parser, a shell or a terminal could take for something else. */
static int is_plain(const char *text) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:=,.+-";
    return text[0] && strspn(text, letters) == strlen(text);
}

static hr_status read_loss(reading *r, const hri_json_token *t) {
    const char *text;
    const hr_status status = keep_text(r, t, "loss", HRI_LOSS_TEXT, &text);
    return status != HR_OK   ? status
           : !is_plain(text) ? wrong(r, "loss", "is not the name of a loss")
           : hri_loss_parse(text, &r->c->about.loss, r->why) == HR_OK ? HR_OK
                                                                      : HR_E_FORMAT;
}

static hr_status read_passes(reading *r, const hri_json_token *t) {
    hri_passes passes;
    const hr_status status =
        keep_text(r, t, "passes", HRI_CHECKPOINT_NAME_MAX, &r->c->about.passes);
    if (status != HR_OK) {
        return status;
    }
    const hr_status read = hri_passes_parse(r->c->about.passes, &passes, r->why);
    if (read == HR_OK) {
        hri_passes_deinit(&passes);
    }
    return read == HR_OK || read == HR_E_NOMEM_HOST ? read : HR_E_FORMAT;
}

static hr_status read_key(reading *r, enum key key, const hri_json_token *t) {
    hri_about *a = &r->c->about;
    switch (key) {
    case VERSION:
        return get_number(r, t, "version", &r->c->version);
    case MODEL:
        return keep_text(r, t, "model", HRI_CHECKPOINT_NAME_MAX, &a->model);
    case PRECISION:
        return keep_text(r, t, "precision", 8, &a->precision);
    case SOURCE:
        return keep_text(r, t, "source", HRI_CHECKPOINT_SOURCE_MAX, &a->source);
    case INPUT:
        return keep_text(r, t, "input", HRI_PIXELS_NAME - 1, &a->input);
    case STAGES:
        return keep_text(r, t, "stages", HRI_CHECKPOINT_NAME_MAX, &r->stages);
    case NORMALISE:
        return read_pixels(r, t);
    case CLASSES:
        return read_classes(r, t);
    case SPLIT:
        return read_split(r, t);
    case RUN:
        return read_facts(r, t, "run", &a->run, &a->run_count);
    case ENVIRONMENT:
        return read_facts(r, t, "environment", &a->environment, &a->environment_count);
    case TRAINING:
        return read_progress(r, t);
    case LOSS:
        return read_loss(r, t);
    case PASSES:
        return read_passes(r, t);
    case TABLE: {
        const hr_status status = hri_checkpoint_read_table(r->s, t, &r->c->table, r->why);
        a->table = r->c->table;
        return status;
    }
    default:
        return hri_json_stream_skip(r->s, t, r->why);
    }
}

static hr_status check_all(const reading *r) {
    hri_about *a = &r->c->about;
    static const char *const precisions[] = {"f32", "bf16", "f16", NULL};
    const char *const *p = precisions;
    for (int key = VERSION; key <= INPUT; key++) {
        if (!(r->seen & 1u << key)) {
            return wrong(r, keys[key], "is missing");
        }
    }
    if (r->c->version != 1 && r->c->version != 2) {
        return hri_prose_set(r->why, HR_E_UNSUPPORTED,
                             "version %llu is not supported; this program reads versions 1 and 2",
                             (unsigned long long)r->c->version);
    }
    while (*p && strcmp(*p, a->precision) != 0) {
        p++;
    }
    if (!*p) {
        return wrong(r, "precision", "is not f32, bf16 or f16");
    }
    if (!is_plain(a->model)) {
        return wrong(r, "model", "is not a model string");
    }
    if (!is_plain(a->input)) {
        return wrong(r, "input", "is not the name of an input");
    }
    snprintf(a->pixels.name, sizeof a->pixels.name, "%s", a->input);
    if (r->c->version == 1 && !r->stages) {
        return wrong(r, "stages", "is missing");
    }
    return r->c->version == 1 ? read_stages(r) : HR_OK;
}

static hr_status read_all(reading *r) {
    hri_json_token t;
    hr_status status = next(r, &t);
    if (status == HR_OK && t.kind != HRI_JSON_OBJECT) {
        return hri_prose_set(r->why, HR_E_FORMAT, "its metadata is not an object");
    }
    while (status == HR_OK && (status = next(r, &t)) == HR_OK && t.kind != HRI_JSON_OBJECT_END) {
        int key = 0;
        while (key < KEYS && strcmp(t.key, keys[key]) != 0) {
            key++;
        }
        const uint64_t bit = UINT64_C(1) << key;
        if (key < KEYS && (r->seen & bit)) {
            return wrong(r, keys[key], "is given twice");
        }
        r->seen |= bit;
        status = read_key(r, (enum key)key, &t);
    }
    if (status == HR_OK) {
        status = next(r, &t); /* nothing may stand behind */
    }
    return status == HR_OK ? check_all(r) : status;
}

hr_status hri_checkpoint_read_text(hri_checkpoint *c, const char *text, hri_prose *why) {
    hri_json_memory memory = {.text = text, .bytes = strlen(text)};
    const hri_json_stream_options o = {.read = hri_json_read_memory,
                                       .user = &memory,
                                       .max_bytes = HRI_TENSORS_TEXT_MAX,
                                       .max_depth = 6,
                                       .max_key = HRI_CHECKPOINT_NAME_MAX,
                                       .max_text = HRI_CHECKPOINT_SOURCE_MAX};
    reading r = {.c = c, .why = why};
    hr_status status = hri_json_stream_open(&o, &r.s, why);
    if (status == HR_OK) {
        status = read_all(&r);
    }
    hri_json_stream_close(r.s);
    return status;
}

/* ---- before it is written ---- */

static hr_status check_facts(const hri_fact *facts, size_t count, hri_prose *why) {
    for (size_t i = 0; i < count; i++) {
        if (strlen(facts[i].name) > HRI_CHECKPOINT_NAME_MAX ||
            strlen(facts[i].value) > HRI_CHECKPOINT_NAME_MAX) {
            return hri_prose_set(why, HR_E_RANGE,
                                 "%.100s is longer than the %d bytes allowed in a checkpoint",
                                 facts[i].name, HRI_CHECKPOINT_NAME_MAX);
        }
    }
    return count <= HRI_CHECKPOINT_FACTS_MAX
               ? HR_OK
               : hri_prose_set(why, HR_E_RANGE, "too many settings for a checkpoint");
}

/* What the values of the columns take, roughly. */
static size_t table_bytes(const hri_tabular *t) {
    size_t bytes = 0;
    for (size_t i = 0; t && i < t->input_count + t->target_count; i++) {
        const hri_column *c = i < t->input_count ? &t->inputs[i] : &t->targets[i - t->input_count];
        bytes += 128 + 6 * strlen(c->name);
        for (size_t k = 0; k < c->value_count; k++) {
            bytes += 3 + 2 * strlen(c->values[k]);
        }
    }
    return bytes;
}

hr_status hri_about_check(const hri_about *a, hri_prose *why) {
    size_t bytes = 0;
    if (table_bytes(a->table) > HRI_TENSORS_TEXT_MAX / 4) {
        return hri_prose_set(why, HR_E_RANGE,
                             "the names and values of the columns are too long for a checkpoint");
    }
    if (a->class_count > HRI_CHECKPOINT_CLASSES_MAX) {
        return hri_prose_set(why, HR_E_RANGE,
                             "%zu classes, more than the %d allowed in a checkpoint",
                             a->class_count, HRI_CHECKPOINT_CLASSES_MAX);
    }
    for (size_t i = 0; i < a->class_count; i++) {
        const size_t n = strlen(a->classes[i]);
        if (n > HRI_CHECKPOINT_NAME_MAX) {
            return hri_prose_set(why, HR_E_RANGE, "the name of class %zu is longer than %d bytes",
                                 i, HRI_CHECKPOINT_NAME_MAX);
        }
        for (const char *p = a->classes[i]; *p; p++) {
            bytes += (unsigned char)*p < 0x20 ? 6 : *p == '"' || *p == '\\' ? 2 : 1;
        }
        bytes += 3;
    }
    if (bytes > HRI_TENSORS_TEXT_MAX / 2) {
        return hri_prose_set(why, HR_E_RANGE,
                             "the names of %zu classes are too long for a checkpoint",
                             a->class_count);
    }
    if (a->graph && strlen(a->graph) > HRI_TENSORS_TEXT_MAX / 2) {
        return hri_prose_set(why, HR_E_RANGE,
                             "the model's graph is longer than the %d bytes that a "
                             "checkpoint holds",
                             HRI_TENSORS_TEXT_MAX / 2);
    }
    if (a->source && strlen(a->source) > HRI_CHECKPOINT_SOURCE_MAX) {
        return hri_prose_set(why, HR_E_RANGE,
                             "the data string is longer than the %d bytes allowed in a checkpoint",
                             HRI_CHECKPOINT_SOURCE_MAX);
    }
    if (a->passes && strlen(a->passes) > HRI_CHECKPOINT_NAME_MAX) {
        return hri_prose_set(why, HR_E_RANGE,
                             "the layers of `passes` are longer than the %d bytes allowed in a "
                             "checkpoint",
                             HRI_CHECKPOINT_NAME_MAX);
    }
    const hr_status status = check_facts(a->run, a->run_count, why);
    return status == HR_OK ? check_facts(a->environment, a->environment_count, why) : status;
}

/* ---- going on ---- */

static const char *value_of(const hri_fact *facts, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(facts[i].name, name)) {
            return facts[i].value;
        }
    }
    return NULL;
}

/* Are these two texts of one model?  Keys that came later are not said in texts of before. */
static int same_model(const char *a, const char *b) {
    hr_model *m = NULL;
    if (!strcmp(a, b)) {
        return 1;
    }
    if (hr_model_open(a, &m, NULL) != HR_OK) {
        return 0;
    }
    const int same = !strcmp(hr_model_text(m), b);
    hr_model_close(m);
    return same;
}

static hr_status differs(const hri_checkpoint *c, const char *name, const char *there,
                         const char *here, hri_prose *why) {
    if (!strcmp(name, HRI_FACT_DATA)) {
        return hri_prose_set(why, HR_E_INVALID,
                             "cannot resume: the data differs from the run's: its files, their "
                             "sizes or times, or the stages applied to them (the run used %.200s)",
                             c->about.source);
    }
    return hri_prose_set(why, HR_E_INVALID,
                         "cannot resume: the run used %s %.160s, this command has %.160s", name,
                         there ? there : "(nothing)", here ? here : "(nothing)");
}

hr_status hri_checkpoint_same(const hri_checkpoint *c, const hri_about *here, hri_prose *warning,
                              hri_prose *why) {
    const hri_about *a = &c->about;
    warning->text[0] = '\0';
    if (c->version == 1) {
        return hri_prose_set(why, HR_E_UNSUPPORTED,
                             "cannot resume: %s was written by version 0.1.0, whose results "
                             "differ; `init` loads its parameters",
                             c->path);
    }
    for (size_t i = 0; i < here->run_count; i++) {
        const hri_fact *f = &here->run[i];
        const char *there = value_of(a->run, a->run_count, f->name);
        const int model = there && !strcmp(f->name, HRI_FACT_MODEL) && same_model(there, f->value);
        if (!there || (!model && strcmp(there, f->value) != 0)) {
            return differs(c, f->name, there, f->value, why);
        }
    }
    for (size_t i = 0; i < a->run_count; i++) {
        if (!value_of(here->run, here->run_count, a->run[i].name)) {
            return differs(c, a->run[i].name, a->run[i].value, NULL, why);
        }
    }
    for (size_t i = 0; i < a->environment_count && !warning->text[0]; i++) {
        const hri_fact *f = &a->environment[i];
        const char *now = value_of(here->environment, here->environment_count, f->name);
        if (!now || strcmp(now, f->value) != 0) {
            hri_prose_set(warning, HR_OK,
                          "the run used the %s %.160s, this command has %.160s: results may differ "
                          "in the last bits",
                          f->name, f->value, now ? now : "(none)");
        }
    }
    return HR_OK;
}
