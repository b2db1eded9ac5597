/* Input pipelines that stay within a memory budget.
 *
 *   hr_pipeline *p;
 *   hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 64 << 20};
 *   hr_pipeline_open(&o, "images:flowers | shuffle(seed=1) | decode(size=224,random_crop=on) | batch(64) | prefetch",
 *                    NULL, &p);
 *   hr_element *e;
 *   while (hr_pipeline_next(p, &e) == HR_OK) {
 *       const hr_field *image = hr_element_find(e, "image");      u8[64,224,224,3]
 *       ...
 *       hr_element_unref(e);
 *   }
 *   hr_pipeline_rewind(p);                                        the next epoch, in another order
 *
 * A pipeline is a source followed by stages.  An element is a set of named fields, each a dense array.  The text above
 * and the calls below build the same pipeline; `headroom data --stages` and docs/data.md list the stages with their
 * options.
 *
 * One budget covers every byte of data in the pipeline: shuffle buffers, caches, prefetched elements, elements in
 * flight, the decoders' scratch memory, and the elements you hold.  If the smallest working set does not fit,
 * hr_pipeline_build refuses and names the stage.  After that, stages wait and shrink; they never exceed the budget.
 *
 * The order of elements and all random choices depend on the seed and the epoch only, not on the number of threads or
 * the budget.  (`ordered=off` trades the order for speed.)  After hr_pipeline_save in the middle of an epoch and
 * hr_pipeline_restore in another process, the same elements follow.
 *
 * Threads: a pipeline is used by one thread at a time; elements may be read and released by any thread. */
#ifndef HEADROOM_DATA_H
#define HEADROOM_DATA_H

#include <stddef.h>
#include <stdint.h>
#include <headroom/context.h>
#include <headroom/graph.h>
#include <headroom/status.h>

HR_BEGIN_DECLS

typedef struct hr_pipeline hr_pipeline;
typedef struct hr_element hr_element;

/* ---- elements ---- */

enum { HR_FIELD_NAME_SIZE = 32, HR_FIELD_MAX = 64 };

typedef struct hr_field {
    char name[HR_FIELD_NAME_SIZE];
    hr_meta meta;
    uint64_t bytes;
    void *data; /* read-only, except for the callback that creates it */
} hr_field;

HR_API size_t hr_element_field_count(const hr_element *element);
HR_API const hr_field *hr_element_field(const hr_element *element, size_t index);
/* NULL if there is no field of that name. */
HR_API const hr_field *hr_element_find(const hr_element *element, const char *name);
/* An element counts against the budget until its last reference is released. */
HR_API hr_element *hr_element_ref(hr_element *element);
/* NULL is allowed.  The pipeline may already be destroyed. */
HR_API void hr_element_unref(hr_element *element);

/* ---- building ---- */

/* Progress of a long first pass (scanning a folder, filling a shuffle buffer or a cache).  total is 0 if unknown.
 * Called from the thread that does the work, never twice at the same time. */
typedef void hr_progress_fn(void *user, const char *stage, uint64_t done, uint64_t total);

/* Zero means the default in every field.  Set `size` to sizeof(hr_pipeline_options). */
typedef struct hr_pipeline_options {
    size_t size;
    uint64_t budget_bytes; /* 0: half of the available memory */
    uint64_t seed;         /* for every stage without its own seed */
    uint32_t workers; /* maximum threads per stage; 0: one per core; 1: only the calling thread */
    int32_t skip_bad; /* 1: skip and count elements that cannot be read or decoded */
    hr_log_fn *log;   /* NULL: silent */
    void *log_user;
    int32_t log_level; /* hr_log_level */
    int32_t reserved;
    hr_progress_fn *progress;
    void *progress_user;
    /* The pipeline holds a lease of its pool "input", of budget_bytes, or of what is free if that is 0.  If the lease is
     * asked to shrink, the pipeline returns what it can between two elements.  NULL: no lease. */
    struct hr_budget *budget;
} hr_pipeline_options;

HR_API HR_MUST_CHECK hr_status hr_pipeline_create(const hr_pipeline_options *options,
                                                  hr_pipeline **out);
/* Stops its threads and frees everything except elements that are still referenced.  NULL is allowed. */
HR_API void hr_pipeline_destroy(hr_pipeline *pipeline);

/* Appends stages: "NAME", "NAME(option=value,...)" or "NAME:value,option=value,...", joined by "|".  The first value
 * without a name is the stage's main option: batch(64) is batch(size=64), images:DIR is images(path=DIR).  Put values
 * with commas or brackets in "double quotes", and a pipeline inside a pipeline in braces: zip({npy:x.npy},{npy:y.npy}).
 * HR_E_INVALID: the error has the position and the nearest known name. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_add(hr_pipeline *pipeline, const char *text);

/* The output of a callback.  Everything it requests counts against the budget. */
typedef struct hr_emit hr_emit;
/* Adds a field to the element; the callback fills *data before it returns.  HR_E_LIMIT if the element becomes larger
 * than the stage declared and the budget has no more. */
