/* Layers of a model, counted on the planner's problem; see summary.h. */
#include "see/summary.h"

#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "graph/graph.h"
#include "plan/from_graph.h"

/* What counting needs beside the summary. */
typedef struct counting {
    hri_see_summary *s;
    const hr_graph *g;
    hri_strmap layers; /* name: index */
    hri_graph_problem x;
} counting;

/* The layer of that name, made when there is none yet. */
static hr_status layer_of(counting *c, const char *name, size_t bytes, hri_see_layer **out) {
    uint64_t index = c->s->layers.count;
    if (!hri_strmap_get_n(&c->layers, name, bytes, &index)) {
        hri_see_layer layer = {.name = hri_malloc(bytes + 1), .kind = ""};
        if (!layer.name) {
            return HR_E_NOMEM_HOST;
        }
        memcpy(layer.name, name, bytes);
        layer.name[bytes] = '\0';
        hr_status status = hri_strmap_put(&c->layers, layer.name, index);
        if (status == HR_OK) {
            status = hri_see_layers_push(&c->s->layers, layer);
        }
        if (status != HR_OK) {
            hri_free(layer.name);
            return status;
        }
    }
    *out = &c->s->layers.items[index];
    return HR_OK;
}

/* Up to the last dot; a name without one is a layer by itself. */
static size_t scope_bytes(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) : strlen(name);
}

static int backward_reads(const hri_problem *p, const hri_problem_value *v) {
    for (uint32_t i = 0; i < v->use_count; i++) {
        if (p->ops[p->uses[v->use_first + i]].phase != HRI_PROBLEM_FORWARD) {
            return 1;
        }
    }
    return 0;
}

static hr_status count_parameter(counting *c, const hri_problem_value *v) {
    const hri_value *value = &c->g->values[v->id];
    hri_see_layer *layer;
    const hr_status status = layer_of(c, v->name, scope_bytes(v->name), &layer);
    if (status != HR_OK) {
        return status;
    }
    const uint64_t count = (uint64_t)hr_shape_count(&value->meta.shape);
    layer->parameters += count;
    layer->parameter_bytes += v->room_bytes;
    c->s->trained_parameters += value->tags && value->tags->frozen ? 0 : count;
    return HR_OK;
}

static hr_status count_op(counting *c, const hri_problem_op *op) {
    const hri_node_record *node = &c->g->nodes[op->id];
    hri_see_layer *layer;
    const hr_status status = layer_of(c, op->name, scope_bytes(op->name), &layer);
    if (status != HR_OK) {
        return status;
    }
    const double flops = hri_op_cost(&node->sig).flops;
    layer->flops += flops;
    if (!layer->kind[0] || flops > layer->op_flops) {
        layer->kind = op->kind;
        layer->op_flops = flops;
    }
    layer->output = c->g->values[node->out].meta;
    for (uint32_t i = 0; i < op->out_count; i++) {
        const hri_problem_value *v = &c->x.problem.values[op->out[i].value];
        if (v->role == HRI_ROLE_MADE && v->root == op->out[i].value &&
            backward_reads(&c->x.problem, v)) {
            layer->kept_bytes += v->room_bytes;
        }
    }
    return HR_OK;
}

static hr_status count_inputs(counting *c) {
    const hri_problem *p = &c->x.problem;
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < p->value_count && status == HR_OK; i++) {
        const hri_problem_value *v = &p->values[i];
        hri_see_layer *layer;
        /* What the trainer feeds beside the batch (the learning rate and such) is no layer. */
        if (v->role != HRI_ROLE_INPUT || !strncmp(v->name, "train.", 6)) {
            continue;
        }
        status = layer_of(c, v->name, strlen(v->name), &layer);
        if (status == HR_OK) {
            layer->kind = "input";
            layer->output = c->g->values[v->id].meta;
            layer->kept_bytes += backward_reads(p, v) ? v->room_bytes : 0;
        }
    }
    return status;
}

