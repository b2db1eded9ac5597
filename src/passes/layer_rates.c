/* Learning rates of layers: what the schedule says, times a factor; and their weight decay, likewise.
 *
 *   layer-rates:rates=layer1=0.1+layer2=0.1+fc=10,decays=norm=0+bias=0
 *
 * Here it is only said which factor a parameter has, as a note on the graph (rates.h); the graph of a step multiplies.  A later
 * entry wins over an earlier one.  Decay that is decoupled (adamw, lion) goes with the rate of the layer, as in torch's groups; a
 * factor of the decay itself is for all that its pattern means, biases and norms too, and 0 is none. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "passes/common/pass.h"
#include "passes/common/pattern.h"
#include "passes/common/rates.h"

typedef struct rates_options {
    const char *rates, *decays;
} rates_options;

static const hri_field fields[] = {
    {"rates", "PATTERN=FACTOR, joined by +", offsetof(rates_options, rates), HRI_FIELD_STRING, ""},
    {"decays", "the same of the weight decay; 0: none", offsetof(rates_options, decays),
     HRI_FIELD_STRING, ""},
    {0}};

/* Both lists, and what their entries may be. */
static const struct list {
    size_t at;
    const char *note;
    int none; /* 1: a factor may be 0 */
} lists[] = {{offsetof(rates_options, rates), HRI_RATES_NOTE, 0},
             {offsetof(rates_options, decays), HRI_DECAYS_NOTE, 1}};

static const char *text_of(const void *options, const struct list *l) {
    const char *text = *(const char *const *)(const void *)((const char *)options + l->at);
    return text ? text : "";
}

enum { PATTERN = 200 };

/* The entry at *at: its pattern and factor; *at is behind it then. */
static hr_status read_entry(const struct list *l, const char **at, char pattern[PATTERN],
                            double *factor, hri_prose *why) {
    const size_t n = strcspn(*at, "+"), name = strcspn(*at, "=");
    char *end = NULL;
    hri_prose inner = {""};
    if (name >= n || name >= PATTERN) {
        return hri_prose_set(why, HR_E_INVALID, "\"%.*s\" is not PATTERN=FACTOR", (int)n, *at);
    }
    memcpy(pattern, *at, name);
    pattern[name] = '\0';
    const hr_status status = hri_pattern_check(pattern, &inner);
    if (status != HR_OK) {
        return hri_prose_set(why, status, "%s", inner.text);
    }
    *factor = hri_strtod(*at + name + 1, &end);
    if (end != *at + n || !(*factor >= 0) || !(*factor <= 1e6)) {
        return hri_prose_set(why, HR_E_INVALID, "the factor of \"%.*s\" is not from 0 to 1e6",
                             (int)n, *at);
    }
    if (*factor == 0 && !l->none) {
        return hri_prose_set(why, HR_E_INVALID,
                             "the factor of \"%.*s\" is not above 0 and up to 1e6; --freeze leaves "
                             "layers as they are",
                             (int)n, *at);
    }
    *at += n + ((*at)[n] == '+');
    return HR_OK;
}

static hr_status check(const void *options, hri_prose *why) {
    hr_status status = HR_OK; /* none at all is allowed */
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        for (const char *at = text_of(options, &lists[i]); *at && status == HR_OK;) {
            char pattern[PATTERN];
            double factor;
            status = read_entry(&lists[i], &at, pattern, &factor, why);
        }
    }
    return status;
}

/* One entry, for all parameters; returns how many it means. */
static size_t note_entry(const hr_graph *from, double *factors, const char *pattern,
                         double factor) {
    size_t count = 0;
    for (hr_value v = 1; v < from->value_count; v++) {
        if (from->values[v].kind == HR_VALUE_PARAM &&
            hri_pattern_has(pattern, from->values[v].name)) {
            factors[v] = factor;
            count++;
        }
    }
    return count;
}

/* A factor below 0 is that of a parameter that no entry means. */
static void write_notes(const hr_graph *from, const struct list *l, const double *factors,
                        hr_graph *to) {
    for (hr_value v = 1; v < from->value_count && to->error.code == HR_OK; v++) {
        char name[320], text[40];
        if (factors[v] >= 0 && (factors[v] != 1.0 || l->none)) {
            snprintf(name, sizeof name, "%s%s", from->values[v].name, l->note);
            hri_snprintf(text, sizeof text, "%.17g", factors[v]);
            hri_graph_note(to, name, text);
        }
    }
}

static hr_status apply_list(const struct list *l, const char *at, const hr_graph *from,
                            hr_graph *to) {
    double *factors = HRI_ARENA_ARRAY(&to->arena, double, from->value_count);
    hr_status status = factors ? HR_OK : HR_E_NOMEM_HOST;
    for (hr_value v = 0; factors && v < from->value_count; v++) {
        factors[v] = -1;
    }
    while (*at && status == HR_OK) {
        char pattern[PATTERN];
        double factor = 0;
        status = read_entry(l, &at, pattern, &factor, NULL);
        if (status == HR_OK && !note_entry(from, factors, pattern, factor)) {
            hri_graph_fail(to, HR_E_INVALID, "layer-rates: no layer matches %s", pattern);
            status = to->error.code;
        }
    }
    if (status == HR_OK) {
        write_notes(from, l, factors, to);
        status = to->error.code;
    }
    return status;
}

static hr_status apply(const void *given, const hr_graph *from, hr_graph *to, hri_pass_map *map) {
    hri_rewrite r = {.from = from, .to = to};
    hr_status status = hri_rewrite_graph(&r);
    for (size_t i = 0; i < sizeof lists / sizeof lists[0] && status == HR_OK; i++) {
        status = apply_list(&lists[i], text_of(given, &lists[i]), from, to);
    }
    *map = (hri_pass_map){.values = r.values, .value_count = from->value_count};
    return status;
}

const hri_pass hri_pass_layer_rates = {.name = "layer-rates",
                                       .help = "learning rates and weight decay of layers",
                                       .changes_result = 1,
                                       .by_user = 1,
                                       .training_only = 1,
                                       .fields = fields,
                                       .options_bytes = sizeof(rates_options),
                                       .check = check,
                                       .apply = apply};
