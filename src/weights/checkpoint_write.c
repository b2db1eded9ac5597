/* Writing a checkpoint: which tensors, in which order, and the JSON text beside them. */
#include "weights/checkpoint.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/graph.h"
#include "step/options.h"
#include "weights/checkpoint_table.h"

static int ends_with(const char *name, const char *end) {
    const size_t n = strlen(name), k = strlen(end);
    return n >= k && !strcmp(name + n - k, end);
}

hr_keep hri_keep_of(const hr_graph *g, hr_value v) {
    const hri_value *value = &g->values[v];
    const int persistent = value->node == HRI_NO_NODE &&
                           (value->kind == HR_VALUE_PARAM || value->kind == HR_VALUE_STATE);
    return persistent ? (hr_keep)hri_graph_tags(g, v)->keep : HR_KEEP_NOT;
}

hr_meta hri_file_meta(const hr_graph *g, hr_value v) {
    const hr_meta *meta = &g->values[v].meta;
    return (hr_meta){meta->type, hri_file_shape(&meta->shape, hri_graph_tags(g, v)->layout)};
}

uint64_t hri_checkpoint_bytes(const hr_graph *g, hri_checkpoint_part part) {
    uint64_t bytes = 0;
    for (hr_value v = 1; v < g->value_count; v++) {
        const hr_keep keep = hri_keep_of(g, v);
        if (keep == HR_KEEP_MODEL || (keep == HR_KEEP_OPTIMIZER && part == HRI_CHECKPOINT_WHOLE)) {
            bytes += hr_meta_bytes(&g->values[v].meta);
        }
    }
    return bytes;
}

/* ---- the tensors ---- */

typedef struct writing {
    const hri_checkpoint_write *w;
    hr_value *values;      /* HR_NONE: a count of steps, or the input's place */
    hri_tensor_plan *plan; /* beside them */
    size_t count;
    hri_arena names;
    hri_tensors_writer file;
    hri_prose *why;
} writing;

static hr_status add(writing *x, hr_value value, const char *before, const char *name,
                     int name_length, const char *behind, hr_meta meta) {
    char full[512];
    const int n = snprintf(full, sizeof full, "%s%.*s%s", before, name_length, name, behind);
    if (n < 0 || (size_t)n >= sizeof full) {
        return HR_E_RANGE;
    }
    char *kept = hri_arena_strdup(&x->names, full);
    if (!kept) {
        return HR_E_NOMEM_HOST;
    }
    x->values[x->count] = value;
    x->plan[x->count++] = (hri_tensor_plan){kept, meta};
    return HR_OK;
}

/* Values whose elements have `least` .. `most` bytes. */
static hr_status list_values(writing *x, uint64_t least, uint64_t most) {
    const hr_graph *g = x->w->g;
    hr_status status = HR_OK;
    for (hr_value v = 1; v < g->value_count && status == HR_OK; v++) {
        const hr_keep keep = hri_keep_of(g, v);
        const hri_value *value = &g->values[v];
        const uint64_t width = hr_type_bytes(value->meta.type);
        if (width >= least && width <= most &&
            (keep == HR_KEEP_MODEL || (keep == HR_KEEP_OPTIMIZER && x->w->progress))) {
            const hr_meta meta = hri_file_meta(g, v);
            status = add(x, v, keep == HR_KEEP_OPTIMIZER ? "optimizer/" : "", value->name,
                         (int)strlen(value->name), "", meta);
        }
    }
    return status;
}

