/* The update of one parameter by the optimizer, and the states that it has.
 *
 * All that an update depends on is a value of the graph, so the planner sees it.  Names of states are those of their parameter,
 * however a batch or a tensor is cut: a checkpoint fits any number of ranks and parts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/number.h"
#include "base/random.h"
#include "ops/common/adafactor.h"
#include "ops/common/codes.h"
#include "passes/common/rates.h"
#include "step/step_int.h"

/* ---- states ---- */

/* A slice has the states of what it is a slice of. */
static size_t name_length(const hri_step_maker *m, const char *name) {
    const size_t length = strlen(name);
    return m->shard && length > 6 && !strcmp(name + length - 6, ".slice") ? length - 6 : length;
}

static hr_value add_state(hri_step_maker *m, hr_value param, const char *what, hr_keep keep,
                          hr_type type, hr_shape shape) {
    char name[300];
    const hri_value *p = &m->g->values[param];
    const int n =
        snprintf(name, sizeof name, "/%.*s.%s", (int)name_length(m, p->name), p->name, what);
    if (n < 0 || (size_t)n >= sizeof name) {
        hri_graph_fail(m->g, HR_E_INVALID, "%s: the name is too long", p->name);
        return HR_NONE;
    }
    /* Only what is f32 is turned in files; a slice has no layout. */
    const int turned = type == HR_TYPE_F32 && hr_shape_same(&shape, &p->meta.shape);
    const hr_tags tags = {.size = sizeof tags,
                          .owner = param,
                          .layout = turned ? hri_graph_tags(m->g, param)->layout : 0,
                          .keep = keep};
    const hr_value state = hr_graph_state(m->g, name, type, shape, hr_init_constant(0.0));
    hr_graph_set_tags(m->g, state, &tags);
    return state;
}

hr_value hri_step_state(hri_step_maker *m, hr_value param, const char *what, hr_keep keep) {
    return add_state(m, param, what, keep, HR_TYPE_F32, m->g->values[param].meta.shape);
}

hr_value hri_step_state_of(hri_step_maker *m, hr_value param, const char *what, hr_keep keep,
                           hr_shape shape) {
    return add_state(m, param, what, keep, HR_TYPE_F32, shape);
}

enum { SMALL_FROM = 4096 }; /* elements from which on 8 bits save something that counts */

/* One state of the optimizer for w, which is a tensor of `elements`, or a slice of it. */
static hr_value moment_state(hri_step_maker *m, hr_value w, int64_t elements, const char *what) {
    const hr_shape shape = m->g->values[w].meta.shape;
    if (m->o->moments == HR_MOMENTS_BF16) {
        return add_state(m, w, what, HR_KEEP_OPTIMIZER, HR_TYPE_BF16, shape);
    }
    if (m->o->moments == HR_MOMENTS_8BIT && elements >= SMALL_FROM) {
        return add_state(m, w, what, HR_KEEP_OPTIMIZER, HR_TYPE_U8,
                         hr_shape_1(hri_codes_bytes(hr_shape_count(&shape))));
    }
    return hri_step_state(m, w, what, HR_KEEP_OPTIMIZER);
}

/* ---- the update ---- */

/* ",stream=N" and, of a slice, ",ranks=N": what draws depend on.  Names are the same however a batch or a tensor is cut. */
static void add_stream(const hri_step_maker *m, hr_value w, int64_t elements, char *text,
                       size_t size) {
    const hri_value *p = &m->g->values[w];
    const uint64_t name = hri_hash_bytes(p->name, name_length(m, p->name), 0);
    const int cut = m->shard && hr_shape_count(&p->meta.shape) < elements;
    const size_t at = strlen(text);
    snprintf(text + at, size - at, ",stream=%llu,ranks=%u",
             (unsigned long long)(1 + name % (HRI_RANDOM_NODE_FIRST - 1)),
             cut ? m->shard->ranks : 1);
}

/* A factor of a parameter, or of its slice, that a pass has noted; none: NULL. */
static const char *noted(const hri_step_maker *m, hr_value w, const char *note) {
    char name[320];
    const hri_value *p = &m->g->values[w];
    snprintf(name, sizeof name, "%.*s%s", (int)name_length(m, p->name), p->name, note);
    return hri_graph_find_note(m->g, name);
}

static double decay_of(const hri_step_maker *m, hr_value w) {
    const char *factor = noted(m, w, HRI_DECAYS_NOTE);
    if (factor) {
        return m->o->decay * hri_strtod(factor, NULL);
    }
    const int32_t tag = hri_graph_tags(m->g, w)->decay;
    const int decays = tag ? tag > 0 : m->g->values[w].meta.shape.rank > 1;
    return m->o->decay_all || decays ? m->o->decay : 0.0;
}

