/* Which of our models quantize wholly: the share of multiply-adds in bytes, and the ops between layers that stay real.
 * docs/compression.md has the same table. */
#include <stdio.h>
#include <string.h>

#include <headroom/headroom.h>

#include "graph/graph.h"
#include "passes/common/pass.h"
#include "passes/common/quantizing.h"
#include "test.h"

typedef struct family {
    const char *model;
    int least;        /* of 1,000 multiply-adds, in bytes */
    const char *real; /* ops that stay real, in the order in which the model has them */
} family;

static const family families[] = {
    {"resnet18", 1000, ""},
    {"resnet50", 1000, ""},
    {"resnext50_32x4d", 1000, ""},
    {"mobilenet_v2", 1000, ""},
    {"vgg16_bn", 1000, ""},
    {"mobilenet_v3_large", 1000, "function mul global_avg_pool reshape"},
    {"efficientnet_b0", 1000, "silu global_avg_pool reshape sigmoid mul"},
    {"densenet121", 1000, "max_pool batch_norm_inference relu concat avg_pool global_avg_pool"},
    {"convnext_tiny", 1000, "layer_norm gelu reshape mul add global_avg_pool"},
    {"unet", 1000, "resize concat"},
    {"vit-tiny", 850, "reshape broadcast_to concat add layer_norm attention_packed gelu slice"},
    {"gpt2-nano", 800, "gather add layer_norm reshape attention_packed gelu"},
    {NULL, 0, NULL},
};

static hr_graph *build(const char *text, const char *passes) {
    hr_model *m;
    hr_graph *g;
    hri_passes list = {0};
    hri_prose why = {0};
    CHECK_OK(hr_model_open(text, &m, NULL));
    CHECK_OK(hr_graph_create(&g));
    CHECK_OK(hr_model_build(m, g, 1, 0));
    CHECK_OK(hri_passes_parse(passes, &list, &why));
    CHECK_OK(hri_passes_apply(&list, 0, &g));
    hri_passes_deinit(&list);
    hr_model_close(m);
    return g;
}

static int multiplies(const char *op) {
    return !strcmp(op, "conv2d") || !strcmp(op, "matmul") || !strncmp(op, "attention", 9);
}

static int share(const char *model) {
    hr_graph *g = build(model, "");
    hri_quantizing q;
    double all = 0, sites = 0;
    CHECK_OK(hri_quantizing_init(&q, g, 0));
    for (uint32_t i = 0; i < g->node_count; i++) {
        all += multiplies(g->nodes[i].sig.op->name) ? hri_op_cost(&g->nodes[i].sig).flops : 0;
    }
    for (size_t i = 0; i < q.site_count; i++) {
        sites += hri_op_cost(&g->nodes[q.sites[i].node].sig).flops;
    }
    hri_quantizing_deinit(&q);
    hr_graph_destroy(g);
    return (int)(1000 * sites / all);
}

/* What computes in f32, but for conversions, logits and what is behind them. */
static void real_ops(const char *model, char *out, size_t size) {
    hr_graph *g = build(model, "quantize");
    uint32_t last = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < g->node_count; i++) {
        last = strstr(g->nodes[i].sig.op->name, "_i8") ? i : last;
    }
    for (uint32_t i = 0; i < last; i++) {
        const char *op = g->nodes[i].sig.op->name;
        int known = g->values[g->nodes[i].out].meta.type != HR_TYPE_F32 || strstr(op, "_i8") ||
                    !strcmp(op, "dequantize");
        const size_t n = strlen(op);
        for (const char *at = out; !known && (at = strstr(at, op)); at += n) {
            known = (at == out || at[-1] == ' ') && (at[n] == ' ' || !at[n]);
        }
        const size_t used = strlen(out);
        if (!known) {
            snprintf(out + used, size - used, "%s%s", used ? " " : "", op);
        }
    }
    hr_graph_destroy(g);
}

TEST(families, quantize_as_the_table_says) {
    for (const family *f = families; f->model; f++) {
        char real[600];
        real_ops(f->model, real, sizeof real);
        const int is = share(f->model);
        if (is < f->least || strcmp(real, f->real) != 0) {
            test_fail(__FILE__, __LINE__,
                      "%s: %d of 1,000 multiply-adds are of bytes; real: \"%s\"", f->model, is,
                      real);
        }
    }
}
