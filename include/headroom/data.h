/* Input pipelines that never outgrow their RAM.
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
 *   hr_pipeline_rewind(p);                                        the next epoch, shuffled anew
 *
 * A pipeline is a chain of stages: a source first, then what is done to its elements.  An element is a set of named
 * fields, each a dense array.  The text above and the calls below build the same thing; `headroom data --help` and
 * docs/data.md list the stages with their options.
 *
 * One budget covers every byte of data in the pipeline: shuffle buffers, caches, what is prefetched, what is in
 * flight, decoders' scratch, and the elements in your hands.  hr_pipeline_build says no when the smallest working set
 * does not fit, and names the stage.  After that stages wait and shrink; they do not grow past the budget.
 *
 * The order of elements, and every random choice, depend on the seed and the epoch alone: not on the number of
 * threads, not on the budget.  (`ordered=off` gives up the order for speed.)  hr_pipeline_save in the middle of an
 * epoch and hr_pipeline_restore in another process: the same elements follow.
 *
 * Threads: one thread at a time uses a pipeline; elements may be read and released by any thread. */
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
    void *data; /* read only for everybody but the callback that makes it */
} hr_field;

HR_API size_t hr_element_field_count(const hr_element *element);
HR_API const hr_field *hr_element_field(const hr_element *element, size_t index);
/* NULL when there is none of that name. */
HR_API const hr_field *hr_element_find(const hr_element *element, const char *name);
/* An element counts against the budget until its last reference is given back. */
HR_API hr_element *hr_element_ref(hr_element *element);
/* NULL is allowed.  The pipeline may be gone already. */
HR_API void hr_element_unref(hr_element *element);

/* ---- building ---- */

/* A long first pass (a folder scan, a shuffle or cache that fills) tells how far it is.  total is 0 when unknown.
 * Called from the thread that does the work, never two at once. */
typedef void hr_progress_fn(void *user, const char *stage, uint64_t done, uint64_t total);

/* Zero means the default in every field.  Set `size` to sizeof(hr_pipeline_options). */
typedef struct hr_pipeline_options {
    size_t size;
    uint64_t budget_bytes; /* 0: half of what the cgroup and the machine have left */
    uint64_t seed;         /* for every stage that is not given one of its own */
    uint32_t
        workers; /* the most threads that work at once in a stage; 0: one a core; 1: none but yours */
    int32_t skip_bad; /* 1: an element that cannot be read or decoded is left out and counted */
    hr_log_fn *log;   /* NULL: silent */
    void *log_user;
    int32_t log_level; /* hr_log_level */
    int32_t reserved;
    hr_progress_fn *progress;
    void *progress_user;
    /* The pipeline lives in one lease of its pool "input", of budget_bytes or as much of that as there is for 0; it gives
     * back what it can when the lease is asked to shrink, between elements.  NULL: nobody is asked. */
    struct hr_budget *budget;
} hr_pipeline_options;

HR_API HR_MUST_CHECK hr_status hr_pipeline_create(const hr_pipeline_options *options,
                                                  hr_pipeline **out);
/* Stops its threads and gives back everything but the elements still referenced.  NULL is allowed. */
HR_API void hr_pipeline_destroy(hr_pipeline *pipeline);

/* Appends what the text says: "NAME", "NAME(option=value,...)", "NAME:value,option=value,...", joined by "|".  The
 * first value without a name is the stage's main option: batch(64) is batch(size=64), images:DIR is images(path=DIR).
 * Values with commas or brackets stand in "double quotes".  A pipeline inside a pipeline stands in braces:
 * zip({npy:x.npy},{npy:y.npy}).  HR_E_INVALID with the place and the nearest known name in the error. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_add(hr_pipeline *pipeline, const char *text);

/* What a callback makes.  Everything it asks for counts against the budget. */
typedef struct hr_emit hr_emit;
/* A new field of the element that is being made; *data is to be filled before the callback returns.  HR_E_LIMIT when
 * the element outgrows what the stage declared and the budget has no more. */
HR_API HR_MUST_CHECK hr_status hr_emit_field(hr_emit *emit, const char *name, const hr_meta *meta,
                                             void **data);
/* The input's field of that name goes on unchanged, without a copy.  NULL: all that were not made anew. */
HR_API HR_MUST_CHECK hr_status hr_emit_keep(hr_emit *emit, const char *name);
/* 64 random bits that depend on seed, epoch, element and the number of the call, not on the thread. */
HR_API uint64_t hr_emit_random(hr_emit *emit);
/* The reason for a failure that the callback is about to return. */
HR_API void hr_emit_explain(hr_emit *emit, const char *reason);

