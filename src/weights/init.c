/* See init.h. */
#include "weights/init.h"

#include <stdio.h>
#include <string.h>

#include "graph/graph.h"
#include "passes/common/lora.h"
#include "passes/common/qat.h"

/* The name itself, after what other programs put before it, or without what a class with a head has before it. */
static const hri_tensor *find_one(const hri_tensors *file, const char *name) {
    static const char *const prefixes[] = {"", "transformer.", "module.", "model."};
    static const char *const heads[] = {"bert.", "model."};
    char full[512];
    const hri_tensor *t = NULL;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0] && !t; i++) {
        snprintf(full, sizeof full, "%s%s", prefixes[i], name);
        t = hri_tensors_find(file, full);
    }
    for (size_t i = 0; i < sizeof heads / sizeof heads[0] && !t; i++) {
        const size_t n = strlen(heads[i]);
        t = !strncmp(name, heads[i], n) ? hri_tensors_find(file, name + n) : NULL;
    }
    return t;
}

const hri_tensor *hri_init_find(const hri_tensors *file, const char *name) {
    static const struct {
        const char *end, *other;
    } others[] = {{"LayerNorm.weight", "LayerNorm.gamma"},
                  {"LayerNorm.bias", "LayerNorm.beta"},
                  {"cls.predictions.bias", "cls.predictions.decoder.bias"},
                  {"lm_head.weight", "model.embed_tokens.weight"}};
    const hri_tensor *t = find_one(file, name);
    const size_t length = strlen(name);
    char full[512];
    for (size_t i = 0; i < sizeof others / sizeof others[0] && !t; i++) {
        const size_t n = strlen(others[i].end);
        if (length >= n && !strcmp(name + length - n, others[i].end)) {
            snprintf(full, sizeof full, "%.*s%s", (int)(length - n), name, others[i].other);
            t = find_one(file, full);
        }
    }
    return t;
}

/* Another number of classes, and nothing else: gives the file's; 0 when that is not the difference. */
static int64_t other_classes(const hr_shape *wanted, const hr_shape *is, int64_t classes) {
    int64_t found = 0;
    if (wanted->rank != is->rank) {
        return 0;
    }
    for (int d = 0; d < wanted->rank; d++) {
        if (wanted->dim[d] != is->dim[d]) {
            if (found || wanted->dim[d] != classes) {
                return 0;
            }
            found = is->dim[d];
        }
    }
    return found;
}

/* A file without a head (a backbone): the head has the number of classes and nothing of the file comes behind it. */
static int may_miss(const hr_shape *wanted, int64_t classes) {
    for (int d = 0; d < wanted->rank; d++) {
        if (wanted->dim[d] == classes) {
            return 1;
        }
    }
    return 0;
}

/* One of those that other classes of the same model do not have. */
static int is_head(const char *name, const char *const *heads) {
    for (; heads && *heads; heads++) {
        if (!strncmp(name, *heads, strlen(*heads))) {
            return 1;
        }
    }
    return 0;
}

static hr_status missing(const hri_tensors *file, const char *name, hri_prose *why) {
    return hri_prose_set(why, HR_E_NOT_FOUND,
                         "%s: tensor %s is missing; the file belongs to another model", file->path,
                         name);
}

static hr_status check(const hri_tensors *file, const hri_value *value, const hr_meta *in_file,
                       int64_t classes, const char *const *heads, hri_init_report *report,
                       hri_prose *why) {
    const hri_tensor *t = hri_init_find(file, value->name);
    const hr_meta wanted = *in_file;
    const int head = is_head(value->name, heads);
    char a[256], b[256];
    if (!t && (!report->loaded || (!head && !may_miss(&wanted.shape, classes)))) {
        return missing(file, value->name, why);
    }
    if (!t) {
        if (!report->missing++) {
            snprintf(report->head, sizeof report->head, "%s", value->name);
        }
        return HR_OK;
    }
    if (report->missing && !head) {
        return missing(file, report->head, why);
    }
    if (!hri_tensor_can_be(t, wanted.type)) {
        return hri_prose_set(why, HR_E_UNSUPPORTED,
                             "%s: tensor %s is %s, which cannot be "
                             "converted to %s",
                             file->path, value->name, t->dtype, hr_type_name(wanted.type));
    }
    if (hr_shape_same(&wanted.shape, &t->shape)) {
        report->loaded++;
        return HR_OK;
    }
    const int64_t there = other_classes(&wanted.shape, &t->shape, classes);
    if (!there) {
        const hr_meta is = {wanted.type, t->shape};
        return hri_prose_set(why, HR_E_SHAPE,
                             "%s: tensor %s is %s in the file, but %s in the "
                             "model",
                             file->path, value->name, hr_meta_print(&is, a, sizeof a),
                             hr_meta_print(&wanted, b, sizeof b));
    }
    if (!report->replaced++) {
        snprintf(report->head, sizeof report->head, "%s", value->name);
        report->file_classes = there;
    }
    return HR_OK;
}

static hr_status load(const hri_tensors *file, const hr_graph *g, const hri_values *to,
                      int64_t classes, const char *const *heads, hri_init_report *report,
                      hri_prose *why) {
    hr_status status = HR_OK;
    for (hr_value v = 1; v < g->value_count && status == HR_OK; v++) {
        const int absent = (hri_lora_is_adapter(g, v) || hri_qat_is_range(g, v)) &&
                           !hri_init_find(file, g->values[v].name);
        if (hri_keep_of(g, v) == HR_KEEP_MODEL && !absent) {
            const hr_meta in_file = hri_file_meta(g, v);
            status = check(file, &g->values[v], &in_file, classes, heads, report, why);
        }
    }
    for (hr_value v = 1; v < g->value_count && status == HR_OK; v++) {
        const hri_tensor *t =
            hri_keep_of(g, v) == HR_KEEP_MODEL ? hri_init_find(file, g->values[v].name) : NULL;
        const hr_meta wanted = hri_file_meta(g, v);
        if (t && hr_shape_same(&wanted.shape, &t->shape)) {
            status = hri_tensor_load(file, t, to, v, &g->values[v].meta,
                                     hri_graph_tags(g, v)->layout, why);
        }
    }
    return status;
}

hr_status hri_init_load(const char *path, const hr_graph *g, const hri_values *to, int64_t classes,
                        const char *const *heads, hri_init_report *out, hri_prose *why) {
    hri_tensors file = {.fd = -1};
    hri_init_report report = {0};
    hr_status status = hri_tensors_open(path, &file, why);
    if (status != HR_OK) {
        return status;
    }
    status = load(&file, g, to, classes, heads, &report, why);
    hri_tensors_close(&file);
    if (status == HR_OK) {
        *out = report;
    }
    return status;
}
