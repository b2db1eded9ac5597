/* Products and convolutions on a GPU: our own kernels against the oracle of the host, on small shapes of every kind. */
#include "desk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ref.h"

/* y in double from what lies on the device. */
static double *product(const hri_gpu_matmul *x, const double *a, const double *b,
                       const double *bias, const double *before) {
    double *y = calloc((size_t)(x->batch * x->m * x->n) + 1, sizeof *y);
    for (int64_t z = 0; z < x->batch; z++) {
        for (int64_t i = 0; i < x->m; i++) {
            for (int64_t j = 0; j < x->n; j++) {
                double sum = bias ? bias[j] : 0.0;
                for (int64_t k = 0; k < x->k; k++) {
                    sum += a[z * x->a_step + (x->ta ? k * x->lda + i : i * x->lda + k)] *
                           b[z * x->b_step + (x->tb ? j * x->ldb + k : k * x->ldb + j)];
                }
                const int64_t at = (z * x->m + i) * x->n + j;
                y[at] = sum + (x->add ? before[at] : 0.0);
            }
        }
    }
    return y;
}

static void check_product(desk *d, hr_type type, hr_type y_type, int64_t batch, int64_t m,
                          int64_t n, int64_t k, int ta, int tb, int bias, int add) {
    const hri_gpu_matmul x = {
        .a_type = type,
        .b_type = type,
        .y_type = y_type,
        .bias_type = HR_TYPE_F32,
        .ta = (uint8_t)ta,
        .tb = (uint8_t)tb,
        .add = (uint8_t)add,
        .epilogue = bias ? HRI_GPU_BIAS : HRI_GPU_PLAIN,
        .batch = batch,
        .m = m,
        .n = n,
        .k = k,
        .lda = ta ? m : k,
        .ldb = tb ? k : n,
        .ldy = n,
        .a_step = m * k,
        .b_step = k * n,
        .y_step = m * n,
    };
    tensor a = desk_random(d, type, batch * m * k, 1, 1.0);
    tensor b = desk_random(d, type, batch * k * n, 2, 1.0);
    tensor c = desk_random(d, HR_TYPE_F32, n, 3, 1.0);
    tensor y = desk_random(d, y_type, batch * m * n, 4, 1.0);
    double *va = desk_read(d, &a), *vb = desk_read(d, &b), *vc = desk_read(d, &c);
    double *before = desk_read(d, &y);
    if (!add) {
        desk_fill(d, &y, 0xff);
    }
    const uint64_t bytes = hri_gpu_matmul_workspace(d->gpu, &x, HRI_GPU_LIMIT_MATMUL);
    CHECK_LE(bytes, HRI_GPU_LIMIT_MATMUL);
    tensor w = desk_tensor(d, HR_TYPE_U8, (int64_t)bytes);
    desk_check(d,
               hri_gpu_matmul_run(d->gpu, &x, a.block.addr, b.block.addr, bias ? c.block.addr : 0,
                                  y.block.addr, w.block.addr, bytes),
               "the product");
    double *is = desk_read(d, &y), *want = product(&x, va, vb, bias ? vc : NULL, before);
    const double error = desk_error(is, want, batch * m * n);
    const double allowed = y_type == HR_TYPE_F32 ? 1e-5 : y_type == HR_TYPE_F16 ? 1e-3 : 5e-3;
    test_count_check();
    if (error > allowed) {
        test_fail(__FILE__, __LINE__, "%s to %s, %lld x %lld x %lld x %lld, %d%d%d%d: off by %g",
                  hr_type_name(type), hr_type_name(y_type), (long long)batch, (long long)m,
                  (long long)n, (long long)k, ta, tb, bias, add, error);
    }
    free(va), free(vb), free(vc), free(before), free(is), free(want);
    desk_free(d, &a), desk_free(d, &b), desk_free(d, &c), desk_free(d, &y), desk_free(d, &w);
}

static const hri_gpu_options own = {.no_cublaslt = 1, .no_cudnn = 1, .exact_f32 = 1};

