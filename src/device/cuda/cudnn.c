/* The library cuDNN: opening it, and graphs as descriptors.
 *
 * A descriptor is made, given its attributes and finalized.  The builder owns all descriptors of a graph in one list and
 * remembers the first failure with the name of the attribute and the library's own words; after it, all calls do
 * nothing, so that a graph is written without a check a line and checked once at the end. */
#include "device/cuda/cudnn.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/fault.h"

static const hri_cuda_entry entries[] = {
#define HRI_DNN_FN(RETURNS, NAME, PARAMETERS) {#NAME, "", offsetof(hri_dnn, NAME), 1},
#include "device/cuda/cudnn_api.def"
#undef HRI_DNN_FN
};

void hri_dnn_load(hri_dnn *out) {
    static const char *const names[] = {"libcudnn_graph.so.9", "libcudnn.so.9", NULL};
    memset(out, 0, sizeof *out);
    out->library = hri_cuda_library_open(names, out->why_not);
    if (!out->library || !hri_cuda_library_find(out->library, out, entries,
                                                sizeof entries / sizeof entries[0], out->why_not)) {
        return;
    }
    out->version = out->cudnnGetVersion();
    out->found = 1;
}

void hri_dnn_unload(hri_dnn *dnn) {
    if (dnn->device) {
        dnn->cudnnBackendDestroyDescriptor(dnn->device);
    }
    if (dnn->handle) {
        dnn->cudnnDestroy(dnn->handle);
    }
    if (dnn->library) {
        dlclose(dnn->library);
    }
    memset(dnn, 0, sizeof *dnn);
}

void hri_dnn_start(hri_dnn *dnn, const char *deviceless) {
    if (!dnn->found) {
        return;
    }
    cudnnStatus_t status;
    if (deviceless) {
        status =
            dnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &dnn->device);
        if (status == CUDNN_STATUS_SUCCESS) {
            status = dnn->cudnnBackendSetAttribute(
                dnn->device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                (int64_t)strlen(deviceless), deviceless);
        }
        if (status == CUDNN_STATUS_SUCCESS) {
            status = dnn->cudnnBackendFinalize(dnn->device);
        }
    } else {
        status = dnn->cudnnCreate(&dnn->handle);
    }
    dnn->usable = status == CUDNN_STATUS_SUCCESS;
    if (!dnn->usable) {
        char last[128] = "";
        dnn->cudnnGetLastErrorString(last, sizeof last);
        snprintf(dnn->why_not, sizeof dnn->why_not, "%s: %s", dnn->cudnnGetErrorString(status),
                 last);
    }
}

/* ---- the builder ---- */

static void fail(hri_dnn_graph *g, const char *what, cudnnStatus_t status) {
    char last[320] = "";
    g->dnn->cudnnGetLastErrorString(last, sizeof last);
    g->failed = 1;
    snprintf(g->text, sizeof g->text, "%s: %s (%s)", what, g->dnn->cudnnGetErrorString(status),
             last);
}

void hri_dnn_graph_init(hri_dnn_graph *g, const hri_dnn *dnn) {
    memset(g, 0, sizeof *g);
    g->dnn = dnn;
}

void hri_dnn_graph_deinit(hri_dnn_graph *g) {
    while (g->owned_count) {
        g->dnn->cudnnBackendDestroyDescriptor(g->owned[--g->owned_count]);
    }
    g->op_count = 0;
}

static cudnnBackendDescriptor_t make(hri_dnn_graph *g, cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t d = NULL;
    if (g->failed) {
        return NULL;
    }
    if (g->owned_count == HRI_DNN_DESCRIPTORS) {
        g->failed = 1;
        snprintf(g->text, sizeof g->text, "more than %d descriptors", (int)HRI_DNN_DESCRIPTORS);
        return NULL;
    }
    const cudnnStatus_t status = g->dnn->cudnnBackendCreateDescriptor(type, &d);
    if (status != CUDNN_STATUS_SUCCESS) {
        fail(g, "creating a descriptor", status);
        return NULL;
    }
    g->owned[g->owned_count++] = d;
    return d;
}

