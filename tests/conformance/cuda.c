/* Every op on CUDA: the cases of conformance/ops.c through hri_op_launch, on a GPU where there is a driver, on the fake
 * driver (tests/fakecuda) elsewhere, which runs the same kernels on the host.
 *
 * Each case is run as it is written and with its f32 inputs (all, each alone, all but the first) made bf16 and f16, where
 * the shape rule accepts that: what runs on the host must run on the GPU.  Results are compared with the oracle and with the host kernel,
 * repeated for the same bits (on the fake driver in the reverse order of threads too, which shows races), and tried over
 * every input that the descriptor allows.  Guards lie around every tensor and the work space, and inputs must stay.
 *
 *   test_conformance cuda/relu       one op; HEADROOM_TEST_CASES=TEXT: its cases that have the text in their names, which are shown
 *
 * On the fake driver the first case of an op is tried with f16, all inputs at once, because bf16 goes through every case and,
 * with the first one, through the mixed inputs.  Cases that fill a whole GPU are left out there, because smaller ones
 * reach the same kernels, and, where it shows a GPU older than a Hopper, those that are one of many alike for a Hopper's
 * kernels.  HEADROOM_TEST_ALL tries all.
 *
 * With HEADROOM_TEST_LAUNCH_ONLY every signature is launched once and nothing is compared: tools/check-kernels has all
 * texts compiled for real devices so. */
#include "op_case.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <headroom/headroom.h>

static const int nothing[HRI_OUT_MAX] = {-1, -1, -1, -1, -1, -1};

/* ---- the device ---- */

typedef struct machine {
    hr_ctx *ctx;
    hr_device *device;
    hr_logical *logical;
    hr_queue *queue;
    hri_gpu *gpu;
    hr_block block;
    unsigned char *image; /* of the block, on the host */
    uint64_t room;
    int fake;
    int shift; /* elements by which tensors begin behind an aligned place */
} machine;

/* Without a driver of its own the machine gets the fake one: opened by path here, it is what the library finds when it
 * asks by name. */
static int find_driver(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver) {
        driver = dlopen(FAKECUDA_ROOT "/fakecuda/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        dlopen(FAKECUDA_ROOT "/fakecuda/libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    }
    const int fake = driver && dlsym(driver, "fakecuda_used_bytes");
    if (fake) {
        char path[64];
        const int fd = memfd_create("fakecuda-state", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), fd);
        setenv("FAKECUDA_STATE", path, 1);
        dlopen(FAKECUDA_ROOT "/fakecuda/libnvrtc.so.13", RTLD_NOW | RTLD_LOCAL);
    }
    return fake;
}

static int launch_only(void) {
    return getenv("HEADROOM_TEST_LAUNCH_ONLY") != NULL;
}

static void machine_open(machine *m) {
    hri_prose why = {0};
    memset(m, 0, sizeof *m);
    m->fake = find_driver();
    if (m->fake && !launch_only() && system("command -v g++ c++ >/dev/null 2>&1") != 0) {
        test_skip("no C++ compiler: kernels cannot be run on the host");
    }
    CHECK_OK(hr_ctx_create(NULL, &m->ctx));
    if (hr_device_find(m->ctx, "cuda:0", &m->device) != HR_OK) {
        test_skip("no device cuda:0");
    }
    CHECK_OK(hr_logical_create(m->device, &(hr_logical_options){.size = sizeof(hr_logical_options)},
                               &m->logical));
    CHECK_OK(hr_queue_create(m->device, &m->queue));
    /* Code for the host is the same in every build folder, so they share it. */
    const char *cache =
        launch_only() ? FAKECUDA_ROOT "/fakecuda/checked" : HEADROOM_SOURCE_DIR "/build/emulated";
    const hri_gpu_options options = {.cache = m->fake ? cache : NULL,
                                     .exact_f32 = 1,
                                     .no_cublaslt = m->fake,
                                     .no_cudnn = m->fake};
    const hr_status status = hri_gpu_open(m->device, &options, &m->gpu, &why);
    if (status == HR_E_UNSUPPORTED) {
        test_skip("%s", why.text);
    }
    CHECK_OK(status);
    hri_gpu_use(m->gpu, m->queue);
}

