// Pictures of few channels for a convolution of stride 2 (gpu_fold.c): two by two pixels become one of four times the
// channels.  Defines: HR_T, C (channels) and C2 (after, in whole packs; those behind 4 C are 0).

enum { THREADS = 256, PACK = 16 / (int)sizeof(HR_T) };
typedef hr_pack<HR_T, PACK> pack;

HR_INLINE HR_T nothing() {
    HR_T z;
    hr_store(&z, 0.0f);
    return z;
}

// x (N, H, W, C) -> to (N, H2, W2, C2): pixel (2 R + a - top, 2 S + b - left) is channel (2 a + b) C of (R, S).
HR_KERNEL __launch_bounds__(THREADS)
    fold_image(const HR_T *x, HR_T *to, hr_i64 count, hr_i32 h, hr_i32 w, hr_i32 h2, hr_i32 w2, hr_i32 top, hr_i32 left) {
    const hr_i64 i = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) {
        return;
    }
    const hr_i32 s = (hr_i32)(i % w2), r = (hr_i32)(i / w2 % h2);
    const hr_i64 n = i / w2 / h2;
    HR_T v[C2];
#pragma unroll
    for (int k = 0; k < C2; k++) {
        v[k] = nothing();
    }
#pragma unroll
    for (int a = 0; a < 2; a++) {
#pragma unroll
        for (int b = 0; b < 2; b++) {
            const hr_i32 y = 2 * r + a - top, z = 2 * s + b - left;
            if (y >= 0 && y < h && z >= 0 && z < w) {
#pragma unroll
                for (int k = 0; k < C; k++) {
                    v[(2 * a + b) * C + k] = x[((n * h + y) * w + z) * C + k];
                }
            }
        }
    }
#pragma unroll
    for (int k = 0; k < C2; k += PACK) {
        pack out;
#pragma unroll
        for (int j = 0; j < PACK; j++) {
            out.at[j] = v[k + j];
        }
        *(pack *)(to + i * C2 + k) = out;
    }
}

// w (KH, KW, C, O) -> to (KH2, KW2, C2, O).
HR_KERNEL __launch_bounds__(THREADS)
    fold_weights(const HR_T *w, HR_T *to, hr_i64 count, hr_i32 kh, hr_i32 kw, hr_i32 kw2, hr_i32 o) {
    const hr_i64 i = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) {
        return;
    }
    const hr_i32 of = (hr_i32)(i % o), c = (hr_i32)(i / o % C2);
    const hr_i64 at = i / o / C2;
    const hr_i32 y = (hr_i32)(at / kw2) * 2 + c / (2 * C), z = (hr_i32)(at % kw2) * 2 + c / C % 2;
    const int there = c < 4 * C && y < kh && z < kw;
    to[i] = there ? w[(((hr_i64)y * kw + z) * C + c % C) * o + of] : nothing();
}
