/* Python's pickles, read without executing anything: containers, texts and numbers; whatever would be a call is an opaque value.
 *
 * The one idea: a pickle is a program for a stack machine.  This one has the instructions that build data (protocols 0 to 5) and
 * none that finds or calls a thing by its name: where a file does that, an opaque value stands in its place.  Values refer to the
 * bytes of the file, which must outlive them; containers are numbered and lie in one list, so that a file which contains itself
 * is freed without walking it.
 *
 * With a list of names (hri_pickle_read_names) a file may speak of those and of nothing else: a call of one is a value that says
 * what was to be called with what, for the reader to make sense of.  Any other name, and any other instruction that would find
 * or make an object, is refused by its name.  Still nothing is called.
 *
 *   hri_pickle p = {0};
 *   status = hri_pickle_read(bytes, count, &p, &why);       p.root, p.truncated
 *   const hri_pickled *traces = hri_pickle_get(&p, &p.root, "device_traces");
 *   hri_pickle_deinit(&p);
 *
 * A file that ends too early gives what was built so far.  Memory is at most about 100 times the file.  Threads: one at a time. */
#ifndef HRI_BASE_PICKLE_H
#define HRI_BASE_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <headroom/status.h>
#include "base/alloc.h"
#include "base/prose.h"
#include "base/vector.h"

typedef enum hri_pickle_kind {
    HRI_PICKLE_OPAQUE, /* an object of some class, a number that is too large */
    HRI_PICKLE_NONE,
    HRI_PICKLE_INT, /* booleans too */
    HRI_PICKLE_FLOAT,
    HRI_PICKLE_TEXT,   /* str and bytes */
    HRI_PICKLE_LIST,   /* tuples and sets too */
    HRI_PICKLE_DICT,   /* key, value, key, value */
    HRI_PICKLE_NAME,   /* of the list: as.number is its place there */
    HRI_PICKLE_CALL,   /* a container of two: the name, the list of arguments */
    HRI_PICKLE_OUTSIDE /* a container of one: what names a thing outside of the pickle */
} hri_pickle_kind;

typedef struct hri_pickled {
    uint8_t kind;
    uint32_t count; /* TEXT: bytes */
    union {
        int64_t integer;
        double real;
        const char *text; /* no NUL behind */
        uint64_t number;  /* of the container */
    } as;
} hri_pickled;

HRI_VECTOR(hri_pickle_items, hri_pickled)
HRI_VECTOR(hri_pickle_containers, hri_pickle_items)
HRI_VECTOR(hri_pickle_marks, size_t)

typedef struct hri_pickle {
    hri_pickled root;
    bool truncated;
    hri_pickle_containers containers;
    hri_pickle_items stack, memo; /* while reading */
    hri_pickle_marks marks;
    size_t values; /* so far */
} hri_pickle;

/* HR_E_FORMAT when the bytes are no pickle, HR_E_RANGE over the limit on values. */
HR_MUST_CHECK hr_status hri_pickle_read(const void *bytes, size_t count, hri_pickle *out,
                                        hri_prose *why);
/* A name that a file may speak of.  A dict: calling it with nothing makes an empty dict. */
typedef struct hri_pickle_name {
    const char *module, *name; /* NULL at the end of the list */
    bool dict;
} hri_pickle_name;
/* Only these names, at most so many values, and whole: HR_E_FORMAT for a file that ends too early, HR_E_UNSUPPORTED for another
 * name or instruction. */
HR_MUST_CHECK hr_status hri_pickle_read_names(const void *bytes, size_t count,
                                              const hri_pickle_name *names, size_t values_max,
                                              hri_pickle *out, hri_prose *why);
void hri_pickle_deinit(hri_pickle *p);

/* Items of a list, dict, call or thing outside; none of anything else. */
hri_pickle_items hri_pickle_list(const hri_pickle *p, const hri_pickled *v);
/* A member of a dict, NULL when there is none.  v may be NULL. */
const hri_pickled *hri_pickle_get(const hri_pickle *p, const hri_pickled *v, const char *key);
/* 0 for anything but a number that is not negative. */
uint64_t hri_pickle_u64(const hri_pickled *v);
bool hri_pickle_is(const hri_pickled *v, const char *text);

#endif