static void machine_close(machine *m) {
    hri_gpu_close(m->gpu);
    hr_queue_destroy(m->queue);
    hr_ctx_destroy(m->ctx);
    free(m->image);
}

/* ---- one launch: everything in one block, with guards, copied in and out whole ---- */

enum { GUARD_BYTES = 256, ALIGN = 256 };

typedef struct piece {
    uint64_t at, bytes;
} piece;

typedef struct layout {
    uint64_t used;
    piece in[HRI_IN_MAX], out[HRI_OUT_MAX], workspace, control;
} layout;

static piece place(layout *l, uint64_t shift, uint64_t bytes) {
    const piece p = {l->used + GUARD_BYTES + shift, bytes};
    l->used = (p.at + bytes + ALIGN - 1) / ALIGN * ALIGN;
    return p;
}

static void make_room(machine *m, uint64_t bytes) {
    if (bytes <= m->room) {
        return;
    }
    if (m->room) {
        CHECK_OK(hr_block_free(m->logical, &m->block));
    }
    m->room = 2 * bytes;
    free(m->image);
    m->image = malloc(m->room);
    CHECK(m->image != NULL);
    CHECK_OK(hr_block_alloc(m->logical, m->room, HR_CATEGORY_ACTIVATIONS, 0, &m->block));
}

static void check_guards(const op_case *t, const unsigned char *image, piece p, const char *what) {
    const uint64_t end = p.at + p.bytes, stop = (end + ALIGN - 1) / ALIGN * ALIGN + GUARD_BYTES;
    for (uint64_t i = p.at - GUARD_BYTES; i < stop; i++) {
        if ((i < p.at || i >= end) && image[i] != 0xa5) {
            FAIL_CASE(t, "written %lld bytes %s %s", (long long)(i < p.at ? p.at - i : i - end + 1),
                      i < p.at ? "before" : "behind", what);
        }
    }
}

/* Where output k lies: over input over[k], or alone. */
static int lies_over(const op_case *t, const int *over, uint32_t k) {
    const hri_sig *s = &t->node->sig;
    return s->op->updates[k] && s->op->updates[k] <= s->in_count ? s->op->updates[k] - 1 : over[k];
}

static uint64_t shift_of(const machine *m, const hr_meta *meta) {
    return (uint64_t)m->shift * hr_type_bytes(meta->type);
}

static void plan_layout(machine *m, const op_case *t, const int *over, uint32_t variant,
                        layout *l) {
    const hri_sig *s = &t->node->sig;
    memset(l, 0, sizeof *l);
    for (uint32_t i = 0; i < s->in_count; i++) {
        l->in[i] = place(l, shift_of(m, &s->in[i]), hr_meta_bytes(&s->in[i]));
    }
    for (uint32_t k = 0; k < s->out_count; k++) {
        const int under = lies_over(t, over, k);
        l->out[k] = under >= 0 ? l->in[under]
                               : place(l, shift_of(m, &s->out[k]), hr_meta_bytes(&s->out[k]));
    }
    l->workspace = place(
        l, 0,
        hri_kernel_launch_workspace(hri_kernel_for(&hri_kernels_cuda, s), s, m->gpu, variant));
    l->control = place(l, 0, sizeof(hri_gpu_control));
    l->used += GUARD_BYTES;
    make_room(m, l->used);
}

static hr_status launch(machine *m, const op_case *t, uint32_t variant, const layout *l) {
    const hri_sig *s = &t->node->sig;
    hr_addr in[HRI_IN_MAX], out[HRI_OUT_MAX];
    for (uint32_t i = 0; i < s->in_count; i++) {
        in[i] = l->in[i].bytes ? m->block.addr + l->in[i].at : 0;
    }
    for (uint32_t k = 0; k < s->out_count; k++) {
        out[k] = l->out[k].bytes ? m->block.addr + l->out[k].at : 0;
    }
    const hri_gpu_call call = {.gpu = m->gpu,
                               .kernel = hri_kernel_for(&hri_kernels_cuda, s),
                               .sig = s,
                               .in = in,
                               .out = out,
                               .workspace =
                                   l->workspace.bytes ? m->block.addr + l->workspace.at : 0,
                               .workspace_bytes = l->workspace.bytes,
                               .control = m->block.addr + l->control.at,
                               .variant = variant,
                               .node = 0};
    const hr_status status = hri_op_launch(&call);
    if (status != HR_OK) {
        FAIL_CASE(t, "the launch gave %s (%s)", hr_status_name(status), hri_gpu_detail(m->gpu));
    }
    return status;
}

