/* A model's weights from and into safetensors files.
 *
 * Which tensors a file must hold is asked of the model itself: it is built once more, into a graph of its own, and the
 * persistent values of that graph are the list.  So moments and other states of training in the caller's graph are
 * left alone.  num_batches_tracked, a count that torch keeps with every batch norm, is no value of ours: loading looks
 * past it, saving writes the number of steps.
 *
 * Data goes through a buffer of a few KiB, so that loading takes no memory worth planning for. */
#include "models/common/model.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/grow.h"
#include "graph/graph.h"
#include "weights/tensor_move.h"

enum { PIECE = 1024 }; /* elements */

/* One tensor of the model. */
typedef struct entry {
    const char *name; /* of the list's graph */
    hr_value value;   /* in the caller's graph */
    hr_meta meta;     /* in memory, as the caller's graph has it */
    hr_value_kind kind;
    int32_t layout;           /* hr_layout */
    const hri_tensor *tensor; /* in the file, when loading */
} entry;

typedef struct list {
    hr_graph *graph;
    entry *entries;
    size_t count;
} list;

static void list_deinit(list *l) {
    hr_graph_destroy(l->graph);
    hri_free(l->entries);
}

static int is_weight(const hr_graph *g, hr_value v) {
    const hr_value_kind kind = hr_graph_kind(g, v);
    return kind == HR_VALUE_PARAM || kind == HR_VALUE_STATE;
}

/* The caller's value of that name, which must be the model's. */
static hr_status match(const hr_graph *g, entry *e, const hr_meta *wanted, hri_prose *why) {
    e->value = hr_graph_find(g, e->name);
    e->meta = hr_graph_meta(g, e->value);
    if (e->value == HR_NONE || !is_weight(g, e->value)) {
        return hri_prose_set(why, HR_E_INVALID, "the graph has no parameter %s", e->name);
    }
    if (!hr_shape_same(&e->meta.shape, &wanted->shape) || !hr_type_is_real(e->meta.type)) {
        char is[256], should[256];
        return hri_prose_set(why, HR_E_SHAPE, "%s is %s in the graph, but %s in the model", e->name,
                             hr_meta_print(&e->meta, is, sizeof is),
                             hr_meta_print(wanted, should, sizeof should));
    }
    return HR_OK;
}

static hr_status list_init(list *l, const hr_model *m, const hr_graph *g, hri_prose *why) {
    list made = {0};
    hr_status status = hr_graph_create(&made.graph);
    if (status == HR_OK) {
        status = hr_model_build((void *)(uintptr_t)m, made.graph, 1, 1);
    }
    const size_t values = status == HR_OK ? hr_graph_value_count(made.graph) : 0;
    if (status == HR_OK) {
        made.entries = hri_calloc(values + 1, sizeof *made.entries);
        status = made.entries ? HR_OK : HR_E_NOMEM_HOST;
    }
    if (status != HR_OK) {
        hri_prose_set(why, status, "the model cannot be listed: %s", hr_status_text(status));
    }
    for (hr_value v = 1; status == HR_OK && v <= values; v++) {
        /* A later version of a running statistic is the value of a node. */
        if (is_weight(made.graph, v)) {
            entry *e = &made.entries[made.count++];
            const hr_meta wanted = hr_graph_meta(made.graph, v);
            e->name = hr_graph_name(made.graph, v);
            e->kind = hr_graph_kind(made.graph, v);
            e->layout = hri_graph_tags(made.graph, v)->layout;
            status = match(g, e, &wanted, why);
        }
    }
    if (status != HR_OK) {
        list_deinit(&made);
        return status;
    }
    *l = made;
    return HR_OK;
}

static int ends_with(const char *name, const char *end) {
    const size_t n = strlen(name), k = strlen(end);
    return n >= k && !strcmp(name + n - k, end);
}

/* ---- loading ---- */

typedef struct loading {
    const hr_model *m;
    const hr_weights_options *o;
    list l;
    hri_tensors file;
    const char *prefix;
    hri_prose *why;
} loading;

static const hri_tensor *find_tensor(const loading *x, const char *name) {
    char full[512];
    snprintf(full, sizeof full, "%s%s", x->prefix, name);
    return hri_tensors_find(&x->file, full);
}

