/* gpt2: decoder-only transformers for text (Radford et al. 2019), with the names and layouts of Hugging Face's files.
 *
 *   x = wte[tokens] + wpe[:context]
 *   x = x + attn(ln_1(x));  x = x + mlp(ln_2(x))        `layers` times; gelu by tanh, four times wider inside
 *   logits = ln_f(x) wte^T                              inside linear_cross_entropy, never whole
 *
 * Names: wte.weight (vocab, width), wpe.weight (positions, width), h.<i>.{ln_1,attn.c_attn,attn.c_proj,ln_2,mlp.c_fc,
 * mlp.c_proj}, ln_f.  The weights of the four projections lie as (in, out).  The head shares wte.  Beginnings: normal
 * with deviation 0.02, the two projections into the residual stream divided by sqrt(2 layers), biases 0.
 *
 * The table of positions may be longer than a sample: a file with 1,024 positions trains on 512 tokens with context=512,
 * positions=1024; the rows behind are kept, loaded and saved, and have gradients of 0.
 *
 * Dropout is off unless asked for; it is taken after the embedding and on both branches, not inside attention.  Files
 * may put "transformer." before every name, and may hold the causal mask (attn.bias) and a copy of the head. */
#include "models/common/layers.h"

#include <math.h>

#include "graph/graph.h"

typedef struct gpt2 {
    int64_t context, vocab, layers, width, heads;
    double dropout;
    int64_t positions;
} gpt2;

static const hri_field fields[] = {
    {"context", "tokens per sample", offsetof(gpt2, context), HRI_FIELD_INT, "1024", .min = 1,
     .max = 1e6},
    {"vocab", "vocabulary size", offsetof(gpt2, vocab), HRI_FIELD_INT, "50257", .min = 1,
     .max = 1e7},
    {"layers", "blocks", offsetof(gpt2, layers), HRI_FIELD_INT, "12", .min = 1, .max = 1000},
    {"width", "width of the residual stream", offsetof(gpt2, width), HRI_FIELD_INT, "768", .min = 1,
     .max = 1e6},
    {"heads", "attention heads; they share the width", offsetof(gpt2, heads), HRI_FIELD_INT, "12",
     .min = 1, .max = 1e4},
    {"dropout", "dropout probability", offsetof(gpt2, dropout), HRI_FIELD_DOUBLE, "0", .min = 0,
     .max = 0.99},
    {"positions", "rows of the position embedding, context or more; 0: context",
     offsetof(gpt2, positions), HRI_FIELD_INT, "0", .min = 0, .max = 1e6},
    {0}};

static hr_status check(const void *options, hri_prose *why) {
    const gpt2 *o = options;
    if (o->width % o->heads) {
        return hri_prose_set(why, HR_E_INVALID,
                             "width: %lld is not a multiple of the number of "
                             "heads (%lld)",
                             (long long)o->width, (long long)o->heads);
    }
    if (o->positions && o->positions < o->context) {
        return hri_prose_set(why, HR_E_INVALID, "positions: %lld is less than context (%lld)",
                             (long long)o->positions, (long long)o->context);
    }
    return HR_OK;
}

/* x (N, T, in) -> (N, T, out), weight (in, out). */
static hr_value project(hri_build *b, const char *name, hr_value x, int64_t out, double deviation) {
    const int64_t in = hri_dim(b, x, -1);
    hr_graph_push(b->g, name);
    const hr_value w =
        hr_graph_param(b->g, "weight", HR_TYPE_F32, hr_shape_2(in, out), hr_init_normal(deviation));
    const hr_value c =
        hr_graph_param(b->g, "bias", HR_TYPE_F32, hr_shape_from(1, &out), hr_init_constant(0.0));
    const hr_value y = hr_graph_node(b->g, "matmul", (const hr_value[]){x, w, c}, 3, NULL);
    hr_graph_pop(b->g);
    return y;
}

/* Tokens of a sample, or of a step of generation. */
static int64_t length(const hri_build *b) {
    return b->decode ? b->decode : ((const gpt2 *)b->options)->context;
}

/* Queries, keys or values of (1, T, 3, heads, width of a head). */
static hr_value third(hri_build *b, hr_value qkv, int which) {
    const gpt2 *o = b->options;
    const hr_value one = hri_nodef(b->g, "slice", &qkv, 1, "begin=0x0x%d,size=1x%lldx1", which,
                                   (long long)b->decode);
    return hr_reshape(b->g, one, hr_shape_4(1, b->decode, o->heads, o->width / o->heads));
}