HR_API HR_MUST_CHECK hr_status hr_emit_field(hr_emit *emit, const char *name, const hr_meta *meta,
                                             void **data);
/* Passes on the input's field of that name unchanged, without a copy.  NULL: all fields that were not replaced. */
HR_API HR_MUST_CHECK hr_status hr_emit_keep(hr_emit *emit, const char *name);
/* 64 random bits that depend on seed, epoch, element and the number of calls so far, not on the thread. */
HR_API uint64_t hr_emit_random(hr_emit *emit);
/* Sets the reason of the failure that the callback is about to return. */
HR_API void hr_emit_explain(hr_emit *emit, const char *reason);

/* Creates an element from `input`.  Called from several threads at once. */
typedef hr_status hr_map_fn(void *user, const hr_element *input, hr_emit *emit);
/* Nonzero: keep the element. */
typedef int hr_filter_fn(void *user, const hr_element *element);
/* Creates element `index`.  If the source has a count, the same index must always give the same element, and the function
 * is called from several threads at once.  Otherwise it is called in order and returns HR_E_EOF at the end. */
typedef hr_status hr_source_fn(void *user, uint64_t epoch, uint64_t index, hr_emit *emit);

typedef struct hr_map_options {
    size_t size;
    const char *name;         /* for messages and statistics; NULL: "map" */
    const hr_meta *outputs;   /* types and shapes it creates, if known, for later stages */
    const char *const *names; /* their names */
    size_t output_count;
    uint64_t output_bytes; /* maximum size of an element; 0: from outputs, otherwise 1 MiB */
    uint32_t parallel;     /* 0: chosen and tuned */
    int32_t unordered;
} hr_map_options;

HR_API HR_MUST_CHECK hr_status hr_pipeline_map(hr_pipeline *pipeline, hr_map_fn *fn, void *user,
                                               const hr_map_options *options);
HR_API HR_MUST_CHECK hr_status hr_pipeline_filter(hr_pipeline *pipeline, hr_filter_fn *fn,
                                                  void *user, const char *name);

#define HR_COUNT_UNKNOWN UINT64_MAX
/* A custom source.  count HR_COUNT_UNKNOWN: a stream; resuming then calls it from the start of the epoch. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_callback(hr_pipeline *pipeline, hr_source_fn *fn,
                                                    void *user, uint64_t count,
                                                    const hr_map_options *options);
/* Arrays whose first dimension is the number of elements.  The caller keeps them until the pipeline is destroyed.  They
 * are not part of the budget: elements are copied one at a time. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_arrays(hr_pipeline *pipeline, const hr_field *arrays,
                                                  size_t count);

/* Completes the pipeline, opens its sources and checks the budget.  HR_E_LIMIT: the smallest working set exceeds the
 * budget; the error names the stage that needs most, its bytes and the sum. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_build(hr_pipeline *pipeline);

/* create + add + build.  If one of them fails, *error (which may be NULL) has the reason. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_open(const hr_pipeline_options *options,
                                                const char *text, hr_error *error,
                                                hr_pipeline **out);

/* ---- running ---- */

/* The next element; release it with hr_element_unref.  HR_E_EOF at the end of the epoch, until rewind.  Any other failure
 * belongs to one element, which is skipped: the next call continues after it.  HR_E_LIMIT if the elements you hold leave
 * too little room for another one. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_next(hr_pipeline *pipeline, hr_element **out);
/* The same, copied into your own memory, such as the pinned staging buffers of a plan.  The field to[i].name is copied to
 * to[i].data, which has room for to[i].bytes; to[i].meta and to[i].bytes are then set to what was copied.  HR_E_NOT_FOUND
 * or HR_E_SHAPE if a field is missing or too large: nothing is copied, and the element is skipped. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_next_into(hr_pipeline *pipeline, hr_field *to,
                                                     size_t count);
/* Zero is the default in every field: one element after another until the end of an epoch. */
typedef struct hr_pipeline_run_options {
    size_t size;
    uint64_t epochs;       /* 0: one, or as many as fit into milliseconds */
    uint64_t elements;     /* stop after this many; 0: no limit */
    uint64_t milliseconds; /* stop after this time; 0: no limit */
} hr_pipeline_run_options;

typedef struct hr_pipeline_run_result {
    size_t size;
    uint64_t elements, samples, bytes, epochs;
    double seconds;
} hr_pipeline_run_result;

/* Receives one element, which still belongs to the pipeline.  Any status other than HR_OK ends the run. */
typedef hr_status hr_element_fn(void *user, hr_element *element);

