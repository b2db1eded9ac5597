/* lstm: recurrent networks for text (Hochreiter and Schmidhuber 1997), with the names and layouts of torch.nn.
 *
 *   x = embedding[tokens];  x = lstm(x)        `layers` times, forwards or both ways
 *   classes=0:  logits = fc(x)                 a language model, forwards only: the next token of each
 *   classes=N:  logits = fc(mean of x over the tokens that are not padding)
 *
 * Names: embedding.weight (vocab, width), lstm.{weight_ih,weight_hh,bias_ih,bias_hh}_l<i>[_reverse], fc.{weight,bias}: those of a module
 * that has nn.Embedding, nn.LSTM (batch_first) and nn.Linear under these three names.  Beginnings are torch's.  Dropout is taken of the
 * embedding, between layers and before fc. */
#include "models/common/layers.h"

#include <math.h>

#include "graph/graph.h"

typedef struct lstm {
    int64_t context, vocab, layers, width, hidden, pad, classes;
    double dropout;
    bool both;
} lstm;

static const hri_field fields[] = {
    {"context", "tokens per sample", offsetof(lstm, context), HRI_FIELD_INT, "128", .min = 1,
     .max = 4096},
    {"vocab", "vocabulary size", offsetof(lstm, vocab), HRI_FIELD_INT, "256", .min = 1, .max = 1e7},
    {"layers", "LSTM layers", offsetof(lstm, layers), HRI_FIELD_INT, "2", .min = 1, .max = 100},
    {"width", "width of the embedding", offsetof(lstm, width), HRI_FIELD_INT, "128", .min = 1,
     .max = 1e6},
    {"hidden", "width of the state", offsetof(lstm, hidden), HRI_FIELD_INT, "256", .min = 1,
     .max = 1e6},
    {"both", "read texts both ways, for classes", offsetof(lstm, both), HRI_FIELD_BOOL, "off"},
    {"pad", "the token that fills short texts, not counted for classes; -1: none",
     offsetof(lstm, pad), HRI_FIELD_INT, "0", .min = -1, .max = 1e7},
    {"classes", "number of classes of a text; 0: a language model", offsetof(lstm, classes),
     HRI_FIELD_INT, "0", .min = 0, .max = 1e7},
    {"dropout", "dropout probability", offsetof(lstm, dropout), HRI_FIELD_DOUBLE, "0", .min = 0,
     .max = 0.99},
    {0}};

static hr_status check(const void *options, hri_prose *why) {
    const lstm *o = options;
    if (o->both && !o->classes) {
        return hri_prose_set(why, HR_E_INVALID,
                             "both: a language model would see the token that it predicts; this "
                             "needs classes");
    }
    return HR_OK;
}

/* Mean of x (N, T, C) over the tokens that count: (N, C). */
static hr_value pool(hri_build *b, hr_value x, hr_value tokens) {
    const lstm *o = b->options;
    hr_graph *g = b->g;
    if (o->pad < 0) {
        return hr_mean(g, x, "1", 0);
    }
    const hr_value pad = hr_graph_fill(g, HR_TYPE_F32, hr_shape_0(), (double)o->pad);
    hr_value counts = hr_compare(g, hr_cast(g, tokens, HR_TYPE_F32), pad, "not_equal");
    counts = hr_reshape(g, counts, hr_shape_3(b->batch, o->context, 1));
    const hr_value sum = hr_sum(g, hr_mul(g, x, counts), "1", 0);
    const hr_value n = hr_sum(g, counts, "1", 0); /* (N, 1) */
    return hr_div(g, sum, hr_clip(g, n, 1.0, (double)o->context));
}

static void build(hri_build *b) {
    const lstm *o = b->options;
    hr_graph *g = b->g;
    const double bound = 1.0 / sqrt((double)o->hidden);
    const hr_value tokens =
        hr_graph_input(g, "/tokens", HR_TYPE_I32, hr_shape_2(b->batch, o->context));
    const hr_value table = hr_graph_param(g, "embedding.weight", HR_TYPE_F32,
                                          hr_shape_2(o->vocab, o->width), hr_init_normal(1.0));
    hr_value x = hri_layer_dropout(b, hr_gather(g, table, tokens), o->dropout);
    for (int64_t i = 0; i < o->layers; i++) {
        x = hri_layer_recurrent(
            b, "lstm", x,
            &(hri_recurrent_layer){
                .width = o->hidden, .lstm = true, .both = o->both, .index = (int)i});
        x = hri_layer_dropout(b, x, o->dropout);
    }
    if (o->classes) {
        hri_model_loss(b, hri_layer_linear(b, "fc", pool(b, x, tokens), o->classes, NULL, NULL));
        return;
    }
    hr_graph_push(g, "fc");
    const hr_init init = hr_init_uniform(-bound, bound);
    const hr_value w =
        hr_graph_param(g, "weight", HR_TYPE_F32, hr_shape_2(o->vocab, o->hidden), init);
    const hr_value bias = hr_graph_param(g, "bias", HR_TYPE_F32, hr_shape_1(o->vocab), init);
    hr_graph_set_tags(g, bias, &(hr_tags){.size = sizeof(hr_tags), .decay = -1});
    hr_graph_pop(g);
    hri_model_linear_loss_with(b, x, w, bias);
}

static int64_t classes(const void *options) {
    const lstm *o = options;
    return o->classes ? o->classes : o->vocab;
}

static const hri_model_name names[] = {
    {"lstm-nano", "recurrent network for text, for tests, 1 layer, width 32",
     "context=16,vocab=128,layers=1,width=24,hidden=32"},
    {"lstm", "recurrent network for text, 2 layers", NULL},
    {NULL, NULL, NULL},
};

const hri_family hri_family_lstm = {
    .name = "lstm",
    .names = names,
    .fields = fields,
    .options_bytes = sizeof(lstm),
    .check = check,
    .build = build,
    .classes = classes,
};