/* "(10, 512)" */
static const char *print_shape(const hr_shape *shape, char *buf, size_t size) {
    size_t used = (size_t)snprintf(buf, size, "(");
    for (int d = 0; d < shape->rank && used < size; d++) {
        used += (size_t)snprintf(buf + used, size - used, "%s%lld", d ? ", " : "",
                                 (long long)shape->dim[d]);
    }
    if (used < size) {
        snprintf(buf + used, size - used, ")");
    }
    return buf;
}

static hr_status check_missing(loading *x) {
    size_t missing = 0;
    const char *first = NULL;
    for (size_t i = 0; i < x->l.count; i++) {
        x->l.entries[i].tensor = find_tensor(x, x->l.entries[i].name);
        first = first || x->l.entries[i].tensor ? first : x->l.entries[i].name;
        missing += !x->l.entries[i].tensor;
    }
    if (!missing) {
        return HR_OK;
    }
    char more[64] = "";
    if (missing > 1) {
        snprintf(more, sizeof more, ", and so are %zu others of %zu", missing - 1, x->l.count);
    }
    return hri_prose_set(x->why, HR_E_NOT_FOUND, "%s: tensor %s is missing%s", x->file.path, first,
                         more);
}

static hr_status check_shapes(loading *x) {
    for (size_t i = 0; i < x->l.count; i++) {
        const entry *e = &x->l.entries[i];
        const hr_shape wanted = hri_file_shape(&e->meta.shape, e->layout);
        char is[256], should[256];
        if (!hr_shape_same(&wanted, &e->tensor->shape)) {
            return hri_prose_set(x->why, HR_E_SHAPE, "%s: tensor %s is %s, but %s expects %s",
                                 x->file.path, e->tensor->name,
                                 print_shape(&e->tensor->shape, is, sizeof is), hr_model_name(x->m),
                                 print_shape(&wanted, should, sizeof should));
        }
        if (!hri_tensor_can_be(e->tensor, e->meta.type)) {
            return hri_prose_set(
                x->why, HR_E_UNSUPPORTED, "%s: tensor %s is %s, which cannot be converted to %s",
                x->file.path, e->tensor->name, e->tensor->dtype, hr_type_name(e->meta.type));
        }
    }
    return HR_OK;
}

/* 1 when a tensor that is no weight of ours says nothing new. */
static int is_derived(const loading *x, const char *name) {
    static const char count[] = "num_batches_tracked";
    for (const char *const *d = x->m->derived; d && *d; d++) {
        if (ends_with(name, *d)) {
            return 1;
        }
    }
    if (!ends_with(name, count)) {
        return 0;
    }
    char mean[512];
    snprintf(mean, sizeof mean, "%.*srunning_mean", (int)(strlen(name) - strlen(count)), name);
    const hri_tensor *t = hri_tensors_find(&x->file, mean);
    for (size_t i = 0; t && i < x->l.count; i++) {
        if (x->l.entries[i].tensor == t) {
            return 1;
        }
    }
    return 0;
}

static hr_status check_extra(loading *x) {
    size_t extra = 0;
    const char *first = NULL;
    for (size_t i = 0; i < x->file.count; i++) {
        const char *name = x->file.items[i].name;
        const size_t skip = strlen(x->prefix);
        int known = 0;
        if (!strncmp(name, x->prefix, skip)) {
            const hr_value v = hr_graph_find(x->l.graph, name + skip);
            known = v != HR_NONE && is_weight(x->l.graph, v);
        }
        if (!known && !is_derived(x, name)) {
            first = first ? first : name;
            extra++;
        }
    }
    if (!extra) {
        return HR_OK;
    }
    char more[64] = "";
    if (extra > 1) {
        snprintf(more, sizeof more, ", nor are %zu others", extra - 1);
    }
    return hri_prose_set(x->why, HR_E_EXISTS, "%s: unexpected tensor %s (not in model %s%s)",
                         x->file.path, first, hr_model_text(x->m), more);
}