/* The rate of parameter w, or of its slice: equal factors have one value, since updates of one rate are launched together. */
static hr_value rate_of(hri_step_maker *m, hr_value w) {
    const char *text = noted(m, w, HRI_RATES_NOTE);
    const double factor = text ? hri_strtod(text, NULL) : 1.0;
    if (factor == 1.0) {
        return m->rate;
    }
    for (size_t i = 0; i < m->rate_count; i++) {
        if (m->rates[i].factor == factor) {
            return m->rates[i].value;
        }
    }
    const hr_value made = hri_nodef(m->g, "affine", &m->rate, 1, "scale=%.17g", factor);
    if (m->rate_count < HRI_STEP_RATES) {
        m->rates[m->rate_count].factor = factor;
        m->rates[m->rate_count++].value = made;
    }
    return made;
}

hr_value hri_step_update_last(hri_step_maker *m, hr_value w, hr_value now, hr_value velocity,
                              hr_value piece, hr_value weight) {
    const hr_value in[] = {now, piece, rate_of(m, w), velocity, weight};
    char attributes[64];
    hri_snprintf(attributes, sizeof attributes, "decay=%.17g,momentum=1", decay_of(m, w));
    return hr_graph_node(m->g, "sgd_momentum", in, weight == HR_NONE ? 4 : 5, attributes);
}

/* Averages of rows and columns: what they are of cannot be seen in a slice. */
static hr_value update_adafactor(hri_step_maker *m, hr_value w, int64_t elements, hr_value now,
                                 hr_value grad, double decay) {
    const hr_shape shape = m->g->values[w].meta.shape;
    int64_t rows, columns;
    if (hr_shape_count(&shape) != elements) {
        hri_graph_fail(m->g, HR_E_UNSUPPORTED,
                       "adafactor needs whole parameters and does not work with slices of them "
                       "(shard); its state is small without");
        return HR_NONE;
    }
    hri_adafactor_cut(&shape, &rows, &columns);
    const hr_value in[] = {
        now,
        grad,
        rate_of(m, w),
        m->update,
        add_state(m, w, "rows", HR_KEEP_OPTIMIZER, HR_TYPE_F32, hr_shape_1(rows)),
        add_state(m, w, "columns", HR_KEEP_OPTIMIZER, HR_TYPE_F32, hr_shape_1(columns)),
        m->factor};
    return hri_nodef(m->g, "adafactor", in, m->factor == HR_NONE ? 6 : 7,
                     "decay=%.17g,clip=%.17g,relative=%s", decay, m->o->update_clip,
                     m->o->relative_step ? "yes" : "no");
}

hr_value hri_step_update(hri_step_maker *m, hr_value w, int64_t elements, hr_value now,
                         hr_value grad) {
    const hr_train_options *o = m->o;
    const double decay = decay_of(m, w);
    hr_value in[7] = {now, grad, rate_of(m, w)};
    size_t n = 3;
    const char *op = "sgd";
    char attributes[256];
    hri_snprintf(attributes, sizeof attributes, "decay=%.17g", decay);
    switch (o->optimizer) {
    case HR_OPTIMIZER_SGD:
        if (o->momentum > 0.0) {
            op = "sgd_momentum";
            in[n++] = moment_state(m, w, elements, "velocity");
            hri_snprintf(attributes, sizeof attributes, "decay=%.17g,momentum=%.17g,nesterov=%d",
                         decay, o->momentum, o->nesterov);
        }
        break;
    case HR_OPTIMIZER_RMSPROP:
        op = o->momentum > 0.0 ? "rmsprop_momentum" : "rmsprop";
        in[n++] = moment_state(m, w, elements, "average");
        int at = hri_snprintf(attributes, sizeof attributes,
                              "decay=%.17g,alpha=%.17g,epsilon=%.17g,root=%.17g", decay, o->alpha,
                              o->epsilon, o->root_epsilon);
        if (o->momentum > 0.0 && at > 0) {
            in[n++] = moment_state(m, w, elements, "velocity");
            hri_snprintf(attributes + at, sizeof attributes - (size_t)at, ",momentum=%.17g",
                         o->momentum);
        }
        break;
    case HR_OPTIMIZER_ADAFACTOR:
        return update_adafactor(m, w, elements, now, grad, decay);
    case HR_OPTIMIZER_LION:
        op = "lion";
        in[n++] = moment_state(m, w, elements, "first");
        hri_snprintf(attributes, sizeof attributes, "decay=%.17g,beta1=%.17g,beta2=%.17g", decay,
                     o->beta1, o->beta2);
        break;
    default:
        op = o->optimizer == HR_OPTIMIZER_ADAMW ? "adamw" : "adam";
        in[n++] = m->update;
        in[n++] = moment_state(m, w, elements, "first");
        in[n++] = moment_state(m, w, elements, "second");
        hri_snprintf(attributes, sizeof attributes,
                     "decay=%.17g,beta1=%.17g,beta2=%.17g,epsilon=%.17g", decay, o->beta1, o->beta2,
                     o->epsilon);
        break;
    }
    if (o->moments != HR_MOMENTS_F32 && strcmp(op, "sgd") != 0) {
        add_stream(m, w, elements, attributes, sizeof attributes);
    }
    if (m->factor != HR_NONE) {
        in[n++] = m->factor;
    }
    return hr_graph_node(m->g, op, in, n, attributes);
}
