/* Statuses: what every fallible function of Headroom returns.
 *
 * Zero is success, every failure is a negative code from the one list below.  A failing call leaves its
 * out-parameters and the objects it was given as they were.  The code says what kind of failure it was;
 * the prose (with the numbers in it) lies on the object that failed: see hr_ctx_error().
 *
 * Threads: everything here may be called from any thread. */
#ifndef HEADROOM_STATUS_H
#define HEADROOM_STATUS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) && __GNUC__ >= 4
#define HR_API               __attribute__((visibility("default")))
#define HR_MUST_CHECK        __attribute__((warn_unused_result))
#define HR_PRINTF(FMT, ARGS) __attribute__((format(printf, FMT, ARGS)))
#else
#define HR_API
#define HR_MUST_CHECK
#define HR_PRINTF(FMT, ARGS)
#endif

#ifdef __cplusplus
#define HR_BEGIN_DECLS extern "C" {
#define HR_END_DECLS   }
#else
#define HR_BEGIN_DECLS
#define HR_END_DECLS
#endif

/* How public structs grow, so that a program and a library of different versions understand one another.  A struct that
 * begins with `size_t size` gets new fields at its end, never elsewhere; whoever declares one sets size to sizeof, and
 * nobody touches a byte beyond it.
 *
 *   options, to the library     Fields that an older caller does not have are zero, the default.  A field that a newer
 *                               caller set and this library does not know is HR_E_UNSUPPORTED: no option is ignored.
 *   results, from the library   The library writes what both know, zeroes the rest, and stores in `size` how many bytes
 *                               it knew: HR_HAS(p, field) tells zero from unknown.
 *   arguments of a callback     The library sets size; HR_HAS before a field that was added after 0.2.
 *   size 0                      HR_E_INVALID: it was forgotten.
 *
 * Structs without a size are frozen.  Enumerations and truth values are int32_t in structs; enumerators are only ever
 * appended.  Strings are UTF-8 and live as long as the object that gave them, where nothing else is said. */
#define HR_HAS(P, FIELD)                                                                           \
    ((P)->size >= (size_t)((const char *)(&(P)->FIELD + 1) - (const char *)(P)))

/* A number of bytes or of things that nobody knows. */
#define HR_UNKNOWN UINT64_MAX

/* The one list: X(name, code, text).  Codes never change meaning; new ones go at the end. */
#define HR_STATUS_MAP(X)                                                                           \
    X(OK, 0, "success")                                                                            \
    X(E_INVALID, -1, "invalid argument")                                                           \
    X(E_NOMEM_HOST, -2, "out of host memory")                                                      \
    X(E_NOMEM_DEVICE, -3, "the device is out of memory")                                           \
    X(E_LIMIT, -4, "the limit of the logical device does not allow it")                            \
    X(E_RANGE, -5, "a number is out of range")                                                     \
    X(E_UNSUPPORTED, -6, "not supported")                                                          \
    X(E_NOT_FOUND, -7, "not found")                                                                \
    X(E_EXISTS, -8, "already exists")                                                              \
    X(E_BUSY, -9, "still in use")                                                                  \
    X(E_DEVICE, -10, "the device reported a failure")                                              \
    X(E_LOST, -11, "the device can no longer be used")                                             \
    X(E_IO, -12, "reading or writing failed")                                                      \
    X(E_FORMAT, -13, "the data is damaged or in another format")                                   \
    X(E_EOF, -14, "no more data")                                                                  \
    X(E_CANCELLED, -15, "cancelled")                                                               \
    X(E_INTERNAL, -16, "a bug in Headroom")                                                        \
    X(E_SHAPE, -17, "shapes or types do not match")                                                \
    X(E_NO_PLAN, -18, "no plan fits the budget")                                                   \
    X(E_AGAIN, -19, "not available now; the same call may succeed later")                          \
    X(E_PEER, -20, "another process of this run has ended, stopped or failed")

HR_BEGIN_DECLS

typedef enum hr_status {
#define HR_STATUS_ENUM(NAME, CODE, TEXT) HR_##NAME = CODE,
    HR_STATUS_MAP(HR_STATUS_ENUM)
#undef HR_STATUS_ENUM
} hr_status;

/* "HR_E_LIMIT", or "HR_E_UNKNOWN" for a code that is not in the list.  Static storage. */
HR_API const char *hr_status_name(hr_status status);

/* One sentence part, lower case, without a full stop.  Static storage. */
HR_API const char *hr_status_text(hr_status status);

HR_END_DECLS
#endif
