/* Optimizer state in 8 bits: blocks of 256 numbers, each a scale and 256 codes.
 *
 * A block is 260 bytes: the largest magnitude in it as an f32, then a code for each number, which times the scale is the
 * number.  The last block of a tensor is padded with zeros.  So state of n elements is a tensor u8[hri_codes_bytes(n)], and
 * whatever cuts it at blocks (threads, slices of ranks) leaves every bit as it is.
 *
 * Codes are dense where numbers are small (Dettmers' dynamic map): for i = 0 .. 6 the middles of 2^i equal parts of
 * [0.1, 1], times 10^(i - 6), with both signs; of 2^(i + 1) parts where nothing is negative.  0 and 1 are codes as well.
 * A value is one quotient of whole numbers, so every machine has the same table.  The code 0 is the number 0, so memory
 * of zeros is state of zeros.
 *
 * Rounding is to the nearest code or, with a draw, to one of the two neighbours so that the mean is right: a moment that
 * moves by less than a code in each step would otherwise never move.  Where nothing is negative, what is not 0 never becomes
 * 0: such state is divided by, and a quotient that is too small does less harm than one that has no bound.  A block with an infinity or NaN has it as its scale:
 * such state stays broken and visible, as it would in f32. */
#ifndef HRI_OPS_COMMON_CODES_H
#define HRI_OPS_COMMON_CODES_H

#include <stdint.h>

enum { HRI_CODES_BLOCK = 256, HRI_CODES_BLOCK_BYTES = 260 };

static inline int64_t hri_codes_bytes(int64_t elements) {
    return (elements + HRI_CODES_BLOCK - 1) / HRI_CODES_BLOCK * HRI_CODES_BLOCK_BYTES;
}

/* Numbers from 2^-22 to 1 by their exponent and the first six bits behind it: no two neighbours among those have more than two
 * codes between them. */
enum {
    HRI_CODES_STARTS = 22 * 64 + 1,
    HRI_CODES_START_SHIFT = 17,
    HRI_CODES_START_FIRST = 105 * 64
};

typedef struct hri_codes {
    int positive;         /* no number is negative: twice as many codes for those that there are */
    float value[256];     /* by code */
    float magnitude[257]; /* those of codes that are not negative, rising; then infinities */
    unsigned char start[HRI_CODES_STARTS]; /* the last magnitude that is not above such a number */
} hri_codes;

void hri_codes_init(hri_codes *out, int positive);

/* n numbers, of blocks that begin at `from`. */
void hri_codes_decode(const hri_codes *c, const unsigned char *from, uint64_t n, float *out);
/* n numbers into blocks that begin at `to`.  draws: a word for each number, whose bits `shift` .. `shift` + 15 are drawn;
 * NULL: to the nearest. */
void hri_codes_encode(const hri_codes *c, const float *from, uint64_t n, const uint32_t *draws,
                      uint32_t shift, unsigned char *to);

#endif
