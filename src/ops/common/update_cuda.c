/* Groups and launches; see update_cuda.h. */
#include "ops/common/update_cuda.h"

#include <string.h>

HRI_CU(update);

enum { TENSORS = 64, PIECE = 2048, THREADS = 256, AT_ONCE = 256 };

/* As in update.cu. */
typedef struct tensor {
    hr_addr at[4];
    int64_t count;
    uint32_t first;
    float decay;
    uint32_t stream;
    uint32_t words; /* of draws before it, of 4 elements each: a slice begins inside its tensor */
} tensor;

typedef struct table {
    hr_addr rate, scalar, factor, control;
    float c[HRI_UPDATE_CONSTANTS];
    uint32_t count, types;
    tensor tensor[TENSORS];
} table;

_Static_assert(sizeof(table) <= 4096, "the table is the parameter of a kernel");

/* What a group has in common. */
typedef struct kind {
    hr_type type[4]; /* w, g, s0, s1 */
    hr_addr rate, scalar, factor, control;
    float c[HRI_UPDATE_CONSTANTS];
    int wide, drawn;
} kind;

static kind kind_of(const hri_update_rule *rule, const hri_gpu_call *c, tensor *out) {
    const uint32_t first = 2 + rule->scalars, factor = first + rule->states;
    kind k;
    memset(&k, 0, sizeof k); /* kinds are compared as bytes */
    *out = (tensor){.count = hr_shape_count(&c->sig->in[0].shape)};
    for (uint32_t i = 0; i < 2 + rule->states; i++) {
        const uint32_t input = i < 2 ? i : first + i - 2;
        k.type[i] = c->sig->in[input].type;
        out->at[i] = i == 1 ? c->in[1] : c->out[i ? i - 1 : 0];
        k.wide |= !hri_launch_wide(out->at[i]);
    }
    out->at[1] += (uint64_t)hri_update_skip(c->sig) * hr_type_bytes(k.type[1]);
    k.wide = !k.wide && hri_launch_wide(out->at[1]);
    const hri_update_small small = hri_update_small_of(rule, c->sig->attr);
    out->stream = (uint32_t)small.stream;
    out->words = small.ranks > 1 ? (uint32_t)((uint64_t)c->rank * (uint64_t)out->count / 4) : 0;
    k.drawn = out->stream != 0;
    k.control = k.drawn ? c->control : 0;
    k.rate = c->in[2];
    k.scalar = rule->scalars > 1 ? c->in[3] : 0;
    k.factor = c->sig->in_count > factor ? c->in[factor] : 0;
    if (rule->constants) {
        rule->constants(c->sig->attr, k.c, &out->decay);
    }
    return k;
}

/* Weights and states of f32, all of them aligned: what training has. */
static int is_usual(const kind *k, uint32_t states) {
    int usual = k->wide && k->type[0] == HR_TYPE_F32;
    for (uint32_t i = 0; i < states; i++) {
        usual &= k->type[2 + i] == HR_TYPE_F32;
    }
    return usual;
}

static uint32_t code_of(hr_type type) {
    return type == HR_TYPE_BF16 ? 1 : type == HR_TYPE_F16 ? 2 : type == HR_TYPE_U8 ? 3 : 0;
}

/* A small state is rounded at random: the kernel `update_small`, compiled for the types of all. */
static int is_small(const kind *k, uint32_t states) {
    int small = 0;
    for (uint32_t i = 0; i < states; i++) {
        small |= k->type[2 + i] == HR_TYPE_BF16 || k->type[2 + i] == HR_TYPE_U8;
    }
    return small && k->drawn;
}

static hri_defines defines_of(const hri_update_rule *rule, const kind *k, int usual, int small) {
    const char *g = usual || small ? hri_launch_type(k->type[1]) : "float";
    if (!small) {
        return hri_launch_defines("-DHR_OP=%s -DHR_STATES=%u -DHR_G=%s", rule->name, rule->states,
                                  g);
    }
    return hri_launch_defines("-DHR_OP=%s -DHR_STATES=%u -DHR_G=%s -DHR_SMALL=%u", rule->name,
                              rule->states, g,
                              1u | code_of(k->type[2]) << 1 | code_of(k->type[3]) << 3 |
                                  rule->positive << 5 | (k->wide ? 128u : 0u));
}

static hr_status launch(const hri_update_rule *rule, hri_gpu *gpu, const kind *k, table *t,
                        uint32_t blocks) {
    const int usual = is_usual(k, rule->states), small = is_small(k, rule->states);
    const hri_defines d = defines_of(rule, k, usual, small);
    t->rate = k->rate;
    t->scalar = k->scalar;
    t->factor = k->factor;
    t->control = k->control;
    t->types = 0;
    for (uint32_t i = 0; i < 4; i++) {
        t->types |= code_of(k->type[i]) << 4 * i;
    }
    memcpy(t->c, k->c, sizeof t->c);
    return hri_gpu_launch(gpu, &hri_cu_update, d.text,
                          usual   ? "update"
                          : small ? "update_small"
                                  : "update_any",
                          &(hri_gpu_grid){.x = blocks, .threads = THREADS}, HRI_GPU_ARGS(t));
}

/* The calls of the first one's kind, up to a full table; they leave `calls`, whose rest moves up. */
static hr_status launch_kind(const hri_update_rule *rule, const hri_gpu_call **calls,
                             uint32_t *count) {
    table t = {.count = 0};
    kind group;
    uint32_t blocks = 0, left = 0;
    hri_gpu *gpu = calls[0]->gpu;
    for (uint32_t i = 0; i < *count; i++) {
        tensor x;
        const kind k = kind_of(rule, calls[i], &x);
        if (x.count == 0) {
            continue;
        }
        if (t.count && (t.count == TENSORS || memcmp(&k, &group, sizeof k) != 0)) {
            calls[left++] = calls[i];
            continue;
        }
        group = k;
        x.first = blocks;
        t.tensor[t.count++] = x;
        blocks += hri_launch_blocks(x.count, PIECE);
    }
    *count = left;
    return t.count ? launch(rule, gpu, &group, &t, blocks) : HR_OK;
}

hr_status hri_update_launch(const hri_update_rule *rule, const hri_gpu_call *calls,
                            uint32_t count) {
    hr_status status = HR_OK;
    while (count > 0 && status == HR_OK) {
        const hri_gpu_call *some[AT_ONCE];
        const uint32_t n = count < AT_ONCE ? count : AT_ONCE;
        uint32_t left = n;
        for (uint32_t i = 0; i < n; i++) {
            some[i] = &calls[i];
        }
        while (left > 0 && status == HR_OK) {
            status = launch_kind(rule, some, &left);
        }
        calls += n;
        count -= n;
    }
    return status;
}
