// A mask of bytes as numbers that are added to scores: 0 where a key is shown, minus infinity where it is hidden.
// ELEM is the type of the numbers, PACK how many a thread has: 8 where that divides their count, else 1.
#ifndef ELEM
#define ELEM hr_bf16
#define PACK 8
#endif

enum { THREADS = 256 };

HR_KERNEL __launch_bounds__(THREADS)
    attention_shown(const hr_u8 *mask, ELEM *numbers, hr_i64 packs) {
    const hr_i64 i = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= packs) {
        return;
    }
    const hr_pack<hr_u8, PACK> x = *(const hr_pack<hr_u8, PACK> *)(mask + i * PACK);
    hr_pack<ELEM, PACK> y;
#pragma unroll
    for (int k = 0; k < PACK; k++) {
        hr_store(&y.at[k], x.at[k] ? 0.0f : hr_bits_float(0xff800000u));
    }
    *(hr_pack<ELEM, PACK> *)(numbers + i * PACK) = y;
}
