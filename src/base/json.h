/* JSON through jansson: building with one check at the end, reading with limits and a place in the error.
 *
 *   hri_json j;
 *   hri_json_init(&j);
 *   hri_json_u64(&j, "version", 1);
 *   hri_json_array(&j, "choices");
 *     hri_json_object(&j, NULL);  hri_json_string(&j, "name", "x");  hri_json_end(&j);
 *   hri_json_end(&j);
 *   status = hri_json_print(&j, 2, &text);         the first failure of any of the calls above
 *   hri_json_deinit(&j);
 *
 * The builder writes into an object that is open from the start; after a failure all calls do nothing.
 * Byte counts are integers.  jansson's memory functions are the process's and are left alone.
 * Threads: one at a time. */
#ifndef HRI_BASE_JSON_H
#define HRI_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include <headroom/status.h>
#include "base/prose.h"

enum { HRI_JSON_DEPTH = 32 };

typedef struct hri_json {
    json_t *open[HRI_JSON_DEPTH]; /* borrowed but for open[0], the root */
    unsigned depth;
    hr_status status;
} hri_json;

void hri_json_init(hri_json *j);
void hri_json_deinit(hri_json *j);
/* key is the name in an object and NULL in an array; a wrong one is HR_E_INVALID, an object's key given
 * twice HR_E_EXISTS.  Numbers over 2^63-1 are HR_E_RANGE.  NaN and infinities become null.  A text that
 * is not UTF-8 has its bad bytes replaced by '?'.  string NULL is null. */
void hri_json_object(hri_json *j, const char *key);
void hri_json_array(hri_json *j, const char *key);
void hri_json_end(hri_json *j);
void hri_json_string(hri_json *j, const char *key, const char *value);
void hri_json_u64(hri_json *j, const char *key, uint64_t value);
void hri_json_i64(hri_json *j, const char *key, int64_t value);
void hri_json_double(hri_json *j, const char *key, double value);
void hri_json_bool(hri_json *j, const char *key, bool value);
void hri_json_null(hri_json *j, const char *key);
/* HR_OK, or the first failure; HR_E_INVALID while an object or array is still open. */
HR_MUST_CHECK hr_status hri_json_status(const hri_json *j);
/* The whole as text with a NUL, indented by `indent` (0: one line); keys in the order they were put.
 * hri_free() it. */
HR_MUST_CHECK hr_status hri_json_print(const hri_json *j, unsigned indent, char **out);

/* ---- reading ---- */

/* What is built takes about 100 bytes a value beside the text, so it is the values that bound the memory.  Files of others that
 * may be long are read with json_stream.h, which builds nothing. */
typedef struct hri_json_limits {
    size_t max_bytes;   /* 0: 64 MiB */
    unsigned max_depth; /* 0: 32 */
    size_t max_values;  /* 0: a million; counted from outside, by commas and brackets */
} hri_json_limits;

/* Parses one value (any kind) that is the whole text.  HR_E_FORMAT with "line 3, column 7: ..." for wrong
 * JSON, keys given twice included; HR_E_RANGE over a limit.  limits may be NULL.  json_decref() the
 * result. */
HR_MUST_CHECK hr_status hri_json_parse(const char *text, size_t bytes,
                                       const hri_json_limits *limits, json_t **out, hri_prose *why);
/* The same from a file; the sentence starts with the path. */
HR_MUST_CHECK hr_status hri_json_load(const char *path, const hri_json_limits *limits, json_t **out,
                                      hri_prose *why);

/* A member of an object: HR_E_NOT_FOUND when it is not there, HR_E_FORMAT when it is of another kind,
 * HR_E_RANGE for a negative u64; the sentence names the key.  Texts belong to the object. */
HR_MUST_CHECK hr_status hri_json_get_u64(const json_t *object, const char *key, uint64_t *out,
                                         hri_prose *why);
HR_MUST_CHECK hr_status hri_json_get_double(const json_t *object, const char *key, double *out,
                                            hri_prose *why);
HR_MUST_CHECK hr_status hri_json_get_bool(const json_t *object, const char *key, bool *out,
                                          hri_prose *why);
HR_MUST_CHECK hr_status hri_json_get_string(const json_t *object, const char *key, const char **out,
                                            hri_prose *why);

#endif
