/* Models without some of their channels: what is tied, what is chosen, and that the smaller model answers as the larger one where
 * what was removed was nothing. */
#include <headroom/headroom.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/shrink.h"
#include "models/common/model.h"
#include "pictures.h"
#include "run/interpret.h"
#include "test.h"
#include "untrained.h"

static const char *in(const char *name) {
    static char paths[8][600];
    static unsigned at;
    char *path = paths[at++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", test_folder(), name);
    return path;
}

/* ---- a checkpoint in which some channels are nothing ---- */

typedef struct emptying {
    const hri_shrinking *x;
    hr_value at; /* whose numbers these are */
    float *all;
} emptying;

static int is_cut(const hri_cut *cut, int64_t i) {
    return cut && (cut->last[i % cut->last_count] ||
                   (cut->before_count && cut->before[i / cut->last_count % cut->before_count]));
}

/* What is left of a weight is scaled so that signals neither vanish nor grow: squares of 2 for each output. */
static void scale(float *all, int64_t count, const hr_shape *shape, const hri_cut *cut) {
    const int conv = shape->rank == 4;
    double sum = 0, outs = (double)shape->dim[conv ? 3 : 0];
    if (cut) {
        outs = conv ? cut->last_kept : shape->rank == 2 ? cut->before_kept : outs;
    }
    for (int64_t i = 0; i < count; i++) {
        sum += (double)all[i] * (double)all[i];
    }
    for (int64_t i = 0; i < count && sum > 0; i++) {
        all[i] *= (float)sqrt(2 * outs / sum);
    }
}

/* Numbers at random; what is cut is zero. */
static void make(emptying *e, hr_value v) {
    const hri_value *value = &e->x->g->values[v];
    const hri_cut *cut = hri_cuts_find(&e->x->cuts, value->name);
    const int64_t count = hr_shape_count(&value->meta.shape);
    const int vector = value->meta.shape.rank == 1, gain = vector && strstr(value->name, "weight");
    uint64_t state = (uint64_t)v * 77 + 5;
    free(e->all);
    e->all = malloc((size_t)count * sizeof *e->all + 1);
    CHECK(e->all && value->meta.type == HR_TYPE_F32);
    for (int64_t i = 0; i < count; i++) {
        const float draw = (float)(uint32_t)(test_random(&state) >> 40) / (1 << 24);
        const float range = strstr(value->name, "var") || gain ? 0.7F + 0.6F * draw : draw - 0.5F;
        e->all[i] = is_cut(cut, i) ? 0 : vector && !gain && range < 0.6F ? 0.2F * range : range;
    }
    if (!vector) {
        scale(e->all, count, &value->meta.shape, cut);
    }
    e->at = v;
}

static hr_status get(void *user, hr_value v, uint64_t at, void *to, uint64_t bytes) {
    emptying *e = user;
    if (e->at != v) {
        make(e, v);
    }
    memcpy(to, (const char *)e->all + at, bytes);
    return HR_OK;
}

static void empty_half(const char *from, const char *to, hri_shrink_report *report) {
    hri_checkpoint c;
    hr_model *m;
    hri_shrinking x;
    hri_prose why = {""};
    const hri_shrink_options o = {.by = HRI_SHRINK_KEEP, .keep = 0.5, .multiple = 2};
    CHECK_OK(hri_checkpoint_open(from, &c, &why));
    CHECK_OK(hri_checkpoint_model(&c, &m, &why));
    CHECK_OK(hri_shrinking_init(&x, &c, m, &o, &why));
    emptying e = {.x = &x};
    const hri_values values = {.get = get, .user = &e};
    const hri_checkpoint_write w = {.g = x.g, .from = &values, .about = &c.about};
    CHECK_OK(hri_checkpoint_save(to, &w, &why));
    free(e.all);
    *report = x.report;
    hri_shrinking_deinit(&x);
    hr_model_close(m);
    hri_checkpoint_close(&c);
}

/* ---- what a checkpoint answers ---- */

enum { BATCH = 3 };

static hr_value input_of(const hr_graph *g) {
    for (hr_value v = 1; v < g->value_count; v++) {
        if (g->values[v].kind == HR_VALUE_INPUT && g->values[v].meta.type == HR_TYPE_F32) {
            return v;
        }
    }
    return HR_NONE;
}

static float *answers(const char *path, int64_t *count) {
    hri_checkpoint c;
    hr_model *m;
    hr_graph *g;
    hri_interp *it;
    hri_prose why = {""};
    CHECK_OK(hri_checkpoint_open(path, &c, &why));
    CHECK_OK(hri_checkpoint_model(&c, &m, &why));
    CHECK_OK(hr_graph_create(&g));
    CHECK_OK(hr_model_build(m, g, BATCH, 0));
    CHECK_OK(hr_graph_freeze(g));
    CHECK_OK(hri_interp_create(g, NULL, 1, &it));
    const hri_values to = {.put = hri_interp_put, .user = it};
    CHECK_OK(hri_checkpoint_load(&c, g, &to, HRI_CHECKPOINT_WEIGHTS, &why));
    const hr_value image = input_of(g), logits = hr_graph_find(g, "logits");
    float *x = hri_interp_data(it, image);
    uint64_t state = 9;
    for (int64_t i = 0; i < hr_shape_count(&g->values[image].meta.shape); i++) {
        x[i] = (float)(uint32_t)(test_random(&state) >> 40) / (1 << 23) - 1;
    }
    CHECK_OK(hri_interp_run(it, 0, NULL));
    *count = hr_shape_count(&g->values[logits].meta.shape);
    float *out = malloc((size_t)*count * sizeof *out);
    CHECK(out);
    memcpy(out, hri_interp_data(it, logits), (size_t)*count * sizeof *out);
    hri_interp_destroy(it);
    hr_graph_destroy(g);
    hr_model_close(m);
    hri_checkpoint_close(&c);
    return out;
}

static void compare(const char *a, const char *b) {
    int64_t n, k;
    double by = 0, most = 0, spread = 0; /* spread: between two samples */
    float *x = answers(a, &n), *y = answers(b, &k);
    CHECK_EQ(n, k);
    for (int64_t i = 0; i < n; i++) {
        by = fmax(by, fabs((double)x[i] - (double)y[i]));
        most = fmax(most, fabs((double)x[i]));
        spread = fmax(spread, fabs((double)x[i] - (double)x[i % (n / BATCH)]));
    }
    if (!(spread > 1e-3 * most)) {
        test_fail(__FILE__, __LINE__, "scores say nothing: %g apart of %g", spread, most);
    }
    if (!(most > 0 && by <= 1e-5 * most)) {
        test_fail(__FILE__, __LINE__, "%g apart of %g", by, most);
    }
    free(x);
    free(y);
}

static hri_shrink_result shrink(const char *from, const char *to, const hri_shrink_options *how) {
    const hri_shrink_job job = {.checkpoint = from, .out = to, .how = *how, .batch = 2};
    hri_shrink_result r;
    hri_why why = {0};
    if (hri_shrink(&job, &r, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.prose.text);
    }
    return r;
}

static uint64_t tensor_bytes(const char *path) {
    hri_checkpoint c;
    uint64_t bytes = 0;
    CHECK_OK(hri_checkpoint_open(path, &c, NULL));
    for (size_t i = 0; i < c.file.count; i++) {
        const hri_tensor *t = &c.file.items[i];
        bytes += strstr(t->name, "num_batches_tracked") ? 0 : t->end - t->begin;
    }
    hri_checkpoint_close(&c);
    return bytes;
}

/* The model file beside it trains: a step in the interpreter changes a parameter. */
static void train_a_step(const char *path) {
    hr_model *m;
    hr_graph *g;
    hri_interp *it;
    hr_error why = {.code = HR_OK};
    hr_train_options o = {.size = sizeof o};
    if (hr_model_open(path, &m, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    CHECK(m->weights && !strcmp(m->weights, in("c.safetensors")));
    CHECK_OK(hr_train_options_parse("", &o, NULL));
    CHECK_OK(hr_step_build(&o, hr_model_build, m, HR_STEP_WHOLE, 2, &g, &why));
    CHECK_OK(hri_interp_create(g, NULL, 1, &it));
    CHECK_OK(hri_interp_run(it, 0, NULL));
    hri_interp_destroy(it);
    hr_graph_destroy(g);
    hr_model_close(m);
}

typedef struct family {
    const char *name, *model;
} family;

static void nothing_is_lost(const void *arg) {
    const family *f = arg;
    const hri_about about = {.source = "synthetic", .input = "image"};
    const hri_shrink_options zeros = {.by = HRI_SHRINK_ZEROS, .multiple = 1};
    hri_shrink_report emptied;
    test_untrained(f->model, &about, "a.safetensors");
    empty_half(in("a.safetensors"), in("b.safetensors"), &emptied);
    CHECK(emptied.units_gone > 0 && emptied.units_gone * 3 >= emptied.units);
    const hri_shrink_result r = shrink(in("b.safetensors"), in("c.safetensors"), &zeros);
    CHECK_EQ(r.report.units_gone, emptied.units_gone);
    CHECK_EQ(r.report.unread, emptied.units_gone);
    compare(in("b.safetensors"), in("c.safetensors"));
    CHECK_EQ(r.after.file_bytes, tensor_bytes(in("c.safetensors")));
    CHECK(r.after.parameters < r.before.parameters && r.after.flops < r.before.flops);
    CHECK(r.after.training_bytes < r.before.training_bytes);
    CHECK(r.after.inference_bytes < r.before.inference_bytes);
    CHECK_STR(r.model_path, in("c.hr"));
    train_a_step(in("c.hr"));
    /* What is not there any more cannot be found again. */
    CHECK_EQ(shrink(in("c.safetensors"), NULL, &zeros).report.units_gone, 0);
}

static const family families[] = {
    {"resnet18", "resnet18:size=16,width=8,classes=5"},
    {"resnet50", "resnet50:size=16,width=4,classes=5,layers=1x1x1x1"},
    {"grouped",
     "resnext50_32x4d:size=16,width=16,groups=4,group_width=16,classes=5,layers=1x1x1x1"},
    {"vgg", "vgg11:size=32,width=4,hidden=24,classes=5"},
    {"vgg_bn", "vgg11_bn:size=32,width=4,hidden=24,classes=5"},
    {"mobilenet_v2", "mobilenet_v2:size=32,multiplier=0.35,classes=5"},
    {"mobilenet_v3", "mobilenet_v3_small:size=32,multiplier=0.5,classes=5"},
    {"efficientnet", "efficientnet_b0:size=32,width_by=0.25,depth_by=0.5,classes=5"},
    {"densenet", "densenet121:size=32,classes=5,growth=8,layers=2x2x2x2"},
    {"lenet", "lenet"},
    {"mlp", "mlp"},
    {"unet", "unet:size=16,width=4"},
    {"vit", "vit-tiny:size=32,patch=8,width=24,heads=2,layers=2,classes=5"},
};

__attribute__((constructor)) static void register_families(void) {
    static test_case cases[sizeof families / sizeof families[0]];
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        cases[i] = (test_case){.suite = "shrink_nothing_is_lost",
                               .name = families[i].name,
                               .run_with = nothing_is_lost,
                               .arg = &families[i]};
        test_register(&cases[i]);
    }
}

/* ---- what is tied ---- */

static hr_value named(const hr_graph *g, const char *name) {
    const hr_value v = hr_graph_find(g, name);
    CHECK(v != HR_NONE);
    return v;
}

TEST(shrink, a_residual_stream_is_one_group_and_ends_are_fixed) {
    hr_model *m;
    hr_graph *g;
    hri_channels c;
    CHECK_OK(hr_model_open("resnet18:size=16,width=8,classes=5", &m, NULL));
    CHECK_OK(hr_graph_create(&g));
    CHECK_OK(hr_model_build(m, g, 2, 0));
    CHECK_OK(hri_channels_init(&c, g));
    const hr_value stem = named(g, "conv1.weight"), inner = named(g, "layer1.0.conv1.weight");
    const hr_value sum = named(g, "layer1.0.conv2.weight"),
                   next = named(g, "layer1.1.conv2.weight");
    const hr_value mean = named(g, "layer1.1.bn2.running_mean"), fc = named(g, "fc.weight");
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t unit = hri_channels_unit(&c, c.first[stem] + i);
        CHECK_EQ(hri_channels_unit(&c, c.first[sum] + i), unit);
        CHECK_EQ(hri_channels_unit(&c, c.first[next] + i), unit);
        CHECK_EQ(hri_channels_unit(&c, c.first[mean] + i), unit);
        CHECK_EQ(hri_channels_unit(&c, c.first[inner] + 8 + i), unit); /* what it reads */
        CHECK(hri_channels_unit(&c, c.first[inner] + i) != unit);      /* what it makes */
        CHECK(!c.fixed[unit]);
    }
    for (uint32_t i = 0; i < 3; i++) { /* colours */
        CHECK(c.fixed[hri_channels_unit(&c, c.first[stem] + 8 + i)]);
    }
    for (uint32_t i = 0; i < 5; i++) { /* classes: (out, in) */
        CHECK(c.fixed[hri_channels_unit(&c, c.first[fc] + hri_channels_size(&c, fc) + i)]);
    }
    hri_channels_deinit(&c);
    hr_graph_destroy(g);
    hr_model_close(m);
}

TEST(shrink, flattened_and_concatenated_channels_keep_their_offsets) {
    hr_graph *g;
    hri_channels c;
    CHECK_OK(hr_graph_create(&g));
    const hr_value x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_4(2, 3, 3, 2));
    const hr_init zero = hr_init_constant(0);
    const hr_value w1 = hr_graph_param(g, "w1", HR_TYPE_F32, hr_shape_4(1, 1, 2, 4), zero);
    const hr_value w2 = hr_graph_param(g, "w2", HR_TYPE_F32, hr_shape_4(1, 1, 2, 5), zero);
    const hr_value w3 = hr_graph_param(g, "w3", HR_TYPE_F32, hr_shape_2(81, 7), zero);
    const hr_value w4 = hr_graph_param(g, "w4", HR_TYPE_F32, hr_shape_2(81, 6), zero);
    const hr_value a[] = {x, w1}, b[] = {x, w2};
    const hr_value both[] = {hr_graph_node(g, "conv2d", a, 2, NULL),
                             hr_graph_node(g, "conv2d", b, 2, NULL)};
    const hr_value y = hr_graph_node(g, "concat", both, 2, "axis=-1");
    const hr_value flat[] = {hr_graph_node(g, "reshape", &y, 1, "to=2x81"), w3};
    const hr_value turned = hr_graph_node(g, "transpose", &y, 1, "order=0x3x1x2");
    const hr_value rows[] = {hr_graph_node(g, "reshape", &turned, 1, "to=2x81"), w4};
    hr_graph_result(g, hr_graph_node(g, "matmul", flat, 2, NULL), "p");
    hr_graph_result(g, hr_graph_node(g, "matmul", rows, 2, NULL), "q");
    CHECK_OK(g->error.code);
    CHECK_OK(hri_channels_init(&c, g));
    for (uint32_t i = 0; i < 81; i++) {
        const uint32_t k = i % 9, t = i / 9; /* the channel: last, and first */
        const uint32_t of = k < 4 ? c.first[w1] + k : c.first[w2] + k - 4;
        const uint32_t first = t < 4 ? c.first[w1] + t : c.first[w2] + t - 4;
        CHECK_EQ(hri_channels_unit(&c, c.first[w3] + 7 + i), hri_channels_unit(&c, of));
        CHECK_EQ(hri_channels_unit(&c, c.first[w4] + 6 + i), hri_channels_unit(&c, first));
    }
    CHECK(hri_channels_unit(&c, c.first[w1]) != hri_channels_unit(&c, c.first[w1] + 1));
    hri_channels_deinit(&c);
    hr_graph_destroy(g);
}