/* Counts first (i64), then everything f32, then what is smaller, then the bytes: the widest first keeps all aligned. */
static hr_status list_tensors(writing *x) {
    const hr_graph *g = x->w->g;
    static const char mean[] = "running_mean";
    hr_status status = HR_OK;
    for (hr_value v = 1; v < g->value_count && status == HR_OK; v++) {
        const char *name = g->values[v].name;
        if (hri_keep_of(g, v) == HR_KEEP_MODEL && ends_with(name, mean)) {
            status = add(x, HR_NONE, "", name, (int)(strlen(name) - strlen(mean)),
                         "num_batches_tracked", (hr_meta){.type = HR_TYPE_I64});
        }
    }
    if (status == HR_OK) {
        status = list_values(x, 3, 8);
    }
    if (status == HR_OK) {
        status = list_values(x, 2, 2);
    }
    if (status == HR_OK) {
        status = list_values(x, 1, 1);
    }
    if (status == HR_OK && x->w->progress) {
        const hr_meta meta = {HR_TYPE_U8, hr_shape_1((int64_t)x->w->input_bytes)};
        status = add(x, HR_NONE, "headroom/input", "", 0, "", meta);
    }
    return status;
}

static hr_status write_tensors(writing *x) {
    const int64_t steps = (int64_t)(x->w->progress ? x->w->progress->state.updates
                                                   : x->w->updates); /* as torch counts batches */
    hr_status status = HR_OK;
    for (size_t i = 0; i < x->count && status == HR_OK; i++) {
        const hr_value v = x->values[i];
        const hr_meta *meta = v != HR_NONE ? &x->w->g->values[v].meta : &x->plan[i].meta;
        if (v != HR_NONE) {
            status = hri_tensor_save(&x->file, meta->type, x->w->from, v, meta,
                                     hri_graph_tags(x->w->g, v)->layout, x->why);
        } else if (meta->type == HR_TYPE_I64) {
            status = hri_tensors_write(&x->file, &steps, 1, HR_TYPE_I64, HR_TYPE_I64, x->why);
        } else if (x->w->input_bytes) {
            status = hri_tensors_write(&x->file, x->w->input, x->w->input_bytes, HR_TYPE_U8,
                                       HR_TYPE_U8, x->why);
        }
    }
    return status;
}

/* ---- the text ---- */

/* 64 bits as text: JSON numbers of other programs are doubles. */
static void put_bits(hri_json *j, const char *key, uint64_t bits) {
    char text[24];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)bits);
    hri_json_string(j, key, text);
}

static void put_real(hri_json *j, const char *key, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_bits(j, key, bits);
}

static void put_progress(hri_json *j, const hri_progress_state *p) {
    hri_json_object(j, "training");
    hri_json_u64(j, "step", p->state.step);
    hri_json_u64(j, "updates", p->state.updates);
    put_real(j, "scale", p->state.scale);
    hri_json_u64(j, "good", p->state.good);
    hri_json_u64(j, "skipped", p->state.skipped);
    if (p->state.reserved[0]) {
        put_real(j, "plateau", hri_step_plateau(&p->state));
    }
    hri_json_u64(j, "epoch", p->epoch);
    hri_json_u64(j, "epoch_step", p->epoch_step);
    hri_json_u64(j, "batch", p->batch);
    hri_json_u64(j, "seed", p->seed);
    hri_json_u64(j, "parts", p->parts);
    put_bits(j, "input_print", p->input_print);
    put_real(j, "loss_sum", p->loss_sum);
    put_real(j, "right_sum", p->right_sum);
    put_real(j, "top_sum", p->top_sum);
    hri_json_u64(j, "counted", p->counted);
    hri_json_u64(j, "samples", p->samples);
    put_bits(j, "digest", p->digest);
    put_real(j, "best", p->best);
    hri_json_u64(j, "best_epoch", p->best_epoch);
    hri_json_u64(j, "bad_epochs", p->bad_epochs);
    hri_json_u64(j, "seconds_ns", p->seconds_ns);
    hri_json_end(j);
}

static void put_numbers(hri_json *j, const char *key, const double *numbers, uint32_t count) {
    hri_json_array(j, key);
    for (uint32_t i = 0; i < count; i++) {
        hri_json_double(j, NULL, numbers[i]);
    }
    hri_json_end(j);
}

static void put_facts(hri_json *j, const char *key, const hri_fact *facts, size_t count) {
    hri_json_object(j, key);
    for (size_t i = 0; i < count; i++) {
        hri_json_string(j, facts[i].name, facts[i].value);
    }
    hri_json_end(j);
}