/* x (N, T, 3 width) -> (N, T, width) */
static hr_value attend(hri_build *b, hr_value x) {
    const gpt2 *o = b->options;
    hr_graph *g = b->g;
    const int64_t qkv[] = {b->batch, length(b), 3, o->heads, o->width / o->heads};
    x = hr_reshape(g, x, hr_shape_from(5, qkv));
    if (b->decode) {
        hr_graph_push(g, "attn");
        const hr_value q = third(b, x, 0), k = third(b, x, 1), v = third(b, x, 2);
        x = hri_layer_attend_cached(b, q, k, v, o->context);
        hr_graph_pop(g);
    } else {
        x = hr_attention_packed(g, x, 1);
    }
    return hr_reshape(g, x, hr_shape_3(b->batch, length(b), o->width));
}

static hr_value block(hri_build *b, hr_value x) {
    const gpt2 *o = b->options;
    hr_graph *g = b->g;
    const double deviation = 0.02, into = 0.02 / sqrt(2.0 * (double)o->layers);

    hr_value y = hri_layer_norm(b, "ln_1", x, 1e-5);
    y = project(b, "attn.c_attn", y, 3 * o->width, deviation);
    y = attend(b, y);
    y = project(b, "attn.c_proj", y, o->width, into);
    x = hr_add(g, x, hri_layer_dropout(b, y, o->dropout));

    y = hri_layer_norm(b, "ln_2", x, 1e-5);
    y = hr_gelu(g, project(b, "mlp.c_fc", y, 4 * o->width, deviation), 1);
    y = project(b, "mlp.c_proj", y, o->width, into);
    return hr_add(g, x, hri_layer_dropout(b, y, o->dropout));
}

/* (T, width): the first rows of the table, or all of it, or those of the tokens that are generated. */
static hr_value positions(hri_build *b) {
    const gpt2 *o = b->options;
    const int64_t rows = o->positions ? o->positions : o->context;
    const hr_value wpe = hr_graph_param(b->g, "wpe.weight", HR_TYPE_F32, hr_shape_2(rows, o->width),
                                        hr_init_normal(0.02));
    if (b->decode) {
        return hr_gather(b->g, wpe, hri_decode_positions(b, o->context));
    }
    return rows == o->context
               ? wpe
               : hri_nodef(b->g, "slice", &wpe, 1, "begin=0,size=%lld", (long long)o->context);
}

static void build(hri_build *b) {
    const gpt2 *o = b->options;
    hr_graph *g = b->g;
    const hr_init init = hr_init_normal(0.02);
    const hr_value tokens =
        hr_graph_input(g, "/tokens", HR_TYPE_I32, hr_shape_2(b->batch, length(b)));
    const hr_value wte =
        hr_graph_param(g, "wte.weight", HR_TYPE_F32, hr_shape_2(o->vocab, o->width), init);
    const hr_value wpe = positions(b);
    hr_value x = hr_add(g, hr_gather(g, wte, tokens), wpe);
    x = hri_layer_dropout(b, x, o->dropout);
    for (int64_t i = 0; i < o->layers; i++) {
        char name[32];
        snprintf(name, sizeof name, "h.%d", (int)i);
        hr_graph_push(g, name);
        x = block(b, x);
        hr_graph_pop(g);
    }
    if (b->decode) {
        x = hri_layer_norm(b, "ln_f", hri_decode_last(b, x), 1e-5);
        hr_graph_result(g, hr_linear(g, x, wte, HR_NONE), "logits");
        return;
    }
    x = hri_layer_norm(b, "ln_f", x, 1e-5);
    hri_model_linear_loss(b, x, wte);
}

static int64_t classes(const void *options) {
    return ((const gpt2 *)options)->vocab;
}

static int64_t context(const void *options) {
    return ((const gpt2 *)options)->context;
}

static const hri_model_name names[] = {
    {"gpt2-nano", "text transformer for tests, 2 layers, width 32",
     "context=32,vocab=128,layers=2,width=32,heads=4"},
    {"gpt2", "text transformer, 12 layers, 124 million parameters", NULL},
    {"gpt2-medium", "text transformer, 24 layers, 355 million parameters",
     "layers=24,width=1024,heads=16"},
    {"gpt2-large", "text transformer, 36 layers, 774 million parameters",
     "layers=36,width=1280,heads=20"},
    {"gpt2-xl", "text transformer, 48 layers, 1.56 billion parameters",
     "layers=48,width=1600,heads=25"},
    {NULL, NULL, NULL},
};

static const char *const derived[] = {".attn.bias", ".attn.masked_bias", "lm_head.weight", NULL};

const hri_family hri_family_gpt2 = {
    .name = "gpt2",
    .names = names,
    .fields = fields,
    .options_bytes = sizeof(gpt2),
    .check = check,
    .build = build,
    .classes = classes,
    .context = context,
    .prefix = "transformer.",
    .derived = derived,
};
