/* Checkpoints from outside: whatever the bytes, opening ends with a status and a sentence; what was opened can be asked for
 * everything, and loading it into a model changes nothing unless it is of that model. */
#include "source.h"

#include "base/alloc.h"
#include "passes/common/pass.h"
#include "run/interpret.h"
#include "weights/checkpoint.h"
#include "weights/weight_codes.h"

static hr_graph *graph_of(void) {
    hr_model *m;
    hr_train_options o = {.size = sizeof o};
    hr_graph *g = NULL;
    must(hr_model_open("mlp:size=1,channels=1,width=2,layers=1,classes=2", &m, NULL) == HR_OK);
    must(hr_train_options_parse("optimizer=sgd", &o, NULL) == HR_OK);
    must(hr_step_build(&o, hr_model_build, m, HR_STEP_WHOLE, 1, &g, NULL) == HR_OK);
    hr_model_close(m);
    return g;
}

/* The same model as `headroom quantize` leaves it, with or without --weights. */
static hr_graph *quantized_graph(const char *pass) {
    hr_model *m;
    hri_passes passes = {0};
    hr_graph *g;
    must(hr_model_open("mlp:size=1,channels=1,width=2,layers=1,classes=2", &m, NULL) == HR_OK);
    must(hri_passes_parse(pass, &passes, NULL) == HR_OK);
    must(hr_graph_create(&g) == HR_OK && hr_model_build(m, g, 1, 0) == HR_OK);
    must(hri_passes_apply(&passes, 0, &g) == HR_OK && hr_graph_freeze(g) == HR_OK);
    hri_passes_deinit(&passes);
    hr_model_close(m);
    return g;
}

static void load_quantized(const hri_checkpoint *c, const char *pass) {
    hri_prose why = {""};
    hri_passes passes = {0};
    hr_graph *g = quantized_graph(pass);
    hri_interp *it;
    must(hri_interp_create(g, NULL, 1, &it) == HR_OK);
    const hri_values to = {.put = hri_interp_put, .user = it};
    must(hri_checkpoint_load(c, g, &to, HRI_CHECKPOINT_WEIGHTS, &why) == HR_OK || why.text[0]);
    why.text[0] = '\0';
    must(hri_passes_parse(c->about.passes, &passes, &why) == HR_OK || why.text[0]);
    hri_passes_deinit(&passes);
    hri_interp_destroy(it);
    hr_graph_destroy(g);
}

/* Codes become weights again, as `headroom merge` needs them. */
static void decode(const hri_checkpoint *c) {
    hr_model *m;
    hr_graph *g;
    must(hr_model_open("mlp:size=1,channels=1,width=2,layers=1,classes=2", &m, NULL) == HR_OK);
    must(hr_graph_create(&g) == HR_OK && hr_model_build(m, g, 1, 0) == HR_OK);
    for (hr_value v = 1; v < g->value_count; v++) {
        hri_prose why = {""};
        float *w = NULL;
        const hr_status status = hri_checkpoint_decode_weight(c, g, v, &w, &why);
        must((status == HR_OK) == (w != NULL));
        must(status == HR_OK || status == HR_E_NOT_FOUND || why.text[0]);
        hri_free(w);
    }
    hr_graph_destroy(g);
    hr_model_close(m);
}

static void use(const hri_checkpoint *c) {
    hri_prose why = {""};
    void *place;
    size_t bytes;
    hr_graph *g = graph_of();
    hri_interp *it;
    const hri_about *a = &c->about;
    must(a->model && a->precision && a->source && a->input && (c->version == 1 || c->version == 2));
    must(a->class_count <= HRI_CHECKPOINT_CLASSES_MAX && a->run_count <= HRI_CHECKPOINT_FACTS_MAX);
    must(!strpbrk(a->model, " |()'\"\\\033\n") && !strpbrk(a->input, " |()'\"\\\033\n"));
    must(a->pixels.channels <= HRI_PIXELS_CHANNELS && a->split.fraction >= 0 &&
         a->split.fraction < 1);
    for (uint32_t i = 0; i < a->pixels.channels; i++) {
        must(a->pixels.mean[i] >= -1e6 && a->pixels.mean[i] <= 1e6 && a->pixels.std[i] != 0);
    }
    hri_prose warning, reason = {""};
    must(hri_checkpoint_same(c, a, &warning, &reason) == HR_OK || reason.text[0]);
    for (size_t i = 0; i < c->about.class_count; i++) {
        must(c->about.classes[i] != NULL);
    }
    if (hri_checkpoint_input(c, &place, &bytes, &why) == HR_OK) {
        hri_free(place);
    }
    must(hri_interp_create(g, NULL, 1, &it) == HR_OK);
    const hri_values to = {.put = hri_interp_put, .user = it};
    for (int part = 0; part < 2; part++) {
        why.text[0] = '\0';
        const hr_status status = hri_checkpoint_load(
            c, g, &to, part ? HRI_CHECKPOINT_WHOLE : HRI_CHECKPOINT_WEIGHTS, &why);
        must(status == HR_OK || why.text[0] != '\0');
    }
    hri_interp_destroy(it);
    hr_graph_destroy(g);
    load_quantized(c, "quantize");
    load_quantized(c, "weights:bits=4");
    decode(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[32];
    hri_checkpoint c;
    hri_prose why = {""};
    const int fd = fuzz_file(data, size, path);
    const hr_status status = hri_checkpoint_open(path, &c, &why);
    if (status == HR_OK) {
        use(&c);
        hri_checkpoint_close(&c);
    } else {
        must(why.text[0] != '\0');
    }
    close(fd);
    return 0;
}
