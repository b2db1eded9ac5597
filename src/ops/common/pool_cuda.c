/* The launches of pooling on a GPU (src/ops/cuda/pool.cu): a block is a piece of one row of pixels. */
#include "ops/common/gpu.h"
#include "ops/common/pool.h"

HRI_CU(pool);

enum { THREADS = 256 };

/* As pool.cu has it. */
typedef struct geometry {
    int32_t h, w, channels, oh, ow;
    int32_t ph, pw;
    int32_t without_pad;
} geometry;

/* `x` is the side of the input of the pooling, `last` the last dimension but one of what is written. */
static hr_status launch(const hri_gpu_call *c, const char *kernel, const hr_shape *x, int64_t rows,
                        int64_t last, void *const *args, geometry *g) {
    const hri_pool_attr *a = c->sig->attr;
    const hr_type type = c->sig->in[0].type;
    hri_pooling p;
    char defines[160];
    if (hri_pool_init(&p, a, x->dim[0], x->dim[1], x->dim[2], x->dim[3])) {
        return HR_E_SHAPE;
    }
    if (rows * last * p.channels == 0) {
        return HR_OK;
    }
    *g = (geometry){(int32_t)p.h,  (int32_t)p.w,  (int32_t)p.channels, (int32_t)p.oh,
                    (int32_t)p.ow, (int32_t)p.ph, (int32_t)p.pw,       a->without_pad};
    const int pack = hri_gpu_pack(type, p.channels);
    const hri_gpu_grid grid =
        hri_gpu_rows(rows, hri_gpu_up(last * (p.channels / pack), THREADS), THREADS);
    snprintf(defines, sizeof defines, "-DELEM=%s -DPACK=%d -DKH=%lld -DKW=%lld -DSH=%lld -DSW=%lld",
             hri_gpu_type(type), pack, (long long)p.kh, (long long)p.kw, (long long)p.sh,
             (long long)p.sw);
    return hri_gpu_launch(c->gpu, &hri_cu_pool, defines, kernel, &grid, args);
}

hr_status hri_max_pool_cuda(const hri_gpu_call *c) {
    const hr_shape *y = &c->sig->out[0].shape;
    hr_addr from = c->in[0], to = c->out[0], index = c->out[1];
    geometry g;
    return launch(c, "max_pool", &c->sig->in[0].shape, y->dim[0] * y->dim[1], y->dim[2],
                  HRI_GPU_ARGS(&from, &to, &index, &g), &g);
}

hr_status hri_avg_pool_cuda(const hri_gpu_call *c) {
    const hr_shape *y = &c->sig->out[0].shape;
    hr_addr from = c->in[0], to = c->out[0];
    geometry g;
    return launch(c, "avg_pool", &c->sig->in[0].shape, y->dim[0] * y->dim[1], y->dim[2],
                  HRI_GPU_ARGS(&from, &to, &g), &g);
}

/* 3 x 3 with stride 2 and padding 1, as residual networks have it: a thread then has four places. */
static int is_by_fours(const hri_gpu_call *c) {
    const hr_shape *dx = &c->sig->out[0].shape;
    hri_pooling p;
    return !hri_pool_init(&p, c->sig->attr, dx->dim[0], dx->dim[1], dx->dim[2], dx->dim[3]) &&
           p.kh == 3 && p.kw == 3 && p.sh == 2 && p.sw == 2 && p.ph == 1 && p.pw == 1 &&
           p.oh == (p.h + 1) / 2 && p.ow == (p.w + 1) / 2;
}

hr_status hri_max_pool_grad_cuda(const hri_gpu_call *c) {
    const hr_shape *dx = &c->sig->out[0].shape, *dy = &c->sig->in[0].shape;
    hr_addr from = c->in[0], index = c->in[1], to = c->out[0];
    geometry g;
    if (is_by_fours(c)) {
        return launch(c, "max_pool_grad_four", dx, dy->dim[0] * dy->dim[1], dy->dim[2],
                      HRI_GPU_ARGS(&from, &index, &to, &g), &g);
    }
    return launch(c, "max_pool_grad", dx, dx->dim[0] * dx->dim[1], dx->dim[2],
                  HRI_GPU_ARGS(&from, &index, &to, &g), &g);
}

hr_status hri_avg_pool_grad_cuda(const hri_gpu_call *c) {
    const hr_shape *dx = &c->sig->out[0].shape;
    hr_addr from = c->in[0], to = c->out[0];
    geometry g;
    return launch(c, "avg_pool_grad", dx, dx->dim[0] * dx->dim[1], dx->dim[2],
                  HRI_GPU_ARGS(&from, &to, &g), &g);
}

hr_status hri_global_avg_pool_cuda(const hri_gpu_call *c) {
    const hr_shape *x = &c->sig->in[0].shape;
    const hr_type type = c->sig->in[0].type;
    hr_addr from = c->in[0], to = c->out[0];
    int64_t pixels = x->dim[1] * x->dim[2];
    int32_t channels = (int32_t)x->dim[3];
    char defines[160];
    if (x->dim[0] * channels == 0) {
        return HR_OK;
    }
    const int pack = hri_gpu_pack(type, channels);
    const hri_gpu_grid grid = {.x = (uint32_t)x->dim[0],
                               .y = (uint32_t)hri_gpu_up(channels, 32 * (int64_t)pack),
                               .threads = THREADS};
    snprintf(defines, sizeof defines, "-DELEM=%s -DPACK=%d -DKH=1 -DKW=1 -DSH=1 -DSW=1",
             hri_gpu_type(type), pack);
    return hri_gpu_launch(c->gpu, &hri_cu_pool, defines, "global_avg_pool", &grid,
                          HRI_GPU_ARGS(&from, &to, &pixels, &channels));
}
