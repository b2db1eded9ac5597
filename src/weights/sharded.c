/* The index of a model in several safetensors files:
 *
 *   {"metadata": {"total_size": 1234}, "weight_map": {"fc.weight": "model-00001-of-00002.safetensors", ...}}
 *
 * The files lie beside the index; a name with a '/' in it is refused, so an index leads nowhere else.  Every tensor of the index
 * must be in the file that it names, and no other tensor may be there.  The files stay open; an hri_tensor says which one is
 * its own. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json_stream.h"
#include "base/vector.h"
#include "weights/tensors_int.h"

enum { SHARDS_MAX = 1024, INDEX_MAX = 64 << 20 };

typedef struct placed {
    const char *name;
    uint32_t file;
} placed;

HRI_VECTOR(placed_list, placed)
HRI_VECTOR(text_list, const char *)

typedef struct reading {
    const char *path;
    hri_json_stream *s;
    hri_arena texts;
    placed_list map;
    text_list files;
    hri_tensors t;
    hri_prose *why;
} reading;

static hr_status no_memory(const reading *r) {
    return hri_prose_set(r->why, HR_E_NOMEM_HOST, "%s: out of memory for the index", r->path);
}

static hr_status wrong(const reading *r, const char *what) {
    return hri_prose_set(r->why, HR_E_FORMAT, "%s: %s", r->path, what);
}

static hr_status next(reading *r, hri_json_token *out) {
    hri_prose inner = {""};
    const hr_status status = hri_json_stream_next(r->s, out, &inner);
    return status == HR_OK ? HR_OK : hri_prose_set(r->why, status, "%s: %s", r->path, inner.text);
}

/* The number of a file, which comes into the list when it is new. */
static hr_status find_file(reading *r, const char *name, uint32_t *out) {
    for (size_t i = r->files.count; i-- > 0;) { /* neighbours mostly lie in one file */
        if (!strcmp(r->files.items[i], name)) {
            *out = (uint32_t)i;
            return HR_OK;
        }
    }
    const size_t n = strlen(name);
    if (n > 5 && !strcmp(name + n - 5, ".json")) {
        return hri_prose_set(r->why, HR_E_FORMAT, "%s: %.80s: an index names an index", r->path,
                             name);
    }
    if (!n || strchr(name, '/')) {
        return hri_prose_set(r->why, HR_E_FORMAT,
                             "%s: %.80s is not a file in the directory of the index", r->path,
                             n ? name : "\"\"");
    }
    if (r->files.count == SHARDS_MAX) {
        return hri_prose_set(r->why, HR_E_RANGE, "%s: more than %d files", r->path, SHARDS_MAX);
    }
    *out = (uint32_t)r->files.count;
    const char *copy = hri_arena_strdup(&r->texts, name);
    return copy && text_list_push(&r->files, copy) == HR_OK ? HR_OK : no_memory(r);
}

static hr_status read_map(reading *r, const hri_json_token *first) {
    hri_json_token token = *first;
    hr_status status = HR_OK;
    if (token.kind != HRI_JSON_OBJECT || r->map.count) {
        return wrong(r, "weight_map is not one object");
    }
    while ((status = next(r, &token)) == HR_OK && token.kind != HRI_JSON_OBJECT_END) {
        placed p = {0};
        if (token.kind != HRI_JSON_STRING || token.cut || token.nul) {
            return hri_prose_set(r->why, HR_E_FORMAT,
                                 "%s: weight_map: %.80s is not the name of a file", r->path,
                                 token.key);
        }
        if (r->map.count == HRI_TENSORS_COUNT_MAX) {
            return hri_prose_set(r->why, HR_E_RANGE, "%s: more than %d tensors", r->path,
                                 HRI_TENSORS_COUNT_MAX);
        }
        p.name = hri_arena_strdup(&r->texts, token.key);
        status = p.name ? find_file(r, token.text, &p.file) : no_memory(r);
        if (status == HR_OK && placed_list_push(&r->map, p) != HR_OK) {
            status = no_memory(r);
        }
        if (status != HR_OK) {
            return status;
        }
    }
    return status;
}

