// Pictures as rows of patches, and back (gpu_patches.c).
//
//   pictures (N, P, KH, Q, KW C)   patches (N, P, Q, KH, KW C), whose rows (KH, KW C) lie `apart` from one another
//
// Runs of KW C numbers stay together.  HR_E is as wide as they allow, up to 16 bytes, and all sizes are counted in it; HR_INDEX counts
// all of them.

typedef hr_pack<hr_u64, 2> hr_u128;
typedef HR_E E;
typedef HR_INDEX index_type;
enum { THREADS = 256, EACH = 4 }; // four a thread, so that four loads are in flight

struct patches {
    hr_u32 kh, q, run, apart;
};

// Of element `at` of the patches: where it lies there, and where in the pictures.
HR_INLINE void places(index_type at, const patches &g, hr_i64 *row, hr_i64 *pixel) {
    const index_type k = at % g.run, run = at / g.run;
    const index_type r = run % g.kh, patch = run / g.kh;
    const index_type s = patch % g.q, line = patch / g.q;
    *row = (hr_i64)patch * g.apart + r * g.run + k;
    *pixel = (((hr_i64)line * g.kh + r) * g.q + s) * g.run + k;
}

template <bool BACK> HR_INLINE void move(const E *x, E *y, index_type count, const patches &g) {
    const index_type begin = (index_type)blockIdx.x * (THREADS * EACH) + threadIdx.x;
    E v[EACH];
    hr_i64 to[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const index_type at = begin + i * THREADS;
        if (at < count) {
            hr_i64 row, pixel;
            places(at, g, &row, &pixel);
            v[i] = x[BACK ? row : pixel];
            to[i] = BACK ? pixel : row;
        }
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        if (begin + i * THREADS < count) {
            y[to[i]] = v[i];
        }
    }
}

HR_KERNEL __launch_bounds__(THREADS) to_patches(const E *x, E *y, index_type count, patches g) {
    move<false>(x, y, count, g);
}

HR_KERNEL __launch_bounds__(THREADS) from_patches(const E *x, E *y, index_type count, patches g) {
    move<true>(x, y, count, g);
}
