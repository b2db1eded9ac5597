/* Gradients of norms that sum the columns of what they write: the bits of the calls one by one, wherever things lie. */
#include "desk.h"

#include <stdlib.h>
#include <string.h>

#include "graph/op.h"
#include "ref.h"

enum { AGAIN, GRAD, ADD, TOTAL, CALLS };
enum { DY, X, OTHER, DX, TO, Y, GAMMA, BETA, MEAN, INV, DGAMMA, DBETA, SUMS, WORK, TENSORS };
/* Of the rows; the others are vectors and statistics. */
enum { ROWS = Y + 1 };

typedef struct problem {
    hr_type type;
    int64_t rows, width;
    int again, add;   /* whether those calls are there, too */
    int dx, to, sums; /* whose place each has: a tensor of the list */
    int folds;        /* whether one launch is expected to do */
} problem;

typedef struct setting {
    hr_meta in[CALLS][HRI_IN_MAX], out[CALLS][HRI_OUT_MAX];
    hri_attr attr[CALLS];
    hri_sig sig[CALLS];
    hr_addr in_at[CALLS][HRI_IN_MAX], out_at[CALLS][HRI_OUT_MAX];
    tensor t[TENSORS];
    hri_gpu_call calls[CALLS];
} setting;

static void make_call(desk *d, setting *s, int n, const char *op, const char *attr,
                      const char *inputs, const int *in, const int *out) {
    hri_sig *sig = &s->sig[n];
    *sig = (hri_sig){.op = hri_op_find(op),
                     .attr = &s->attr[n],
                     .in_count = ref_parse(inputs, s->in[n]),
                     .in = s->in[n],
                     .out = s->out[n]};
    sig->out_count = sig->op->out_count;
    CHECK_OK(hri_attr_parse(sig->op, attr, &s->attr[n], NULL));
    CHECK_OK(sig->op->infer(&(hri_infer){
        .attr = &s->attr[n], .in_count = sig->in_count, .in = s->in[n], .out = s->out[n]}));
    for (uint32_t i = 0; i < sig->in_count; i++) {
        s->in_at[n][i] = s->t[in[i]].block.addr;
    }
    for (uint32_t i = 0; i < sig->out_count; i++) {
        s->out_at[n][i] = s->t[out[i]].block.addr;
    }
    s->calls[n] = (hri_gpu_call){.gpu = d->gpu,
                                 .kernel = hri_kernel_for(&hri_kernels_cuda, sig),
                                 .sig = sig,
                                 .in = s->in_at[n],
                                 .out = s->out_at[n]};
    const uint64_t need = hri_kernel_launch_workspace(s->calls[n].kernel, sig, d->gpu, 0);
    s->calls[n].workspace = s->t[WORK].block.addr;
    s->calls[n].workspace_bytes = need;
    CHECK_LE(need, (uint64_t)s->t[WORK].count * sizeof(float));
}

static void make_calls(desk *d, const problem *p, setting *s) {
    char rows[64], text[320], to[32];
    const char *type = hr_type_name(p->type);
    const int dx = p->dx, sum = p->add ? p->to : dx;
    snprintf(rows, sizeof rows, "%s[%d,%d]", type, (int)p->rows, (int)p->width);
    snprintf(to, sizeof to, "to=%d", (int)p->width);
    snprintf(text, sizeof text, "%s f32[%d] f32[%d]", rows, (int)p->width, (int)p->width);
    make_call(d, s, AGAIN, "layer_norm", NULL, text, (int[]){X, GAMMA, BETA},
              (int[]){Y, MEAN, INV});
    snprintf(text, sizeof text, "%s %s f32[%d] f32[%d] f32[%d]", rows, rows, (int)p->width,
             (int)p->rows, (int)p->rows);
    make_call(d, s, GRAD, "layer_norm_grad", NULL, text, (int[]){DY, X, GAMMA, MEAN, INV},
              (int[]){dx, DGAMMA, DBETA});
    snprintf(text, sizeof text, "%s %s", rows, rows);
    make_call(d, s, ADD, "add", NULL, text, (int[]){OTHER, dx}, (int[]){p->to});
    make_call(d, s, TOTAL, "sum_to", to, rows, (int[]){sum}, (int[]){p->sums});
}

static void make_tensors(desk *d, const problem *p, setting *s) {
    const int64_t count = p->rows * p->width;
    for (int i = 0; i < TENSORS; i++) {
        const int row = i == MEAN || i == INV;
        const hr_type type = i < ROWS || i == SUMS ? p->type : HR_TYPE_F32;
        s->t[i] = desk_random(d, type,
                              i < ROWS    ? count
                              : i == WORK ? 264 * 3 * p->width
                              : row       ? p->rows
                                          : p->width,
                              (uint64_t)i + 1, 1.0);
    }
}

static const int shown[] = {DX, TO, Y, MEAN, INV, DGAMMA, DBETA, SUMS};
enum { SHOWN = sizeof shown / sizeof shown[0] };

