/* Reading a checkpoint: the text beside the tensors, and the tensors into a graph. */
#include "weights/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "graph/graph.h"
#include "weights/init.h"

/* ---- opening ---- */

/* The file that is meant: a folder's best weights, else its last. */
static hr_status find_file(const char *path, char **out) {
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        *out = hri_strdup(path);
        return *out ? HR_OK : HR_E_NOMEM_HOST;
    }
    hr_status status = hri_path_join(path, HRI_CHECKPOINT_BEST, out);
    if (status == HR_OK && !hri_file_exists(*out)) {
        hri_free(*out);
        *out = NULL;
        status = hri_path_join(path, HRI_CHECKPOINT_LAST, out);
    }
    return status;
}

hr_status hri_checkpoint_open(const char *path, hri_checkpoint *out, hri_prose *why) {
    hri_checkpoint c = {.file = {.fd = -1}};
    hri_prose reason = {""};
    hr_status status = find_file(path, &c.path);
    if (status == HR_OK) {
        status = hri_tensors_open(c.path, &c.file, why);
    }
    const char *text = status == HR_OK ? hri_tensors_metadata(&c.file, "headroom") : NULL;
    if (status == HR_OK && !text) {
        status = hri_prose_set(why, HR_E_FORMAT,
                               "%s: it has parameters, but is not a Headroom checkpoint", c.path);
    } else if (status == HR_OK) {
        status = hri_checkpoint_read_text(&c, text, &reason);
        if (status != HR_OK) {
            hri_prose_set(why, status == HR_E_NOT_FOUND ? HR_E_FORMAT : status,
                          "%s: a damaged checkpoint: %s", c.path,
                          reason.text[0] ? reason.text : hr_status_text(status));
            status = status == HR_E_NOT_FOUND ? HR_E_FORMAT : status;
        }
    }
    if (status != HR_OK) {
        hri_checkpoint_close(&c);
        return status;
    }
    c.about.graph = hri_tensors_metadata(&c.file, HRI_TENSORS_GRAPH);
    *out = c;
    return HR_OK;
}

hr_status hri_checkpoint_model(const hri_checkpoint *c, hr_model **out, hri_prose *why) {
    hr_error error = {.code = HR_OK};
    const char *graph = c->about.graph;
    const hr_status status = graph ? hr_model_parse(graph, strlen(graph), out, &error)
                                   : hr_model_open(c->about.model, out, &error);
    return status == HR_OK
               ? HR_OK
               : hri_prose_set(why, status, "%s",
                               error.message[0] ? error.message : hr_status_text(status));
}

void hri_checkpoint_close(hri_checkpoint *c) {
    if (c->path) {
        hri_tensors_close(&c->file);
    }
    hri_arena_deinit(&c->texts);
    hri_tabular_close(c->table);
    hri_free(c->path);
    *c = (hri_checkpoint){.file = {.fd = -1}};
}

/* ---- loading ---- */

static const hri_tensor *find_tensor(const hri_checkpoint *c, const hr_graph *g, hr_value v) {
    char full[512];
    snprintf(full, sizeof full, "%s%s", hri_keep_of(g, v) == HR_KEEP_OPTIMIZER ? "optimizer/" : "",
             g->values[v].name);
    return c->plain ? hri_init_find(&c->file, full) : hri_tensors_find(&c->file, full);
}

static int is_wanted(const hr_graph *g, hr_value v, hri_checkpoint_part part) {
    const hr_keep keep = hri_keep_of(g, v);
    return keep == HR_KEEP_MODEL || (keep == HR_KEEP_OPTIMIZER && part == HRI_CHECKPOINT_WHOLE);
}

static hr_status check(const hri_checkpoint *c, const hr_graph *g, hr_value v, hri_prose *why) {
    const hri_value *value = &g->values[v];
    const hri_tensor *t = find_tensor(c, g, v);
    if (!t) {
        return hri_prose_set(why, HR_E_NOT_FOUND, "%s: %s is missing; this is %s %s", c->path,
                             value->name, c->plain ? "not a file of" : "a checkpoint of",
                             c->about.model);
    }
    const hr_meta wanted = hri_file_meta(g, v);
    const hr_meta is = {wanted.type, t->shape};
    char a[256], b[256];
    if (!hr_shape_same(&is.shape, &wanted.shape) || !hri_tensor_can_be(t, wanted.type)) {
        return hri_prose_set(why, HR_E_SHAPE, "%s: %s is %s %s in the file, but %s here", c->path,
                             value->name, t->dtype, hr_meta_print(&is, a, sizeof a),
                             hr_meta_print(&wanted, b, sizeof b));
    }
    return HR_OK;
}

hr_status hri_checkpoint_load(const hri_checkpoint *c, const hr_graph *g, const hri_values *to,
                              hri_checkpoint_part part, hri_prose *why) {
    hr_status status = HR_OK;
    if (part == HRI_CHECKPOINT_WHOLE && !c->whole) {
        return hri_prose_set(why, HR_E_INVALID,
                             "%s: it has parameters only, so training cannot resume from it",
                             c->path);
    }
    for (hr_value v = 1; v < g->value_count && status == HR_OK; v++) {
        status = is_wanted(g, v, part) ? check(c, g, v, why) : HR_OK;
    }
    for (hr_value v = 1; v < g->value_count && status == HR_OK; v++) {
        if (is_wanted(g, v, part)) {
            status = hri_tensor_load(&c->file, find_tensor(c, g, v), to, v, &g->values[v].meta,
                                     hri_graph_tags(g, v)->layout, why);
        }
    }
    return status;
}

hr_status hri_checkpoint_input(const hri_checkpoint *c, void **out, size_t *out_bytes,
                               hri_prose *why) {
    const hri_tensor *t = hri_tensors_find(&c->file, "headroom/input");
    if (!t || t->shape.rank != 1 || !hri_tensor_can_be(t, HR_TYPE_U8)) {
        return hri_prose_set(why, HR_E_FORMAT, "%s: the position in the input data is missing",
                             c->path);
    }
    const uint64_t bytes = t->end - t->begin;
    void *data = hri_malloc((size_t)bytes + 1);
    if (!data) {
        return hri_prose_set(why, HR_E_NOMEM_HOST,
                             "%s: out of memory for the position in the "
                             "input data",
                             c->path);
    }
    const hr_status status = hri_tensors_read(&c->file, t, 0, bytes, HR_TYPE_U8, data, why);
    if (status != HR_OK) {
        hri_free(data);
        return status;
    }
    *out = data;
    *out_bytes = (size_t)bytes;
    return HR_OK;
}

uint64_t hri_checkpoint_updates(const hri_checkpoint *c) {
    static const char end[] = "num_batches_tracked";
    int64_t found = (int64_t)c->progress.state.updates;
    for (size_t i = 0; i < c->file.count; i++) {
        const hri_tensor *t = &c->file.items[i];
        const size_t n = strlen(t->name), k = sizeof end - 1;
        if (n > k && !strcmp(t->name + n - k, end) && hri_tensor_can_be(t, HR_TYPE_I64) &&
            hri_tensors_read(&c->file, t, 0, 1, HR_TYPE_I64, &found, NULL) == HR_OK) {
            break;
        }
    }
    return found > 0 ? (uint64_t)found : 0;
}