/* Makes an element of `input`.  Called from several threads at once. */
typedef hr_status hr_map_fn(void *user, const hr_element *input, hr_emit *emit);
/* Nonzero: the element stays. */
typedef int hr_filter_fn(void *user, const hr_element *element);
/* Makes element `index`.  With a count it must be the same whenever it is asked for, and is called from several
 * threads at once; without, it is called in order and says HR_E_EOF at the end. */
typedef hr_status hr_source_fn(void *user, uint64_t epoch, uint64_t index, hr_emit *emit);

typedef struct hr_map_options {
    size_t size;
    const char *name;         /* for messages and statistics; NULL: "map" */
    const hr_meta *outputs;   /* what it makes, when that is known: later stages then know it too */
    const char *const *names; /* their names */
    size_t output_count;
    uint64_t
        output_bytes;  /* the most bytes it makes for one element; 0: from outputs, else 1 MiB */
    uint32_t parallel; /* 0: chosen and tuned */
    int32_t unordered;
} hr_map_options;

HR_API HR_MUST_CHECK hr_status hr_pipeline_map(hr_pipeline *pipeline, hr_map_fn *fn, void *user,
                                               const hr_map_options *options);
HR_API HR_MUST_CHECK hr_status hr_pipeline_filter(hr_pipeline *pipeline, hr_filter_fn *fn,
                                                  void *user, const char *name);

#define HR_COUNT_UNKNOWN UINT64_MAX
/* A source of your own.  count HR_COUNT_UNKNOWN: a stream; a resume then calls it again from the epoch's start. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_callback(hr_pipeline *pipeline, hr_source_fn *fn,
                                                    void *user, uint64_t count,
                                                    const hr_map_options *options);
/* Arrays whose first dimension counts the elements.  They stay yours, must outlive the pipeline, and are not part of
 * its budget: one element at a time is copied out. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_arrays(hr_pipeline *pipeline, const hr_field *arrays,
                                                  size_t count);

/* Freezes the pipeline, opens its sources and checks the budget.  HR_E_LIMIT: the smallest working set is larger than
 * the budget; the error names the stage, its bytes and the sum. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_build(hr_pipeline *pipeline);

/* create + add + build.  When one of them fails, *error (which may be NULL) has the reason. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_open(const hr_pipeline_options *options,
                                                const char *text, hr_error *error,
                                                hr_pipeline **out);

/* ---- running ---- */

/* The next element; give it back with hr_element_unref.  HR_E_EOF at the end of the epoch, again and again until
 * rewind.  Any other failure belongs to one element, which is passed over: the next call goes on behind it.
 * HR_E_LIMIT when the elements you hold leave too little room for one more. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_next(hr_pipeline *pipeline, hr_element **out);
/* The same, copied into memory of yours, such as the pinned staging buffers of a plan: the field named to[i].name goes
 * to to[i].data, which has room for to[i].bytes; to[i].meta and to[i].bytes then say what came.  HR_E_NOT_FOUND or
 * HR_E_SHAPE when a field is missing or larger than its room: nothing is copied, and the element is passed over. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_next_into(hr_pipeline *pipeline, hr_field *to,
                                                     size_t count);
/* Zero is the default in every field: one element after another until the end of an epoch. */
typedef struct hr_pipeline_run_options {
    size_t size;
    uint64_t epochs;       /* 0: one, or with milliseconds as many as there is time for */
    uint64_t elements;     /* stop after so many; 0: no limit */
    uint64_t milliseconds; /* stop after that time; 0: no limit */
} hr_pipeline_run_options;

typedef struct hr_pipeline_run_result {
    size_t size;
    uint64_t elements, samples, bytes, epochs;
    double seconds;
} hr_pipeline_run_result;

/* One element, which stays the pipeline's.  Any status but HR_OK ends the run with it. */
typedef hr_status hr_element_fn(void *user, hr_element *element);

