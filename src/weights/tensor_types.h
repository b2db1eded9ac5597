/* The types of safetensors files, and reading their elements as ours.
 *
 * One table: the file's word, the bytes of an element, and our type where there is one.  Real numbers convert into one
 * another through f32; whole numbers are read as themselves only. */
#ifndef HRI_WEIGHTS_TENSOR_TYPES_H
#define HRI_WEIGHTS_TENSOR_TYPES_H

#include <headroom/graph.h>

typedef struct hri_dtype {
    const char *name;
    uint32_t bytes;
    int type; /* hr_type, or -1 */
    int real; /* 1: converts into every real type */
} hri_dtype;

/* Ends with a NULL name. */
extern const hri_dtype hri_dtypes[];

int hri_dtype_find(const char *name, uint32_t *out); /* 1: found */
uint32_t hri_dtype_of(hr_type type);
int hri_dtype_converts(uint32_t kind, hr_type to);
/* n elements; neither side need be aligned.  Only what converts. */
void hri_dtype_convert(uint32_t kind, const void *in, hr_type to, void *out, uint64_t n);

#endif