/* Calls `use` for the tensor's elements in pieces, as f32 or, for f32 weights, as they are. */
static hr_status read_pieces(loading *x, const entry *e,
                             hr_status (*use)(loading *x, const entry *e, int64_t first,
                                              const float *piece, int64_t n)) {
    const int64_t count = hr_shape_count(&e->meta.shape);
    float piece[PIECE];
    for (int64_t first = 0; first < count; first += PIECE) {
        const int64_t n = count - first < PIECE ? count - first : PIECE;
        hr_status status = hri_tensors_read(&x->file, e->tensor, (uint64_t)first, (uint64_t)n,
                                            HR_TYPE_F32, piece, x->why);
        if (status == HR_OK) {
            status = use(x, e, first, piece, n);
        }
        if (status != HR_OK) {
            return status;
        }
    }
    return HR_OK;
}

static hr_status check_finite(loading *x, const entry *e, int64_t first, const float *piece,
                              int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(piece[i])) {
            return hri_prose_set(x->why, HR_E_RANGE, "%s: tensor %s: element %lld is %s",
                                 x->file.path, e->tensor->name, (long long)(first + i),
                                 isnan(piece[i]) ? "not a number" : "infinite");
        }
    }
    return HR_OK;
}

static hr_status load_entry(loading *x, const entry *e) {
    const hri_values to = {
        .put = x->o->put, .user = x->o->user, .buffer_bytes = x->o->buffer_bytes};
    hri_prose reason = {""};
    const hr_status status =
        hri_tensor_load(&x->file, e->tensor, &to, e->value, &e->meta, e->layout, &reason);
    return status == HR_OK
               ? HR_OK
               : hri_prose_set(x->why, status, "%s: tensor %s: %s", x->file.path, e->tensor->name,
                               reason.text[0] ? reason.text : hr_status_text(status));
}

static hr_status load(loading *x) {
    hr_status status = HR_OK;
    const char *prefix = x->m->prefix;
    if (prefix && x->l.count && !find_tensor(x, x->l.entries[0].name)) {
        x->prefix = prefix;
        x->prefix = find_tensor(x, x->l.entries[0].name) ? prefix : "";
    }
    if ((status = check_missing(x)) != HR_OK || (status = check_extra(x)) != HR_OK ||
        (status = check_shapes(x)) != HR_OK) {
        return status;
    }
    for (size_t i = 0; x->o->check && status == HR_OK && i < x->l.count; i++) {
        status = read_pieces(x, &x->l.entries[i], check_finite);
    }
    for (size_t i = 0; status == HR_OK && i < x->l.count; i++) {
        status = load_entry(x, &x->l.entries[i]);
    }
    return status;
}

static hr_status take_options(hr_weights_options *own, const hr_weights_options *theirs,
                              hri_prose *why) {
    const hr_status status = hri_take(own, sizeof *own, theirs);
    return status == HR_OK ? HR_OK
                           : hri_prose_set(why, status, "hr_weights_options: %s",
                                           status == HR_E_INVALID
                                               ? "size is not set"
                                               : "an option that this version does not know");
}

hr_status hr_model_load(const hr_model *m, const hr_graph *g, const char *path,
                        const hr_weights_options *o, hr_error *why) {
    hri_prose prose = {""};
    hr_weights_options own;
    loading x = {.m = m, .o = &own, .file = {.fd = -1}, .prefix = "", .why = &prose};
    hr_status status = take_options(&own, o, &prose);
    if (status == HR_OK) {
        status = list_init(&x.l, m, g, &prose);
    }
    if (status == HR_OK) {
        status = hri_tensors_open(path, &x.file, &prose);
    }
    if (status == HR_OK) {
        status = load(&x);
    }
    list_deinit(&x.l);
    hri_tensors_close(&x.file);
    return status == HR_OK ? HR_OK : hri_model_fail(why, status, &prose);
}

/* ---- saving ---- */

typedef struct saving {
    const hr_weights_options *o;
    list l;
    hri_tensor_plan *plan; /* counts, then entries of f32, then the others */
    size_t *order;         /* of entries, as the plan has them */
    char **names;          /* of counts */
    size_t counts;
    hri_tensors_writer w;
    hri_prose *why;
} saving;

static void saving_deinit(saving *x) {
    for (size_t i = 0; x->names && i < x->counts; i++) {
        hri_free(x->names[i]);
    }
    hri_free(x->names);
    hri_free(x->order);
    hri_free(x->plan);
    list_deinit(&x->l);
}