/* What the calls leave, in one go or one by one. */
static void leave(desk *d, const problem *p, int together, double *out[SHOWN]) {
    static setting s;
    hri_gpu_call list[CALLS];
    uint32_t count = 0;
    memset(&s, 0, sizeof s);
    make_tensors(d, p, &s);
    make_calls(d, p, &s);
    for (int n = p->again ? AGAIN : GRAD; n < CALLS; n++) {
        if (n != ADD || p->add) {
            list[count++] = s.calls[n];
        }
    }
    if (!p->again) { /* the statistics that the gradient reads are positive */
        desk_check(d, hri_op_launch(&s.calls[AGAIN]), "statistics");
    }
    const hri_gpu_call *grad = &s.calls[GRAD], *add = p->add ? &s.calls[ADD] : NULL;
    CHECK(hri_total_takes(grad, add, &s.calls[TOTAL]));
    for (uint32_t i = 0; i < count && !together; i++) {
        desk_check(d, hri_op_launch(&list[i]), "one by one");
    }
    if (together && p->folds) { /* the one launch, and no other way */
        CHECK_OK(grad->kernel->launch_summed(grad, add ? add->in[0] : 0, add ? add->out[0] : 0,
                                             p->again ? &s.calls[AGAIN] : NULL, &s.calls[TOTAL]));
    } else if (together) {
        CHECK_STATUS(grad->kernel->launch_summed(grad, add ? add->in[0] : 0, add ? add->out[0] : 0,
                                                 p->again ? &s.calls[AGAIN] : NULL,
                                                 &s.calls[TOTAL]),
                     HR_E_UNSUPPORTED);
        CHECK_OK(hri_op_launch_many(list, count));
    }
    desk_sync(d);
    for (int i = 0; i < SHOWN; i++) {
        out[i] = desk_read(d, &s.t[shown[i]]);
    }
    /* Whose place another has holds that, where it is read. */
    out[SHOWN - 1] =
        p->sums == SUMS ? out[SHOWN - 1] : (free(out[SHOWN - 1]), desk_read(d, &s.t[p->sums]));
    for (int i = 0; i < TENSORS; i++) {
        desk_free(d, &s.t[i]);
    }
}

static void compare(desk *d, const problem *p) {
    double *one[SHOWN], *two[SHOWN];
    const int64_t many = p->rows * p->width;
    leave(d, p, 0, one);
    leave(d, p, 1, two);
    for (int i = 0; i < SHOWN; i++) {
        const int of = shown[i], row = of == MEAN || of == INV;
        const int64_t count = of < ROWS ? many : row ? p->rows : p->width;
        /* A gradient that nobody reads but the sum may be elsewhere than the sum. */
        const int read = of != DX || !p->add || p->dx != DX;
        CHECK(!read || !memcmp(one[i], two[i], (size_t)count * sizeof(double)));
        free(one[i]);
        free(two[i]);
    }
}

TEST_TIMEOUT(sum, of_columns_is_made_by_the_gradient_of_a_norm, 600) {
    static const problem problems[] = {
        /* again and add; dx, to, sums */
        {HR_TYPE_BF16, 70, 768, 0, 1, DX, TO, SUMS, 1},
        {HR_TYPE_BF16, 41, 768, 0, 1, DY, DY, SUMS, 1},
        {HR_TYPE_BF16, 30, 768, 0, 1, DX, OTHER, SUMS, 1},
        {HR_TYPE_BF16, 70, 768, 0, 0, DX, TO, SUMS, 1},
        {HR_TYPE_F32, 37, 256, 0, 0, DY, TO, SUMS, 1},
        {HR_TYPE_F32, 37, 1024, 0, 1, DX, DX, SUMS, 1},
        {HR_TYPE_F16, 19, 1024, 1, 1, DX, TO, SUMS, 1},
        {HR_TYPE_BF16, 33, 768, 1, 0, DX, TO, SUMS, 1},
        {HR_TYPE_BF16, 33, 768, 0, 1, DX, TO, X, 1},     /* over what is read before only */
        {HR_TYPE_BF16, 33, 768, 0, 1, DX, TO, WORK, 0},  /* over the parts that are summed */
        {HR_TYPE_BF16, 8, 768, 0, 1, DX, TO, SUMS, 0},   /* one part */
        {HR_TYPE_BF16, 33, 128, 0, 1, DX, TO, SUMS, 0},  /* short rows */
        {HR_TYPE_BF16, 33, 2048, 0, 1, DX, TO, SUMS, 0}, /* rows of a block */
        {HR_TYPE_BF16, 33, 772, 0, 1, DX, TO, SUMS, 0},  /* no whole packs */
    };
    desk d;
    desk_open(&d, (hri_gpu_options){0});
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        compare(&d, &problems[i]);
    }
    desk_close(&d);
}

/* More rows than all warps have at once: two each for some, and five, of which four are read together by the sum alone. */
TEST_TIMEOUT(sum, of_many_columns_is_made_by_the_gradient_of_a_norm, 600) {
    static const problem problems[] = {
        {HR_TYPE_BF16, 264 * 8 + 13, 256, 0, 1, DX, TO, SUMS, 1},
        {HR_TYPE_BF16, 4 * 264 * 8 + 13, 256, 0, 0, DX, TO, SUMS, 1},
    };
    desk d;
    desk_open(&d, (hri_gpu_options){0});
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        compare(&d, &problems[i]);
    }
    desk_close(&d);
}
