/* A recording: what ran, and what lay where from when until when.  Of a plan, a profile, or another program's file.
 *
 * The one idea: whatever is looked at comes down to five tables and a head, so the page, the report, the diff and the
 * exports are written once.  Time is counted in ops: a buffer exists during ops birth <= op < death.
 *
 *   hri_recording r = {0};
 *   hri_recording_text(&r, "conv1.conv2d", &name);      texts are numbered; 0 is ""
 *   hri_recording_add(&r, HRI_SEE_OPS, &op);            copies one row
 *   status = hri_recording_finish(&r);                  sorts and checks; before anything reads it
 *   hri_recording_deinit(&r);
 *
 * The tables of rows (recording.c) name every member once: files, CSV and JSON are written from them.
 * Threads: one at a time. */
#ifndef HRI_SEE_RECORDING_H
#define HRI_SEE_RECORDING_H

#include <stdbool.h>
#include <stdint.h>
#include <headroom/status.h>
#include "base/arena.h"
#include "base/map.h"
#include "base/prose.h"
#include "base/vector.h"

/* X(NAME, "name").  The page has the same list. */
#define HRI_SEE_CATEGORY_MAP(X)                                                                    \
    X(RUNTIME, "runtime")                                                                          \
    X(PARAMETERS, "parameters")                                                                    \
    X(OPTIMIZER, "optimizer state")                                                                \
    X(INPUTS, "inputs")                                                                            \
    X(ACTIVATIONS, "activations")                                                                  \
    X(GRADIENTS, "gradients")                                                                      \
    X(WORKSPACES, "workspaces")                                                                    \
    X(OTHER, "unattributed")

typedef enum hri_see_category {
#define HRI_SEE_CATEGORY_ENUM(NAME, TEXT) HRI_SEE_##NAME,
    HRI_SEE_CATEGORY_MAP(HRI_SEE_CATEGORY_ENUM)
#undef HRI_SEE_CATEGORY_ENUM
        HRI_SEE_CATEGORIES
} hri_see_category;

const char *hri_see_category_name(uint32_t category);

typedef enum hri_see_what {
    HRI_SEE_RUN = 0,
    HRI_SEE_COPY_OUT,
    HRI_SEE_COPY_IN,
    HRI_SEE_WAIT,
    HRI_SEE_ALLOC, /* of programs whose allocations are all that is known */
    HRI_SEE_FREE,
    HRI_SEE_WHATS
} hri_see_what;

const char *hri_see_what_name(uint32_t what);

/* Texts are numbers of hri_recording_get_text. */
typedef struct hri_see_op {
    uint32_t name, kind, layer;
    uint8_t phase;                             /* 0 forward, 1 backward, 2 update */
    uint8_t what;                              /* hri_see_what */
    uint8_t again;                             /* it has run before in this step */
    uint8_t graph;                             /* number of its run: a step may be several */
    double begin_ns, end_ns;                   /* planned, from the start of the step */
    double measured_begin_ns, measured_end_ns; /* end 0: not measured */
    double flops;
    uint64_t bytes;      /* moved: read and written, or copied */
    uint64_t held_bytes; /* measured after it, from outside; 0: not measured */
    uint64_t live_bytes; /* measured: of the arena, what it or a later op reads; 0: not measured */
} hri_see_op;

enum { HRI_SEE_RECOMPUTED = 1, HRI_SEE_PARAMETER_GRADIENT = 2 };

typedef struct hri_see_buffer {
    uint32_t name, shape;
    uint32_t value;   /* equal numbers are lives of one value; 0: it lives once */
    uint32_t source;  /* text: where it was allocated */
    uint8_t category; /* hri_see_category */
    uint8_t flags;
    uint32_t birth, death;
    uint64_t offset, bytes;
    uint64_t asked_bytes; /* before rounding up; 0: as many */
} hri_see_buffer;

/* A part of the peak: planned parts add up to head.peak_bytes, measured ones to head.measured_peak_bytes. */
typedef struct hri_see_part {
    uint32_t name, note;
    uint8_t category;
    uint64_t planned_bytes, measured_bytes;
} hri_see_part;

/* What another budget would cost. */
typedef struct hri_see_choice {
    uint64_t budget_bytes, peak_bytes, recomputed_ops, offloaded_bytes;
    double time_ratio;
    uint32_t micro_batches;
} hri_see_choice;

/* A measured step of training. */
typedef struct hri_see_step {
    uint64_t number;
    double begin_ns, end_ns;
    double wait_ns, device_ns; /* for data; that a GPU worked */
    double loss;
    uint64_t held_bytes;
} hri_see_step;

typedef enum hri_see_table {
    HRI_SEE_OPS = 0,
    HRI_SEE_BUFFERS,
    HRI_SEE_PARTS,
    HRI_SEE_CHOICES,
    HRI_SEE_STEPS,
    HRI_SEE_TABLES
} hri_see_table;

