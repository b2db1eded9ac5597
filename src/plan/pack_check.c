/* The packer's checker: a plain look at all pairs, sharing no code with what it checks. */
#include "plan/pack.h"

int hri_pack_check(const hri_pack_buffer *buffers, size_t count, uint64_t align,
                   const uint64_t *offsets, uint64_t height, size_t bad[2]) {
    for (size_t i = 0; i < count; i++) {
        bad[0] = bad[1] = i;
        const uint64_t end = offsets[i] + buffers[i].bytes;
        if (offsets[i] % (align ? align : 1) != 0 || end < offsets[i] || end > height) {
            return 0;
        }
        for (size_t k = 0; k < i; k++) {
            const int together =
                buffers[i].lower < buffers[k].upper && buffers[k].lower < buffers[i].upper;
            const int alive =
                buffers[i].lower < buffers[i].upper && buffers[k].lower < buffers[k].upper;
            if (together && alive && offsets[i] < offsets[k] + buffers[k].bytes &&
                offsets[k] < end) {
                bad[1] = k;
                return 0;
            }
        }
    }
    return 1;
}