static void check_around(const op_case *t, const int *over, const machine *m, const layout *l) {
    const hri_sig *s = &t->node->sig;
    char what[32];
    for (uint32_t i = 0; i < s->in_count; i++) {
        int gone = 0;
        for (uint32_t k = 0; k < s->out_count; k++) {
            gone |= lies_over(t, over, k) == (int)i;
        }
        snprintf(what, sizeof what, "input %u", i);
        check_guards(t, m->image, l->in[i], what);
        if (!gone && memcmp(m->image + l->in[i].at, t->data[i].data, l->in[i].bytes) != 0) {
            FAIL_CASE(t, "%s was changed", what);
        }
    }
    for (uint32_t k = 0; k < s->out_count; k++) {
        snprintf(what, sizeof what, "output %u", k);
        check_guards(t, m->image, l->out[k], what);
    }
    check_guards(t, m->image, l->workspace, "the work space");
}

static void run_on(machine *m, const op_case *t, const int *over, uint32_t variant,
                   guarded out[HRI_OUT_MAX]) {
    const hri_sig *s = &t->node->sig;
    const hri_gpu_control control = {7, 1, t->first_sample};
    layout l;
    plan_layout(m, t, over, variant, &l);
    memset(m->image, 0xa5, l.used);
    for (uint32_t i = 0; i < s->in_count; i++) {
        memcpy(m->image + l.in[i].at, t->data[i].data, l.in[i].bytes);
    }
    for (uint32_t k = 0; k < s->out_count; k++) {
        if (lies_over(t, over, k) < 0) {
            memset(m->image + l.out[k].at, 0xff, l.out[k].bytes);
        }
    }
    memset(m->image + l.workspace.at, 0xff, l.workspace.bytes);
    memcpy(m->image + l.control.at, &control, sizeof control);
    CHECK_OK(hr_copy(m->queue, m->block.addr, (hr_addr)(uintptr_t)m->image, l.used));
    CHECK_OK(launch(m, t, variant, &l));
    CHECK_OK(hr_copy(m->queue, (hr_addr)(uintptr_t)m->image, m->block.addr, l.used));
    const hr_status status = hr_queue_sync(m->queue);
    if (status != HR_OK) {
        FAIL_CASE(t, "the kernel gave %s", hr_status_name(status));
    }
    check_around(t, over, m, &l);
    for (uint32_t k = 0; k < s->out_count; k++) {
        out[k] = guarded_new(l.out[k].bytes);
        memcpy(out[k].data, m->image + l.out[k].at, l.out[k].bytes);
    }
}

/* ---- comparisons ---- */

static double worst_type(const op_case *t) {
    double worst = 0.0;
    for (uint32_t i = 0; i < t->in_count; i++) {
        const hr_type type = t->in_meta[i].type;
        /* Scores with 65,504, which f16 has in place of lower numbers, are f32 with few places left. */
        const int far = (t->c->flags & HRI_CASE_FAR) != 0;
        worst = fmax(worst, type == HR_TYPE_BF16  ? 0x1p-8
                            : type != HR_TYPE_F16 ? 0.0
                            : far                 ? 0x1p-8
                                                  : 0x1p-11);
    }
    return worst;
}

/* `is` against `want`, which is the oracle's or the host's.  Where small types make the host itself err more than the
 * case allows, the GPU may err as much: `slack`.  What f16 cannot hold may be infinite. */
