// delta (B, H, T) = rowsum(o do), which both passes of attention's gradient need, for 2-byte types and depths of whole eights.
#ifndef ELEM
#define ELEM hr_bf16
#endif

enum { THREADS = 128 };

// ops/common/attention_cuda.c has the same.
struct shape {
    hr_i64 queries, keys;
    hr_i64 q_batch, q_row, k_batch, k_row, v_batch, v_row, o_batch, o_row;
    hr_i32 heads, depth;
    float scale;
    hr_i32 group;
};

// A group of eight threads a row.
HR_KERNEL __launch_bounds__(THREADS)
    attention_delta(const ELEM *o, const ELEM *dout, float *delta, hr_i64 rows, shape a) {
    const hr_i64 r = (hr_i64)blockIdx.x * (THREADS / 8) + threadIdx.x / 8; // (b, t, h): as o lies
    float sum = 0.0f;
    if (r < rows) {
        for (int c = threadIdx.x % 8 * 8; c < a.depth; c += 64) {
            float x[8], y[8];
            hr_load_pack<ELEM, 8>(o + r * a.depth + c, x);
            hr_load_pack<ELEM, 8>(dout + r * a.depth + c, y);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                sum = fmaf(x[j], y[j], sum);
            }
        }
    }
    sum += __shfl_xor_sync(0xffffffffu, sum, 4);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    if (r < rows && threadIdx.x % 8 == 0) {
        const hr_i64 h = r % a.heads, t = r / a.heads % a.queries, b = r / a.heads / a.queries;
        delta[(b * a.heads + h) * a.queries + t] = sum;
    }
}