/* Reads and discards elements, to inspect them or to measure the pipeline (hr_pipeline_get_stage_stats).  fn may be NULL.
 * Returns the failure of hr_pipeline_next or of fn; *out covers what was read before. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_run(hr_pipeline *pipeline,
                                               const hr_pipeline_run_options *options,
                                               hr_element_fn *fn, void *user,
                                               hr_pipeline_run_result *out);
/* Starts the next epoch, even if this one has not ended. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_rewind(hr_pipeline *pipeline);
/* Starts epoch `epoch`. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_seek(hr_pipeline *pipeline, uint64_t epoch);

/* The position after the last element returned, as bytes for a checkpoint.  Free *out with hr_pipeline_state_free. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_save(hr_pipeline *pipeline, void **out,
                                                size_t *out_bytes);
HR_API void hr_pipeline_state_free(void *state);
/* HR_E_INVALID if it was saved by another pipeline, HR_E_FORMAT if it is damaged. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_restore(hr_pipeline *pipeline, const void *state,
                                                   size_t bytes);

/* ---- what is known ---- */

/* Elements per epoch, or HR_COUNT_UNKNOWN. */
HR_API uint64_t hr_pipeline_count(const hr_pipeline *pipeline);
/* The fields of its elements, as far as they are known after build; an unknown dimension is -1.  0 fields: unknown. */
HR_API size_t hr_pipeline_field_count(const hr_pipeline *pipeline);
HR_API const hr_field *hr_pipeline_field(const hr_pipeline *pipeline, size_t index);
/* Class names, if the source has them (image folders, CIFAR-10); NULL after the last. */
HR_API const char *hr_pipeline_class(const hr_pipeline *pipeline, size_t index);
/* The integers in a field of all elements of the source, scanned in its file; later stages may drop some of them. */
typedef struct hr_label_range {
    size_t size; /* set by the caller to sizeof(hr_label_range) */
    int64_t min, max;
    uint64_t count, negative; /* numbers; those below 0 */
} hr_label_range;
/* HR_E_NOT_FOUND if the source cannot tell without loading everything, or the numbers are not integers; HR_E_IO. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_labels(hr_pipeline *pipeline, const char *field,
                                                  hr_label_range *out);
/* Warnings after a successful build: files that were skipped, classes without images.  One sentence each; NULL after the
 * last. */
HR_API const char *hr_pipeline_note(const hr_pipeline *pipeline, size_t index);
/* The most recently changed file of its sources, and when, in seconds since 1970.  HR_E_NOT_FOUND if it reads no files. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_newest(const hr_pipeline *pipeline, char *path,
                                                  size_t size, int64_t *changed_s);
/* Equal for pipelines with the same stages, options and source files (names, sizes, modification times). */
HR_API uint64_t hr_pipeline_fingerprint(const hr_pipeline *pipeline);
/* The last failure. */
HR_API void hr_pipeline_error(hr_pipeline *pipeline, hr_error *out);

typedef struct hr_stage_stats {
    size_t size; /* set by the caller to sizeof(hr_stage_stats) */
    char name[HR_FIELD_NAME_SIZE];
    uint64_t elements, bytes; /* produced since build */
    uint64_t busy_ns;         /* time spent working, all threads together */
    uint64_t wait_ns;         /* time in which the next stage waited for this one */
    uint64_t held_bytes, peak_bytes, smallest_bytes; /* now, peak, and the guaranteed working set */
    uint32_t parallel, depth; /* threads and buffered elements chosen by the tuner; 0: none */
    uint64_t shrunk;          /* how often the budget made it use less */
} hr_stage_stats;

typedef struct hr_pipeline_stats {
    size_t size; /* set by the caller to sizeof(hr_pipeline_stats) */
    uint64_t budget_bytes, held_bytes, peak_bytes, smallest_bytes;
    uint64_t epoch, elements; /* elements returned since build */
    uint64_t bad;             /* elements skipped because of skip_bad */
    uint64_t wait_ns;         /* time you spent waiting in hr_pipeline_next */
    uint32_t stage_count;
    uint32_t reserved;
    uint64_t left_over; /* elements at the end of an epoch that did not fill a group of whole(N) */
} hr_pipeline_stats;

/* Fails only if out->size is not set. */
HR_API hr_status hr_pipeline_get_stats(hr_pipeline *pipeline, hr_pipeline_stats *out);
/* HR_E_NOT_FOUND from stage_count on.  Stage 0 is the source. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_get_stage_stats(hr_pipeline *pipeline, size_t index,
                                                           hr_stage_stats *out);
/* A bad element, as "name: reason"; NULL after the last of those remembered (the first 100). */
HR_API const char *hr_pipeline_bad(hr_pipeline *pipeline, size_t index);

HR_END_DECLS
#endif
