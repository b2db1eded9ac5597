/* Kernels of element-wise ops, written from their scalar expressions: one op, or a chain of them in one pass over memory.
 *
 * The expression of an op is text over a, b, c and p (ops/common/map.h).  Here it becomes a function in CUDA C, with the
 * attributes as constants, so that the compiler folds what they decide.  A kernel fetches a pack of each operand, runs
 * the steps in registers and stores what is wanted.  Behind every step the value is rounded to its type as a store would,
 * so fused and unfused steps have the same bits.
 *
 * Operands are of three kinds, which are written into the text: whole (the shape of the result, in packs of 16 bytes), one
 * number for all, and walked (broadcast along some dimensions; packs where the last dimension allows it).  Shapes
 * themselves are arguments, so one text serves all of them. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/number.h"
#include "graph/op.h"

HRI_CU(scalar);

enum { THREADS = 256, PACKS = 2 /* of a thread, all fetched before the first is stored */ };

const char *hri_scalar_text(const hri_sig *s) {
    int choice;
    if (!s->op->scalar->texts) {
        return s->op->scalar->text;
    }
    memcpy(&choice, (const char *)s->attr + s->op->fields->offset, sizeof choice);
    return s->op->scalar->texts[choice];
}

/* ---- text ---- */

typedef struct text {
    char *at;
    size_t used, room;
    int failed;
} text;

HR_PRINTF(2, 3) static void add(text *t, const char *format, ...) {
    va_list list;
    for (int attempt = 0; attempt < 2 && !t->failed; attempt++) {
        va_start(list, format);
        const int wants =
            hri_vsnprintf(t->at ? t->at + t->used : NULL, t->room - t->used, format, list);
        va_end(list);
        if (wants >= 0 && t->used + (size_t)wants < t->room) {
            t->used += (size_t)wants;
            return;
        }
        const size_t room = 2 * t->room + (size_t)wants + 4096;
        char *larger = hri_realloc(t->at, room);
        t->failed = !larger;
        t->at = larger ? larger : t->at;
        t->room = larger ? room : t->room;
    }
}

static const char *type_name(hr_type type) {
    return type == HR_TYPE_F32 ? "float" : type == HR_TYPE_BF16 ? "hr_bf16" : "hr_f16";
}

static void add_number(text *t, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (isfinite(x)) {
        char number[40];
        hri_snprintf(number, sizeof number, "%.17g", x);
        add(t, "%s%s", number, strpbrk(number, ".e") ? "" : ".0");
    } else {
        add(t, "__longlong_as_double(0x%llxll)", (unsigned long long)bits);
    }
}

/* The attributes of step k: a struct of the fields by name, and its values. */
static void add_attributes(text *t, const hri_sig *sig, uint32_t k) {
    add(t, "struct hr_attr%u {", k);
    for (const hri_field *f = sig->op->fields; f && f->name; f++) {
        add(t, " %s %s;", f->type == HRI_FIELD_DOUBLE ? "double" : "long long", f->name);
    }
    add(t, " int unused; };\n");
}

static void add_values(text *t, const hri_sig *sig) {
    add(t, "{");
    for (const hri_field *f = sig->op->fields; f && f->name; f++) {
        const char *at = (const char *)sig->attr + f->offset;
        double number;
        int64_t whole;
        int choice;
        bool truth;
        switch (f->type) {
        case HRI_FIELD_DOUBLE:
            memcpy(&number, at, sizeof number);
            add_number(t, number);
            break;
        case HRI_FIELD_ENUM:
            memcpy(&choice, at, sizeof choice);
            add(t, "%d", choice);
            break;
        case HRI_FIELD_BOOL:
            memcpy(&truth, at, sizeof truth);
            add(t, "%d", truth);
            break;
        default:
            memcpy(&whole, at, sizeof whole);
            add(t, "%lldll", (long long)whole);
            break;
        }
        add(t, ", ");
    }
    add(t, "0}");
}