static void compare(const op_case *t, uint32_t k, const guarded *is, const double *want,
                    double slack, const char *whose) {
    const hr_meta *meta = &t->node->sig.out[k];
    const int64_t n = hr_shape_count(&meta->shape);
    const double tolerance = (t->c->tolerance > 0 ? t->c->tolerance : 1e-5) + 2 * worst_type(t);
    double largest = 1e-3;
    for (int64_t i = 0; i < n; i++) {
        largest = isfinite(want[i]) ? fmax(largest, fabs(want[i])) : largest;
    }
    for (int64_t i = 0; i < n; i++) {
        const double x = ref_load(meta->type, is[k].data, i);
        const double allowed = op_case_allowed(t, meta->type, tolerance, want[i], largest) +
                               (hr_type_is_real(meta->type) ? 2 * slack : 0.0);
        /* What f16 cannot hold is an infinity there. */
        const int beyond = meta->type == HR_TYPE_F16 && isinf(x) && x * want[i] > 0.0 &&
                           fabs(want[i]) + allowed > 65504.0;
        test_count_check();
        if (x != want[i] && !(fabs(x - want[i]) <= allowed) && !(isnan(x) && isnan(want[i])) &&
            !beyond) {
            FAIL_CASE(t, "output %u[%lld] is %.9g, %s says %.9g (inputs %s)", k, (long long)i, x,
                      whose, want[i], hr_type_name(t->in_meta[0].type));
        }
    }
}

/* How far the host is from the oracle; 0 where both are whole numbers or not finite. */
static double host_error(const hr_meta *meta, const guarded *host, const double *want) {
    double worst = 0.0;
    for (int64_t i = 0, n = hr_shape_count(&meta->shape); hr_type_is_real(meta->type) && i < n;
         i++) {
        const double error = fabs(ref_load(meta->type, host->data, i) - want[i]);
        worst = isfinite(error) ? fmax(worst, error) : worst;
    }
    return worst;
}

/* `slack` is found with the first sample, and holds for later ones, which the oracle does not know. */
static void check_values(const op_case *t, const guarded *out, double slack[HRI_OUT_MAX]) {
    const hri_sig *s = &t->node->sig;
    double *want[HRI_OUT_MAX];
    guarded host[HRI_OUT_MAX];
    for (uint32_t k = 0; k < s->out_count; k++) {
        want[k] = calloc((size_t)hr_shape_count(&s->out[k].shape) + 1, sizeof(double));
    }
    const ref_call c = {s, (const double *const *)t->real, want, 7, 1, 0};
    CHECK(t->first_sample != 0 || ref_run(&c));
    op_case_run(t, 1, nothing, host);
    for (uint32_t k = 0; k < s->out_count; k++) {
        if (t->first_sample == 0) {
            slack[k] = host_error(&s->out[k], &host[k], want[k]);
            compare(t, k, out, want[k], slack[k], "the oracle");
        }
        for (int64_t i = 0, n = hr_shape_count(&s->out[k].shape); i < n; i++) {
            want[k][i] = ref_load(s->out[k].type, host[k].data, i);
        }
        compare(t, k, out, want[k], slack[k], "the host");
        free(want[k]);
    }
    op_case_free(t, host);
}

static void check_same(machine *m, const op_case *t, const int *over, uint32_t variant,
                       const guarded *out, const char *what) {
    guarded again[HRI_OUT_MAX];
    run_on(m, t, over, variant, again);
    for (uint32_t k = 0; k < t->node->sig.out_count; k++) {
        test_count_check();
        if (memcmp(out[k].data, again[k].data, out[k].bytes) != 0) {
            FAIL_CASE(t, "output %u has other bits %s", k, what);
        }
    }
    op_case_free(t, again);
}

static void check_overwrite(machine *m, const op_case *t, uint32_t variant, const guarded *out) {
    const hri_sig *s = &t->node->sig;
    for (uint32_t k = 0; k < s->out_count; k++) {
        for (uint32_t i = 0; i < s->in_count; i++) {
            if (hri_op_may_overwrite(s, k, i)) {
                int over[HRI_OUT_MAX];
                char what[32];
                memcpy(over, nothing, sizeof over);
                over[k] = (int)i;
                snprintf(what, sizeof what, "over input %u", i);
                check_same(m, t, over, variant, out, what);
            }
        }
    }
}

