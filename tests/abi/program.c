/* A program and a library of different versions.  Built twice, against the headers as they are and against headers whose
 * structs have grown by a field (-DGROWN), and run with a library of either kind: program old|new, the library's. */
#include <headroom/headroom.h>

#include <stdio.h>
#include <string.h>

#define NEED(WHAT)                                                                                 \
    do {                                                                                           \
        if (!(WHAT)) {                                                                             \
            fprintf(stderr, "program.c:%d: %s\n", __LINE__, #WHAT);                                \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

/* What lies behind a struct: no library may read or write it. */
#define GUARDED(TYPE)                                                                              \
    struct {                                                                                       \
        TYPE is;                                                                                   \
        unsigned char guard[64];                                                                   \
    }
#define GUARD(G) (memset((G).guard, 0xa5, sizeof(G).guard), (G).is.size = sizeof(G).is)

static int is_whole(const unsigned char *guard) {
    for (int i = 0; i < 64; i++) {
        if (guard[i] != 0xa5) {
            return 0;
        }
    }
    return 1;
}

static int new_library; /* its structs have grown */

#ifdef GROWN
#define CHECK_GROWN(P, NUMBER)                                                                     \
    NEED(HR_HAS(P, grown) == new_library);                                                         \
    NEED((P)->grown == (new_library ? (NUMBER) : 0u))
/* Of a struct that is the library's: behind the end of an older one is something else. */
#define CHECK_GIVEN(P, NUMBER)                                                                     \
    NEED(HR_HAS(P, grown) == new_library);                                                         \
    NEED(!new_library || (P)->grown == (NUMBER))
#else
#define CHECK_GROWN(P, NUMBER) (void)0
#define CHECK_GIVEN(P, NUMBER) (void)0
#endif

static int check_options(hr_ctx **out) {
    GUARDED(hr_ctx_options) o = {.is = {.visible_devices = "", .no_cuda = 1}};
    GUARD(o);
    NEED(hr_ctx_create(&o.is, out) == HR_OK && is_whole(o.guard));
#ifdef GROWN
    hr_ctx *none = NULL; /* the grown library answers so; an older one must not ignore it */
    o.is.grown = 7;
    NEED(hr_ctx_create(&o.is, &none) == (new_library ? HR_E_BUSY : HR_E_UNSUPPORTED));
#endif
    return 0;
}

static int check_result(void) {
    GUARDED(hr_model_info) i;
    memset(&i, 0x5a, sizeof i);
    GUARD(i);
    NEED(hr_model_list(0, &i.is) == HR_OK && is_whole(i.guard));
    NEED(i.is.name && i.is.name[0] && i.is.help);
    CHECK_GROWN(&i.is, 42);
    return 0;
}

static hr_status shape(void *user, const hr_meta *in, uint32_t count, hr_meta *out,
                       const char **why) {
    (void)user, (void)count, (void)why;
    out[0] = in[0];
    return HR_OK;
}

static int check_call(const hr_custom_call *c) {
    NEED(c->size >= sizeof(size_t) && c->in_count == 1 && c->out_count == 1);
    CHECK_GIVEN(c, 43);
    const float *x = c->in[0];
    float *y = c->out[0];
    for (int i = 0; i < 4; i++) {
        y[i] = 2 * x[i];
    }
    return 0;
}

static hr_status run_op(void *user, const hr_custom_call *c) {
    *(int *)user = check_call(c);
    return HR_OK;
}

/* A graph with an op of our own, run once: options, a callback's argument, and two results. */
static int check_run(hr_ctx *ctx) {
    int failed = 1;
    GUARDED(hr_custom_options)
    c = {.is = {.name = "twice",
                .input_count = 1,
                .output_count = 1,
                .shape = shape,
                .run = run_op,
                .user = &failed}};
    hr_custom *twice;
    hr_graph *g;
    hr_device *device;
    hr_run *run;
    hr_error why;
    GUARD(c);
    NEED(hr_custom_create(&c.is, &twice) == HR_OK && hr_graph_create(&g) == HR_OK);
    const hr_value x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_1(4));
    hr_graph_result(g, hr_graph_custom(g, twice, &x, 1), "y");
    NEED(hr_graph_freeze(g) == HR_OK);
    GUARDED(hr_node_info) n;
    memset(&n, 0x5a, sizeof n);
    GUARD(n);
    NEED(hr_graph_get_node(g, 0, &n.is) == HR_OK && is_whole(n.guard));
    NEED(n.is.input_count == 1 && n.is.inputs[0] == x);
    CHECK_GROWN(&n.is, 44);

    NEED(hr_device_find(ctx, "host", &device) == HR_OK);
    const hr_graph *const graphs[] = {g};
    GUARDED(hr_run_options)
    o = {.is = {.device = device, .graphs = graphs, .graph_count = 1, .threads = 1}};
    GUARD(o);
    const float in[] = {1, 2, 3, 4};
    float out[4] = {0};
    NEED(hr_run_open(&o.is, &run, &why) == HR_OK && is_whole(o.guard));
    NEED(hr_run_put(run, 0, "x", in, sizeof in) == HR_OK && hr_run_step(run, 0) == HR_OK);
    NEED(hr_run_get(run, 0, "y", out, sizeof out) == HR_OK && out[3] == 8 && !failed);
    GUARDED(hr_run_report) r;
    memset(&r, 0x5a, sizeof r);
    GUARD(r);
    NEED(hr_run_get_report(run, &r.is) == HR_OK && is_whole(r.guard) && r.is.peak_bytes > 0);
    CHECK_GROWN(&r.is, 45);
    hr_run_close(run);
    hr_graph_destroy(g);
    hr_custom_destroy(twice);
    return 0;
}

int main(int argc, char **argv) {
    hr_ctx *ctx = NULL;
    new_library = argc > 1 && !strcmp(argv[1], "new");
    const int failed = check_options(&ctx) || check_result() || check_run(ctx);
    hr_ctx_destroy(ctx);
    return failed;
}
