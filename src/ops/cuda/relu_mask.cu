// relu with one bit an element, and its gradient.  A thread has one byte of the mask: 8 elements of one sample, which
// are one access where 8 divides the size of a sample.  Outputs may lie over inputs.

typedef HR_T T;
typedef hr_pack<T, 8> eight;
enum { THREADS = 256 };

HR_INLINE T zero() {
    T z;
    hr_store(&z, 0.0f);
    return z;
}

HR_KERNEL __launch_bounds__(THREADS) relu_mask(const T *x, T *y, hr_u8 *mask, hr_i64 bytes, hr_i64 row_bytes,
                                               hr_i64 each, hr_u32 wide) {
    const hr_i64 i = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= bytes) {
        return;
    }
    hr_u32 bits = 0;
    if (wide) {
        eight v = *(const eight *)(x + i * 8);
#pragma unroll
        for (int k = 0; k < 8; k++) {
            const float f = hr_at(v, k);
            bits |= (hr_u32)(f > 0.0f) << k;
            v.at[k] = f < 0.0f ? zero() : v.at[k];
        }
        *(eight *)(y + i * 8) = v;
    } else {
        const hr_i64 first = i % row_bytes * 8, at = i / row_bytes * each + first;
        const int n = each - first < 8 ? (int)(each - first) : 8;
        for (int k = 0; k < n; k++) {
            const T v = x[at + k];
            const float f = hr_load(v);
            bits |= (hr_u32)(f > 0.0f) << k;
            y[at + k] = f < 0.0f ? zero() : v;
        }
    }
    mask[i] = (hr_u8)bits;
}

HR_KERNEL __launch_bounds__(THREADS) relu_mask_grad(const T *dy, const hr_u8 *mask, T *dx, hr_i64 bytes,
                                                    hr_i64 row_bytes, hr_i64 each, hr_u32 wide) {
    const hr_i64 i = (hr_i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= bytes) {
        return;
    }
    const hr_u32 bits = mask[i];
    if (wide) {
        eight v = *(const eight *)(dy + i * 8);
#pragma unroll
        for (int k = 0; k < 8; k++) {
            v.at[k] = bits >> k & 1u ? v.at[k] : zero();
        }
        *(eight *)(dx + i * 8) = v;
        return;
    }
    const hr_i64 first = i % row_bytes * 8, at = i / row_bytes * each + first;
    const int n = each - first < 8 ? (int)(each - first) : 8;
    for (int k = 0; k < n; k++) {
        dx[at + k] = bits >> k & 1u ? dy[at + k] : zero();
    }
}
