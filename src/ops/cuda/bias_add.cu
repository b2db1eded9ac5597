// y = x + b over rows of x.  2^across threads side by side have HR_V columns each, with their piece of the bias in
// registers; the others of a block take other rows, EACH of them.  y may lie over x.  HR_B is the type of the bias.

typedef HR_T T;
typedef HR_B B;
enum { THREADS = 256, V = HR_V, EACH = 4 };

HR_KERNEL __launch_bounds__(THREADS) bias_add(const T *x, const B *bias, T *y, hr_i64 rows, hr_i64 width,
                                              hr_u32 tiles, hr_u32 across) {
    const hr_u32 tx = threadIdx.x & ((1u << across) - 1), ty = threadIdx.x >> across;
    const hr_u32 down = THREADS >> across;
    const hr_i64 column = (hr_i64)((blockIdx.x % tiles << across) + tx) * V;
    const hr_i64 first = (hr_i64)(blockIdx.x / tiles) * down * EACH + ty;
    if (column >= width) {
        return;
    }
    float b[V], v[EACH][V];
    hr_load_pack<B, V>(bias + column, b);
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        if (first + i * down < rows) {
            hr_load_pack<T, V>(x + (first + i * down) * width + column, v[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        if (first + i * down < rows) {
#pragma unroll
            for (int k = 0; k < V; k++) {
                v[i][k] += b[k];
            }
            hr_store_pack<T, V>(y + (first + i * down) * width + column, v[i]);
        }
    }
}
