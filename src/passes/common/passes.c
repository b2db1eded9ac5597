/* Several passes, one after the other; see pass.h. */
#include <string.h>

#include "base/alloc.h"
#include "passes/common/pass.h"

hr_status hri_passes_parse(const char *text, hri_passes *out, hri_prose *why) {
    hri_passes made = {0};
    hr_status status = HR_OK;
    size_t count = text && *text ? 1 : 0;
    for (const char *at = count ? text : ""; *at; at++) {
        count += *at == ';';
    }
    made.of = count ? hri_calloc(count, sizeof *made.of) : NULL;
    if (count && !made.of) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of host memory for passes");
    }
    for (const char *at = text; made.count < count && status == HR_OK;) {
        hri_text one = {0};
        const size_t n = strcspn(at, ";");
        hri_text_bytes(&one, at, n);
        status = hri_text_status(&one);
        hri_prose inner = {""};
        if (status == HR_OK) {
            status = hri_pass_parse(hri_text_get(&one), &made.of[made.count], &inner);
        }
        if (status != HR_OK) {
            hri_prose_set(why, status, "%.*s: %s", (int)strcspn(hri_text_get(&one), ":"),
                          hri_text_get(&one), inner.text[0] ? inner.text : hr_status_text(status));
        }
        hri_text_deinit(&one);
        made.count += status == HR_OK;
        if (status == HR_OK && !made.of[made.count - 1].pass->by_user) {
            status = hri_prose_set(why, HR_E_INVALID, "%s is not a pass to ask for",
                                   made.of[made.count - 1].pass->name);
        }
        at += n + 1;
    }
    if (status != HR_OK) {
        hri_passes_deinit(&made);
        return status;
    }
    *out = made;
    return HR_OK;
}

void hri_passes_print(const hri_passes *p, hri_text *out) {
    for (size_t i = 0; i < p->count; i++) {
        hri_text_add(out, "%s", i ? ";" : "");
        hri_pass_print(&p->of[i], out);
    }
}

hr_status hri_passes_add_others(const char *text, const char *name, hri_text *out, hri_prose *why) {
    hri_passes all = {0};
    hr_status status = hri_passes_parse(text, &all, why);
    for (size_t i = 0, added = 0; i < all.count && status == HR_OK; i++) {
        if (strcmp(all.of[i].pass->name, name) != 0) {
            hri_text_add(out, "%s", added++ ? ";" : "");
            hri_pass_print(&all.of[i], out);
        }
    }
    hri_passes_deinit(&all);
    return status == HR_OK ? hri_text_status(out) : status;
}

const void *hri_passes_find(const hri_passes *p, const char *name) {
    for (size_t i = 0; i < p->count; i++) {
        if (!strcmp(p->of[i].pass->name, name)) {
            return p->of[i].bytes;
        }
    }
    return NULL;
}

hr_status hri_passes_apply(const hri_passes *p, int training, hr_graph **g) {
    hr_status status = HR_OK;
    for (size_t i = 0; i < p->count && status == HR_OK; i++) {
        hr_graph *to;
        hri_pass_map map = {0};
        const char *name = p->of[i].pass->name;
        if ((p->of[i].pass->training_only && !training) ||
            (p->without && !strcmp(name, p->without))) {
            continue;
        }
        if (p->of[i].pass->evaluation_only && training) {
            hri_graph_fail(*g, HR_E_UNSUPPORTED,
                           "%s: it is for evaluation; train the model that it was made from",
                           p->of[i].pass->name);
            return HR_E_UNSUPPORTED;
        }
        status = hr_graph_create(&to);
        if (status != HR_OK) {
            break;
        }
        to->keep_scores = (*g)->keep_scores;
        to->class_weights = (*g)->class_weights;
        to->class_weight_count = (*g)->class_weight_count;
        status = training ? hri_pass_apply(&p->of[i], *g, to, &map)
                          : hri_pass_apply_evaluate(&p->of[i], *g, to, &map);
        hri_pass_map_deinit(&map);
        hr_graph_destroy(*g);
        *g = to;
    }
    return status;
}

void hri_passes_deinit(hri_passes *p) {
    for (size_t i = 0; i < p->count; i++) {
        hri_pass_options_deinit(&p->of[i]);
    }
    hri_free(p->of);
    *p = (hri_passes){0};
}
