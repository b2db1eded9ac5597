/* Which kernels for rows of scores this processor has: those of attention_rows.h with AVX-512, else none. */
#include "ops/common/attention_tiles.h"

#if defined(__x86_64__)
#include "ops/common/rows16_x86.h"

#include "ops/common/attention_rows.h"
#endif

hri_at_rows hri_at_rows_pick(void) {
#if defined(__x86_64__)
    if (HRI_ROWS_CPU()) {
        return (hri_at_rows){hri_rows_soften, hri_rows_differentiate, hri_rows_dot};
    }
#endif
    return (hri_at_rows){0};
}
