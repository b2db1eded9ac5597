/* Safetensors files: a JSON header with names, types, shapes and offsets, then the bytes of all tensors.
 *
 *   8 bytes: length of the header, little-endian | header | data
 *   {"fc.weight": {"dtype": "F32", "shape": [10, 512], "data_offsets": [0, 20480]}, "__metadata__": {...}}
 *
 * Reading trusts nothing: an opened file has a header that is whole, names that are unique, offsets that follow from
 * types and shapes and cover the data exactly, without holes or overlaps, up to the end of the file.  Data is read with
 * pread in pieces and converted on the way.  HR_E_FORMAT for a file that is not what it claims, with a sentence that names
 * file and tensor.
 *
 * The header is read as a stream (json_stream.h) and only what is needed of it is kept: the bytes of a tensor's name and
 * about 120 more for each, and the texts beside the tensors.  Limits, HR_E_RANGE over one: HRI_TENSORS_*_MAX below.
 *
 * Writing goes beside the place and is renamed at commit, as in file.h.
 * Threads: an opened file may be read by many; a writer belongs to one. */
#ifndef HRI_WEIGHTS_SAFETENSORS_H
#define HRI_WEIGHTS_SAFETENSORS_H

#include <headroom/graph.h>
#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"

enum {
    HRI_TENSORS_HEADER_MAX = 16 << 20, /* bytes of the header */
    HRI_TENSORS_COUNT_MAX = 65536,     /* tensors */
    HRI_TENSORS_NAME_MAX = 511,        /* bytes of a tensor's name */
    HRI_TENSORS_TEXT_MAX = 4 << 20,    /* bytes of each of our texts in "__metadata__" */
    HRI_TENSORS_NOTE_MAX = 1024,       /* of any other text there; a longer one is read over */
    HRI_TENSORS_NOTES_MAX = 32         /* how many of those are kept */
};

/* Our texts there: "headroom", and the graph of a model that has no name. */
#define HRI_TENSORS_GRAPH "headroom.graph"

typedef struct hri_tensor {
    const char *name;
    const char *dtype;      /* "F32": the format's word for it */
    uint32_t kind;          /* index into the table of types */
    hr_shape shape;         /* in the file's layout */
    uint64_t begin, end;    /* in the data: of its first element, and behind as many as it has */
    const int64_t *strides; /* in elements; NULL: its rows follow one another */
    uint32_t part;          /* the file it lies in, where there are several */
} hri_tensor;

typedef struct hri_tensors {
    int fd; /* -1: none */
    char *path;
    hri_tensor *items; /* in the order of their data */
    size_t count;
    uint32_t *by_name; /* indexes into items, in the order of names */
    uint64_t data_begin, data_bytes;
    hri_arena texts;           /* names and notes */
    const char **notes;        /* "__metadata__": names and texts by turns */
    size_t note_count;         /* pairs */
    struct hri_tensors *parts; /* the files of an index */
    size_t part_count;
    uint64_t reading_bytes; /* what opening took besides, for a while */
} hri_tensors;

/* A safetensors file; one that torch.save wrote (pth.c); or the index of several safetensors files (sharded.c). */
HR_MUST_CHECK hr_status hri_tensors_open(const char *path, hri_tensors *out, hri_prose *why);
/* The header alone, for `data_bytes` of data behind it: what open does after reading, with fd -1. */
HR_MUST_CHECK hr_status hri_tensors_parse(const char *path, const char *header, size_t bytes,
                                          uint64_t data_bytes, hri_tensors *out, hri_prose *why);
/* A zeroed one with fd -1 is allowed. */
void hri_tensors_close(hri_tensors *t);
/* What an opened file takes of the host's memory, and what opening it took. */
uint64_t hri_tensors_held_bytes(const hri_tensors *t);
/* NULL: none of that name. */
const hri_tensor *hri_tensors_find(const hri_tensors *t, const char *name);
/* An entry of "__metadata__", or NULL: it is not there, or not kept. */
const char *hri_tensors_metadata(const hri_tensors *t, const char *key);
/* 1 when its elements can be read as `to`: any real type as any other, whole numbers as themselves. */
int hri_tensor_can_be(const hri_tensor *tensor, hr_type to);
/* Elements first .. first + count as `to`.  HR_E_UNSUPPORTED when they cannot be; HR_E_RANGE outside the tensor. */
HR_MUST_CHECK hr_status hri_tensors_read(const hri_tensors *t, const hri_tensor *tensor,
                                         uint64_t first, uint64_t count, hr_type to, void *out,
                                         hri_prose *why);

/* ---- writing ---- */

typedef struct hri_tensor_plan {
    const char *name;
    hr_meta meta;
} hri_tensor_plan;

typedef struct hri_tensors_writer {
    hri_writer file;
    uint64_t promised; /* bytes of data the header speaks of */
    uint64_t begin;    /* of the data */
} hri_tensors_writer;

/* Begins a file of these tensors, in this order; put the widest types first and all are aligned.  metadata: pairs of
 * texts, NULL at the end, or NULL.  HR_E_EXISTS for a name given twice. */
HR_MUST_CHECK hr_status hri_tensors_create(hri_tensors_writer *w, const char *path,
                                           const hri_tensor_plan *plan, size_t count,
                                           const char *const *metadata, hri_prose *why);
/* The data of the tensors in order, cut in any way; `from` numbers of type `from_type` become `to`. */
HR_MUST_CHECK hr_status hri_tensors_write(hri_tensors_writer *w, const void *data, uint64_t count,
                                          hr_type from, hr_type to, hri_prose *why);
/* HR_E_INTERNAL when it was not what the header promised; the old file then stands.  Closes in any case. */
HR_MUST_CHECK hr_status hri_tensors_commit(hri_tensors_writer *w, hri_prose *why);
void hri_tensors_abandon(hri_tensors_writer *w);

#endif