/* ---- cases ---- */

/* Whether other samples are another result: an attribute may switch off what is random.  Small cases are tried anyway. */
static int follows_samples(op_case *t) {
    const hri_sig *s = &t->node->sig;
    guarded first[HRI_OUT_MAX], later[HRI_OUT_MAX];
    int differs = hr_shape_count(&s->out[0].shape) < 2048;
    op_case_run(t, 1, nothing, first);
    t->first_sample = 3;
    op_case_run(t, 1, nothing, later);
    t->first_sample = 0;
    for (uint32_t k = 0; k < s->out_count; k++) {
        differs |= memcmp(first[k].data, later[k].data, first[k].bytes) != 0;
    }
    op_case_free(t, first);
    op_case_free(t, later);
    return differs;
}

static void run_metas(machine *m, const hr_op *op, const hri_case *c, const hr_meta *metas,
                      uint32_t count) {
    op_case t;
    double slack[HRI_OUT_MAX] = {0};
    op_case_init(&t, op, c, metas, count);
    op_case_fill(&t);
    for (uint32_t variant = 0;
         variant == 0 || (op->host.variants && op->host.variants[variant].name); variant++) {
        guarded out[HRI_OUT_MAX];
        run_on(m, &t, nothing, variant, out);
        if (launch_only()) {
            op_case_free(&t, out);
            continue;
        }
        check_values(&t, out, slack);
        setenv("FAKECUDA_ORDER", "reverse", 1);
        check_same(m, &t, nothing, variant, out, "the second time, threads in another order");
        unsetenv("FAKECUDA_ORDER");
        check_overwrite(m, &t, variant, out);
        op_case_free(&t, out);
    }
    if (op->random && !launch_only() && follows_samples(&t)) {
        guarded out[HRI_OUT_MAX];
        t.first_sample = 3;
        run_on(m, &t, nothing, 0, out);
        check_values(&t, out, slack);
        op_case_free(&t, out);
    }
    op_case_deinit(&t);
}

static int accepted(const hr_op *op, const hri_case *c, const hr_meta *metas, uint32_t count) {
    hri_attr attr;
    hr_meta out[HRI_OUT_MAX];
    memset(out, 0, sizeof out);
    CHECK_OK(hri_attr_parse(op, c->attributes, &attr, NULL));
    hri_infer infer = {.attr = &attr, .in_count = count, .in = metas, .out = out};
    return op->infer(&infer) == HR_OK;
}

/* The f32 inputs as `small`: all of them and, if `mixed`, each alone and all but the first; what the shape rule accepts. */
static void run_small(machine *m, const hr_op *op, const hri_case *c, const hr_meta *metas,
                      uint32_t count, hr_type small, bool mixed) {
    uint32_t real = 0, tried[HRI_IN_MAX + 2], n = 0;
    for (uint32_t i = 0; i < count; i++) {
        real |= (uint32_t)(metas[i].type == HR_TYPE_F32) << i;
    }
    tried[n++] = real;
    if (mixed) {
        tried[n++] = real & ~1u;
        for (uint32_t i = 0; i < count; i++) {
            tried[n++] = real & 1u << i;
        }
    }
    for (uint32_t k = 0; k < n; k++) {
        hr_meta changed[HRI_IN_MAX];
        int known = tried[k] == 0;
        for (uint32_t i = 0; i < k; i++) {
            known |= tried[i] == tried[k];
        }
        memcpy(changed, metas, sizeof changed);
        for (uint32_t i = 0; i < count; i++) {
            if (tried[k] >> i & 1) {
                changed[i].type = small;
            }
        }
        if (!known && accepted(op, c, changed, count)) {
            run_metas(m, op, c, changed, count);
        }
    }
}

/* Those that there are others for on the fake driver: see above. */
static bool left_out(const machine *m, const hri_case *c) {
    const bool older = !hri_gpu_maps(m->gpu);
    return m->fake && !launch_only() && !getenv("HEADROOM_TEST_ALL") &&
           (c->flags & HRI_CASE_MANY || (older && c->flags & HRI_CASE_AS_IS));
}

