/* llama: decoder-only transformers with RMS norm, rotary positions, grouped keys and SwiGLU (Touvron et al. 2023), with the names and
 * layouts of Hugging Face's files.
 *
 *   x = embed_tokens[tokens]
 *   x = x + o_proj(attention(rotary(q), rotary(k), v));  x = x + down_proj(silu(gate_proj(y)) * up_proj(y))     `layers` times
 *   logits = norm(x) lm_head^T                                                     inside linear_cross_entropy, never whole
 *
 * Names: model.embed_tokens, model.layers.<i>.{input_layernorm, self_attn.{q,k,v,o}_proj, post_attention_layernorm,
 * mlp.{gate,up,down}_proj}, model.norm, lm_head, each .weight; nothing has a bias.  tie=on: the head shares embed_tokens.  Weights begin
 * normal with deviation 0.02, norms at 1.  Angles are place * theta^(-2 i / D) in f32, the halves of a head turned together; tables of
 * their cosines and sines are made of constants of the graph. */
#include "models/common/layers.h"

#include <math.h>

#include "base/alloc.h"
#include "graph/graph.h"

enum { PIECE = 16384, BLOCK = 128 }; /* numbers of a constant at most; positions of a short table */

typedef struct llama {
    int64_t context, vocab, layers, width, heads, kv_heads, hidden;
    double theta, eps;
    bool tie;
} llama;

static const hri_field fields[] = {
    {"context", "tokens per sample", offsetof(llama, context), HRI_FIELD_INT, "2048", .min = 1,
     .max = 1e6},
    {"vocab", "vocabulary size", offsetof(llama, vocab), HRI_FIELD_INT, "32000", .min = 1,
     .max = 1e7},
    {"layers", "blocks", offsetof(llama, layers), HRI_FIELD_INT, "22", .min = 1, .max = 1000},
    {"width", "width of the residual stream", offsetof(llama, width), HRI_FIELD_INT, "2048",
     .min = 2, .max = 1e6},
    {"heads", "attention heads; they share the width", offsetof(llama, heads), HRI_FIELD_INT, "32",
     .min = 1, .max = 1e4},
    {"kv_heads", "heads of keys and values, a divisor of heads; 0: as many",
     offsetof(llama, kv_heads), HRI_FIELD_INT, "0", .min = 0, .max = 1e4},
    {"hidden", "width inside the feed-forward part", offsetof(llama, hidden), HRI_FIELD_INT, "5632",
     .min = 1, .max = 1e6},
    {"theta", "base of the angles of positions", offsetof(llama, theta), HRI_FIELD_DOUBLE, "10000",
     .min = 1, .max = 1e9},
    {"eps", "of the norms", offsetof(llama, eps), HRI_FIELD_DOUBLE, "1e-5", .min = 1e-12, .max = 1},
    {"tie", "the head shares the embedding", offsetof(llama, tie), HRI_FIELD_BOOL, "off"},
    {0}};

static int64_t groups_of(const llama *o) {
    return o->kv_heads ? o->kv_heads : o->heads;
}

static hr_status check(const void *options, hri_prose *why) {
    const llama *o = options;
    if (o->width % (2 * o->heads)) {
        return hri_prose_set(why, HR_E_INVALID,
                             "width: %lld is not a multiple of twice the number of heads (%lld)",
                             (long long)o->width, (long long)o->heads);
    }
    if (o->heads % groups_of(o)) {
        return hri_prose_set(why, HR_E_INVALID, "kv_heads: %lld is not a divisor of heads (%lld)",
                             (long long)o->kv_heads, (long long)o->heads);
    }
    return HR_OK;
}

/* Tokens of a sample, or of a step of generation. */
static int64_t length(const hri_build *b) {
    return b->decode ? b->decode : ((const llama *)b->options)->context;
}

/* x (N, T, in) -> (N, T, out) without a bias. */
static hr_value project(hri_build *b, const char *name, hr_value x, int64_t out) {
    const hr_value w = hr_graph_param(b->g, name, HR_TYPE_F32, hr_shape_2(out, hri_dim(b, x, -1)),
                                      hr_init_normal(0.02));
    return hr_linear(b->g, x, w, HR_NONE);
}

