/* cast(x; to): the same numbers as another type.
 *
 *   real to real           to the nearest, even on ties; too large for f16 becomes infinity; NaN stays NaN
 *   real to whole          cut towards 0, held at the least and greatest of the type; NaN becomes 0
 *   whole to real          to the nearest f32, then as above
 *   whole to whole         held at the least and greatest of the type
 *
 * Between real types the gradient keeps nothing: dy is cast back.  The op may lie over an input of equal width. */
#include "graph/half.h"
#include "ops/common/launch.h"

typedef struct cast_attr {
    int to; /* hr_type */
} cast_attr;

static const char *const cast_types[] = {
#define CAST_NAME(NAME, TEXT, BYTES, REAL) TEXT,
    HR_TYPE_MAP(CAST_NAME)
#undef CAST_NAME
        NULL};

static const hri_field cast_fields[] = {
    {"to", "the type of the result", offsetof(cast_attr, to), HRI_FIELD_ENUM, "f32",
     .choices = cast_types},
    {0},
};

static hr_status cast_infer(hri_infer *c) {
    const cast_attr *p = c->attr;
    if (p->to < 0 || p->to >= HR_TYPE_COUNT) {
        return hri_infer_fail(c, "unknown type number %d", p->to);
    }
    c->out[0] = (hr_meta){(hr_type)p->to, c->in[0].shape};
    return HR_OK;
}

static void cast_grad(hri_grad *c) {
    const cast_attr back = {(int)c->sig->in[0].type};
    c->din[0] = HRI_NODE(c->g, "cast", &back, c->dout[0]);
}

/* Selects instead of branches, so that loops become vector code. */
static inline int32_t real_to_i32(float x) {
    const float held = x >= -0x1p31f ? x : -0x1p31f; /* NaN too, and is sorted out below */
    const int32_t cut = (int32_t)(held < 0x1p31f ? held : 0.0f);
    return x != x ? 0 : x < 0x1p31f ? cut : INT32_MAX;
}
static inline int64_t real_to_i64(float x) {
    const float held = x >= -0x1p63f ? x : -0x1p63f;
    const int64_t cut = (int64_t)(held < 0x1p63f ? held : 0.0f);
    return x != x ? 0 : x < 0x1p63f ? cut : INT64_MAX;
}
static inline uint8_t real_to_u8(float x) {
    const float held = x >= 0.0f ? x : 0.0f;
    return (uint8_t)(held < 255.0f ? held : 255.0f);
}
static inline int8_t real_to_i8(float x) {
    const float held = x >= -128.0f ? x : -128.0f;
    return (int8_t)(x != x ? 0.0f : held < 127.0f ? held : 127.0f);
}
static inline int32_t whole_to_i32(int64_t x) {
    const int64_t held = x < INT32_MIN ? INT32_MIN : x;
    return (int32_t)(held > INT32_MAX ? INT32_MAX : held);
}
static inline uint8_t whole_to_u8(int64_t x) {
    const int64_t held = x < 0 ? 0 : x;
    return (uint8_t)(held > 255 ? 255 : held);
}
static inline int8_t whole_to_i8(int64_t x) {
    const int64_t held = x < -128 ? -128 : x;
    return (int8_t)(held > 127 ? 127 : held);
}

#define SAME(X)          (X)
#define WHOLE(X)         ((int64_t)(X))
#define WHOLE_TO_F32(X)  ((float)(X))
#define WHOLE_TO_BF16(X) hri_to_bf16((float)(X))
#define WHOLE_TO_F16(X)  hri_to_f16((float)(X))

#define LOOP(IN, LOAD, OUT, STORE)                                                                 \
    {                                                                                              \
        const IN *x = c->in[0];                                                                    \
        OUT *y = c->out[0];                                                                        \
        _Pragma("GCC ivdep") for (uint64_t i = begin; i < end; i++) {                              \
            y[i] = STORE(LOAD(x[i]));                                                              \
        }                                                                                          \
        break;                                                                                     \
    }

#define TO_EVERY(IN, LOAD, F32, BF16, F16, I32, I64, U8, I8)                                       \
    switch (c->sig->out[0].type) {                                                                 \
    case HR_TYPE_F32:                                                                              \
        LOOP(IN, LOAD, float, F32)                                                                 \
    case HR_TYPE_BF16:                                                                             \
        LOOP(IN, LOAD, hri_bf16, BF16)                                                             \
    case HR_TYPE_F16:                                                                              \
        LOOP(IN, LOAD, hri_f16, F16)                                                               \
    case HR_TYPE_I32:                                                                              \
        LOOP(IN, LOAD, int32_t, I32)                                                               \
    case HR_TYPE_I64:                                                                              \
        LOOP(IN, LOAD, int64_t, I64)                                                               \
    case HR_TYPE_I8:                                                                               \
        LOOP(IN, LOAD, int8_t, I8)                                                                 \
    default:                                                                                       \
        LOOP(IN, LOAD, uint8_t, U8)                                                                \
    }
