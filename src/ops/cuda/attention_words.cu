// A mask of bytes as words of bits, as the scores of attention_hopper_bits.cu lie: a word is what one thread of a warp has of 16 queries
// by 64 keys, bit n * 4 + half * 2 + i that of query lane / 4 + half * 8 and key n * 8 + lane % 4 * 2 + i; 1: shown.  A byte for each of
// those tiles says whether anything is (1) and whether anything is not (4).  CAUSAL hides later keys than the query; PAIRS: two bytes are
// read at once.  TURNED: tiles are 16 keys by 64 queries, for the gradient of keys.
#ifndef TURNED
#define TURNED 0
#endif
#ifndef CAUSAL
#define CAUSAL 0
#endif
#ifndef PAIRS
#define PAIRS 0
#endif

enum { THREADS = 256 };

// Masks (count, rows, keys), rows as many as queries or 1; tiles (count, along, across) of them.  Where all queries see the same there
// is one tile of queries, of which along or across is 1 then.  A warp has a tile.
HR_KERNEL __launch_bounds__(THREADS)
    attention_words(const hr_u8 *mask, hr_u32 *words, hr_u8 *seen, hr_i64 tiles, hr_i64 along,
                    hr_i64 across, hr_i64 rows, hr_i64 queries, hr_i64 keys) {
    const hr_i64 tile = (hr_i64)blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (tile >= tiles) {
        return; // the whole warp
    }
    const int lane = threadIdx.x % 32;
    const hr_i64 r0 = tile / across % along * 16 + lane / 4, c0 = tile % across * 64 + lane % 4 * 2;
    const hr_i64 step = rows == 1 ? 0 : keys;
    mask += tile / across / along * rows * keys;
    hr_u32 word = 0;
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int n = 0; n < 8; n++) {
            const hr_i64 r = r0 + half * 8, c = c0 + n * 8;
            const hr_i64 key = TURNED ? r : c, query = TURNED ? c : r;
            // One tile of queries stands for all of them.
            const bool low_there = key < keys && (query < queries || (rows == 1 && !CAUSAL));
            const bool high_there = TURNED ? key < keys && (query + 1 < queries || rows == 1)
                                           : low_there && key + 1 < keys;
            const hr_u8 *from = mask + query * step + key;
            hr_u32 low = 0, high = 0;
            if (PAIRS && !TURNED) {
                const hr_u32 two = low_there ? *(const hr_u16 *)from : 0u;
                low = two & 0xffu;
                high = two & 0xff00u;
            } else {
                low = low_there ? from[0] : 0u;
                high = high_there ? from[TURNED ? step : 1] : 0u;
            }
            if (CAUSAL) {
                low = key > query ? 0u : low;
                high = key + 1 > query ? 0u : high; // with TURNED the caller hides later keys
            }
            word |= ((low ? 1u : 0u) | (high ? 2u : 0u)) << (n * 4 + half * 2);
        }
    }
    words[tile * 32 + lane] = word;
    const bool any = __any_sync(0xffffffffu, word != 0), all = __all_sync(0xffffffffu, word == ~0u);
    if (lane == 0) {
        seen[tile] = (hr_u8)((any ? 1 : 0) | (all ? 0 : 4));
    }
}
