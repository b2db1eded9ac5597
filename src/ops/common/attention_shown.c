/* Attention on a GPU with a mask of bytes: 0 hides a key, all else shows it.
 *
 * The bytes become numbers of q's type in front of the work space (src/ops/cuda/attention_shown.cu), and attention is then what it is
 * with a mask of numbers (attention_cuda.c): what is hidden whole is skipped there, and what is shown whole is not read again.  Forward a
 * Hopper takes bits (attention_bits.c), and masks of keys go another way where a library takes lengths (attention_keys.c); backward it makes the gradients of
 * scores once, with every mask (attention_scores.c). */
#include "ops/common/attention.h"
#include "ops/common/gpu.h"

HRI_CU(attention_shown);

enum { THREADS = 256, PACK = 8 };

static int of_bytes(const hri_attention *a) {
    return a->extra.on && a->extra.mask_samples > 0 && a->extra.mask_type == HR_TYPE_U8;
}

static int64_t count_of(const hri_attention *a) {
    const hri_attention_extra *x = &a->extra;
    return x->mask_samples * x->mask_heads * x->mask_rows * a->keys;
}

static uint64_t numbers_bytes(const hri_attention *a) {
    return hri_gpu_whole((uint64_t)count_of(a) * hr_type_bytes(a->type));
}

static hri_attention with_numbers(const hri_attention *a) {
    hri_attention b = *a;
    b.extra.mask_type = a->type;
    return b;
}

/* Writes the numbers, and gives the rest of the work space to `rest`. */
static hr_status numbers_of(const hri_attention *a, const hri_gpu_call *c, hr_addr *mask,
                            hri_gpu_call *rest) {
    const uint64_t bytes = numbers_bytes(a);
    const int64_t count = count_of(a);
    const int pack = count % PACK == 0 ? PACK : 1;
    hr_addr from = *mask, to = c->workspace;
    int64_t packs = count / pack;
    char defines[48];
    *rest = *c;
    *mask = to;
    rest->workspace += bytes;
    rest->workspace_bytes -= bytes;
    if (count == 0) {
        return HR_OK;
    }
    snprintf(defines, sizeof defines, "-DELEM=%s -DPACK=%d", hri_gpu_type(a->type), pack);
    const hri_gpu_grid grid = {.x = (uint32_t)hri_gpu_up(packs, THREADS), .threads = THREADS};
    return hri_gpu_launch(c->gpu, &hri_cu_attention_shown, defines, "attention_shown", &grid,
                          HRI_GPU_ARGS(&from, &to, &packs));
}

uint64_t hri_attention_masked_cuda_workspace(const hri_attention *a, hri_gpu *gpu, int backward) {
    const uint64_t bits = backward ? 0 : hri_attention_bits_workspace(a, gpu);
    const uint64_t keys =
        bits == 0 && of_bytes(a) ? hri_attention_keys_workspace(a, gpu, backward) : 0;
    if (bits + keys > 0) {
        return bits + keys;
    }
    const uint64_t scores = backward ? hri_attention_scores_workspace(a, gpu) : 0;
    if (scores > 0) {
        return scores;
    }
    if (!of_bytes(a) || (backward && hri_attention_grad_takes_bytes(a, gpu))) {
        return hri_attention_cuda_workspace(a, gpu, backward);
    }
    const hri_attention b = with_numbers(a);
    return numbers_bytes(a) + hri_attention_cuda_workspace(&b, gpu, backward);
}

hr_status hri_attention_masked_cuda(const hri_attention *a, const hri_gpu_call *c,
                                    const hr_addr in[3], hr_addr o, hr_addr lse, hr_addr mask) {
    const hri_gpu_attention_at at = {
        .q = in[0], .k = in[1], .v = in[2], .o = o, .stats = lse, .mask = mask};
    if (hri_attention_bits_workspace(a, c->gpu) > 0) {
        return hri_attention_bits_run(a, c, &at);
    }
    if (!of_bytes(a)) {
        return hri_attention_cuda(a, c, in, o, lse, mask);
    }
    if (hri_attention_keys_workspace(a, c->gpu, 0) > 0) {
        return hri_attention_keys_run(a, c, &at, 0);
    }
    const hri_attention b = with_numbers(a);
    hri_gpu_call rest;
    const hr_status status = numbers_of(a, c, &mask, &rest);
    return status == HR_OK ? hri_attention_cuda(&b, &rest, in, o, lse, mask) : status;
}

hr_status hri_attention_masked_grad_cuda(const hri_attention *a, const hri_gpu_call *c,
                                         const hr_addr in[3], hr_addr o, hr_addr lse, hr_addr dout,
                                         const hr_addr out[3], hr_addr mask) {
    const hri_gpu_attention_at at = {.q = in[0],
                                     .k = in[1],
                                     .v = in[2],
                                     .o = o,
                                     .stats = lse,
                                     .dout = dout,
                                     .dq = out[0],
                                     .dk = out[1],
                                     .dv = out[2],
                                     .mask = mask};
    if (of_bytes(a) && hri_attention_keys_workspace(a, c->gpu, 1) > 0) {
        return hri_attention_keys_run(a, c, &at, 1);
    }
    if (hri_attention_scores_workspace(a, c->gpu) > 0) {
        return hri_attention_scores_run(a, c, &at);
    }
    if (!of_bytes(a) || hri_attention_grad_takes_bytes(a, c->gpu)) {
        return hri_attention_grad_cuda(a, c, in, o, lse, dout, out, mask);
    }
    const hri_attention b = with_numbers(a);
    hri_gpu_call rest;
    const hr_status status = numbers_of(a, c, &mask, &rest);
    return status == HR_OK ? hri_attention_grad_cuda(&b, &rest, in, o, lse, dout, out, mask)
                           : status;
}
