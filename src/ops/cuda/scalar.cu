// What kernels made from scalar expressions share (graph/op_scalar.c writes the rest behind this): where the elements of
// a broadcast operand lie, and packs of them.
//
// A pack is HR_V neighbours of the output.  Operands are fetched whole before anything is stored, so an output may lie
// over an operand of its own shape.

struct hr_walk {
    hr_i64 count; // elements of the output
    hr_i32 rank;
    hr_i32 unused;
    hr_i64 dim[8];
    hr_i64 stride[8][8]; // of the operands that are walked
};

// The place of element `at` of the output in operand K.  I is 32 bits wide where that is enough.
template <typename I> HR_INLINE hr_i64 hr_walk_to(const hr_walk &w, hr_i64 at, int k) {
    I rest = (I)at;
    hr_i64 place = 0;
    for (int d = w.rank - 1; d > 0; d--) {
        const I dim = (I)w.dim[d], row = rest / dim;
        place += (hr_i64)(rest - row * dim) * w.stride[k][d];
        rest = row;
    }
    return place + (hr_i64)rest * w.stride[k][0];
}
template <typename T, int V> HR_INLINE void hr_splat(const T *x, float (&out)[V]) {
    const float one = hr_load(*x);
#pragma unroll
    for (int i = 0; i < V; i++) {
        out[i] = one;
    }
}
// Neighbours from `at` on, those behind the end left out.
template <typename T, int V> HR_INLINE void hr_fetch(const T *x, hr_i64 at, hr_i64 count, float (&out)[V]) {
    if (at + V <= count) {
        hr_load_pack<T, V>(x + at, out);
        return;
    }
#pragma unroll
    for (int i = 0; i < V; i++) {
        out[i] = at + i < count ? hr_load(x[at + i]) : 0.0f;
    }
}
template <typename T, int V> HR_INLINE void hr_keep(T *y, hr_i64 at, hr_i64 count, const float (&x)[V]) {
    if (at + V <= count) {
        hr_store_pack<T, V>(y + at, x);
        return;
    }
#pragma unroll
    for (int i = 0; i < V; i++) {
        if (at + i < count) {
            hr_store(&y[at + i], x[i]);
        }
    }
}
// e^x to 20 bits or more.
HR_INLINE float hr_quick_exp(float x) {
    return hr_exp2(x * 1.44269504f);
}
HR_INLINE float hr_inverse(float x) {
    return 1.0f / x;
}
// 1 / x to 1 ulp, 0 for what is too large for it.
HR_INLINE float hr_quick_inverse(float x) {
#ifndef HRI_EMULATED
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return 1.0f / x;
#endif
}
// x as it would be after a store and a load: a value that is not stored has the same bits as one that is.
template <typename T> HR_INLINE float hr_rounded(float x) {
    T y;
    hr_store(&y, x);
    return hr_load(y);
}
