// y = x + scale * draw.  A thread has one block of four random words, so up to four elements of one sample; a sample has `each`
// elements and `blocks` blocks.  y may lie over x.

typedef HR_T T;
enum { THREADS = 256, NORMAL = 0 };
#define HR_2_32 (1.0f / 4294967296.0f)

// Two words to two normal numbers, as hri_random_to_normals does in double: near 1 the logarithm is taken of what is missing to 1.
HR_INLINE void normals(hr_u32 a, hr_u32 b, float *out) {
    const float log_u = a >> 31 ? log1pf(-(float)~a * HR_2_32) : logf((float)(a + 1u) * HR_2_32);
    const float radius = sqrtf(-2.0f * log_u), angle = (float)(hr_i32)b * (2.0f * HR_2_32);
    out[0] = radius * cospif(angle);
    out[1] = radius * sinpif(angle);
}

HR_KERNEL __launch_bounds__(THREADS)
    noise(const T *x, T *y, const hr_control *control, hr_u32 node, hr_i64 threads, hr_i64 blocks,
          hr_i64 each, float scale, hr_u32 of) {
    const hr_i64 thread = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (thread >= threads) {
        return;
    }
    const hr_i64 sample = thread / blocks, block = thread % blocks;
    hr_u32 words[4];
    float draws[4];
    hr_philox(control->seed, control->step, node, control->first_sample + (hr_u32)sample,
              (hr_u32)block, words);
    if (of == NORMAL) {
        normals(words[0], words[1], draws);
        normals(words[2], words[3], draws + 2);
    } else {
        for (int i = 0; i < 4; i++) {
            draws[i] = hr_uniform(words[i]) - 0.5f;
        }
    }
    for (int i = 0; i < 4 && block * 4 + i < each; i++) {
        const hr_i64 at = sample * each + block * 4 + i;
        hr_store(&y[at], hr_load(x[at]) + scale * draws[i]);
    }
}
