/* Weights of products with a bias, turned where they are cast.
 *
 * A step with small types casts each weight once, and if products alone read that, as (outputs, inputs), it may as well lie the other way:
 * the same numbers are multiplied and added in the same order, and on an H200 a product with a bias is up to 8 % faster, because
 * cuBLASLt adds biases faster to products whose second operand is not transposed.  A product without a bias takes either way the same
 * time.  Gradients of weights do not read them and stay as they are. */
#include <string.h>

#include "base/alloc.h"
#include "ops/common/matmul.h"
#include "step/step_int.h"

/* Rows of less than 16 bytes, or of no whole such pieces, make products slow. */
enum { PIECE = 8 };

/* A parameter, or what is gathered of its slices: the same products in the same order, however parameters lie. */
static int is_weight(const hr_graph *g, hr_value v) {
    const hri_node_record *made =
        g->values[v].node == HRI_NO_NODE ? NULL : &g->nodes[g->values[v].node];
    const hr_value from = made && !strcmp(made->sig.op->name, "gather_slices") ? made->in[0] : v;
    return g->values[from].kind == HR_VALUE_PARAM;
}

/* Is it a weight that is cast? */
static int is_cast_weight(const hr_graph *g, const hri_node_record *n) {
    const hr_meta *out = &n->sig.out[0];
    return !strcmp(n->sig.op->name, "cast") && is_weight(g, n->in[0]) &&
           n->sig.in[0].type == HR_TYPE_F32 && out->type != HR_TYPE_F32 &&
           hr_type_is_real((hr_type)out->type) && out->shape.rank == 2 &&
           out->shape.dim[0] % PIECE == 0;
}

/* What is known of the readers of each cast. */
typedef struct readers {
    uint8_t others; /* one that is no product, or reads it as its first operand */
    uint8_t biased; /* a product with a bias that reads it transposed */
    uint8_t turned; /* it is another matrix now */
} readers;

static void look(const hr_graph *g, readers *of) {
    for (uint32_t i = 0; i < g->node_count; i++) {
        const hri_node_record *n = &g->nodes[i];
        const int product = !strcmp(n->sig.op->name, "matmul");
        const hri_matmul_attr *p = n->sig.attr;
        for (uint32_t k = 0; k < n->sig.in_count; k++) {
            readers *r = &of[n->in[k]];
            r->others |= !product || k != 1;
            r->biased |= product && k == 1 && p->tb && n->sig.in_count > 2;
        }
    }
    for (uint32_t i = 0; i < g->result_count; i++) {
        of[g->results[i].value].others = 1;
    }
}

hr_status hri_step_turn_weights(hr_graph *g) {
    const hr_op *turned = hri_op_find("cast_turned"), *product = hri_op_find("matmul");
    readers *of = hri_calloc(g->value_count, sizeof *of);
    hri_attr attr;
    hri_prose ignored = {{0}};
    if (!of) {
        return HR_E_NOMEM_HOST;
    }
    look(g, of);
    for (uint32_t i = 0; i < g->node_count && g->error.code == HR_OK; i++) {
        const hri_node_record *n = &g->nodes[i];
        if (is_cast_weight(g, n) && of[n->out].biased && !of[n->out].others) {
            const char *to = n->sig.out[0].type == HR_TYPE_BF16 ? "to=bf16" : "to=f16";
            if (hri_attr_parse(turned, to, &attr, &ignored) == HR_OK) {
                hri_graph_become(g, i, turned, attr.bytes);
                of[n->out].turned = 1;
            }
        } else if (n->sig.op == product && of[n->in[1]].turned) {
            const hri_matmul_attr *p = n->sig.attr;
            hri_graph_become(g, i, product, &(hri_matmul_attr){p->ta, !p->tb});
        }
    }
    hri_free(of);
    return g->error.code;
}
