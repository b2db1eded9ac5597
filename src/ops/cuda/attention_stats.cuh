// What forward keeps of a query for the way back, between the prelude and kernels of attention: lse, the logarithm of what it weighs
// in all.
//
// A query may see no key but those that a mask hides by large numbers, such as -1e30 or the lowest of f32.  It weighs those with the
// largest number, all the same, and beside such a number f32 has no place for the logarithm of how many they are.  Where lse would be
// less than ROW_FAR it is ROW_KEPT * (1.875 + (log(sum) - row_depth(most)) / 2048) instead, between ROW_KEPT and twice that, which no
// sum of weights comes to: with any score that is not as low all probabilities are 0.  row_depth grows by 16 when a number doubles,
// so that keys with lower numbers weigh nothing; from 92 doublings on all are alike, because scores over a scale of 1/256 go no further.
// ops/common/attention_tiles.h has the same.
#define ROW_FAR    (-268435456.0f)       // -2^28: scores add nothing to it
#define ROW_KEPT   1.2676506002282294e30f // 2^100
#define ROW_LOWEST (-3.402823466e38f)     // scores with numbers of a mask are no less, so that they stay finite

HR_INLINE float row_depth(float s) {
    return 16.0f * fminf(log2f(s * (1.0f / ROW_FAR)), 92.0f);
}
// Of a query whose largest score is `most` times the scale.
HR_INLINE float row_kept(float most, float scale, float sum) {
    const float log_sum = logf(sum), lse = most * scale + log_sum;
    return lse < ROW_FAR
               ? ROW_KEPT * (1.875f + (log_sum - row_depth(most * scale)) * (1.0f / 2048.0f))
               : lse;
}
// Of an lse, or of one times a logarithm.
HR_INLINE bool row_sees_far(float lse) {
    return lse >= ROW_KEPT && lse < 4.0f * ROW_KEPT;
}
// The probability of a score of such a query: 2 to the power of this.
HR_INLINE float row_power(float s, float lse) {
    const float rest = (lse * (1.0f / ROW_KEPT) - 1.875f) * 2048.0f;
    return s < ROW_LOWEST ? s : -1.4426950408889634f * (row_depth(s) + rest);
}
