/* The context: the root object.  It finds the devices, owns everything made below it, carries the log callback and
 * the last error.  There is no process-wide state: two contexts know nothing of each other.
 *
 *   hr_ctx *ctx;
 *   if (hr_ctx_create(NULL, &ctx) != HR_OK) ...
 *   ...
 *   hr_ctx_destroy(ctx);
 *
 * Threads: any thread may use a context; create and destroy belong to one thread. */
#ifndef HEADROOM_CONTEXT_H
#define HEADROOM_CONTEXT_H

#include <stddef.h>
#include <stdint.h>
#include <headroom/status.h>

HR_BEGIN_DECLS

typedef struct hr_ctx hr_ctx;

typedef enum hr_log_level {
    HR_LOG_ERROR = 0,
    HR_LOG_WARN = 1,
    HR_LOG_INFO = 2,
    HR_LOG_DEBUG = 3
} hr_log_level;

/* Called with one line without its newline.  May be called from any thread, never two at once for one context, and
 * must not call back into the context. */
typedef void hr_log_fn(void *user, hr_log_level level, const char *line);

/* Zero means the default in every field.  Set `size` to sizeof(hr_ctx_options). */
typedef struct hr_ctx_options {
    size_t size;
    const char *
        visible_devices; /* as HEADROOM_VISIBLE_DEVICES; NULL: take that variable; "" : the host only */
    hr_log_fn *log;      /* NULL: silent; the library itself never prints */
    void *log_user;
    int32_t log_level;   /* hr_log_level: lines up to this level are passed on; 0: errors only */
    int32_t no_cuda;     /* 1: do not look for CUDA */
    uint64_t null_bytes; /* > 0: add a device null:0 of this size, for planning */
} hr_ctx_options;

/* Who holds memory, in an out-of-memory error. */
typedef struct hr_holder {
    char owner[48];
    char category[16];
    uint64_t bytes;
    uint64_t blocks;
} hr_holder;

enum { HR_ERROR_HOLDERS = 5 };

/* The last failure of an object, copied out whole.  The byte fields are zero where they mean nothing.  Frozen: it has no
 * size, and what is added later is taken from `reserved`. */
typedef struct hr_error {
    int32_t code;  /* hr_status */
    int32_t cause; /* of calls of job.h: hr_cause, who has to act; else 0 */
    int32_t
        option_bytes; /* of calls of job.h: the message begins with the name of an option, so long; else 0 */
    uint32_t holder_count;
    char message[2048]; /* prose for people, several lines for out of memory */
    uint64_t wanted_bytes;
    uint64_t limit_bytes;
    uint64_t held_bytes;
    uint64_t live_bytes;
    uint64_t free_bytes;         /* what could still be served, were it in one piece */
    uint64_t largest_free_bytes; /* the largest single block that would have been served */
    uint64_t device_free_bytes;  /* what the physical device itself has left; UINT64_MAX: unknown */
    hr_holder holders[HR_ERROR_HOLDERS];
    uint64_t reserved[16]; /* zero */
} hr_error;

/* options may be NULL.  A machine without a GPU is not an error: there is always the device "host".  An entry of the
 * visible list that names nothing is HR_E_NOT_FOUND; as there is no object yet to hold the prose, the log callback
 * gets it.  HR_E_NOMEM_HOST when our records find no memory. */
HR_API HR_MUST_CHECK hr_status hr_ctx_create(const hr_ctx_options *options, hr_ctx **out);

/* Destroys the context with everything in it, blocks and logical devices included.  NULL is allowed. */
HR_API void hr_ctx_destroy(hr_ctx *ctx);

/* Copies the last failure of any call on this context or on anything below it.  Under threads it is the last of any
 * thread.  code is HR_OK when nothing has failed yet. */
HR_API void hr_ctx_error(hr_ctx *ctx, hr_error *out);

/* "0.1.0". */
HR_API const char *hr_version(void);

HR_END_DECLS
#endif