/* Takes elements and throws them away: to look at them, and to measure (hr_pipeline_get_stage_stats).  fn may be NULL.
 * Returns what hr_pipeline_next failed with, or what fn returned; *out covers what came before. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_run(hr_pipeline *pipeline,
                                               const hr_pipeline_run_options *options,
                                               hr_element_fn *fn, void *user,
                                               hr_pipeline_run_result *out);
/* Starts the next epoch, from wherever this one is. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_rewind(hr_pipeline *pipeline);
/* Starts epoch `epoch`. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_seek(hr_pipeline *pipeline, uint64_t epoch);

/* The place between the last element handed out and the next, as bytes to be kept in a checkpoint.  The caller frees
 * *out with hr_pipeline_state_free. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_save(hr_pipeline *pipeline, void **out,
                                                size_t *out_bytes);
HR_API void hr_pipeline_state_free(void *state);
/* HR_E_INVALID when it was saved by another pipeline, HR_E_FORMAT when it is damaged. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_restore(hr_pipeline *pipeline, const void *state,
                                                   size_t bytes);

/* ---- what is known ---- */

/* Elements an epoch, or HR_COUNT_UNKNOWN. */
HR_API uint64_t hr_pipeline_count(const hr_pipeline *pipeline);
/* The fields of its elements, as far as they are known after build: an unknown dimension is -1.  0 fields: unknown. */
HR_API size_t hr_pipeline_field_count(const hr_pipeline *pipeline);
HR_API const hr_field *hr_pipeline_field(const hr_pipeline *pipeline, size_t index);
/* Names of classes, where the source has them (image folders, CIFAR-10); NULL beyond the last. */
HR_API const char *hr_pipeline_class(const hr_pipeline *pipeline, size_t index);
/* The whole numbers in a field of all elements of the source, looked through in its file; stages behind the source may
 * leave some of them out. */
typedef struct hr_label_range {
    size_t size; /* set by the caller to sizeof(hr_label_range) */
    int64_t min, max;
    uint64_t count, negative; /* numbers; those below 0 */
} hr_label_range;
/* HR_E_NOT_FOUND when the source cannot tell without loading everything, or the numbers are not whole; HR_E_IO. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_labels(hr_pipeline *pipeline, const char *field,
                                                  hr_label_range *out);
/* What the user should know although the pipeline was built: files that were left out, classes without images.  A
 * sentence each; NULL beyond the last. */
HR_API const char *hr_pipeline_note(const hr_pipeline *pipeline, size_t index);
/* The file of its sources that was changed last, and when, in seconds since 1970.  HR_E_NOT_FOUND when it reads none. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_newest(const hr_pipeline *pipeline, char *path,
                                                  size_t size, int64_t *changed_s);
/* Same stages, options and source files (names, sizes, times of the last change): same number. */
HR_API uint64_t hr_pipeline_fingerprint(const hr_pipeline *pipeline);
/* The last failure. */
HR_API void hr_pipeline_error(hr_pipeline *pipeline, hr_error *out);

typedef struct hr_stage_stats {
    size_t size; /* set by the caller to sizeof(hr_stage_stats) */
    char name[HR_FIELD_NAME_SIZE];
    uint64_t elements, bytes; /* handed on since build */
    uint64_t busy_ns;         /* time spent working, all threads together */
    uint64_t wait_ns;         /* time in which the stage below waited for this one */
    uint64_t held_bytes, peak_bytes,
        smallest_bytes;       /* now, at most, and the guaranteed working set */
    uint32_t parallel, depth; /* threads and buffered elements that the tuner chose; 0: has none */
    uint64_t shrunk;          /* how often the budget made it smaller */
} hr_stage_stats;

typedef struct hr_pipeline_stats {
    size_t size; /* set by the caller to sizeof(hr_pipeline_stats) */
    uint64_t budget_bytes, held_bytes, peak_bytes, smallest_bytes;
    uint64_t epoch, elements; /* elements handed out since build */
    uint64_t bad;             /* elements left out by skip_bad */
    uint64_t wait_ns;         /* time you spent waiting in hr_pipeline_next */
    uint32_t stage_count;
    uint32_t reserved;
    uint64_t left_over; /* elements at the end of an epoch that filled no group of whole(N) */
} hr_pipeline_stats;

/* Fails only for a size that was forgotten. */
HR_API hr_status hr_pipeline_get_stats(hr_pipeline *pipeline, hr_pipeline_stats *out);
/* HR_E_NOT_FOUND beyond stage_count.  Stages count from the source. */
HR_API HR_MUST_CHECK hr_status hr_pipeline_get_stage_stats(hr_pipeline *pipeline, size_t index,
                                                           hr_stage_stats *out);
/* The name and the reason of a bad element, as "name: reason"; NULL beyond those remembered (the first 100). */
HR_API const char *hr_pipeline_bad(hr_pipeline *pipeline, size_t index);

HR_END_DECLS
#endif
