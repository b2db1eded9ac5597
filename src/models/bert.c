/* bert: encoders of text (Devlin et al. 2018), with the names and layouts of Hugging Face's files.
 *
 *   x = norm(word_embeddings[tokens] + position_embeddings[:context] + token_type_embeddings[0])
 *   x = norm(x + attention(x));  x = norm(x + output(gelu(intermediate(x))))      `layers` times; gelu by erf
 *   classes=0:  logits = norm(gelu(transform(x))) word_embeddings^T + bias        a masked language model (BertForMaskedLM)
 *   classes=N:  logits = classifier(tanh(pooler(x of the first token)))           of a text (BertForSequenceClassification)
 *
 * Names: bert.embeddings.{word,position,token_type}_embeddings, bert.embeddings.LayerNorm, bert.encoder.layer.<i>.{attention.self.
 * {query,key,value}, attention.output.{dense,LayerNorm}, intermediate.dense, output.{dense,LayerNorm}}; cls.predictions.{transform.
 * {dense,LayerNorm}, bias} or bert.pooler.dense and classifier.  Weights begin normal with deviation 0.02, biases at 0.
 *
 * Tokens `pad` are seen by no other (an attention mask there), and their row of the embedding has no gradient from where they
 * stand; -1: there are none.  Labels of the masked language model that are
 * negative do not count. */
#include "models/common/layers.h"

#include "graph/graph.h"

typedef struct bert {
    int64_t context, vocab, layers, width, heads, hidden, positions, types, pad, classes;
    double dropout;
} bert;

static const hri_field fields[] = {
    {"context", "tokens per sample", offsetof(bert, context), HRI_FIELD_INT, "512", .min = 1,
     .max = 1e6},
    {"vocab", "vocabulary size", offsetof(bert, vocab), HRI_FIELD_INT, "30522", .min = 1,
     .max = 1e7},
    {"layers", "blocks", offsetof(bert, layers), HRI_FIELD_INT, "12", .min = 1, .max = 1000},
    {"width", "width of the residual stream", offsetof(bert, width), HRI_FIELD_INT, "768", .min = 1,
     .max = 1e6},
    {"heads", "attention heads; they share the width", offsetof(bert, heads), HRI_FIELD_INT, "12",
     .min = 1, .max = 1e4},
    {"hidden", "width inside the feed-forward part; 0: four times the width",
     offsetof(bert, hidden), HRI_FIELD_INT, "0", .min = 0, .max = 1e6},
    {"positions", "rows of the position embedding, context or more; 0: context",
     offsetof(bert, positions), HRI_FIELD_INT, "512", .min = 0, .max = 1e6},
    {"types", "rows of the embedding of segments, of which the first is used",
     offsetof(bert, types), HRI_FIELD_INT, "2", .min = 1, .max = 1e4},
    {"pad", "the token that fills short texts, hidden from attention; -1: none",
     offsetof(bert, pad), HRI_FIELD_INT, "0", .min = -1, .max = 1e7},
    {"classes", "number of classes of a text; 0: a masked language model", offsetof(bert, classes),
     HRI_FIELD_INT, "0", .min = 0, .max = 1e7},
    {"dropout", "dropout probability", offsetof(bert, dropout), HRI_FIELD_DOUBLE, "0.1", .min = 0,
     .max = 0.99},
    {0}};

static hr_status check(const void *options, hri_prose *why) {
    const bert *o = options;
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
    if (o->pad >= o->vocab) {
        return hri_prose_set(why, HR_E_INVALID, "pad: %lld is not below vocab (%lld)",
                             (long long)o->pad, (long long)o->vocab);
    }
    return HR_OK;
}

static hr_value linear(hri_build *b, const char *name, hr_value x, int64_t out) {
    const hr_init weight = hr_init_normal(0.02), bias = hr_init_constant(0.0);
    return hri_layer_linear(b, name, x, out, &weight, &bias);
}

static hr_value norm(hri_build *b, hr_value x) {
    return hri_layer_norm(b, "LayerNorm", x, 1e-12);
}

