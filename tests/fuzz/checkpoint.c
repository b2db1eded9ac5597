/* Checkpoints from outside: whatever the bytes, opening ends with a status and a sentence; what was opened can be asked for
 * everything, and loading it into a model changes nothing unless it is of that model. */
#include "source.h"

#include "base/alloc.h"
#include "run/interpret.h"
#include "train/checkpoint.h"

static hr_graph *graph_of(void) {
    hr_model *m;
    hr_train_options o;
    hr_graph *g = NULL;
    must(hr_model_open("mlp:size=1,channels=1,width=2,layers=1,classes=2", &m, NULL) == HR_OK);
    must(hr_train_options_parse("optimizer=sgd", &o, NULL) == HR_OK);
    must(hr_step_build(&o, hr_model_build, m, HR_STEP_WHOLE, 1, &g, NULL) == HR_OK);
    hr_model_close(m);
    return g;
}

static void use(const hri_checkpoint *c) {
    hri_prose why = {""};
    void *place;
    size_t bytes;
    hr_graph *g = graph_of();
    hri_interp *it;
    must(c->about.model && c->about.precision && c->about.stages && c->about.input);
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
