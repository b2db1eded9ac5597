/* noise(x; of, scale): adds a random number to each element.
 *
 *   y = x + scale * draw,   draw = the number of (seed, step, node, sample, index in the sample)
 *
 * of=normal: mean 0, variance 1 (Box-Muller: elements 2k and 2k + 1 of a sample share two words); of=uniform: between -1/2
 * and 1/2.  Samples lie along dimension 0 and are counted through first_sample, as in dropout.c.  Torch's randn_like(x) is this
 * over zeros, rand_like over halves.  The gradient is that of y and keeps nothing. */
#include "base/random.h"
#include "graph/graph.h"
#include "ops/common/blocks.h"
#include "ops/common/launch.h"

enum { NORMAL, UNIFORM };
static const char *const kinds[] = {"normal", "uniform", NULL};

typedef struct noise_attr {
    int of;
    double scale;
} noise_attr;

static const hri_field noise_fields[] = {
    {"of", "normal: mean 0, variance 1; uniform: between -1/2 and 1/2", offsetof(noise_attr, of),
     HRI_FIELD_ENUM, "normal", .choices = kinds},
    {"scale", "factor of the numbers", offsetof(noise_attr, scale), HRI_FIELD_DOUBLE, "1",
     .min = -1e30, .max = 1e30},
    {0},
};

static void noise_grad(hri_grad *c) {
    c->din[0] = c->dout[0];
}

/* The draws of elements at .. at + n of a sample, n <= HRI_BLOCK. */
static void draw(const hri_call *c, int of, uint32_t sample, int64_t at, int64_t n, float *out) {
    uint32_t words[HRI_BLOCK + 2];
    const int64_t odd = at & 1, count = (n + odd + 1) & ~(int64_t)1;
    hri_random_fill_u32(c->seed, c->step, c->node, sample, (uint64_t)(at - odd), words,
                        (size_t)count);
    if (of == UNIFORM) {
        for (int64_t k = 0; k < n; k++) {
            out[k] = hri_random_to_float(words[k + odd]) - 0.5f;
        }
        return;
    }
    for (int64_t k = 0; k < count; k += 2) {
        float pair[2];
        hri_random_to_normals(words[k], words[k + 1], pair);
        for (int64_t i = 0; i < 2; i++) {
            if (k + i >= odd && k + i - odd < n) {
                out[k + i - odd] = pair[i];
            }
        }
    }
}

/* Range over elements: runs inside one sample. */
static void noise_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const noise_attr *attr = c->sig->attr;
    const hr_shape *x = &c->sig->in[0].shape;
    const hr_type type = c->sig->in[0].type;
    const float scale = (float)attr->scale;
    const int64_t sample = x->rank ? hr_shape_count(x) / x->dim[0] : 1;
    (void)worker;
    for (int64_t at = (int64_t)begin, n; at < (int64_t)end; at += n) {
        float draws[HRI_BLOCK], room[2][HRI_BLOCK];
        n = hri_min64(hri_min64(HRI_BLOCK, (int64_t)end - at), sample - at % sample);
        draw(c, attr->of, c->first_sample + (uint32_t)(at / sample), at % sample, n, draws);
        const float *from = hri_block_in(type, c->in[0], at, n, room[0]);
        float *y = hri_block_out(type, c->out[0], at, room[1]);
        HRI_IVDEP for (int64_t k = 0; k < n; k++) {
            y[k] = from[k] + scale * draws[k];
        }
        hri_block_put(type, c->out[0], at, n, y);
    }
}

static hr_status noise_host(const hri_call *c) {
    hri_call call = *c;
    hri_threads_range(c->threads, (uint64_t)hr_shape_count(&c->sig->in[0].shape), 4096, noise_range,
                      &call);
    return HR_OK;
}

HRI_CU(noise);

static hr_status noise_cuda(const hri_gpu_call *c) {
    enum { THREADS = 256, EACH = 4 };
    const noise_attr *attr = c->sig->attr;
    const hr_shape *shape = &c->sig->in[0].shape;
    hr_addr x = c->in[0], y = c->out[0], control = c->control;
    uint32_t node = c->node, of = (uint32_t)attr->of;
    float scale = (float)attr->scale;
    int64_t count = hr_shape_count(shape);
    if (count == 0) {
        return HR_OK;
    }
    /* each thread has one block of four words of one sample */
    int64_t each = shape->rank ? count / shape->dim[0] : 1, blocks = (each + EACH - 1) / EACH;
    int64_t threads = count / each * blocks;
    return hri_gpu_launch(
        c->gpu, &hri_cu_noise, hri_launch_t(c->sig->in[0].type, 1).text, "noise",
        &(hri_gpu_grid){.x = hri_launch_blocks(threads, THREADS), .threads = THREADS},
        HRI_GPU_ARGS(&x, &y, &control, &node, &threads, &blocks, &each, &scale, &of));
}

static void noise_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 40.0 * (double)hr_shape_count(&s->in[0].shape);
}

static const hri_case noise_cases[] = {
    {"odd", "f32[7,33]", .batched = 1},
    {"uniform", "f32[7,33]", "of=uniform", .batched = 1},
    {"long", "f32[3,5,1001]", "scale=0.1"},
    {"nothing", "f32[5,7]", "scale=0"},
    {"less", "f32[5,8]", "of=uniform,scale=-2"},
    {"one number", "f32[]"},
    {"numbers", "f32[9]"},
    {"empty", "f32[0,5]"},
    {"bf16", "bf16[7,33]"},
    {"f16", "f16[7,33]", "of=uniform"},
    {"integers", "i32[7]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_noise = {
    .name = "noise",
    .formula = "y = x + scale draw",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = noise_fields,
    .attr_bytes = sizeof(noise_attr),
    .infer = hri_infer_same,
    .grad = noise_grad,
    .overwrite = {1},
    .random = 1,
    .cost = noise_cost,
    .host = {.run = noise_host},
    .cases = HRI_CASES(noise_cases),
};

const hri_kernel hri_kernel_cuda_noise = {.launch = noise_cuda};