#define FROM_REAL(IN, LOAD)                                                                        \
    TO_EVERY(IN, LOAD, SAME, hri_to_bf16, hri_to_f16, real_to_i32, real_to_i64, real_to_u8,        \
             real_to_i8)
#define FROM_WHOLE(IN)                                                                             \
    TO_EVERY(IN, WHOLE, WHOLE_TO_F32, WHOLE_TO_BF16, WHOLE_TO_F16, whole_to_i32, SAME,             \
             whole_to_u8, whole_to_i8)

static void cast_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    (void)worker;
    switch (c->sig->in[0].type) {
    case HR_TYPE_F32:
        FROM_REAL(float, SAME)
        break;
    case HR_TYPE_BF16:
        FROM_REAL(hri_bf16, hri_from_bf16)
        break;
    case HR_TYPE_F16:
        FROM_REAL(hri_f16, hri_from_f16)
        break;
    case HR_TYPE_I32:
        FROM_WHOLE(int32_t)
        break;
    case HR_TYPE_I64:
        FROM_WHOLE(int64_t)
        break;
    case HR_TYPE_I8:
        FROM_WHOLE(int8_t)
        break;
    default:
        FROM_WHOLE(uint8_t)
    }
}

static hr_status cast_host(const hri_call *c) {
    hri_call call = *c;
    hri_threads_range(c->threads, (uint64_t)hr_shape_count(&c->sig->out[0].shape), 16384,
                      cast_range, &call);
    return HR_OK;
}

/* ---- on a GPU: many tensors of one pair of types to a launch ---- */

HRI_CU(cast);

enum { TENSORS = 112, PIECE = 4096, THREADS = 256 };

/* As in cast.cu. */
typedef struct table {
    uint64_t count;
    struct {
        hr_addr x, y;
        int64_t count;
        uint32_t first, narrow;
    } tensor[TENSORS];
} table;

_Static_assert(sizeof(table) <= 4096, "the table is the parameter of a kernel");

static int cast_alike(const hri_gpu_call *a, const hri_gpu_call *b) {
    return a->sig->in[0].type == b->sig->in[0].type && a->sig->out[0].type == b->sig->out[0].type;
}

static hr_status cast_launch(const hri_gpu_call *c, table *t, uint32_t blocks) {
    const hri_defines d = hri_launch_defines("-DHR_X=%s", hri_launch_type(c->sig->in[0].type));
    char kernel[16];
    snprintf(kernel, sizeof kernel, "to_%s", hr_type_name(c->sig->out[0].type));
    return hri_gpu_launch(c->gpu, &hri_cu_cast, d.text, kernel,
                          &(hri_gpu_grid){.x = blocks, .threads = THREADS}, HRI_GPU_ARGS(t));
}

static hr_status cast_cuda_many(const hri_gpu_call *calls, uint32_t count) {
    table t = {.count = 0};
    const hri_gpu_call *group = calls;
    uint32_t blocks = 0;
    for (uint32_t i = 0; i < count; i++) {
        const hri_gpu_call *c = &calls[i];
        const int64_t n = hr_shape_count(&c->sig->out[0].shape);
        if (n == 0) {
            continue;
        }
        if (t.count && (t.count == TENSORS || !cast_alike(c, group))) {
            const hr_status status = cast_launch(group, &t, blocks);
            if (status != HR_OK) {
                return status;
            }
            t.count = blocks = 0;
        }
        group = c;
        t.tensor[t.count].x = c->in[0];
        t.tensor[t.count].y = c->out[0];
        t.tensor[t.count].count = n;
        t.tensor[t.count].narrow = !hri_launch_wide(c->in[0] | c->out[0]);
        t.tensor[t.count++].first = blocks;
        blocks += hri_launch_blocks(n, PIECE);
    }
    return t.count ? cast_launch(group, &t, blocks) : HR_OK;
}

static hr_status cast_cuda(const hri_gpu_call *c) {
    return cast_cuda_many(c, 1);
}

