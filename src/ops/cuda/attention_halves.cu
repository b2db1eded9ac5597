// Numbers of a mask in f32, rounded to f16, for products that add them (attention_hopper_bits_pairs.cu): those up to MOST, which are 2^-9
// off at most.  Where there is any other, what it is rounded to is read by nobody: `again` is set.  Eight a thread; `count` eights.
enum { THREADS = 256 };
#define MOST 8.0f

HR_KERNEL __launch_bounds__(THREADS)
    attention_halves(const float *mask, hr_f16 *halves, hr_i64 count, hr_u32 *again) {
    const hr_i64 i = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) {
        return;
    }
    hr_pack<float, 4> x[2];
    x[0] = *(const hr_pack<float, 4> *)(mask + i * 8);
    x[1] = *(const hr_pack<float, 4> *)(mask + i * 8 + 4);
    float all[8];
    bool small = true;
#pragma unroll
    for (int n = 0; n < 8; n++) {
        all[n] = x[n / 4].at[n % 4];
        small = small && fabsf(all[n]) <= MOST;
    }
    hr_packer<hr_f16, 8>::put(halves + i * 8, all);
    if (!small) {
        *again = 1;
    }
}