TEST(shrink, what_looks_across_channels_stays) {
    hr_graph *g;
    hri_channels c;
    CHECK_OK(hr_graph_create(&g));
    const hr_value x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_2(2, 4));
    const hr_init zero = hr_init_constant(0);
    const hr_value w = hr_graph_param(g, "w", HR_TYPE_F32, hr_shape_2(4, 6), zero);
    const hr_value v = hr_graph_param(g, "v", HR_TYPE_F32, hr_shape_2(6, 3), zero);
    const hr_value a[] = {x, w};
    const hr_value h = hr_graph_node(g, "matmul", a, 2, NULL);
    const hr_value s = hr_graph_node(g, "softmax", &h, 1, NULL), b[] = {s, v};
    hr_graph_result(g, hr_graph_node(g, "matmul", b, 2, NULL), "y");
    CHECK_OK(g->error.code);
    CHECK_OK(hri_channels_init(&c, g));
    for (uint32_t i = 0; i < 6; i++) {
        CHECK(c.fixed[hri_channels_unit(&c, c.first[w] + i)]);
    }
    hri_channels_deinit(&c);
    hr_graph_destroy(g);
}

/* ---- what is chosen ---- */

/* The outputs of a dense layer of 6, by norm: 3 1 4 0 2 5; one of them is zero. */
static hr_status scale_rows(void *user, hr_value v, uint64_t at, void *to, uint64_t bytes) {
    static const float norms[] = {3, 1, 4, 0, 2, 5};
    const hr_graph *g = user;
    const int weight = !strcmp(g->values[v].name, "fc1.weight"); /* (6, 4) */
    for (uint64_t i = 0; i < bytes / 4; i++) {
        const uint64_t q = at / 4 + i;
        ((float *)to)[i] = weight ? norms[q / 4] * (q % 4 == 1 ? -1.0F : 0.0F) : 1.0F;
        if (!strcmp(g->values[v].name, "fc1.bias")) {
            ((float *)to)[i] = q == 3 ? -2.0F : 0.5F; /* ReLU makes 0 of it */
        }
    }
    return HR_OK;
}