static void run_op(const void *arg) {
    const hr_op *op = arg;
    machine m;
    if (op->host_only) {
        test_skip("it runs on the host alone");
    }
    machine_open(&m);
    const bool all = !m.fake || getenv("HEADROOM_TEST_ALL");
    bool first = true;
    for (const hri_case *c = op->cases; c->name; c++) {
        hr_meta metas[HRI_IN_MAX] = {{0}};
        const uint32_t count = ref_parse(c->in, metas);
        const char *const wanted = getenv("HEADROOM_TEST_CASES");
        if (wanted ? !strstr(c->name, wanted) : left_out(&m, c)) {
            continue;
        }
        if (wanted || getenv("HEADROOM_TEST_SHOW")) { /* which case takes so long */
            printf("%s: %s\n", op->name, c->name);
            fflush(stdout);
        }
        if (!(c->flags & HRI_CASE_BAD)) {
            run_metas(&m, op, c, metas, count);
        }
        if (!(c->flags & (HRI_CASE_BAD | HRI_CASE_AS_IS))) {
            run_small(&m, op, c, metas, count, HR_TYPE_BF16, all || first);
            if (all || first) {
                run_small(&m, op, c, metas, count, HR_TYPE_F16, all);
            }
            first = false;
        }
    }
    machine_close(&m);
}

TEST(cuda, no_op_is_missing) {
    for (size_t i = 0; hr_ops[i]; i++) {
        const hr_op *op = hr_ops[i];
        test_count_check();
        const hri_kernel *kernel = hri_kernel_for(&hri_kernels_cuda, &(hri_sig){.op = op});
        if ((!kernel || !kernel->launch) && !op->host_only) {
            test_fail(__FILE__, __LINE__, "%s has no kernel for CUDA", op->name);
        }
    }
}

/* Ops that ask where their tensors lie before they take 16 bytes at a time.  A plan aligns all of them; others need not. */
static const char *const anywhere[] = {
    "accumulate", "adamw",        "bias_add",  "binary_cross_entropy", "broadcast_to",
    "cast",       "concat",       "dropout",   "cross_entropy",        "cross_entropy_grad",
    "gather",     "gather_grad",  "max",       "cross_entropy_soft",   "cross_entropy_soft_grad",
    "mean",       "pad",          "relu_mask", "relu_mask_grad",       "mean_squared_error_grad",
    "rmsprop",    "sgd_momentum", "slice",     "square_sum",           "sum",
    "sum_to",     "transpose",
};

static void run_anywhere(const void *arg) {
    const hr_op *op = hri_op_find(arg);
    machine m;
    CHECK(op != NULL);
    machine_open(&m);
    m.shift = 1;
    for (const hri_case *c = op->cases; c->name; c++) {
        hr_meta metas[HRI_IN_MAX] = {{0}};
        const uint32_t count = ref_parse(c->in, metas);
        if (!(c->flags & HRI_CASE_BAD)) {
            run_metas(&m, op, c, metas, count);
        }
    }
    machine_close(&m);
}

__attribute__((constructor)) static void register_anywhere(void) {
    static test_case table[sizeof anywhere / sizeof anywhere[0]];
    static char names[sizeof anywhere / sizeof anywhere[0]][64];
    for (size_t i = 0; i < sizeof anywhere / sizeof anywhere[0]; i++) {
        snprintf(names[i], sizeof names[i], "anywhere_%s", anywhere[i]);
        table[i] = (test_case){.suite = "cuda",
                               .name = names[i],
                               .timeout_s = 1200,
                               .run_with = run_anywhere,
                               .arg = anywhere[i]};
        test_register(&table[i]);
    }
}

__attribute__((constructor)) static void register_cuda(void) {
    static test_case table[256];
    for (size_t i = 0; hr_ops[i] && i < 256; i++) {
        table[i] = (test_case){.suite = "cuda",
                               .name = hr_ops[i]->name,
                               .timeout_s = 1200,
                               .run_with = run_op,
                               .arg = hr_ops[i]};
        test_register(&table[i]);
    }
}