TEST(products, our_own_kernel_multiplies_every_way_round) {
    desk d;
    desk_open(&d, own);
    for (int way = 0; way < 4; way++) {
        check_product(&d, HR_TYPE_F32, HR_TYPE_F32, 1, 150, 70, 37, way & 1, way >> 1, way & 1, 0);
        check_product(&d, HR_TYPE_F32, HR_TYPE_F32, 3, 9, 200, 16, way & 1, way >> 1, 0, 1);
        check_product(&d, HR_TYPE_BF16, HR_TYPE_BF16, 2, 64, 72, 40, way & 1, way >> 1, 1, 0);
        check_product(&d, HR_TYPE_F16, HR_TYPE_F32, 1, 33, 65, 24, way & 1, way >> 1, 1, 1);
        check_product(&d, HR_TYPE_BF16, HR_TYPE_F32, 1, 200, 150, 96, way & 1, way >> 1, 0, 0);
    }
    desk_close(&d);
}

TEST(products, a_long_sum_is_cut_and_joined_in_order) {
    desk d;
    desk_open(&d, own);
    check_product(&d, HR_TYPE_F32, HR_TYPE_F32, 1, 5, 7, 3000, 0, 0, 1, 0);
    check_product(&d, HR_TYPE_BF16, HR_TYPE_F32, 2, 20, 30, 2100, 1, 0, 0, 1);
    desk_close(&d);
}

TEST(products, nothing_is_multiplied_by_nothing) {
    desk d;
    desk_open(&d, own);
    check_product(&d, HR_TYPE_F32, HR_TYPE_F32, 1, 3, 4, 0, 0, 0, 1, 0);
    check_product(&d, HR_TYPE_F32, HR_TYPE_F32, 0, 3, 4, 5, 0, 0, 0, 0);
    check_product(&d, HR_TYPE_F32, HR_TYPE_F32, 1, 0, 4, 5, 0, 0, 0, 0);
    desk_close(&d);
}

#ifdef HEADROOM_FAULTS
/* Each allocation of the records in turn: the call fails cleanly or does without, and the next one works. */
TEST_TIMEOUT(products, a_failed_allocation_is_survived, 120) {
    desk d;
    const hri_gpu_conv x = {
        .kind = HRI_GPU_CONV_FORWARD,
        .type = HR_TYPE_F32,
        .w_type = HR_TYPE_F32,
        .n = 1,
        .h = 4,
        .w = 4,
        .c = 2,
        .o = 3,
        .p = 4,
        .q = 4,
        .kh = 3,
        .kw = 3,
        .stride_h = 1,
        .stride_w = 1,
        .pad_top = 1,
        .pad_left = 1,
        .pad_bottom = 1,
        .pad_right = 1,
        .dilation_h = 1,
        .dilation_w = 1,
        .groups = 1,
    };
    desk_open(&d, (hri_gpu_options){.exact_f32 = 1});
    tensor a = desk_random(&d, HR_TYPE_F32, 32, 1, 1.0),
           w = desk_random(&d, HR_TYPE_F32, 54, 2, 1.0);
    tensor y = desk_tensor(&d, HR_TYPE_F32, 48), s = desk_tensor(&d, HR_TYPE_U8, 1 << 16);
    for (uint64_t n = 1, delivered = 1; delivered; n++) {
        desk_again(&d, (hri_gpu_options){.exact_f32 = 1});
        hri_fault_set(HRI_FAULT_ALLOC, n, 0);
        const uint64_t bytes = hri_gpu_conv_workspace(d.gpu, &x, HRI_GPU_LIMIT_CONV);
        const hr_status status = hri_gpu_conv_run(d.gpu, &x, a.block.addr, w.block.addr,
                                                  y.block.addr, s.block.addr, 1 << 16);
        delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
        CHECK_LE(bytes, 1 << 16);
        CHECK(status == HR_OK || status == HR_E_NOMEM_HOST);
        desk_check(&d,
                   hri_gpu_conv_run(d.gpu, &x, a.block.addr, w.block.addr, y.block.addr,
                                    s.block.addr, 1 << 16),
                   "the same again");
        CHECK(n < 200);
    }
    desk_free(&d, &a), desk_free(&d, &w), desk_free(&d, &y), desk_free(&d, &s);
    desk_close(&d);
}
#endif
