// Element-wise kernels over operands of one shape that are not made from a scalar expression.
//
// y = x by type: the cast of whole tensors between real types.  A thread takes one pack.
template <typename X, typename Y> HR_INLINE void cast(const X *x, Y *y, hr_i64 count) {
    const hr_i64 at = ((hr_i64)blockIdx.x * blockDim.x + threadIdx.x) * 8;
    if (at + 8 <= count) {
        float v[8];
        hr_load_pack<X, 8>(x + at, v);
        hr_store_pack<Y, 8>(y + at, v);
        return;
    }
    for (hr_i64 i = at; i < count; i++) {
        hr_store(&y[i], hr_load(x[i]));
    }
}
HR_KERNEL cast_f32_bf16(const float *x, hr_bf16 *y, hr_i64 count) {
    cast(x, y, count);
}
