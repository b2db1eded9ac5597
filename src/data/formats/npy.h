/* The header of a .npy file: type, order, shape. */
#ifndef HRI_DATA_NPY_H
#define HRI_DATA_NPY_H

#include <headroom/graph.h>
#include "base/prose.h"

/* How the numbers lie in the file; those that we have no type for are converted when they are loaded. */
typedef enum hri_npy_kind {
    HRI_NPY_SAME, /* as meta.type says */
    HRI_NPY_U16,  /* to i32 */
    HRI_NPY_U32,  /* to i64 */
    HRI_NPY_I16,  /* to i32 */
    HRI_NPY_I8,   /* to i32 */
    HRI_NPY_F64   /* to f32 */
} hri_npy_kind;

typedef struct hri_npy {
    hr_meta meta; /* after conversion */
    hri_npy_kind kind;
    size_t unit_bytes;   /* of one number in the file */
    uint64_t data_start; /* offset of the first number */
} hri_npy;

/* Of the types that we read, NumPy writes 118. */
enum { HRI_NPY_HEAD_MAX = 4000 };

/* From the first bytes of a file.  HR_E_FORMAT for what is no .npy, and for types and orders that we do
 * not read (complex numbers, texts, big-endian, Fortran order). */
HR_MUST_CHECK hr_status hri_npy_parse(const void *data, size_t bytes, hri_npy *out, hri_prose *why);
/* Converts n numbers. */
void hri_npy_convert(hri_npy_kind kind, const void *from, void *to, uint64_t n);

#endif
