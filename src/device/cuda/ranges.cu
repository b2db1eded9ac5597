// Many ranges of memory copied in one launch: what replicas give one another is hundreds of tensors, most of them small.
//
// The table is a kernel parameter, so it needs no memory.  A block finds its range and copies PIECE bytes of it.  The
// source may lie on another device that lets this one read.  device/cuda/gpu_ranges.c has the same table.

enum { RANGES = 170, PIECE = 32768, THREADS = 256, WIDE = 16, AT_ONCE = PIECE / WIDE / THREADS };

struct range {
    hr_u64 to, from;
    hr_u32 first; // its first block
    hr_u32 last;  // bytes of its last one
};
struct table {
    hr_u32 count, blocks;
    struct range range[RANGES];
};

HR_KERNEL __launch_bounds__(THREADS) copy_ranges(HR_TABLE struct table t) {
    if (t.count == 0) {
        return;
    }
    hr_u32 k = 0, end = t.count;
    while (end - k > 1) {
        const hr_u32 middle = (k + end) / 2;
        if (blockIdx.x >= t.range[middle].first) {
            k = middle;
        } else {
            end = middle;
        }
    }
    const hr_u64 begin = (hr_u64)(blockIdx.x - t.range[k].first) * PIECE;
    const hr_u32 next = k + 1 < t.count ? t.range[k + 1].first : t.blocks;
    const hr_u64 bytes = blockIdx.x + 1 < next ? PIECE : t.range[k].last;
    const hr_u8 *from = (const hr_u8 *)t.range[k].from + begin;
    hr_u8 *to = (hr_u8 *)t.range[k].to + begin;
    hr_u64 done = 0;
    if (((t.range[k].from | t.range[k].to) & (WIDE - 1)) == 0) {
        const hr_u64 count = bytes / WIDE;
        if (count == PIECE / WIDE) {
            uint4 x[AT_ONCE];
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                x[i] = ((const uint4 *)from)[i * THREADS + threadIdx.x];
            }
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                ((uint4 *)to)[i * THREADS + threadIdx.x] = x[i];
            }
        } else {
            for (hr_u64 i = threadIdx.x; i < count; i += THREADS) {
                ((uint4 *)to)[i] = ((const uint4 *)from)[i];
            }
        }
        done = count * WIDE;
    }
    for (hr_u64 i = done + threadIdx.x; i < bytes; i += THREADS) {
        to[i] = from[i];
    }
}
