/* The rule of synthetic.h, block by block. */
#include "step/synthetic.h"

#include "base/random.h"
#include "graph/half.h"

static void store(hr_type type, void *out, int64_t i, uint32_t word, uint32_t limit) {
    const float real = (float)(word >> 8) * 0x1p-22f - 2.0f;
    switch (type) {
    case HR_TYPE_F32:
        ((float *)out)[i] = real;
        break;
    case HR_TYPE_BF16:
        ((hri_bf16 *)out)[i] = hri_to_bf16(real);
        break;
    case HR_TYPE_F16:
        ((hri_f16 *)out)[i] = hri_to_f16(real);
        break;
    case HR_TYPE_I32:
        ((int32_t *)out)[i] = (int32_t)(word % (limit ? limit : 1));
        break;
    case HR_TYPE_I64:
        ((int64_t *)out)[i] = (int64_t)(word % (limit ? limit : 1));
        break;
    case HR_TYPE_U8:
        ((uint8_t *)out)[i] = (uint8_t)(limit ? word % limit : word & 255u);
        break;
    default:
        break;
    }
}

void hri_synthetic_piece(hr_type type, uint64_t seed, uint32_t step, uint32_t k, uint32_t sample,
                         uint64_t first, uint32_t count, uint32_t limit, void *out) {
    uint32_t words[HRI_SYNTHETIC_PIECE];
    hri_random_fill_u32(seed, step, HRI_SYNTHETIC_NODE + k, sample, first, words, count);
    for (uint32_t q = 0; q < count; q++) {
        store(type, out, q, words[q], limit);
    }
}

void hri_synthetic_fill(const hr_meta *meta, uint64_t seed, uint32_t step, uint32_t k,
                        uint32_t first_sample, uint32_t limit, void *out) {
    const int64_t count = hr_shape_count(&meta->shape);
    const int64_t samples = meta->shape.rank ? meta->shape.dim[0] : 1;
    const int64_t each = samples ? count / samples : 0;
    const uint64_t width = hr_type_bytes(meta->type);
    for (int64_t n = 0; n < samples; n++) {
        for (int64_t i = 0; i < each; i += HRI_SYNTHETIC_PIECE) {
            const int64_t here = each - i < HRI_SYNTHETIC_PIECE ? each - i : HRI_SYNTHETIC_PIECE;
            hri_synthetic_piece(meta->type, seed, step, k, first_sample + (uint32_t)n, (uint64_t)i,
                                (uint32_t)here, limit,
                                (char *)out + (uint64_t)(n * each + i) * width);
        }
    }
}
