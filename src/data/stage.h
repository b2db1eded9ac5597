/* Stages: what a pipeline is a chain of.  One file a stage in src/data/stages/; the listing is the list.
 *
 * A stage is one of these kinds, by the functions it has:
 *   at + load    a source with random access: at(i) gives a ticket, load makes the element
 *   next + load  a stream of tickets (lines, records): next gives a ticket, load makes the element
 *   at           a choice of places over an input that has `at` itself (index shuffle, take, shard)
 *   apply        one element in, one element out: the workers run it (workers.h)
 *   next         everything else: pulls from its inputs
 * A stage may have both `at` and `next`; `at` serves when its input has it (then s->random is set).
 *
 * Pulling is single: at any time one thread pulls from a stage, and the same thread saves its state.  A state says
 * where the stage is between two pulls; the stages below a thread boundary keep one for each element they pulled
 * ahead (mark.h), so that saving never has to stop anything. */
#ifndef HRI_DATA_STAGE_H
#define HRI_DATA_STAGE_H

#include <headroom/data.h>
#include "base/options.h"
#include "base/prose.h"
#include "data/element.h"
#include "data/state.h"
#include "data/tabular.h"

/* What is known of a stage's elements when the pipeline is built. */
typedef struct hri_spec {
    uint32_t field_count; /* 0: unknown */
    hr_field fields[HR_FIELD_MAX];
    uint64_t count;      /* an epoch; HR_COUNT_UNKNOWN */
    uint64_t load_bytes; /* the most that loading one ticket takes (0 when elements come loaded) */
    uint64_t item_bytes; /* the most that one element is charged, once loaded */
    /* Of encoded pictures: the largest seen, for the working set of a decoder (image/image.h). */
    uint32_t image_width, image_height;
    uint64_t image_whole_bytes;
    uint32_t image_least_width, image_least_height; /* of those that were looked at; 0: none */
    int64_t vocab; /* tokens are numbers below this; 0: not known */
    int64_t pad;   /* the token that fills short texts; 0 where there is none, too */
} hri_spec;

typedef struct hri_stage_type {
    const char *name;
    const char *help;
    const char *main; /* the option that a value without a name sets; NULL: none */
    const hri_field *fields;
    size_t options_bytes, own_bytes;
    uint32_t inputs; /* 0: a source; 1: a stage; UINT32_MAX: any number of pipelines in braces */
    /* Reads its options (s->options), its inputs' specs, and fills s->spec and s->smallest_bytes (without the bytes
     * for loading and holding what the engine adds itself: see pipeline.c). */
    hr_status (*open)(hri_stage *s, hri_prose *why);
    void (*close)(hri_stage *s); /* accepts a half-open stage */
    hr_status (*start)(hri_stage *s,
                       uint64_t epoch); /* NULL: nothing but its inputs and its position */
    hr_status (*next)(hri_stage *s, hri_item *out);
    hr_status (*at)(hri_stage *s, uint64_t i, hri_item *out);
    hr_status (*load)(hri_stage *s, const hri_item *item, hr_emit *emit);
    hr_status (*apply)(hri_stage *s, hr_emit *emit);
    void (*save)(hri_stage *s, hri_state *w); /* NULL: nothing but its inputs and its position */
    hr_status (*restore)(hri_stage *s, hri_state *r);
    void (*stop)(hri_stage *s); /* its threads stand still and its buffers are empty afterwards */
    void (*name_of)(hri_stage *s, const hri_item *item, char *buf, size_t size);
    const char *(*class_name)(hri_stage *s, size_t index);
    /* Of a source whose elements are rows of a table: what it has learnt of it, which the caller owns from then on and
     * which outlives the stage; NULL: nothing, or it was given. */
    hri_tabular *(*take_table)(hri_stage *s);
    /* Only makes it faster: its options are not in the fingerprint, and with random access it has no part in states. */
    bool only_speed;
    /* Of such a stage whose places are not those of its input: where its next element is there, and back. */
    uint64_t (*to_input)(const hri_stage *s);
    uint64_t (*from_input)(hri_stage *s, uint64_t place);
    /* See hr_pipeline_labels; NULL: it cannot tell. */
    hr_status (*labels)(hri_stage *s, const char *field, hr_label_range *out);
    /* The file that was changed last, and when; INT64_MIN when there is none. */
    int64_t (*newest)(hri_stage *s, char *path, size_t size);
    void (*fingerprint)(hri_stage *s,
                        hri_state *w); /* what the options do not say: sizes and times of files */
} hri_stage_type;

extern const hri_stage_type *const hri_stage_types[];

