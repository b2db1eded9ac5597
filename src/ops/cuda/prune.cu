// Pruning: the choice of a mask, and zeros where it has none.  ops/common/sparsity.c has the same schedule and choice, to the bit.
//
// Kernels are part of a captured step, so each of them looks at the number of the step itself and returns when the mask does not
// change in it.  `choose` is one block: it counts magnitudes by their bits in three rounds, then gives ties by index, so its
// result depends on nothing but the weights.  It reads them five times, in one step of a hundred.

struct schedule {
    double initial, final;
    hr_i64 begin, end, every;
};

typedef HR_T T;
enum { THREADS = 256, WORKERS = 512, BINS = 2048, CODES = HR_CODES };

HR_INLINE bool changes(const schedule &s, hr_i64 at) {
    return at >= s.begin && at <= s.end && ((at - s.begin) % s.every == 0 || at == s.end);
}

// How many of n are pruned.  No product is added in one rounding.
HR_INLINE hr_i64 cut_of(const schedule &s, hr_i64 at, hr_i64 n) {
    double share = s.final;
    if (at < s.end) {
        const double p = at <= s.begin ? 0.0 : (double)(at - s.begin) / (double)(s.end - s.begin);
        const double rest = 1.0 - p;
        share = __dadd_rn(s.final, __dmul_rn(__dmul_rn(__dmul_rn(s.initial - s.final, rest), rest), rest));
    }
    const hr_i64 kept = (hr_i64)floor(__dadd_rn(__dmul_rn((double)n, 1.0 - share), 0.5));
    return n - (kept < 1 ? 1 : kept > n ? n : kept);
}

HR_INLINE hr_u32 magnitude(float x) {
    return __float_as_uint(x) & 0x7fffffffu;
}

HR_KERNEL __launch_bounds__(WORKERS)
    choose(const float *w, hr_u8 *mask, const hr_control *control, hr_i64 n, HR_TABLE struct schedule s) {
    __shared__ hr_u32 bins[BINS];
    __shared__ hr_u32 sums[WORKERS];
    __shared__ hr_u32 found;
    __shared__ hr_i64 rest;
    const hr_i64 at = (hr_i64)control->step, bytes = (n + 7) / 8;
    const hr_i64 me = threadIdx.x;
    if (!changes(s, at)) {
        return; // the whole block
    }
    hr_i64 cut = cut_of(s, at, n);
    const int rounds = cut > 0 ? 3 : 0;
    hr_u32 top = 0;
    for (int round = 0; round < rounds; round++) {
        const hr_u32 shift = round == 0 ? 20 : round == 1 ? 10 : 0, wide = round == 0 ? 11 : 10;
        for (hr_i64 i = me; i < BINS; i += WORKERS) {
            bins[i] = 0;
        }
        __syncthreads();
        for (hr_i64 i = me; i < n; i += WORKERS) {
            const hr_u32 m = magnitude(w[i]);
            if (m >> (shift + wide) == top >> (shift + wide)) {
                atomicAdd(&bins[m >> shift & ((1u << wide) - 1)], 1u);
            }
        }
        __syncthreads();
        if (me == 0) {
            hr_i64 below = 0;
            hr_u32 bin = 0;
            while (below + (hr_i64)bins[bin] <= cut) {
                below += bins[bin++];
            }
            found = bin;
            rest = cut - below;
        }
        __syncthreads();
        top |= found << shift;
        cut = rest;
    }
    hr_i64 before = 0; // equal to the top so far
    for (hr_i64 first = 0; first < bytes; first += WORKERS) {
        const hr_i64 byte = first + me;
        hr_u32 ties = 0, smaller = 0, equal = 0;
        for (int k = 0; k < 8 && byte < bytes; k++) {
            const hr_i64 i = 8 * byte + k;
            const hr_u32 m = i < n ? magnitude(w[i]) : 0xffffffffu;
            smaller |= (hr_u32)(m < top) << k;
            equal |= (hr_u32)(m == top && i < n) << k;
        }
        ties = (hr_u32)__popc(equal);
        sums[me] = ties;
        __syncthreads();
        for (int step = 1; step < WORKERS; step *= 2) {
            const hr_u32 other = me >= step ? sums[me - step] : 0;
            __syncthreads();
            sums[me] += other;
            __syncthreads();
        }
        hr_i64 mine = before + (hr_i64)(sums[me] - ties);
        before += sums[WORKERS - 1];
        for (int k = 0; k < 8; k++) {
            if (equal >> k & 1u) {
                smaller |= (hr_u32)(mine++ < cut) << k;
            }
        }
        if (byte < bytes) {
            mask[byte] = (hr_u8)~smaller;
        }
        __syncthreads();
    }
}

// Two of every four that lie `inner` apart; a thread has a byte of the mask.
HR_KERNEL __launch_bounds__(THREADS) choose_2_of_4(const float *w, hr_u8 *mask, const hr_control *control, hr_i64 n,
                                                   hr_i64 inner, HR_TABLE struct schedule s) {
    const hr_i64 byte = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (!changes(s, (hr_i64)control->step) || 8 * byte >= n) {
        return;
    }
    hr_u32 bits = 255;
    for (int k = 0; k < 8 && 8 * byte + k < n; k++) {
        const hr_i64 i = 8 * byte + k, own = i / inner % 4, first = i - own * inner;
        const hr_u32 m = magnitude(w[i]);
        int larger = 0;
        for (int q = 0; q < 4; q++) {
            const hr_u32 other = magnitude(w[first + q * inner]);
            larger += other > m || (other == m && q < own);
        }
        bits &= larger < 2 ? 255u : ~(1u << k);
    }
    mask[byte] = (hr_u8)bits;
}

// x, elements `first` on of what the mask is of, is 0 where the mask is 0; CODES: 8-bit codes in blocks of 256.
HR_KERNEL __launch_bounds__(THREADS) clear(T *x, const hr_u8 *mask, const hr_control *control, hr_i64 n, hr_i64 first,
                                           hr_i64 bytes, HR_TABLE struct schedule s) {
    const hr_i64 i = (hr_i64)blockIdx.x * THREADS + threadIdx.x, e = first + i;
    if (!changes(s, (hr_i64)control->step) || i >= n || e >= 8 * bytes || mask[e / 8] >> (e % 8) & 1u) {
        return;
    }
    if (CODES) {
        ((hr_u8 *)x)[i / 256 * 260 + 4 + i % 256] = 0;
    } else {
        hr_store(&x[i], 0.0f);
    }
}
