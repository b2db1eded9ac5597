// y = x * scale + shift, bytes to real numbers; ops/normalise.c has the rule.  A thread has EACH neighbours, one access
// of 16 bytes, and counts the channel along; the last ones of the tensor, and tensors that are not aligned, go one by one.

typedef HR_T T;
enum { THREADS = 256, EACH = 16, WIDE = 16 / sizeof(T) };

HR_INLINE float real(hr_u8 x, float scale, float shift) {
    return __fadd_rn(__fmul_rn((float)x, scale), shift);
}

HR_KERNEL __launch_bounds__(THREADS) normalise(const hr_u8 *x, const float *scale, const float *shift, T *y,
                                               hr_i64 count, hr_i64 width, hr_u32 wide) {
    const hr_i64 at = ((hr_i64)blockIdx.x * THREADS + threadIdx.x) * EACH;
    if (at >= count) {
        return;
    }
    hr_i64 channel = at % width;
    if (wide && at + EACH <= count) {
        const hr_pack<hr_u8, EACH> in = *(const hr_pack<hr_u8, EACH> *)(x + at);
#pragma unroll
        for (int i = 0; i < EACH; i += WIDE) {
            float out[WIDE];
#pragma unroll
            for (int k = 0; k < WIDE; k++) {
                out[k] = real(in.at[i + k], scale[channel], shift[channel]);
                channel = channel + 1 == width ? 0 : channel + 1;
            }
            hr_store_pack<T, WIDE>(y + at + i, out);
        }
        return;
    }
    for (hr_i64 i = at; i < count && i < at + EACH; i++) {
        hr_store(y + i, real(x[i], scale[channel], shift[channel]));
        channel = channel + 1 == width ? 0 : channel + 1;
    }
}