struct hri_stage {
    const hri_stage_type *type;
    hr_pipeline *pipeline;
    char name[HR_FIELD_NAME_SIZE];
    void *options; /* type->options_bytes */
    hri_options parsed;
    void *own; /* type->own_bytes, zeroed */
    hri_stage **inputs;
    uint32_t input_count;
    uint32_t position; /* in the pipeline, from the source */
    bool random;       /* `at` works */
    bool folded;       /* an apply that the workers of a later stage run */
    uint64_t seed;
    hri_spec spec;
    uint64_t smallest_bytes;
    uint64_t scratch_bytes; /* of an apply: the most it takes beside its output, for one element */
    hri_account *account, *extra;
    hri_workers *workers;
    uint64_t epoch, place; /* of stages with `at`: the next index */
    /* statistics */
    _Atomic uint64_t out_elements, out_bytes, busy_ns, wait_ns, shrunk;
    _Atomic uint64_t work_ns;         /* of workers: all stages of the run, and loading */
    _Atomic uint32_t parallel, depth; /* what the tuner chose */
    uint32_t parallel_max, depth_max; /* what it may choose; equal to the above when it was given */
    bool fixed_parallel, fixed_depth;
    _Atomic bool stopping;
    bool told_shrunk;
};

/* The calls that stages make of one another.  They count and dispatch. */
HR_MUST_CHECK hr_status hri_stage_start(hri_stage *s, uint64_t epoch);
HR_MUST_CHECK hr_status hri_stage_next(hri_stage *s, hri_item *out);
HR_MUST_CHECK hr_status hri_stage_at(hri_stage *s, uint64_t i, hri_item *out);
void hri_stage_save(hri_stage *s, hri_state *w);
HR_MUST_CHECK hr_status hri_stage_restore(hri_stage *s, hri_state *r);
/* This stage and all above it. */
void hri_stage_stop(hri_stage *s);
/* Everything that decides which elements it and those above it give. */
void hri_stage_fingerprint(hri_stage *s, hri_state *w);

/* The bytes that one element of `s` is charged at most after loading, and while it is loaded. */
uint64_t hri_spec_item_bytes(const hri_spec *spec);
/* Charged bytes of all fields when every dimension is known; false when one is not. */
bool hri_spec_exact(const hri_spec *spec, uint64_t *out_charged);
const hr_field *hri_spec_find(const hri_spec *spec, const char *name);
/* Adds or replaces a field.  HR_E_RANGE beyond HR_FIELD_MAX. */
HR_MUST_CHECK hr_status hri_spec_put(hri_spec *spec, const char *name, hr_meta meta);

/* A memory for work that is next in order by itself. */
hri_memory hri_stage_memory(hri_stage *s);
/* The element of an item in the stage's own account; the item's own reference is given up.  On failure the item is
 * dropped, the failure is recorded (or counted, when bad elements are skipped: then HR_E_AGAIN says go on). */
HR_MUST_CHECK hr_status hri_stage_take(hri_stage *s, hri_item *item, hr_element **out);
/* Room for one element of the input before it is pulled (ledger.h, rule 2); waits while the guarantee is in use. */
HR_MUST_CHECK hr_status hri_stage_claim(hri_stage *s, uint64_t bytes);
/* Says that the user holds too much for `bytes` more; HR_E_LIMIT. */
hr_status hri_stage_no_room(hri_stage *s, uint64_t bytes);

/* Pipeline-wide services. */
hri_buffer_pool *hri_pipeline_pool(hr_pipeline *p);
uint64_t hri_pipeline_seed(const hr_pipeline *p);
uint32_t hri_pipeline_workers(const hr_pipeline *p);
uint64_t hri_pipeline_budget(const hr_pipeline *p);
/* What the columns of its sources are, given when it was opened; NULL: they say so themselves. */
const hri_tabular *hri_pipeline_table(const hr_pipeline *p);
/* Records a failure of one element: HR_E_AGAIN when bad elements are skipped and this kind of failure is an
 * element's own, else `status` with the prose kept. */
hr_status hri_pipeline_bad_item(hr_pipeline *p, hr_status status, const hri_stage *s,
                                const hri_item *item, const char *reason);
/* Says it through the log, once a stage. */
void hri_pipeline_shrunk(hri_stage *s, const char *what, uint32_t from, uint32_t to);
void hri_pipeline_log(hr_pipeline *p, hr_log_level level, const char *format, ...) HR_PRINTF(3, 4);
/* Something that the user should know although nothing failed: kept (the first ones) and logged. */
void hri_pipeline_note(hr_pipeline *p, const char *format, ...) HR_PRINTF(2, 3);
void hri_pipeline_progress(hr_pipeline *p, const hri_stage *s, uint64_t done, uint64_t total);

#endif
