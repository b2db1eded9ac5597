// y = draw >= p ? x * scale : 0.  A thread has 8 elements; a sample has `each`.  Where 8 divides each, they are two
// blocks of four random words; otherwise each element finds its own word.  y may lie over x.

typedef HR_T T;
enum { THREADS = 256 };

HR_INLINE float kept(float x, hr_u32 word, float p, float scale) {
    return hr_uniform(word) >= p ? x * scale : 0.0f;
}

// As dropout.c has it: with `shared`, where in the noise the draw of an element of a sample is.
struct noise {
    hr_i32 rank, shared;
    hr_i64 dim[8], stride[8];
};

HR_KERNEL __launch_bounds__(THREADS)
    dropout(const T *x, T *y, const hr_control *control, hr_u32 node, hr_i64 count, hr_i64 each,
            float p, float scale, hr_u32 wide, HR_TABLE struct noise shared) {
    const hr_i64 at = ((hr_i64)blockIdx.x * THREADS + threadIdx.x) * 8;
    const hr_u64 seed = control->seed;
    const hr_u32 step = control->step, first = control->first_sample;
    if (at >= count) {
        return;
    }
    if (wide) {
        const hr_u32 sample = first + (hr_u32)(at / each), block = (hr_u32)(at % each / 4);
        hr_u32 words[2][4];
        hr_philox(seed, step, node, sample, block, words[0]);
        hr_philox(seed, step, node, sample, block + 1, words[1]);
        float v[8];
        hr_load_pack<T, 8>(x + at, v);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            v[i] = kept(v[i], words[i / 4][i % 4], p, scale);
        }
        hr_store_pack<T, 8>(y + at, v);
        return;
    }
    for (hr_i64 i = at; i < at + 8 && i < count; i++) {
        hr_i64 index = i % each;
        if (shared.shared) {
            hr_i64 rest = index;
            index = 0;
            for (int d = shared.rank - 1; d >= 0; d--) {
                index += rest % shared.dim[d] * shared.stride[d];
                rest /= shared.dim[d];
            }
        }
        hr_u32 words[4];
        hr_philox(seed, step, node, first + (hr_u32)(i / each), (hr_u32)(index / 4), words);
        const hr_u32 word =
            (index & 2) ? ((index & 1) ? words[3] : words[2]) : ((index & 1) ? words[1] : words[0]);
        hr_store(&y[i], kept(hr_load(x[i]), word, p, scale));
    }
}