static hri_shrink_result choose(const hri_shrink_options *o, const char *kept) {
    const hri_shrink_result r = shrink(in("n.safetensors"), in("m.safetensors"), o);
    hri_checkpoint c;
    float bias[6] = {0}, rows[24];
    hri_prose why = {""};
    const size_t n = strlen(kept);
    CHECK_OK(hri_checkpoint_open(in("m.safetensors"), &c, &why));
    const hri_tensor *w = hri_tensors_find(&c.file, "fc1.weight");
    CHECK(w && w->shape.dim[0] == (int64_t)n);
    CHECK_OK(hri_tensors_read(&c.file, w, 0, n * 4, HR_TYPE_F32, rows, &why));
    CHECK_OK(hri_tensors_read(&c.file, hri_tensors_find(&c.file, "fc1.bias"), 0, n, HR_TYPE_F32,
                              bias, &why));
    for (size_t i = 0; i < n; i++) {
        CHECK(fabsf(rows[i * 4 + 1]) == (float)(kept[i] - '0'));
        CHECK(bias[i] == (kept[i] == '0' ? -2.0F : 0.5F));
    }
    hri_checkpoint_close(&c);
    return r;
}

TEST(shrink, the_smallest_go_first_and_the_others_stay_in_order) {
    hr_model *m;
    hr_graph *g;
    static const char text[] = "headroom model 1\nname \"two\"\nclasses 2\n";
    static const char form[] = "%1 = input \"x\" f32[N,4]\n%2 = input \"label\" i32[N]\n"
                               "%3 = param \"fc1.weight\" f32[6,4] constant 0 0\n%4 = param "
                               "\"fc1.bias\" f32[6] constant 0 0\n"
                               "%5 = matmul(%1 %3 %4) {transpose-b} @\"fc1\"\n%6 = relu(%5) @\"\"\n"
                               "%7 = param \"fc2.weight\" f32[2,6] constant 0 0\n"
                               "%8 = matmul(%6 %7) {transpose-b} @\"fc2\"\nresult \"logits\" %8\n"
                               "%9 %10 = cross_entropy(%8 %2) @\"\"\nresult \"loss\" %9\n";
    char whole[4000];
    hr_error error = {.code = HR_OK};
    snprintf(whole, sizeof whole, "%sform train\n%sform eval\n%s", text, form, form);
    if (hr_model_parse(whole, strlen(whole), &m, &error) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", error.message);
    }
    CHECK_OK(hr_graph_create(&g));
    CHECK_OK(hr_model_build(m, g, 1, 0));
    const hri_values from = {.get = scale_rows, .user = g};
    const hri_about about = {.model = "two:graph=0000000000000001",
                             .graph = whole,
                             .precision = "f32",
                             .source = "synthetic",
                             .input = "x"};
    const hri_checkpoint_write w = {.g = g, .from = &from, .about = &about};
    hri_prose why = {""};
    if (hri_checkpoint_save(in("n.safetensors"), &w, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.text);
    }
    const hri_shrink_options zeros = {.by = HRI_SHRINK_ZEROS, .multiple = 1};
    const hri_shrink_options half = {.by = HRI_SHRINK_KEEP, .keep = 0.5, .multiple = 1};
    const hri_shrink_options eight = {.by = HRI_SHRINK_KEEP, .keep = 0.1, .multiple = 4};
    const hri_shrink_options mean = {.by = HRI_SHRINK_THRESHOLD, .threshold = 0.9, .multiple = 1};
    CHECK_EQ(choose(&zeros, "31425").report.unread, 1);
    CHECK_EQ(choose(&half, "345").report.units_gone, 3);
    CHECK_EQ(choose(&eight, "3425").report.units_gone, 2); /* four at least */
    CHECK_EQ(choose(&mean, "345").report.units_gone, 3);   /* the mean is 2.5 */
    hri_shrink_options one = mean;
    one.threshold = 1e6;
    CHECK_EQ(choose(&one, "5").report.units_gone, 5); /* a group never ends */
    hr_graph_destroy(g);
    hr_model_close(m);
}

TEST(shrink, bad_shares_and_files_are_refused) {
    hri_shrink_result r;
    hri_why why = {0};
    hri_shrink_job job = {.checkpoint = in("no.safetensors"),
                          .how = {.by = HRI_SHRINK_KEEP, .keep = 0, .multiple = 8}};
    CHECK_STATUS(hri_shrink(&job, &r, &why), HR_E_RANGE);
    CHECK(strstr(why.prose.text, "keep") && why.cause == HR_CAUSE_USAGE);
    job.how.keep = 0.5;
    why = (hri_why){0};
    CHECK_STATUS(hri_shrink(&job, &r, &why), HR_E_NOT_FOUND);
    CHECK(why.cause == HR_CAUSE_USAGE || why.cause == HR_CAUSE_DATA);
    /* Adapters stand in the way. */
    const hri_about about = {.source = "synthetic", .input = "image", .passes = "lora:rank=2"};
    job.checkpoint = test_untrained("mlp", &about, "l.safetensors");
    why = (hri_why){0};
    CHECK_STATUS(hri_shrink(&job, &r, &why), HR_E_UNSUPPORTED);
    CHECK(strstr(why.prose.text, "merge") != NULL);
}
