/* See predict.h. */
#include "show/predict.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "base/visible.h"

/* What it is called: the path as it was given, or its number. */
static hr_status name_of(const hri_given *given, const hr_prediction *p, hri_text *out) {
    if (given->only) {
        hri_text_add(out, "%s", given->only);
    } else if (p->name) {
        hri_text_add(out, "%s%s", given->prefix, p->name);
    } else {
        hri_text_add(out, "%llu", (unsigned long long)p->index);
    }
    return hri_text_status(out);
}

/* A field of CSV: in quotes where it must be, as RFC 4180 has it; what does not print is shown as \xNN. */
static bool put_csv(hri_out *out, const char *text) {
    const size_t size = 4 * strlen(text) + 1;
    char *shown = hri_malloc(size);
    if (!shown) {
        return false;
    }
    const char *quote = strpbrk(hri_visible(text, shown, size), ",\"") ? "\"" : "";
    hri_out_text(out, quote);
    for (const char *p = shown; *p; p++) {
        hri_out_bytes(out, "\"", *p == '"');
        hri_out_bytes(out, p, 1);
    }
    hri_out_text(out, quote);
    hri_free(shown);
    return true;
}

/* One column per label, instead of the most likely ones: they do not exclude one another. */
static bool shows_each(const hri_prediction_sheet *s) {
    return s->infer.info->multi_label && s->top == 1 && !s->masks;
}

void hri_prediction_csv_head(const hri_prediction_sheet *s, hri_out *out) {
    const hr_infer_info *info = s->infer.info;
    (void)put_csv(out, info->key ? info->key : "path"); /* without memory the first row says so */
    hri_out_text(out, s->masks                              ? ",mask,overlay"
                      : info->output_count || shows_each(s) ? ""
                                                            : ",class,probability");
    for (uint64_t k = 0; s->masks && k < s->masks->classes; k++) {
        char buf[32];
        hri_out_text(out, ",");
        (void)put_csv(out, hri_infer_class(&s->infer, (int64_t)k, buf, sizeof buf));
    }
    for (uint64_t k = 0; k < info->output_count; k++) {
        const char *name = hr_predictor_class_name(s->infer.predictor, k);
        hri_out_text(out, ",");
        (void)put_csv(out, name ? name : "value");
    }
    for (uint64_t k = 0; shows_each(s) && k < info->class_count; k++) {
        char buf[32];
        hri_out_text(out, ",");
        (void)put_csv(out, hri_infer_class(&s->infer, (int64_t)k, buf, sizeof buf));
    }
    for (int64_t k = 2; k <= s->top; k++) {
        hri_out_printf(out, ",class_%lld,probability_%lld", (long long)k, (long long)k);
    }
    hri_out_text(out, "\n");
}

hr_status hri_prediction_csv(const hri_prediction_sheet *s, const hr_prediction *p, hri_out *out) {
    hri_text name = {0};
    bool whole = name_of(s->given, p, &name) == HR_OK && put_csv(out, hri_text_get(&name));
    hri_text_deinit(&name);
    if (whole && s->masks) {
        hri_out_text(out, ",");
        whole = put_csv(out, s->masks->name);
        hri_out_text(out, ",");
        whole = whole && put_csv(out, s->masks->overlay);
    }
    for (uint64_t k = 0; s->masks && k < s->masks->classes; k++) {
        hri_out_printf(out, ",%.6f", s->masks->shares[k]);
    }
    for (uint64_t k = 0; k < s->infer.info->output_count; k++) {
        hri_out_printf(out, ",%.9g", (double)p->output[k]);
    }
    for (uint64_t k = 0; shows_each(s) && k < p->class_count; k++) {
        hri_out_printf(out, ",%.6f", p->probabilities[k]);
    }
    for (int64_t k = 0; k < s->top && !shows_each(s) && whole; k++) {
        char buf[32];
        hri_out_text(out, ",");
        whole = put_csv(out, hri_infer_class(&s->infer, p->order[k], buf, sizeof buf));
        hri_out_printf(out, ",%.6f", p->probabilities[p->order[k]]);
    }
    hri_out_text(out, "\n");
    return whole ? HR_OK : HR_E_NOMEM_HOST;
}

static void add_json(const hri_prediction_sheet *s, const char *name, const hr_prediction *p,
                     hri_json *j) {
    hri_json_string(j, "path", name);
    if (s->masks) {
        hri_json_string(j, "mask", s->masks->name);
        hri_json_string(j, "overlay", s->masks->overlay[0] ? s->masks->overlay : NULL);
    }
    hri_json_array(j, s->infer.info->output_count ? "values" : "classes");
    for (uint64_t k = 0; k < s->infer.info->output_count; k++) {
        hri_json_double(j, NULL, (double)p->output[k]);
    }
    for (uint64_t k = 0; s->masks && k < s->masks->classes; k++) {
        char buf[32];
        hri_json_object(j, NULL);
        hri_json_string(j, "name", hri_infer_class(&s->infer, (int64_t)k, buf, sizeof buf));
        hri_json_double(j, "share", s->masks->shares[k]);
        hri_json_end(j);
    }
    const int64_t shown = shows_each(s) ? (int64_t)p->class_count : s->top;
    for (int64_t k = 0; k < shown; k++) {
        char buf[32];
        hri_json_object(j, NULL);
        hri_json_string(j, "name", hri_infer_class(&s->infer, p->order[k], buf, sizeof buf));
        hri_json_double(j, "probability", p->probabilities[p->order[k]]);
        hri_json_end(j);
    }
    hri_json_end(j);
}

hr_status hri_prediction_json(const hri_prediction_sheet *s, const hr_prediction *p, hri_out *out) {
    hri_text name = {0};
    hri_json j;
    char *text = NULL;
    hri_json_init(&j);
    hr_status status = name_of(s->given, p, &name);
    if (status == HR_OK) {
        add_json(s, hri_text_get(&name), p, &j);
        status = hri_json_print(&j, 0, &text);
    }
    hri_json_deinit(&j);
    hri_text_deinit(&name);
    if (status == HR_OK) {
        hri_out_printf(out, "%s\n    ", p->index ? "," : "");
        hri_out_text(out, text);
        hri_free(text);
    }
    return status;
}

hr_status hri_prediction_json_head(const hri_prediction_sheet *s, hri_json *j, hri_out *out) {
    char *text;
    hri_json_u64(j, "version", 1);
    hri_json_string(j, "model", s->infer.info->model);
    hri_json_string(j, "checkpoint", s->infer.info->checkpoint);
    const hr_status status = hri_json_print(j, 2, &text);
    if (status == HR_OK) {
        text[strlen(text) - 2] = '\0'; /* without the newline and the bracket */
        hri_out_text(out, text);
        hri_out_text(out, ",\n  \"predictions\": [");
        hri_free(text);
    }
    return status;
}

hr_status hri_prediction_json_tail(hri_json *j, hri_out *out) {
    char *text;
    const hr_status status = hri_json_print(j, 2, &text);
    if (status == HR_OK) {
        hri_out_text(out, "\n  ],");
        hri_out_text(out, text + 1);
        hri_out_text(out, "\n");
        hri_free(text);
    }
    return status;
}