static hr_type type_in_file(const saving *x, const entry *e) {
    return e->kind == HR_VALUE_PARAM ? x->o->type : HR_TYPE_F32;
}

/* A count for each batch norm: "bn1.num_batches_tracked" beside "bn1.running_mean". */
static hr_status plan_counts(saving *x) {
    static const char mean[] = "running_mean";
    for (size_t i = 0; i < x->l.count; i++) {
        const char *name = x->l.entries[i].name;
        if (x->l.entries[i].kind != HR_VALUE_STATE || !ends_with(name, mean)) {
            continue;
        }
        const size_t size = strlen(name) + 16;
        char *made = hri_malloc(size);
        if (!made) {
            return HR_E_NOMEM_HOST;
        }
        snprintf(made, size, "%.*snum_batches_tracked", (int)(strlen(name) - strlen(mean)), name);
        x->names[x->counts] = made;
        x->plan[x->counts++] = (hri_tensor_plan){made, {HR_TYPE_I64, {0}}};
    }
    return HR_OK;
}

static hr_status make_plan(saving *x) {
    x->plan = hri_calloc(x->l.count * 2 + 1, sizeof *x->plan);
    x->order = hri_calloc(x->l.count + 1, sizeof *x->order);
    x->names = hri_calloc(x->l.count + 1, sizeof *x->names);
    hr_status status = x->plan && x->order && x->names ? plan_counts(x) : HR_E_NOMEM_HOST;
    if (status != HR_OK) {
        return hri_prose_set(x->why, status, "out of memory to save the parameters");
    }
    size_t at = 0;
    for (int narrow = 0; narrow < 2; narrow++) {
        for (size_t i = 0; i < x->l.count; i++) {
            const entry *e = &x->l.entries[i];
            const hr_type type = type_in_file(x, e);
            if ((hr_type_bytes(type) < 4) == narrow) {
                x->order[at] = i;
                x->plan[x->counts + at++] =
                    (hri_tensor_plan){e->name, {type, hri_file_shape(&e->meta.shape, e->layout)}};
            }
        }
    }
    return HR_OK;
}

static hr_status save_entry(saving *x, const entry *e) {
    const hri_values from = {
        .get = x->o->get, .user = x->o->user, .buffer_bytes = x->o->buffer_bytes};
    return hri_tensor_save(&x->w, type_in_file(x, e), &from, e->value, &e->meta, e->layout, x->why);
}

static hr_status save(saving *x, const char *path) {
    static const char *const metadata[] = {"format", "pt",
                                           NULL}; /* what loaders of torch ask for */
    hr_status status = make_plan(x);
    if (status == HR_OK) {
        status = hri_tensors_create(&x->w, path, x->plan, x->counts + x->l.count, metadata, x->why);
    }
    const int64_t steps = (int64_t)x->o->steps;
    for (size_t i = 0; status == HR_OK && i < x->counts; i++) {
        status = hri_tensors_write(&x->w, &steps, 1, HR_TYPE_I64, HR_TYPE_I64, x->why);
    }
    for (size_t i = 0; status == HR_OK && i < x->l.count; i++) {
        status = save_entry(x, &x->l.entries[x->order[i]]);
    }
    if (status == HR_OK) {
        return hri_tensors_commit(&x->w, x->why);
    }
    hri_tensors_abandon(&x->w);
    return status;
}

hr_status hr_model_save(const hr_model *m, const hr_graph *g, const char *path,
                        const hr_weights_options *o, hr_error *why) {
    hri_prose prose = {""};
    hr_weights_options own;
    saving x = {.o = &own, .w = {.file = {.fd = -1}}, .why = &prose};
    hr_status status = take_options(&own, o, &prose);
    if (status == HR_OK && !hr_type_is_real((hr_type)own.type)) {
        status = hri_prose_set(&prose, HR_E_INVALID, "parameters cannot be saved as %s",
                               hr_type_name((hr_type)own.type));
    }
    if (status == HR_OK) {
        status = list_init(&x.l, m, g, &prose);
    }
    if (status == HR_OK) {
        status = save(&x, path);
    }
    saving_deinit(&x);
    return status == HR_OK ? HR_OK : hri_model_fail(why, status, &prose);
}