static hr_value norm(hri_build *b, const char *name, hr_value x) {
    const llama *o = b->options;
    const hr_value w =
        hr_graph_param(b->g, name, HR_TYPE_F32, hr_shape_1(o->width), hr_init_constant(1.0));
    hr_graph_set_tags(b->g, w, &(hr_tags){.size = sizeof(hr_tags), .decay = -1});
    return hr_rms_norm(b->g, x, w, o->eps);
}

/* Cosines and sines of the angles of all positions, or of those that are generated: (T, D / 2). */
typedef struct turns {
    hr_value cos, sin;
} turns;

/* Rows `every` positions apart of the tables of all, as constants. */
static turns some_turns(hri_build *b, int64_t rows, int64_t every) {
    const llama *o = b->options;
    const int64_t half = o->width / o->heads / 2;
    const hr_shape shape = hr_shape_2(rows, half);
    float *numbers = hri_calloc((size_t)(2 * rows * half), sizeof *numbers);
    turns t = {HR_NONE, HR_NONE};
    if (!numbers) {
        hri_graph_fail(b->g, HR_E_NOMEM_HOST, "out of memory for the angles of positions");
        return t;
    }
    float *sines = numbers + rows * half;
    for (int64_t i = 0; i < rows * half; i++) {
        const double part = (double)(2 * (i % half)) / (double)(2 * half);
        const float speed = (float)(1.0 / pow(o->theta, part));
        const float angle = (float)(i / half * every) * speed;
        numbers[i] = (float)cos((double)angle);
        sines[i] = (float)sin((double)angle);
    }
    t.cos = hr_graph_constant(b->g, HR_TYPE_F32, shape, numbers);
    t.sin = hr_graph_constant(b->g, HR_TYPE_F32, shape, sines);
    hri_free(numbers);
    return t;
}

static hr_value with_axes(hri_build *b, hr_value v, int64_t first, int64_t second) {
    return hr_reshape(b->g, v, hr_shape_3(first, second, hri_dim(b, v, 1)));
}

/* A long table is made of two short ones, because files of graphs hold only small constants: positions are
 * 128 hi + lo, and angles add up. */
static turns all_turns(hri_build *b) {
    const llama *o = b->options;
    hr_graph *g = b->g;
    const int64_t half = o->width / o->heads / 2, blocks = (o->context + BLOCK - 1) / BLOCK;
    if (o->context * half <= PIECE) {
        return some_turns(b, o->context, 1);
    }
    const turns lo = some_turns(b, BLOCK, 1), hi = some_turns(b, blocks, BLOCK);
    const hr_value c = with_axes(b, hi.cos, blocks, 1), s = with_axes(b, hi.sin, blocks, 1),
                   d = with_axes(b, lo.cos, 1, BLOCK), r = with_axes(b, lo.sin, 1, BLOCK);
    const hr_shape whole = hr_shape_2(blocks * BLOCK, half);
    turns t = {hr_reshape(g, hr_sub(g, hr_mul(g, c, d), hr_mul(g, s, r)), whole),
               hr_reshape(g, hr_add(g, hr_mul(g, s, d), hr_mul(g, c, r)), whole)};
    if (blocks * BLOCK > o->context) {
        t.cos = hri_nodef(g, "slice", &t.cos, 1, "begin=0,size=%lld", (long long)o->context);
        t.sin = hri_nodef(g, "slice", &t.sin, 1, "begin=0,size=%lld", (long long)o->context);
    }
    return t;
}

static turns make_turns(hri_build *b) {
    const llama *o = b->options;
    turns t = all_turns(b);
    if (b->decode) {
        const hr_value places = hri_decode_positions(b, o->context);
        t.cos = hr_gather(b->g, t.cos, places);
        t.sin = hr_gather(b->g, t.sin, places);
    }
    return t;
}

static hr_value heads(hri_build *b, const char *name, hr_value x, int64_t count, const turns *t) {
    const llama *o = b->options;
    const int64_t depth = o->width / o->heads;
    x = hr_reshape(b->g, project(b, name, x, count * depth),
                   hr_shape_4(b->batch, length(b), count, depth));
    return t ? hr_graph_node(b->g, "rotary", (const hr_value[]){x, t->cos, t->sin}, 3, NULL) : x;
}