static void put_split(hri_json *j, const hri_split *s) {
    hri_json_object(j, "split");
    hri_json_double(j, "fraction", s->fraction);
    hri_json_u64(j, "seed", s->seed);
    hri_json_u64(j, "val_count", s->val_count);
    hri_json_u64(j, "train_count", s->train_count);
    hri_json_end(j);
}

static hr_status print_about(const hri_checkpoint_write *w, char **out) {
    const hri_about *a = w->about;
    hri_json j;
    hri_json_init(&j);
    hri_json_u64(&j, "version", 2);
    hri_json_string(&j, "model", a->model);
    hri_json_string(&j, "precision", a->precision);
    hri_json_string(&j, "source", a->source ? a->source : "");
    hri_json_string(&j, "input", a->input ? a->input : "image");
    if (a->table) {
        hri_checkpoint_put_table(&j, a->table);
    }
    if (a->loss.kind) {
        char loss[HRI_LOSS_TEXT];
        hri_json_string(&j, "loss", hri_loss_print(&a->loss, loss, sizeof loss));
    }
    if (a->passes) {
        hri_json_string(&j, "passes", a->passes);
    }
    if (a->pixels.channels) {
        hri_json_object(&j, "normalise");
        put_numbers(&j, "mean", a->pixels.mean, a->pixels.channels);
        put_numbers(&j, "std", a->pixels.std, a->pixels.channels);
        hri_json_end(&j);
    }
    if (a->classes) {
        hri_json_array(&j, "classes");
        for (size_t i = 0; i < a->class_count; i++) {
            hri_json_string(&j, NULL, a->classes[i]);
        }
        hri_json_end(&j);
    }
    if (a->split.val_count) {
        put_split(&j, &a->split);
    }
    if (w->progress) {
        put_facts(&j, "run", a->run, a->run_count);
        put_facts(&j, "environment", a->environment, a->environment_count);
        put_progress(&j, w->progress);
    }
    const hr_status status = hri_json_print(&j, 0, out);
    hri_json_deinit(&j);
    return status;
}

/* ---- all of it ---- */

static hr_status write_file(writing *x, const char *path, const char *about) {
    const char *graph = x->w->about->graph;
    const char *const metadata[] = {
        "format", "pt", "headroom", about, graph ? HRI_TENSORS_GRAPH : NULL, graph, NULL};
    hr_status status = hri_tensors_create(&x->file, path, x->plan, x->count, metadata, x->why);
    if (status != HR_OK) {
        return status;
    }
    status = write_tensors(x);
    if (status == HR_OK) {
        return hri_tensors_commit(&x->file, x->why);
    }
    hri_tensors_abandon(&x->file);
    return status;
}

hr_status hri_checkpoint_save(const char *path, const hri_checkpoint_write *w, hri_prose *why) {
    writing x = {.w = w, .file = {.file = {.fd = -1}}, .why = why};
    char *about = NULL;
    size_t room = 1; /* as few as there are: this memory is in the budget */
    for (hr_value v = 1; v < w->g->value_count; v++) {
        room += hri_keep_of(w->g, v) != HR_KEEP_NOT ? 1 : 0;
        room += ends_with(w->g->values[v].name ? w->g->values[v].name : "", "running_mean") ? 1 : 0;
    }
    x.values = hri_calloc(room, sizeof *x.values);
    x.plan = hri_calloc(room, sizeof *x.plan);
    hr_status status = x.values && x.plan ? list_tensors(&x) : HR_E_NOMEM_HOST;
    if (status == HR_OK) {
        status = print_about(w, &about);
    }
    if (status != HR_OK) {
        hri_prose_set(why, status, "%s: list of saved values: %s", path, hr_status_text(status));
    } else {
        status = write_file(&x, path, about);
    }
    hri_free(about);
    hri_free(x.values);
    hri_free(x.plan);
    hri_arena_deinit(&x.names);
    return status;
}