/* The function of step k, of floats. */
static void add_function(text *t, const hri_sig *sig, uint32_t k) {
    static const char *const names[] = {"a", "b", "c"};
    add_attributes(t, sig, k);
    add(t, "HR_INLINE float hr_step%u(", k);
    for (uint32_t i = 0; i < sig->op->scalar->arity; i++) {
        add(t, "%sfloat %s", i ? ", " : "", names[i]);
    }
    add(t, ") {\n    typedef float T;\n    const hr_attr%u attributes = ", k);
    add_values(t, sig);
    add(t, ", *p = &attributes;\n    (void)p;\n    return (T)(%s);\n}\n", hri_scalar_text(sig));
}

/* ---- operands ---- */

typedef enum kind { WHOLE, ONE, WALKED_PACK, WALKED_ONE } kind;

/* As hr_walk of scalar.cu. */
typedef struct walk {
    int64_t count;
    int32_t rank, unused;
    int64_t dim[HR_RANK_MAX];
    int64_t stride[HRI_CHAIN_OPERANDS][HR_RANK_MAX];
} walk;

/* The stride of dimension d of the result in an operand; 0: it stands still. */
static void strides_of(const hr_shape *shape, const hr_shape *of, int64_t *out) {
    int64_t step = 1;
    for (int d = shape->rank - 1; d >= 0; d--) {
        const int at = d - (shape->rank - of->rank);
        const int64_t dim = at >= 0 ? of->dim[at] : 1;
        out[d] = dim == 1 ? 0 : step;
        step *= dim;
    }
}

/* Neighbouring dimensions that all operands walk alike become one. */
static void make_walk(const hr_shape *shape, const hri_chain_operand *operands, uint32_t count,
                      walk *w) {
    int64_t strides[HRI_CHAIN_OPERANDS][HR_RANK_MAX];
    memset(w, 0, sizeof *w);
    for (uint32_t i = 0; i < count; i++) {
        strides_of(shape, &operands[i].meta->shape, strides[i]);
    }
    w->count = hr_shape_count(shape);
    for (int d = 0; d < shape->rank; d++) {
        if (shape->dim[d] == 1) {
            continue;
        }
        int joins = w->rank > 0;
        for (uint32_t i = 0; i < count && joins; i++) {
            joins = w->stride[i][w->rank - 1] == strides[i][d] * shape->dim[d];
        }
        const int at = joins ? w->rank - 1 : w->rank++;
        w->dim[at] = joins ? w->dim[at] * shape->dim[d] : shape->dim[d];
        for (uint32_t i = 0; i < count; i++) {
            w->stride[i][at] = strides[i][d];
        }
    }
    if (w->rank == 0) {
        w->rank = 1;
        w->dim[0] = 1;
    }
}

static kind kind_of(const walk *w, uint32_t i) {
    int moves = 0;
    for (int d = 0; d < w->rank; d++) {
        moves |= w->stride[i][d] != 0;
    }
    if (!moves && w->count > 1) {
        return ONE;
    }
    if (w->rank == 1) {
        return WHOLE;
    }
    return w->stride[i][w->rank - 1] ? WALKED_PACK : WALKED_ONE;
}

/* An operand of the result's own shape is whole even where others are walked. */
static kind operand_kind(const walk *w, uint32_t i, const hr_meta *meta) {
    return hr_shape_count(&meta->shape) == w->count ? WHOLE : kind_of(w, i);
}

/* Elements of a pack: 16 bytes, or 1 where a walked operand or an address does not allow it. */
static int pack_of(const walk *w, const kind *kinds, const hri_chain_operand *operands,
                   uint32_t count, const hri_chain_step *steps, uint32_t step_count, hr_type type) {
    const int64_t wide = 16 / (int64_t)hr_type_bytes(type);
    hr_addr all = 0;
    for (uint32_t i = 0; i < count; i++) {
        all |= kinds[i] == WHOLE || kinds[i] == WALKED_PACK ? operands[i].at : 0;
        if (kinds[i] == WALKED_PACK || kinds[i] == WALKED_ONE) {
            if (w->dim[w->rank - 1] % wide) {
                return 1;
            }
            for (int d = 0; kinds[i] == WALKED_PACK && d < w->rank - 1; d++) {
                if (w->stride[i][d] % wide) {
                    return 1;
                }
            }
        }
    }
    for (uint32_t k = 0; k < step_count; k++) {
        all |= steps[k].out;
    }
    return all & 15 ? 1 : (int)wide;
}

/* ---- the kernel ---- */

