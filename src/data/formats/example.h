/* tf.train.Example, read: the protocol buffer that most TFRecord files hold.  Only what it needs of the wire format is
 * here: fields by number, packed and single numbers, unknown fields skipped. */
#ifndef HRI_DATA_EXAMPLE_H
#define HRI_DATA_EXAMPLE_H

#include "data/element.h"

/* Every feature becomes a field: bytes u8[n], numbers f32 or i64, a list of one number a scalar.  Several byte strings
 * in one feature are put one behind the other, with their lengths in a field NAME.lengths.  HR_E_FORMAT with a reason
 * when the bytes are no Example. */
HR_MUST_CHECK hr_status hri_example_emit(const void *data, size_t bytes, hr_emit *emit);

#endif