static void set(hri_dnn_graph *g, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                const char *words, cudnnBackendAttributeType_t type, int64_t count,
                const void *elements) {
    if (!g->failed) {
        const cudnnStatus_t status =
            g->dnn->cudnnBackendSetAttribute(d, name, type, count, elements);
        if (status != CUDNN_STATUS_SUCCESS) {
            fail(g, words, status);
        }
    }
}
#define SET(D, NAME, TYPE, COUNT, ELEMENTS) set(g, D, NAME, #NAME, TYPE, COUNT, ELEMENTS)

static void finish(hri_dnn_graph *g, cudnnBackendDescriptor_t d, const char *words) {
    if (!g->failed) {
        const cudnnStatus_t status = g->dnn->cudnnBackendFinalize(d);
        if (status != CUDNN_STATUS_SUCCESS) {
            fail(g, words, status);
        }
    }
}

static void finish_op(hri_dnn_graph *g, cudnnBackendDescriptor_t d, const char *words) {
    finish(g, d, words);
    if (!g->failed && g->op_count < HRI_DNN_OPS) {
        g->ops[g->op_count++] = d;
    }
}

cudnnDataType_t hri_dnn_type(hr_type type) {
    return type == HR_TYPE_F16    ? CUDNN_DATA_HALF
           : type == HR_TYPE_BF16 ? CUDNN_DATA_BFLOAT16
                                  : CUDNN_DATA_FLOAT;
}

