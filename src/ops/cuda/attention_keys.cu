// Keys that a mask of bytes shows, close together: attention over them alone is attention with the mask, without any number added.
//
// attention_gather copies the rows of k and v of the keys that are shown, in their order, and writes how many there are for a library
// that takes lengths.  Rows behind them are 0 up to a multiple of EDGE, so that what a tile reads beside them is a number.
// attention_scatter puts the gradients of those rows back, and 0 for the hidden.  attention_unseen makes the lse of samples infinite
// whose keys are all hidden (they have one key of zeros, so that o is 0).  Rows are whole pieces of 16 bytes.
//
// Every block counts the mask of its sample from the beginning: bytes from the cache, no second launch, the same order each time.

enum { THREADS = 256, WARPS = THREADS / 32, ROWS = 32, EACH = 4, EDGE = 256 };

// ops/common/attention_keys.c has the same; strides in pieces.
struct picked {
    hr_i64 samples, queries, keys, mask_batch, k_batch, k_row, v_batch, v_row;
    hr_i32 pieces, heads;
};

// How many keys are shown.  FROM: `rows` gets the key of each rank in [first, first + ROWS), else the rank of each of those keys, -1
// where it is hidden.
template <bool FROM>
HR_INLINE hr_i32 ranks(const hr_u8 *mask, hr_i32 keys, hr_i32 first, hr_i32 *rows, hr_i32 *sums) {
    const hr_i32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    hr_i32 before = 0;
    for (hr_i32 i = threadIdx.x; i < ROWS; i += THREADS) {
        rows[i] = -1;
    }
    for (hr_i32 begin = 0; begin < keys; begin += THREADS * EACH) {
        const hr_i32 own = begin + warp * (32 * EACH) + lane;
        hr_u32 shown[EACH];
        hr_i32 count = 0;
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const hr_i32 j = own + e * 32;
            shown[e] = __ballot_sync(0xffffffffu, j < keys && mask[j < keys ? j : 0] != 0);
            count += __popc(shown[e]);
        }
        __syncthreads(); // rows are -1, and the sums of the last turn were read
        if (lane == 0) {
            sums[warp] = count;
        }
        __syncthreads();
        hr_i32 rank = before;
        for (hr_i32 w = 0; w < WARPS; w++) {
            rank += w < warp ? sums[w] : 0;
            before += sums[w];
        }
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const hr_i32 j = own + e * 32,
                         r = rank + __popc(shown[e] & ((1u << lane) - 1u)), at = (FROM ? r : j) - first;
            if (shown[e] >> lane & 1u && at >= 0 && at < ROWS) {
                rows[at] = FROM ? j : r;
            }
            rank += __popc(shown[e]);
        }
    }
    __syncthreads();
    return before;
}

// A row of k and one of v by a warp; from < 0: 0.
HR_INLINE void copy_row(const uint4 *k, const uint4 *v, uint4 *to_k, uint4 *to_v, hr_i32 pieces,
                        bool there) {
    const uint4 none = {0, 0, 0, 0};
#pragma unroll 4
    for (hr_i32 p = threadIdx.x % 32; p < pieces; p += 32) {
        const uint4 x = there ? k[p] : none, y = there ? v[p] : none;
        to_k[p] = x;
        to_v[p] = y;
    }
}

HR_KERNEL __launch_bounds__(THREADS)
    attention_gather(const hr_u8 *mask, const uint4 *k, const uint4 *v, uint4 *to_k, uint4 *to_v,
                     hr_i32 *of_queries, hr_i32 *of_keys, hr_i32 *counts, picked a) {
    __shared__ hr_i32 rows[ROWS], sums[WARPS];
    const hr_i32 keys = (hr_i32)a.keys, tiles = (keys + ROWS - 1) / ROWS,
                 first = (hr_i32)(blockIdx.x % tiles) * ROWS;
    const hr_i64 b = blockIdx.x / tiles;
    const hr_i32 count = ranks<true>(mask + b * a.mask_batch, keys, first, rows, sums);
    if (first == 0 && threadIdx.x == 0) {
        of_queries[b] = (hr_i32)a.queries;
        of_keys[b] = count > 0 ? count : 1;
        counts[b] = count;
    }
    const hr_i32 edge = (count > 0 ? count + EDGE - 1 : EDGE) / EDGE * EDGE;
    for (hr_i32 i = threadIdx.x / 32; i < ROWS && first + i < keys && first + i < edge; i += WARPS) {
        const hr_i64 j = rows[i], to = (b * a.keys + first + i) * a.pieces;
        copy_row(k + b * a.k_batch + j * a.k_row, v + b * a.v_batch + j * a.v_row, to_k + to,
                 to_v + to, a.pieces, j >= 0);
    }
}

HR_KERNEL __launch_bounds__(THREADS)
    attention_scatter(const hr_u8 *mask, const uint4 *k, const uint4 *v, uint4 *to_k, uint4 *to_v,
                      picked a) {
    __shared__ hr_i32 rows[ROWS], sums[WARPS];
    const hr_i32 keys = (hr_i32)a.keys, tiles = (keys + ROWS - 1) / ROWS,
                 first = (hr_i32)(blockIdx.x % tiles) * ROWS;
    const hr_i64 b = blockIdx.x / tiles;
    ranks<false>(mask + b * a.mask_batch, keys, first, rows, sums);
    for (hr_i32 i = threadIdx.x / 32; i < ROWS && first + i < keys; i += WARPS) {
        const hr_i64 r = rows[i], from = (b * a.keys + r) * a.pieces, j = first + i;
        copy_row(k + from, v + from, to_k + b * a.k_batch + j * a.k_row,
                 to_v + b * a.v_batch + j * a.v_row, a.pieces, r >= 0);
    }
}

HR_KERNEL __launch_bounds__(THREADS) attention_unseen(const hr_i32 *counts, float *lse, picked a) {
    const hr_i64 rows = a.heads * a.queries, parts = (rows + THREADS * 8 - 1) / (THREADS * 8),
                 b = blockIdx.x / parts, begin = blockIdx.x % parts * (THREADS * 8);
    if (counts[b] > 0) {
        return;
    }
    for (hr_i64 i = begin + threadIdx.x; i < rows && i < begin + THREADS * 8; i += THREADS) {
        lse[b * rows + i] = hr_bits_float(0x7f800000u);
    }
}
