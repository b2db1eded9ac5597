/* Made-up batches by a counter-based rule, for tests, parity scripts and benchmarks.
 *
 * The rule, so that any language can follow it.  Take the inputs of a graph in the order of building, those named
 * "train.*" left out; number them k = 0, 1, ...  An input has the shape (N, ...) with N samples.  For sample n and
 * element i of it (row-major within the sample) the word is
 *
 *   block = Philox4x32-10(counter = {i / 4, n, 0x7fffff10 + k, step}, key = {seed & 0xffffffff, seed >> 32})
 *   word  = block[i % 4]
 *
 * with step from 0 and n counted from the first sample of the whole batch.  Then
 *
 *   real types    x = (word >> 8) * 2^-22 - 2           uniform in [-2, 2), exact in f32; then rounded to the type
 *   i32, i64      x = word % limit                      limit: the classes or the vocabulary, given by the caller
 *   u8            x = word & 255, or word % limit when a limit is given
 *
 * Every number is exact, so that no other side can differ in the last bit.  Images are (N, H, W, C), as everywhere. */
#ifndef HRI_STEP_SYNTHETIC_H
#define HRI_STEP_SYNTHETIC_H

#include <headroom/graph.h>

enum { HRI_SYNTHETIC_NODE = 0x7fffff10 };

/* Fills one input: number k, samples first_sample and on.  limit 0 counts as 1 for i32 and i64.  A scalar is one
 * sample. */
void hri_synthetic_fill(const hr_meta *meta, uint64_t seed, uint32_t step, uint32_t k,
                        uint32_t first_sample, uint32_t limit, void *out);
/* The same in pieces, for memory that is elsewhere: elements first .. first + count of one sample, at most
 * HRI_SYNTHETIC_PIECE of them. */
enum { HRI_SYNTHETIC_PIECE = 256 };
void hri_synthetic_piece(hr_type type, uint64_t seed, uint32_t step, uint32_t k, uint32_t sample,
                         uint64_t first, uint32_t count, uint32_t limit, void *out);

#endif