static hr_value table(hri_build *b, const char *name, int64_t rows) {
    const bert *o = b->options;
    return hr_graph_param(b->g, name, HR_TYPE_F32, hr_shape_2(rows, o->width),
                          hr_init_normal(0.02));
}

/* (N, T, width); *words is the table that the head of the language model shares. */
static hr_value embed(hri_build *b, hr_value tokens, hr_value is_pad, hr_value *words) {
    const bert *o = b->options;
    hr_graph *g = b->g;
    const int64_t rows = o->positions ? o->positions : o->context;
    hr_graph_push(g, "bert.embeddings");
    *words = table(b, "word_embeddings.weight", o->vocab);
    hr_value place = table(b, "position_embeddings.weight", rows),
             type = table(b, "token_type_embeddings.weight", o->types);
    if (rows != o->context) {
        place = hri_nodef(g, "slice", &place, 1, "begin=0,size=%lld", (long long)o->context);
    }
    if (o->types != 1) {
        type = hri_nodef(g, "slice", &type, 1, "begin=0,size=1");
    }
    hr_value x = hr_gather(g, *words, tokens);
    if (is_pad != HR_NONE) {
        const hr_value at = hr_reshape(g, is_pad, hr_shape_3(b->batch, o->context, 1));
        x = hr_where(g, at, hr_stop_gradient(g, x), x);
    }
    x = hr_add(g, x, hr_add(g, place, type));
    x = hri_layer_dropout(b, norm(b, x), o->dropout);
    hr_graph_pop(g);
    return x;
}

/* (N, T): 1 where the token is padding. */
static hr_value padding(hri_build *b, hr_value tokens) {
    const bert *o = b->options;
    if (o->pad < 0) {
        return HR_NONE;
    }
    const hr_value pad = hr_graph_fill(b->g, HR_TYPE_F32, hr_shape_0(), (double)o->pad);
    return hr_compare(b->g, hr_cast(b->g, tokens, HR_TYPE_F32), pad, "equal");
}

/* (N, 1, 1, T) of bytes: 0 for padding, which no token sees. */
static hr_value shown(hri_build *b, hr_value is_pad) {
    const bert *o = b->options;
    return is_pad == HR_NONE
               ? HR_NONE
               : hr_reshape(b->g, hr_cast(b->g, hr_affine(b->g, is_pad, -1.0, 1.0), HR_TYPE_U8),
                            hr_shape_4(b->batch, 1, 1, o->context));
}

static hr_value heads(hri_build *b, const char *name, hr_value x) {
    const bert *o = b->options;
    return hr_reshape(b->g, linear(b, name, x, o->width),
                      hr_shape_4(b->batch, o->context, o->heads, o->width / o->heads));
}

static hr_value attend(hri_build *b, hr_value x, hr_value mask) {
    const bert *o = b->options;
    hr_graph *g = b->g;
    const double dropout = b->training ? o->dropout : 0.0;
    hr_graph_push(g, "attention.self");
    const hr_value q = heads(b, "query", x), k = heads(b, "key", x), v = heads(b, "value", x);
    hr_graph_pop(g);
    const hr_value y = mask == HR_NONE && dropout == 0.0
                           ? hr_attention(g, q, k, v, 0)
                           : hr_attention_masked(g, q, k, v, mask, 0, 0.0, dropout);
    return hr_reshape(g, y, hr_shape_3(b->batch, o->context, o->width));
}

/* norm(x + dense(y)) under the name. */
static hr_value join(hri_build *b, const char *name, hr_value x, hr_value y) {
    const bert *o = b->options;
    hr_graph_push(b->g, name);
    y = hri_layer_dropout(b, linear(b, "dense", y, o->width), o->dropout);
    x = norm(b, hr_add(b->g, y, x));
    hr_graph_pop(b->g);
    return x;
}

static hr_value block(hri_build *b, hr_value x, hr_value mask) {
    const bert *o = b->options;
    x = join(b, "attention.output", x, attend(b, x, mask));
    const hr_value y = linear(b, "intermediate.dense", x, o->hidden ? o->hidden : 4 * o->width);
    return join(b, "output", x, hr_gelu(b->g, y, 0));
}