static const hri_case cast_cases[] = {
    {"nothing", "f32[7,33]", "to=f32"},
    {"scalar", "f32[]", "to=bf16", .flags = HRI_CASE_NO_GRAD},
    {"f32 to bf16", "f32[7,33]", "to=bf16", .flags = HRI_CASE_NO_GRAD},
    {"f32 to f16", "f32[3,20001]", "to=f16", .flags = HRI_CASE_NO_GRAD},
    {"too large for f16", "f32[99]", "to=f16", -1e5, 1e5, .flags = HRI_CASE_NO_GRAD},
    {"small f16", "f32[99]", "to=f16", -1e-6, 1e-6, .flags = HRI_CASE_NO_GRAD},
    {"bf16 to f32", "bf16[7,9]", "to=f32"},
    {"f16 to f32", "f16[7,9]", "to=f32"},
    {"bf16 to f16", "bf16[7,9]", "to=f16"},
    {"f16 to bf16", "f16[7,9]", "to=bf16"},
    {"f32 to i32", "f32[99]", "to=i32", -9, 9, .flags = HRI_CASE_NO_GRAD},
    {"too large for i32", "f32[99]", "to=i32", -6e9, 6e9, .flags = HRI_CASE_NO_GRAD},
    {"too large for i64", "f32[99]", "to=i64", -2e19, 2e19, .flags = HRI_CASE_NO_GRAD},
    {"too large for u8", "f32[99]", "to=u8", -300, 600, .flags = HRI_CASE_NO_GRAD},
    {"bf16 to i32", "bf16[99]", "to=i32", -9, 9, .flags = HRI_CASE_NO_GRAD},
    {"f16 to u8", "f16[99]", "to=u8", -300, 600, .flags = HRI_CASE_NO_GRAD},
    {"i32 to f32", "i32[99]", "to=f32", .ids = 2000000000, .negative = 1},
    {"i32 to bf16", "i32[99]", "to=bf16", .ids = 2000, .negative = 1},
    {"i64 to f32", "i64[99]", "to=f32", .ids = 1000000000000, .negative = 1},
    {"i64 to f16", "i64[99]", "to=f16", .ids = 100000, .negative = 1},
    {"i64 to i32", "i64[99]", "to=i32", .ids = 9000000000, .negative = 1},
    {"i32 to i64", "i32[99]", "to=i64", .negative = 1},
    {"i32 to u8", "i32[99]", "to=u8", .ids = 600, .negative = 1},
    {"too large for i8", "f32[99]", "to=i8", -300, 300, .flags = HRI_CASE_NO_GRAD},
    {"i32 to i8", "i32[99]", "to=i8", .ids = 300, .negative = 1},
    {"i8 to f32", "i8[99]", "to=f32", .ids = 128, .negative = 1},
    {"i8 to u8", "i8[99]", "to=u8", .ids = 128, .negative = 1},
    {"u8 to f32", "u8[99]", "to=f32", .ids = 256},
    {"u8 to i32", "u8[99]", "to=i32", .ids = 256},
    {"empty", "i32[0,3]", "to=f32"},
    {"many to f32", "bf16[20001]", "to=f32"},
    {"many to bf16", "f32[20001]", "to=bf16", .flags = HRI_CASE_NO_GRAD},
    {"many bytes", "u8[40003]", "to=u8", .ids = 256},
    {"many bytes to i64", "u8[9001]", "to=i64", .ids = 256},
    {"u8 to bf16", "u8[99]", "to=bf16", .ids = 256},
    {"u8 to f16", "u8[99]", "to=f16", .ids = 256},
    {"bf16 to i64", "bf16[99]", "to=i64", -9, 9, .flags = HRI_CASE_NO_GRAD},
    {"f16 to i64", "f16[99]", "to=i64", -9, 9, .flags = HRI_CASE_NO_GRAD},
    {"i64 to u8", "i64[99]", "to=u8", .ids = 600, .negative = 1},
    {"i64 to bf16", "i64[99]", "to=bf16", .ids = 100000, .negative = 1},
    {"i32 to f16", "i32[99]", "to=f16", .ids = 60000, .negative = 1},
    {"i64 to i64", "i64[99]", "to=i64", .negative = 1},
    {"i32 to i32", "i32[99]", "to=i32", .negative = 1},
    {"no such type", "f32[3]", "to=f64", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_cast = {
    .name = "cast",
    .formula = "y = x as another type",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = cast_fields,
    .attr_bytes = sizeof(cast_attr),
    .infer = cast_infer,
    .grad = cast_grad,
    .overwrite = {1},
    .host = {.run = cast_host},
    .cases = HRI_CASES(cast_cases),
};

const hri_kernel hri_kernel_cuda_cast = {.launch = cast_cuda, .launch_many = cast_cuda_many};
