/* Freezing: parameters of some layers stay as they are while the others are trained.
 *
 * A frozen parameter has no gradient, no optimizer state and no accumulator, in the plan as in memory; where nothing below a
 * layer is trained, nothing is computed backwards there and its activations are not kept.  The function is that of the
 * model: batch norm takes the statistics of the batch and moves its running ones, as torch does where requires_grad is off. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "passes/common/pass.h"
#include "passes/common/pattern.h"

typedef struct freeze_options {
    const char *layers, *except; /* pattern.h; except NULL: none */
} freeze_options;

#define AT(FIELD) offsetof(freeze_options, FIELD)

static const hri_field fields[] = {
    {"layers", "layers that are not trained: names joined by +, * for any letters", AT(layers),
     HRI_FIELD_STRING, "*"},
    {"except", "layers of them that are trained all the same", AT(except), HRI_FIELD_STRING, NULL},
    {0}};

static hr_status check(const void *options, hri_prose *why) {
    const freeze_options *o = options;
    hri_prose inner = {""};
    hr_status status = hri_pattern_check(o->layers ? o->layers : "", &inner);
    if (status != HR_OK) {
        return hri_prose_set(why, status, "layers: %s", inner.text);
    }
    status = o->except ? hri_pattern_check(o->except, &inner) : HR_OK;
    return status == HR_OK ? HR_OK : hri_prose_set(why, status, "except: %s", inner.text);
}

static int is_meant(const freeze_options *o, const hri_value *v) {
    return v->kind == HR_VALUE_PARAM && hri_pattern_has(o->layers, v->name) &&
           !(o->except && hri_pattern_has(o->except, v->name));
}

/* Which names there are: what stands before the first dot of some parameters. */
static void name_some(const hr_graph *g, char *out, size_t size) {
    size_t used = 0, count = 0, last = 0;
    const char *before = "";
    for (hr_value v = 1; v < g->value_count; v++) {
        const char *name = g->values[v].name;
        const size_t n = g->values[v].kind == HR_VALUE_PARAM ? strcspn(name, ".") : 0;
        if (!n || (n == last && !strncmp(name, before, n))) {
            continue;
        }
        if (count++ < 4 && used < size) {
            used +=
                (size_t)snprintf(out + used, size - used, "%s%.*s", used ? ", " : "", (int)n, name);
        }
        before = name;
        last = n;
    }
    if (count > 4 && used < size) {
        snprintf(out + used, size - used, ", ...");
    }
}

static hr_status apply(const void *given, const hr_graph *from, hr_graph *to, hri_pass_map *map) {
    const freeze_options *o = given;
    hri_rewrite r = {.from = from, .to = to};
    size_t frozen = 0, all = 0;
    hr_status status = hri_rewrite_graph(&r);
    for (hr_value v = 1; v < from->value_count && status == HR_OK; v++) {
        const hri_value *value = &from->values[v];
        all += value->kind == HR_VALUE_PARAM;
        if (is_meant(o, value) && r.values[v] != HR_NONE) {
            hr_tags tags = *hri_graph_tags(to, r.values[v]);
            tags.size = sizeof tags;
            tags.frozen = 1;
            hr_graph_set_tags(to, r.values[v], &tags);
            frozen++;
            status = to->error.code;
        }
    }
    if (status == HR_OK && (!frozen || frozen == all)) {
        char names[160] = "";
        name_some(from, names, sizeof names);
        hri_graph_fail(to, HR_E_INVALID, "freeze: %s %s%s%s; there are %s",
                       frozen ? "nothing is left to train with" : "no layer matches", o->layers,
                       o->except ? ",except=" : "", o->except ? o->except : "", names);
        status = to->error.code;
    }
    *map = (hri_pass_map){.values = r.values, .value_count = from->value_count};
    return status;
}

const hri_pass hri_pass_freeze = {.name = "freeze",
                                  .help = "some layers are not trained",
                                  .changes_result = 1,
                                  .by_user = 1,
                                  .fields = fields,
                                  .options_bytes = sizeof(freeze_options),
                                  .check = check,
                                  .apply = apply};
