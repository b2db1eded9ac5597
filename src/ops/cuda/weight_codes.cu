// Weights of 8 and 4 bits become f32 (ops/common/weight_codes.h): one product a number, so the host has the same bits.

enum { THREADS = 256, EACH = 4 };

// A thread has every THREADS-th of a block's numbers.
#define EVERY(I)                                                                                                       \
    for (hr_i64 I = (hr_i64)blockIdx.x * THREADS * EACH + threadIdx.x, end = I + THREADS * EACH; I < end && I < count; \
         I += THREADS)

HR_KERNEL __launch_bounds__(THREADS)
    decode_8(const hr_u8 *codes, const float *scale, const hr_u8 *zero, float *w, hr_i64 in, hr_i64 group, hr_i64 count) {
    const hr_i64 groups = (in + group - 1) / group;
    (void)zero;
    EVERY(i) {
        const hr_i64 row = i / in, k = i % in;
        const hr_i32 byte = codes[i];
        w[i] = __fmul_rn((float)(byte > 127 ? byte - 256 : byte), scale[row * groups + k / group]);
    }
}

HR_KERNEL __launch_bounds__(THREADS)
    decode_4(const hr_u8 *codes, const hr_bf16 *scale, const hr_u8 *zero, float *w, hr_i64 in, hr_i64 group, hr_i64 count) {
    const hr_i64 groups = (in + group - 1) / group, bytes = (in + 1) / 2;
    EVERY(i) {
        const hr_i64 row = i / in, k = i % in, g = k / group;
        const hr_i32 code = codes[row * bytes + k / 2] >> (k % 2 * 4) & 15;
        const hr_i32 z = zero[row * ((groups + 1) / 2) + g / 2] >> (g % 2 * 4) & 15;
        w[i] = __fmul_rn((float)(code - z), hr_load(scale[row * groups + g]));
    }
}