static void add_fetch(text *t, uint32_t i, kind k, const char *type, const char *index) {
    switch (k) {
    case WHOLE:
        add(t, "            hr_fetch<%s, HR_V>(x%u, at, w.count, v%u[n]);\n", type, i, i);
        break;
    case ONE:
        add(t, "            hr_splat<%s, HR_V>(x%u, v%u[n]);\n", type, i, i);
        break;
    case WALKED_PACK:
        add(t, "            hr_load_pack<%s, HR_V>(x%u + hr_walk_to<%s>(w, at, %u), v%u[n]);\n",
            type, i, index, i, i);
        break;
    case WALKED_ONE:
        add(t, "            hr_splat<%s, HR_V>(x%u + hr_walk_to<%s>(w, at, %u), v%u[n]);\n", type,
            i, index, i, i);
        break;
    }
}

/* Step k as later ones read it: rounded, as storing does anyway. */
static void add_step(text *t, const hri_chain_step *steps, uint32_t count, uint32_t k,
                     const char *type) {
    const hri_chain_step *step = &steps[k];
    int read = 0;
    for (uint32_t n = k + 1; n < count; n++) {
        for (uint32_t i = 0; i < steps[n].sig->op->scalar->arity; i++) {
            read |= steps[n].in[i] == -1 - (int32_t)k;
        }
    }
    add(t, "                const float s%u = ", k);
    if (read) {
        add(t, "hr_rounded<%s>", type);
    }
    add(t, "(hr_step%u(", k);
    for (uint32_t i = 0; i < step->sig->op->scalar->arity; i++) {
        const int32_t in = step->in[i];
        add(t, in < 0 ? "%ss%d" : "%sv%d[n][i]", i ? ", " : "", in < 0 ? -1 - in : in);
    }
    add(t, "));\n");
    if (step->out) {
        add(t, "                o%u[i] = s%u;\n", k, k);
    }
}

/* Two loops over the packs of a thread: memory is busy with all of them before the first is waited for. */
static void add_loop(text *t, uint32_t packs) {
    add(t,
        "#pragma unroll\n    for (int n = 0; n < %u; n++) {\n"
        "        const hr_i64 at = first + (hr_i64)n * blockDim.x * HR_V;\n"
        "        if (at < w.count) {\n",
        packs);
}

static void add_kernel(text *t, const kind *kinds, uint32_t count, const hri_chain_step *steps,
                       uint32_t step_count, uint32_t packs, const char *type, const char *index) {
    add(t, "HR_KERNEL hr_chain(hr_walk w");
    for (uint32_t i = 0; i < count; i++) {
        add(t, ", const %s *x%u", type, i);
    }
    for (uint32_t k = 0; k < step_count; k++) {
        if (steps[k].out) {
            add(t, ", %s *y%u", type, k);
        }
    }
    add(t,
        ") {\n    const hr_i64 first = ((hr_i64)blockIdx.x * %u * blockDim.x + threadIdx.x) * "
        "HR_V;\n",
        packs);
    for (uint32_t i = 0; i < count; i++) {
        add(t, "    float v%u[%u][HR_V];\n", i, packs);
    }
    add_loop(t, packs);
    for (uint32_t i = 0; i < count; i++) {
        add_fetch(t, i, kinds[i], type, index);
    }
    add(t, "        }\n    }\n");
    add_loop(t, packs);
    for (uint32_t k = 0; k < step_count; k++) {
        if (steps[k].out) {
            add(t, "            float o%u[HR_V];\n", k);
        }
    }
    add(t, "#pragma unroll\n            for (int i = 0; i < HR_V; i++) {\n");
    for (uint32_t k = 0; k < step_count; k++) {
        add_step(t, steps, step_count, k, type);
    }
    add(t, "            }\n");
    for (uint32_t k = 0; k < step_count; k++) {
        if (steps[k].out) {
            add(t, "            hr_keep<%s, HR_V>(y%u, at, w.count, o%u);\n", type, k, k);
        }
    }
    add(t, "        }\n    }\n}\n");
}

