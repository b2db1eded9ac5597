/* Options that every stage with `apply` has: its options start with these. */
#ifndef HRI_DATA_APPLY_H
#define HRI_DATA_APPLY_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/options.h"

typedef struct hri_apply_options {
    int64_t parallel;
    bool ordered;
} hri_apply_options;

/* The rows for a table whose struct has the member `apply` first. */
#define HRI_APPLY_FIELDS                                                                           \
    {"parallel",                                                                                   \
     "maximum number of threads; 0: chosen and tuned automatically",                               \
     offsetof(hri_apply_options, parallel),                                                        \
     HRI_FIELD_INT,                                                                                \
     "0",                                                                                          \
     .min = 0,                                                                                     \
     .max = 1024,                                                                                  \
     .metavar = "N"},                                                                              \
    {                                                                                              \
        "ordered", "keep the order of the elements", offsetof(hri_apply_options, ordered),         \
            HRI_FIELD_BOOL, "on"                                                                   \
    }

#endif