/* A parameter's layer stands where the first op reads it. */
static hr_status count_ops(counting *c) {
    const hri_problem *p = &c->x.problem;
    hr_status status = HR_OK;
    unsigned char *seen = hri_calloc(p->value_count + 1, 1);
    if (!seen) {
        return HR_E_NOMEM_HOST;
    }
    for (uint32_t i = 0; i < p->op_count && status == HR_OK; i++) {
        const hri_problem_op *op = &p->ops[i];
        c->s->step_flops += hri_op_cost(&c->g->nodes[op->id].sig).flops;
        for (uint32_t k = 0; k < op->in_count && status == HR_OK; k++) {
            const hri_problem_value *v = &p->values[op->in[k]];
            const int param = v->role == HRI_ROLE_PERSISTENT && v->root == op->in[k] &&
                              c->g->values[v->id].kind == HR_VALUE_PARAM;
            if (param && !seen[op->in[k]]) {
                seen[op->in[k]] = 1;
                status = count_parameter(c, v);
            }
        }
        if (status == HR_OK && op->phase == HRI_PROBLEM_FORWARD) {
            status = count_op(c, op);
        }
    }
    for (uint32_t i = 0; i < p->value_count && status == HR_OK; i++) {
        const hri_problem_value *v = &p->values[i];
        if (v->role == HRI_ROLE_PERSISTENT && c->g->values[v->id].kind == HR_VALUE_PARAM) {
            status = seen[i] ? HR_OK : count_parameter(c, v);
        } else if (v->role == HRI_ROLE_PERSISTENT) {
            c->s->state_bytes += v->room_bytes;
        }
    }
    hri_free(seen);
    return status;
}

static void add_up(hri_see_summary *s) {
    s->total.kind = "";
    for (size_t i = 0; i < s->layers.count; i++) {
        const hri_see_layer *layer = &s->layers.items[i];
        s->total.parameters += layer->parameters;
        s->total.parameter_bytes += layer->parameter_bytes;
        s->total.flops += layer->flops;
        s->total.kept_bytes += layer->kept_bytes;
    }
}

static hr_status count(hri_see_summary *s, hr_error *why) {
    counting c = {.s = s, .g = s->graph};
    hri_prose prose = {0};
    const hri_machine machine = {.threads = 1};
    hr_status status = hri_problem_from_graph(s->graph, &machine, &c.x, &prose);
    if (status == HR_OK) {
        status = count_inputs(&c);
    }
    if (status == HR_OK) {
        status = count_ops(&c);
    }
    if (status == HR_OK) {
        add_up(s);
    } else if (why) {
        *why = (hr_error){.code = status};
        snprintf(why->message, sizeof why->message, "%s",
                 prose.text[0] ? prose.text : hr_status_text(status));
    }
    hri_graph_problem_deinit(&c.x);
    hri_strmap_deinit(&c.layers);
    return status;
}

hr_status hri_see_summary_open(const char *model, const char *training, int64_t batch,
                               hri_see_summary *out, hr_error *why) {
    hr_train_options o = {.size = sizeof o};
    hri_see_summary s = {.batch = batch};
    hr_status status = hr_train_options_parse(training ? training : "", &o, why);
    if (status == HR_OK) {
        status = hr_model_open(model, &s.model, why);
    }
    if (status == HR_OK) {
        status = hr_step_build(&o, hr_model_build, s.model, HR_STEP_WHOLE, batch, &s.graph, why);
    }
    if (status == HR_OK) {
        status = count(&s, why);
    }
    if (status != HR_OK) {
        hri_see_summary_close(&s);
        return status;
    }
    *out = s;
    return HR_OK;
}

void hri_see_summary_close(hri_see_summary *s) {
    for (size_t i = 0; i < s->layers.count; i++) {
        hri_free(s->layers.items[i].name);
    }
    hri_see_layers_deinit(&s->layers);
    hr_graph_destroy(s->graph);
    hr_model_close(s->model);
    *s = (hri_see_summary){.model = NULL};
}

hr_status hri_see_count_parameters(const char *model, uint64_t *out, hr_error *why) {
    hr_model *m = NULL;
    hr_graph *g = NULL;
    uint64_t sum = 0;
    hr_status status = hr_model_open(model, &m, why);
    if (status == HR_OK) {
        status = hr_graph_create(&g);
    }
    if (status == HR_OK) {
        status = hr_model_build(m, g, 1, 0);
    }
    for (hr_value v = 1; status == HR_OK && v < g->value_count; v++) {
        const hri_value *value = &g->values[v];
        sum += value->kind == HR_VALUE_PARAM ? (uint64_t)hr_shape_count(&value->meta.shape) : 0;
    }
    hr_graph_destroy(g);
    hr_model_close(m);
    if (status == HR_OK) {
        *out = sum;
    }
    return status;
}