static int sound(const hri_chain_operand *operands, uint32_t count, const hri_chain_step *steps,
                 uint32_t step_count) {
    int good = count <= HRI_CHAIN_OPERANDS && step_count >= 1 && step_count <= HRI_CHAIN_STEPS;
    for (uint32_t k = 0; good && k < step_count; k++) {
        const hri_sig *s = steps[k].sig;
        good = s->op->scalar && hri_scalar_text(s) && hr_type_is_real(s->out[0].type) &&
               s->out[0].type == steps[0].sig->out[0].type &&
               hr_shape_count(&s->out[0].shape) == hr_shape_count(&steps[0].sig->out[0].shape);
        for (uint32_t i = 0; good && i < s->op->scalar->arity; i++) {
            const int32_t in = steps[k].in[i];
            good = in < 0 ? -1 - in < (int32_t)k
                          : in < (int32_t)count && operands[in].meta->type == s->out[0].type;
        }
    }
    return good;
}

/* What is rounded to 2 bytes behind every step needs no more than about 20 bits of it. */
static int is_quick(hr_type type) {
    return hr_type_bytes(type) == 2;
}

static void add_head(text *t, int pack, int quick) {
    add(t, "%s#define HR_V %d\n%s", hri_cu_scalar.text, pack,
        quick ? "#define exp hr_quick_exp\n#define inverse hr_quick_inverse\n"
              : "#define inverse hr_inverse\n");
}

hr_status hri_scalar_launch_in(const hri_gpu_call *maker, const hri_gpu_call *again,
                               const hri_gpu_source *behind, const char *kernel, int pack,
                               const hri_gpu_grid *grid, void *const *args) {
    const hri_sig *s = maker->sig;
    text t = {0};
    add_head(&t, pack, is_quick(s->out[0].type));
    add_function(&t, s, 0);
    if (again) {
        add_function(&t, again->sig, 1);
        add(&t, "#define HR_AGAIN hr_step1\n");
    }
    add(&t, "#define HR_T %s\n#define HR_STEP hr_step0\n%s", type_name(s->out[0].type),
        behind->text);
    const hr_status status =
        t.failed ? HR_E_NOMEM_HOST
                 : hri_gpu_launch_text(maker->gpu, s->op->name, t.at, is_quick(s->out[0].type),
                                       kernel, grid, args);
    hri_free(t.at);
    return status;
}

hr_status hri_chain_launch(hri_gpu *gpu, const hri_chain_operand *operands, uint32_t operand_count,
                           const hri_chain_step *steps, uint32_t step_count) {
    if (!sound(operands, operand_count, steps, step_count)) {
        return HR_E_UNSUPPORTED;
    }
    const hr_meta *result = &steps[0].sig->out[0];
    walk w;
    kind kinds[HRI_CHAIN_OPERANDS];
    make_walk(&result->shape, operands, operand_count, &w);
    if (w.count == 0) {
        return HR_OK;
    }
    void *args[1 + HRI_CHAIN_OPERANDS + HRI_CHAIN_STEPS] = {&w};
    uint32_t arg_count = 1;
    for (uint32_t i = 0; i < operand_count; i++) {
        kinds[i] = operand_kind(&w, i, operands[i].meta);
        args[arg_count++] = (void *)(uintptr_t)&operands[i].at;
    }
    const int pack = pack_of(&w, kinds, operands, operand_count, steps, step_count, result->type);
    text t = {0};
    const int quick = is_quick(result->type);
    add_head(&t, pack, quick);
    for (uint32_t k = 0; k < step_count; k++) {
        add_function(&t, steps[k].sig, k);
        if (steps[k].out) {
            args[arg_count++] = (void *)(uintptr_t)&steps[k].out;
        }
    }
    const uint32_t packs = operand_count <= 2 ? PACKS : 1; /* registers */
    add_kernel(&t, kinds, operand_count, steps, step_count, packs, type_name(result->type),
               w.count < INT32_MAX ? "hr_u32" : "hr_i64");
    const int64_t each = (int64_t)THREADS * packs * pack;
    const hri_gpu_grid grid = {.x = (uint32_t)((w.count + each - 1) / each), .threads = THREADS};
    const hr_status status =
        t.failed ? HR_E_NOMEM_HOST
                 : hri_gpu_launch_text(gpu, step_count == 1 ? steps[0].sig->op->name : "chain",
                                       t.at, quick, "hr_chain", &grid, args);
    hri_free(t.at);
    return status;
}