/* Zero and "" where nothing is known. */
typedef struct hri_see_head {
    const char *source; /* "plan", "profile", "pytorch", "xla" */
    const char *model, *device, *precision, *optimizer;
    const char *program; /* what wrote it: "headroom 0.1.0" */
    const char *created; /* UTC, ISO 8601 */
    const char *minimum_op;
    const char *held_by; /* who said what was held: "resident memory", "NVML" */
    const char
        *graphs;      /* what each run of a step is, with ';' between: "micro-batch, 3 runs;last" */
    const char *note; /* what a reader should know first */
    uint64_t fits;    /* 0 or 1 */
    uint64_t batch, micro_batches, largest_batch, recomputed_ops;
    uint64_t budget_bytes, peak_bytes; /* budget 0: none */
    uint64_t minimum_bytes, unconstrained_bytes;
    uint64_t runtime_bytes;       /* of the peak: what no buffer holds */
    uint64_t arena_bytes;         /* end of the highest address, persistent values included */
    uint64_t measured_peak_bytes; /* from outside; 0: not measured */
    uint64_t peak_op;
    double step_ns, time_ratio, measured_step_ns;
    double flops_per_ns, bytes_per_ns; /* the device's ceilings */
} hri_see_head;

typedef struct hri_see_rows {
    void *items;
    size_t count, capacity;
} hri_see_rows;

HRI_VECTOR(hri_see_texts, const char *)

typedef struct hri_recording {
    hri_see_head head;
    hri_see_rows tables[HRI_SEE_TABLES];
    hri_see_texts texts;
    hri_strmap numbers; /* of texts */
    hri_arena arena;
    bool truncated; /* its file ended too early, or was damaged: this is what came before */
} hri_recording;

/* The members of a row or of the head, in one list. */
typedef enum hri_see_type {
    HRI_SEE_U8 = 1,
    HRI_SEE_U32,
    HRI_SEE_U64,
    HRI_SEE_F64,
    HRI_SEE_TEXT /* u32 in rows, a text in the head */
} hri_see_type;

/* Bytes of a cell of a row. */
static inline size_t hri_see_width(hri_see_type type) {
    return type == HRI_SEE_U8 ? 1 : type == HRI_SEE_U32 || type == HRI_SEE_TEXT ? 4 : 8;
}

typedef struct hri_see_column {
    const char *name; /* 15 bytes at most */
    hri_see_type type;
    size_t offset;
    bool optional; /* files of before it was there are without: zeros */
} hri_see_column;

typedef struct hri_see_table_info {
    const char *name;
    char chunk[5]; /* in files */
    const hri_see_column *columns;
    size_t column_count, row_bytes;
} hri_see_table_info;

extern const hri_see_table_info hri_see_tables[HRI_SEE_TABLES];
extern const hri_see_column hri_see_head_fields[];
extern const size_t hri_see_head_field_count;

/* A zeroed recording is empty; deinit accepts it. */
void hri_recording_deinit(hri_recording *r);
HR_MUST_CHECK hr_status hri_recording_text(hri_recording *r, const char *text, uint32_t *out);
/* A text of the head, kept as long as the recording; NULL becomes "". */
HR_MUST_CHECK hr_status hri_recording_keep(hri_recording *r, const char *text, const char **out);
HR_MUST_CHECK hr_status hri_recording_add(hri_recording *r, hri_see_table table, const void *row);
/* Sorts buffers by birth, cuts lifetimes to the ops there are, puts unknown texts and categories right, finds the
 * peak, and sets texts of the head that are NULL to "".  Whatever a file said, readers may trust it
 * afterwards. */
HR_MUST_CHECK hr_status hri_recording_finish(hri_recording *r);

/* Never NULL. */
const char *hri_recording_get_text(const hri_recording *r, uint32_t number);

static inline const hri_see_op *hri_recording_ops(const hri_recording *r) {
    return r->tables[HRI_SEE_OPS].items;
}
static inline const hri_see_buffer *hri_recording_buffers(const hri_recording *r) {
    return r->tables[HRI_SEE_BUFFERS].items;
}
static inline const hri_see_part *hri_recording_parts(const hri_recording *r) {
    return r->tables[HRI_SEE_PARTS].items;
}
static inline const hri_see_choice *hri_recording_choices(const hri_recording *r) {
    return r->tables[HRI_SEE_CHOICES].items;
}
static inline const hri_see_step *hri_recording_steps(const hri_recording *r) {
    return r->tables[HRI_SEE_STEPS].items;
}

/* Bytes of buffers alive during each op, by category: (ops, HRI_SEE_CATEGORIES), runtime apart.  hri_free() it. */
HR_MUST_CHECK hr_status hri_recording_live(const hri_recording *r, uint64_t **out);
/* How long an op took: measured where it was, else as planned. */
double hri_see_op_ns(const hri_see_op *op);

#endif