cudnnBackendDescriptor_t hri_dnn_tensor(hri_dnn_graph *g, int64_t uid, cudnnDataType_t type,
                                        int rank, const int64_t *dim, const int64_t *stride,
                                        int flags) {
    cudnnBackendDescriptor_t d = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const int64_t alignment = flags & HRI_DNN_BY_VALUE ? 4 : 16;
    const _Bool yes = 1;
    SET(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    SET(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    SET(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, dim);
    SET(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, stride);
    SET(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    if (flags & HRI_DNN_VIRTUAL) {
        SET(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
    }
    if (flags & HRI_DNN_BY_VALUE) {
        SET(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
    }
    finish(g, d, "a tensor");
    return d;
}

/* The attributes of the three kinds of convolution. */
typedef struct kind_names {
    cudnnBackendDescriptorType_t op;
    cudnnBackendAttributeName_t conv, x, w, y, alpha, beta;
    const char *words;
} kind_names;
static const kind_names kinds[3] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
     "a forward convolution"},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, "a convolution for the input"},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, "a convolution for the weights"},
};

void hri_dnn_convolution(hri_dnn_graph *g, int kind, const hri_dnn_window *window,
                         cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t w,
                         cudnnBackendDescriptor_t y) {
    const kind_names *k = &kinds[kind];
    const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t spatial = 2;
    const float one = 1.0f, zero = 0.0f;
    cudnnBackendDescriptor_t c = make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    SET(c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &spatial);
    SET(c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    SET(c, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    SET(c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, window->before);
    SET(c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, window->after);
    SET(c, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, window->dilation);
    SET(c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, window->stride);
    finish(g, c, "a window");
    cudnnBackendDescriptor_t o = make(g, k->op);
    set(g, o, k->conv, "the window of a convolution", CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &c);
    set(g, o, k->x, "x of a convolution", CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x);
    set(g, o, k->w, "w of a convolution", CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &w);
    set(g, o, k->y, "y of a convolution", CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y);
    set(g, o, k->alpha, "alpha of a convolution", CUDNN_TYPE_FLOAT, 1, &one);
    set(g, o, k->beta, "beta of a convolution", CUDNN_TYPE_FLOAT, 1, &zero);
    finish_op(g, o, k->words);
}

static void product(hri_dnn_graph *g, cudnnBackendDescriptor_t a, cudnnBackendDescriptor_t b,
                    cudnnBackendDescriptor_t y, double padding, const hri_dnn_part *part) {
    const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t m = make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    SET(m, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    SET(m, CUDNN_ATTR_MATMUL_PADDING_VALUE, CUDNN_TYPE_DOUBLE, 1, &padding);
    finish(g, m, "the type of a matmul");
    cudnnBackendDescriptor_t o = make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    SET(o, CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &a);
    SET(o, CUDNN_ATTR_OPERATION_MATMUL_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &b);
    SET(o, CUDNN_ATTR_OPERATION_MATMUL_CDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y);
    SET(o, CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &m);
    if (part->m) {
        SET(o, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
            &part->m);
    }
    if (part->n) {
        SET(o, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
            &part->n);
    }
    if (part->k) {
        SET(o, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
            &part->k);
    }
    finish_op(g, o, "a product");
}

void hri_dnn_matmul(hri_dnn_graph *g, cudnnBackendDescriptor_t a, cudnnBackendDescriptor_t b,
                    cudnnBackendDescriptor_t y, double padding) {
    product(g, a, b, y, padding, &(hri_dnn_part){0});
}

void hri_dnn_matmul_part(hri_dnn_graph *g, cudnnBackendDescriptor_t a, cudnnBackendDescriptor_t b,
                         cudnnBackendDescriptor_t y, hri_dnn_part part) {
    product(g, a, b, y, 0.0, &part);
}

void hri_dnn_pointwise(hri_dnn_graph *g, cudnnPointwiseMode_t mode, cudnnBackendDescriptor_t x,
                       cudnnBackendDescriptor_t b, cudnnBackendDescriptor_t t,
                       cudnnBackendDescriptor_t y, int64_t axis) {
    const cudnnDataType_t type = mode == CUDNN_POINTWISE_CMP_GE || mode == CUDNN_POINTWISE_CMP_LT ||
                                         mode == CUDNN_POINTWISE_LOGICAL_AND
                                     ? CUDNN_DATA_BOOLEAN
                                 : mode == CUDNN_POINTWISE_GEN_INDEX ? CUDNN_DATA_INT32
                                                                     : CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t p = make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    SET(p, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    SET(p, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    if (mode == CUDNN_POINTWISE_GEN_INDEX) {
        SET(p, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    }
    finish(g, p, "an element-wise function");
    cudnnBackendDescriptor_t o = make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    SET(o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &p);
    SET(o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x);
    if (b) {
        SET(o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &b);
    }
    if (t) {
        SET(o, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &t);
    }
    SET(o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y);
    finish_op(g, o, "an element-wise operation");
}

void hri_dnn_reduction(hri_dnn_graph *g, cudnnReduceTensorOp_t op, cudnnBackendDescriptor_t x,
                       cudnnBackendDescriptor_t y) {
    const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t r = make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    SET(r, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op);
    SET(r, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    finish(g, r, "a reduction's type");
    cudnnBackendDescriptor_t o = make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    SET(o, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x);
    SET(o, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y);
    SET(o, CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &r);
    finish_op(g, o, "a reduction");
}

void hri_dnn_reshape(hri_dnn_graph *g, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t y) {
    cudnnBackendDescriptor_t o = make(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    SET(o, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x);
    SET(o, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y);
    finish_op(g, o, "a reshape");
}

/* ---- plans ---- */

/* The engine and its knobs as text, and its notes as bits; 0 when the library will not say. */
static int describe(hri_dnn_graph *g, cudnnBackendDescriptor_t config, char *tag, uint32_t *notes) {
    const hri_dnn *d = g->dnn;
    cudnnBackendDescriptor_t engine = make(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    int64_t count = 0, index = -1;
    if (!engine || d->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                               CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                               &engine) != CUDNN_STATUS_SUCCESS) {
        return 0;
    }
    cudnnBackendNumericalNote_t found[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    count = 0;
    if (d->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                    CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                                    &count, found) != CUDNN_STATUS_SUCCESS ||
        d->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                                    &(int64_t){0}, &index) != CUDNN_STATUS_SUCCESS) {
        return 0;
    }
    *notes = 0;
    for (int64_t i = 0; i < count && i < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; i++) {
        *notes |= 1u << (unsigned)found[i];
    }
    int used = snprintf(tag, HRI_DNN_TAG, "%lld:", (long long)index);
    enum { KNOBS = 16 };
    cudnnBackendDescriptor_t knobs[KNOBS];
    for (int i = 0; i < KNOBS; i++) {
        knobs[i] = make(g, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    }
    count = 0;
    if (d->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, KNOBS, &count,
                                    knobs) != CUDNN_STATUS_SUCCESS) {
        count = 0;
    }
    for (int64_t i = 0; i < count && i < KNOBS && used < HRI_DNN_TAG - 24; i++) {
        int type = 0; /* an enum of the library's that grows with its versions */
        int64_t value = 0, n;
        d->cudnnBackendGetAttribute(knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                                    CUDNN_TYPE_KNOB_TYPE, 1, &n, &type);
        d->cudnnBackendGetAttribute(knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64,
                                    1, &n, &value);
        used += snprintf(tag + used, (size_t)(HRI_DNN_TAG - used), "%s%d=%lld", i ? "," : "", type,
                         (long long)value);
    }
    return 1;
}

/* Takes away the descriptors made after `count`: what a candidate that was refused left. */
static void drop_to(hri_dnn_graph *g, uint32_t count) {
    while (g->owned_count > count) {
        g->dnn->cudnnBackendDestroyDescriptor(g->owned[--g->owned_count]);
    }
}

/* What f32 that must be f32 cannot have: tensor cores are tf32 there, transforms round on their way. */
static const uint32_t inexact =
    1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE | 1u << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS |
    1u << CUDNN_NUMERICAL_NOTE_FFT | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD |
    1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 |
    1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13;

/* Tries one engine configuration; 1 when it became a plan. */
static int try_config(hri_dnn_graph *g, const hri_dnn_wish *wish, cudnnBackendDescriptor_t config,
                      hri_dnn_plan *out) {
    const hri_dnn *d = g->dnn;
    const uint32_t before = g->owned_count;
    uint32_t notes = 0;
    int64_t bytes = 0, count = 0;
    hri_dnn_plan plan = {0};
    if (!describe(g, config, plan.tag, &notes) ||
        (wish->deterministic && (notes & 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) ||
        (wish->exact && (notes & inexact)) || (wish->tag && strcmp(wish->tag, plan.tag) != 0) ||
        (wish->without && strtoll(plan.tag, NULL, 10) == wish->without - 1)) {
        drop_to(g, before);
        return 0;
    }
    drop_to(g, before);
    /* Asked before the plan is built, which may mean compiling; versions before 9.2 cannot tell. */
    if (d->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                    1, &count, &bytes) == CUDNN_STATUS_SUCCESS &&
        (uint64_t)bytes > wish->limit_bytes) {
        return 0;
    }
    plan.plan = make(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (d->handle) {
        SET(plan.plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &d->handle);
    } else {
        SET(plan.plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
            &d->device);
    }
    SET(plan.plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
        &config);
    finish(g, plan.plan, "a plan");
    if (!g->failed &&
        d->cudnnBackendGetAttribute(plan.plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                    CUDNN_TYPE_INT64, 1, &count, &bytes) == CUDNN_STATUS_SUCCESS &&
        (uint64_t)bytes <= wish->limit_bytes) {
        plan.workspace_bytes = (uint64_t)bytes;
        *out = plan;
        return 1;
    }
    g->failed = 0; /* an engine that cannot be built is not the graph's failure; its words stay */
    drop_to(g, before);
    return 0;
}

static uint32_t ask(hri_dnn_graph *g, cudnnBackendDescriptor_t graph, cudnnBackendHeurMode_t mode,
                    const hri_dnn_wish *wish, hri_dnn_plan *out, uint32_t most) {
    enum { CONFIGS = 24 };
    const hri_dnn *d = g->dnn;
    cudnnBackendDescriptor_t configs[CONFIGS];
    uint32_t plans = 0;
    int64_t count = 0;
    cudnnBackendDescriptor_t guess = make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    SET(guess, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    SET(guess, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (d->device) {
        SET(guess, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &d->device);
    }
    finish(g, guess, "the heuristics");
    for (int i = 0; i < CONFIGS; i++) {
        configs[i] = make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    }
    if (!g->failed && d->cudnnBackendGetAttribute(guess, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, CONFIGS, &count,
                                                  configs) != CUDNN_STATUS_SUCCESS) {
        count = 0;
    }
    for (int64_t i = 0; i < count && i < CONFIGS && plans < most && !g->failed; i++) {
        plans += (uint32_t)try_config(g, wish, configs[i], &out[plans]);
    }
    return plans;
}

hr_status hri_dnn_plans(hri_dnn_graph *g, const hri_dnn_wish *wish, hri_dnn_plan *out,
                        uint32_t most, uint32_t *out_count) {
    const hri_dnn *d = g->dnn;
    cudnnBackendDescriptor_t graph = make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    SET(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->op_count, g->ops);
    if (d->handle) {
        SET(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &d->handle);
    }
    finish(g, graph, "the graph");
    uint32_t count = 0;
    if (!g->failed) {
        count = ask(g, graph, CUDNN_HEUR_MODE_A, wish, out, most);
    }
    if (!count) {
        g->failed = g->op_count == 0;
        count = ask(g, graph, CUDNN_HEUR_MODE_FALLBACK, wish, out, most);
    }
    if (!count) {
        if (!g->text[0]) {
            snprintf(g->text, sizeof g->text, "no engine within %llu bytes",
                     (unsigned long long)wish->limit_bytes);
        }
        return HR_E_UNSUPPORTED;
    }
    *out_count = count;
    return HR_OK;
}

/* ---- a run ---- */

hr_status hri_dnn_run(const hri_dnn *dnn, cudaStream_t stream, const hri_dnn_plan *plan,
                      const hri_dnn_bound *bound, uint32_t count, void *workspace, char *text) {
    hri_dnn_graph pack;
    hri_dnn_graph *const g = &pack;
    int64_t uids[HRI_DNN_BOUND];
    const void *at[HRI_DNN_BOUND];
    if (count > HRI_DNN_BOUND) {
        return HR_E_INVALID;
    }
    for (uint32_t i = 0; i < count; i++) {
        uids[i] = bound[i].uid;
        at[i] = bound[i].at;
    }
    hri_dnn_graph_init(g, dnn);
    cudnnBackendDescriptor_t v = make(g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    SET(v, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, at);
    SET(v, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, uids);
    SET(v, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    finish(g, v, "the operands");
    if (!g->failed) {
        cudnnStatus_t status = dnn->cudnnSetStream(dnn->handle, stream);
        if (status == CUDNN_STATUS_SUCCESS) {
            status = HRI_FAULT(LAUNCH) ? (cudnnStatus_t)5000
                                       : dnn->cudnnBackendExecute(dnn->handle, plan->plan, v);
        }
        if (status != CUDNN_STATUS_SUCCESS) {
            fail(g, "running a plan", status);
        }
    }
    if (g->failed) {
        snprintf(text, sizeof g->text, "%s", g->text);
    }
    const hr_status result = g->failed ? HR_E_DEVICE : HR_OK;
    hri_dnn_graph_deinit(g);
    return result;
}