static void predict_words(hri_build *b, hr_value x, hr_value words) {
    const bert *o = b->options;
    hr_graph *g = b->g;
    hr_graph_push(g, "cls.predictions");
    const hr_value bias =
        hr_graph_param(g, "bias", HR_TYPE_F32, hr_shape_1(o->vocab), hr_init_constant(0.0));
    hr_graph_set_tags(g, bias, &(hr_tags){.size = sizeof(hr_tags), .decay = -1});
    hr_graph_push(g, "transform");
    x = norm(b, hr_gelu(g, linear(b, "dense", x, o->width), 0));
    hr_graph_pop(g);
    hr_graph_pop(g);
    hri_model_linear_loss_with(b, x, words, bias);
}

static void predict_class(hri_build *b, hr_value x) {
    const bert *o = b->options;
    hr_graph *g = b->g;
    char first[64];
    snprintf(first, sizeof first, "%lldx1x%lld", (long long)b->batch, (long long)o->width);
    x = hr_reshape(g, hr_slice(g, x, "0x0x0", first), hr_shape_2(b->batch, o->width));
    x = hr_tanh(g, linear(b, "bert.pooler.dense", x, o->width));
    x = hri_layer_dropout(b, x, o->dropout);
    hri_model_loss(b, linear(b, "classifier", x, o->classes));
}

static void build(hri_build *b) {
    const bert *o = b->options;
    hr_graph *g = b->g;
    const hr_value tokens =
        hr_graph_input(g, "/tokens", HR_TYPE_I32, hr_shape_2(b->batch, o->context));
    hr_value words;
    const hr_value is_pad = padding(b, tokens), mask = shown(b, is_pad);
    hr_value x = embed(b, tokens, is_pad, &words);
    for (int64_t i = 0; i < o->layers; i++) {
        char name[48];
        snprintf(name, sizeof name, "bert.encoder.layer.%d", (int)i);
        hr_graph_push(g, name);
        x = block(b, x, mask);
        hr_graph_pop(g);
    }
    if (o->classes) {
        predict_class(b, x);
    } else {
        predict_words(b, x, words);
    }
}

static int64_t classes(const void *options) {
    const bert *o = options;
    return o->classes ? o->classes : o->vocab;
}

static const hri_model_name names[] = {
    {"bert-nano", "encoder of text for tests, 2 layers, width 32",
     "context=32,vocab=128,layers=2,width=32,heads=4,positions=0"},
    {"bert-tiny", "encoder of text, 2 layers, 4.4 million parameters",
     "layers=2,width=128,heads=2"},
    {"bert-mini", "encoder of text, 4 layers, 11 million parameters", "layers=4,width=256,heads=4"},
    {"bert-small", "encoder of text, 4 layers, 29 million parameters",
     "layers=4,width=512,heads=8"},
    {"bert-medium", "encoder of text, 8 layers, 42 million parameters",
     "layers=8,width=512,heads=8"},
    {"bert-base-uncased", "encoder of text, 12 layers, 110 million parameters", NULL},
    {"bert-base-cased", "encoder of text, 12 layers, 108 million parameters", "vocab=28996"},
    {"bert-large-uncased", "encoder of text, 24 layers, 335 million parameters",
     "layers=24,width=1024,heads=16"},
    {NULL, NULL, NULL},
};

/* The copy of the shared head, and what other heads have in a file of pretraining. */
static const char *const derived[] = {".position_ids",
                                      "cls.predictions.decoder.weight",
                                      "cls.predictions.decoder.bias",
                                      "cls.seq_relationship.weight",
                                      "cls.seq_relationship.bias",
                                      NULL};

/* BertModel has a pooler alone, BertForMaskedLM none, and a file of pretraining no classifier. */
static const char *const of_heads[] = {"bert.pooler.", "classifier.", "cls.predictions.", NULL};

const hri_family hri_family_bert = {
    .name = "bert",
    .names = names,
    .fields = fields,
    .options_bytes = sizeof(bert),
    .check = check,
    .build = build,
    .classes = classes,
    .both_ways = true,
    .derived = derived,
    .heads = of_heads,
};
