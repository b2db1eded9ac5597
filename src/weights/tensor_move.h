/* One persistent value between a safetensors file and wherever it lives: converted, turned, in pieces.
 *
 * A value whose tag says so (HR_LAYOUT_CONV) is (KH, KW, C, O) in memory and (O, C, KH, KW) in files; everything else lies
 * alike in both.  Seen as a matrix, memory is (rows, O) and the file is (O, rows), with the rows in
 * another order.  So a band of columns in memory is one run of the file, and a band goes through one small buffer.
 *
 * The memory may be a device's: it is read and written by copying calls alone. */
#ifndef HRI_WEIGHTS_TENSOR_MOVE_H
#define HRI_WEIGHTS_TENSOR_MOVE_H

#include <headroom/model.h>
#include "weights/safetensors.h"

/* Where the values are.  What is not needed for the direction taken may be NULL. */
typedef struct hri_values {
    hr_value_get *get;
    hr_value_put *put;
    void *user;
    uint64_t buffer_bytes; /* of the band; 0: 256 KiB.  One column is always taken whole */
} hri_values;

/* The shape in files of a value of this shape and hr_layout in memory. */
hr_shape hri_file_shape(const hr_shape *memory, int32_t layout);

/* The tensor must have the value's shape in files, and a type that can be read as the value's.  What is turned is f32 or i8. */
HR_MUST_CHECK hr_status hri_tensor_load(const hri_tensors *file, const hri_tensor *tensor,
                                        const hri_values *to, hr_value value, const hr_meta *meta,
                                        int32_t layout, hri_prose *why);
/* Appends the value's data as `type`. */
HR_MUST_CHECK hr_status hri_tensor_save(hri_tensors_writer *w, hr_type type, const hri_values *from,
                                        hr_value value, const hr_meta *meta, int32_t layout,
                                        hri_prose *why);

#endif