static hr_status read_index(reading *r) {
    hri_json_token token;
    hr_status status = next(r, &token);
    if (status == HR_OK && token.kind != HRI_JSON_OBJECT) {
        return wrong(r, "the index is not an object");
    }
    while (status == HR_OK && (status = next(r, &token)) == HR_OK &&
           token.kind != HRI_JSON_OBJECT_END) {
        if (!strcmp(token.key, "weight_map")) {
            status = read_map(r, &token);
        } else {
            hri_prose inner = {""};
            status = hri_json_stream_skip(r->s, &token, &inner);
            if (status != HR_OK) {
                return hri_prose_set(r->why, status, "%s: %s", r->path, inner.text);
            }
        }
    }
    if (status == HR_OK) {
        status = next(r, &token); /* nothing may stand behind */
    }
    return status == HR_OK && !r->map.count ? wrong(r, "not an index of safetensors files: it has "
                                                       "no weight_map")
                                            : status;
}

/* ---- the files ---- */

static hr_status open_files(reading *r) {
    const char *name = hri_path_name(r->path);
    const size_t folder = (size_t)(name - r->path);
    r->t.parts = hri_calloc(r->files.count, sizeof *r->t.parts);
    if (!r->t.parts) {
        return no_memory(r);
    }
    for (size_t i = 0; i < r->files.count; i++) {
        char *path = hri_arena_printf(&r->texts, "%.*s%s", (int)folder, r->path, r->files.items[i]);
        if (!path) {
            return no_memory(r);
        }
        hri_tensors part = {.fd = -1};
        const hr_status status = hri_tensors_open(path, &part, r->why);
        if (status != HR_OK) {
            return status;
        }
        r->t.parts[r->t.part_count++] = part;
    }
    return HR_OK;
}

static hr_status take_tensors(reading *r) {
    size_t count = 0;
    for (size_t i = 0; i < r->t.part_count; i++) {
        count += r->t.parts[i].count;
    }
    r->t.items = hri_calloc(r->map.count + 1, sizeof *r->t.items);
    if (!r->t.items) {
        return no_memory(r);
    }
    for (size_t i = 0; i < r->map.count; i++) {
        const placed *p = &r->map.items[i];
        const hri_tensor *found = hri_tensors_find(&r->t.parts[p->file], p->name);
        if (!found) {
            return hri_prose_set(r->why, HR_E_FORMAT, "%s: tensor %.200s is not in %s", r->path,
                                 p->name, r->files.items[p->file]);
        }
        r->t.items[r->t.count] = *found;
        r->t.items[r->t.count++].part = p->file;
    }
    const hr_status status = hri_tensors_sort(&r->t, r->why);
    if (status == HR_OK && count != r->t.count) {
        return hri_prose_set(r->why, HR_E_FORMAT,
                             "%s: its files have %zu tensors, the index has %zu", r->path, count,
                             r->t.count);
    }
    return status;
}

hr_status hri_sharded_open(const char *path, int fd, uint64_t size, hri_tensors *out,
                           hri_prose *why) {
    reading r = {.path = path, .t = {.fd = -1}, .why = why};
    hri_json_file file = {.fd = fd, .end = size};
    const hri_json_stream_options o = {.read = hri_json_read_file,
                                       .user = &file,
                                       .max_bytes = INDEX_MAX,
                                       .max_depth = 8,
                                       .max_key = HRI_TENSORS_NAME_MAX,
                                       .max_text = 255};
    r.t.path = hri_strdup(path);
    hr_status status = r.t.path ? hri_json_stream_open(&o, &r.s, why) : no_memory(&r);
    if (status == HR_OK) {
        status = read_index(&r);
    }
    hri_json_stream_close(r.s);
    if (status == HR_OK) {
        status = open_files(&r);
    }
    if (status == HR_OK) {
        status = take_tensors(&r);
    }
    placed_list_deinit(&r.map);
    text_list_deinit(&r.files);
    r.t.reading_bytes = hri_arena_held_bytes(&r.texts);
    hri_arena_deinit(&r.texts);
    if (status != HR_OK) {
        hri_tensors_close(&r.t);
        return status;
    }
    *out = r.t;
    return HR_OK;
}
