/* See quantized.h. */
#include "ops/common/quantized.h"

#include "ops/common/requantize.h"

hr_status hri_quantized_columns(hri_infer *c, int64_t columns) {
    for (uint32_t i = 2; i < 4; i++) {
        if (c->in[i].type != HR_TYPE_F32 || c->in[i].shape.rank != 1 ||
            c->in[i].shape.dim[0] != columns) {
            return hri_infer_fail(c, "scale and bias must be f32 with %lld elements",
                                  (long long)columns);
        }
    }
    return HR_OK;
}

hr_status hri_quantized_infer(hri_infer *c, int64_t columns, int64_t depth) {
    const hr_status status = hri_quantized_columns(c, columns);
    if (status != HR_OK) {
        return status;
    }
    if (!hri_is_range(c, 4) || (c->in_count > 6 && !hri_is_range(c, 6))) {
        return hri_infer_fail(c, "scales must be f32 scalars and zero points u8 scalars");
    }
    return depth <= HRI_I8_DEPTH_MAX
               ? HR_OK
               : hri_infer_fail(c, "a sum of %lld products could overflow (at most %d)",
                                (long long)depth, HRI_I8_DEPTH_MAX);
}