static hr_value attend(hri_build *b, hr_value x, const turns *t) {
    const llama *o = b->options;
    hr_graph_push(b->g, "self_attn");
    const hr_value q = heads(b, "q_proj.weight", x, o->heads, t),
                   k = heads(b, "k_proj.weight", x, groups_of(o), t),
                   v = heads(b, "v_proj.weight", x, groups_of(o), NULL);
    hr_value y = b->decode ? hri_layer_attend_cached(b, q, k, v, o->context)
                           : hr_attention(b->g, q, k, v, 1);
    y = hr_reshape(b->g, y, hr_shape_3(b->batch, length(b), o->width));
    y = project(b, "o_proj.weight", y, o->width);
    hr_graph_pop(b->g);
    return y;
}

static hr_value feed(hri_build *b, hr_value x) {
    const llama *o = b->options;
    hr_graph_push(b->g, "mlp");
    const hr_value gate = hr_silu(b->g, project(b, "gate_proj.weight", x, o->hidden));
    const hr_value up = project(b, "up_proj.weight", x, o->hidden);
    const hr_value y = project(b, "down_proj.weight", hr_mul(b->g, gate, up), o->width);
    hr_graph_pop(b->g);
    return y;
}

static void build(hri_build *b) {
    const llama *o = b->options;
    hr_graph *g = b->g;
    const hr_shape table = hr_shape_2(o->vocab, o->width);
    const hr_value tokens =
        hr_graph_input(g, "/tokens", HR_TYPE_I32, hr_shape_2(b->batch, length(b)));
    const hr_value embed =
        hr_graph_param(g, "model.embed_tokens.weight", HR_TYPE_F32, table, hr_init_normal(0.02));
    const turns t = make_turns(b);
    hr_value x = hr_gather(g, embed, tokens);
    for (int64_t i = 0; i < o->layers; i++) {
        char name[48];
        snprintf(name, sizeof name, "model.layers.%lld", (long long)i);
        hr_graph_push(g, name);
        x = hr_add(g, x, attend(b, norm(b, "input_layernorm.weight", x), &t));
        x = hr_add(g, x, feed(b, norm(b, "post_attention_layernorm.weight", x)));
        hr_graph_pop(g);
    }
    x = norm(b, "model.norm.weight", b->decode ? hri_decode_last(b, x) : x);
    const hr_value head =
        o->tie ? embed
               : hr_graph_param(g, "lm_head.weight", HR_TYPE_F32, table, hr_init_normal(0.02));
    if (b->decode) {
        hr_graph_result(g, hr_linear(g, x, head, HR_NONE), "logits");
    } else {
        hri_model_linear_loss(b, x, head);
    }
}

static int64_t classes(const void *options) {
    return ((const llama *)options)->vocab;
}

static int64_t context(const void *options) {
    return ((const llama *)options)->context;
}

static const hri_model_name names[] = {
    {"llama-nano", "text transformer with rotary positions for tests, 2 layers, width 32",
     "context=32,vocab=128,layers=2,width=32,heads=4,kv_heads=2,hidden=88"},
    {"llama-1b", "text transformer with rotary positions, 22 layers, 1.1 billion parameters",
     "kv_heads=4"},
    {"llama-7b", "text transformer with rotary positions, 32 layers, 6.7 billion parameters",
     "context=4096,layers=32,width=4096,hidden=11008"},
    {"llama-8b", "text transformer with rotary positions, 32 layers, 8.0 billion parameters",
     "context=8192,vocab=128256,layers=32,width=4096,kv_heads=8,hidden=14336,theta=500000"},
    {NULL, NULL, NULL},
};

static const char *const derived[] = {".rotary_emb.inv_freq", NULL};

const hri_family hri_family_llama = {
    .name = "llama",
    .names = names,
    .fields = fields,
    .options_bytes = sizeof(llama),
    .check = check,
    .build = build,
    .classes = classes,
    .context = context,
    .derived = derived,
};
