// Queries that a mask hides every key from, after a library's attention: their o becomes 0 and their lse infinite.  Such a row is
// known by an lse that is no number or minus infinity; whether it was the mask is then read from the mask, so that what is not a
// number for another reason stays so.  A query whose keys are all hidden by large finite numbers gets the lse that our own kernels
// give it, because the way back may be theirs.  ELEM and MELEM are the types of o and of the mask; a thread has a row.
#ifndef ELEM
#define ELEM   hr_bf16
#define MELEM  float
#define CAUSAL 0
#endif

// ops/common/attention_cuda.c has the same.
struct blind {
    hr_i64 rows, queries, keys, o_batch, o_row, mask_batch, mask_head, mask_row;
    hr_i32 heads, depth;
    float low; // the least lse that attention.cu makes: it holds masks at it
};

HR_KERNEL __launch_bounds__(128) attention_blind(ELEM *o, float *lse, const MELEM *mask, blind a) {
    const hr_i64 row = (hr_i64)blockIdx.x * blockDim.x + threadIdx.x;
    const hr_i64 head = row / a.queries, i = row % a.queries, b = head / a.heads,
                 h = head % a.heads;
    const float none = hr_bits_float(0xff800000u);
    if (row >= a.rows || lse[row] >= a.low) {
        return;
    }
    if (lse[row] > none) {
        lse[row] = a.low;
        return;
    }
    mask += b * a.mask_batch + h * a.mask_head + i * a.mask_row;
    for (hr_i64 j = 0; j < (CAUSAL ? i + 1 : a.keys); j++) {
        if (hr_load(mask[j]) != none) {
            return;
        }
    }
    lse[row] = -none;
    o += b * a.o_batch + i * a.o_row + h * a.depth;
    for (int d = 0; d < a.depth; d++) {
        hr_store(&o[d], 0.0f);
    }
}
