/* Which kernels for gelu this processor has: those of gelu_rows.h with AVX-512, else none. */
#include "ops/common/gelu.h"

#include <stddef.h>

#if defined(__x86_64__)
#include "ops/common/rows16_x86.h"

#include "ops/common/gelu_rows.h"
#endif

hri_gelu_rows hri_gelu_rows_pick(void) {
#if defined(__x86_64__)
    if (HRI_ROWS_CPU()) {
        return (hri_gelu_rows){hri_rows_gelu, hri_rows_gelu_grad};
    }
#endif
    return (hri_gelu_rows){NULL, NULL};
}
