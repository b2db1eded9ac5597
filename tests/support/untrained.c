/* See untrained.h. */
#include "untrained.h"

#include <headroom/headroom.h>

#include <stdio.h>

#include "pictures.h"
#include "run/interpret.h"
#include "test.h"

const char *test_untrained(const char *model, const hri_about *about, const char *name) {
    static char path[512];
    hr_model *m;
    hr_graph *g;
    hri_interp *it;
    hr_train_options o = {.size = sizeof o};
    CHECK_OK(hr_model_open(model, &m, NULL));
    CHECK_OK(hr_train_options_parse("", &o, NULL));
    CHECK_OK(hr_step_build(&o, hr_model_build, m, HR_STEP_EVALUATE, 2, &g, NULL));
    CHECK_OK(hri_interp_create(g, NULL, 1, &it));
    const hri_values values = {.get = hri_interp_get, .put = hri_interp_put, .user = it};
    hri_about whole = *about;
    whole.model = hr_model_text(m);
    whole.precision = "f32";
    const hri_checkpoint_write w = {.g = g, .from = &values, .about = &whole};
    snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    CHECK_OK(hri_checkpoint_save(path, &w, NULL));
    hri_interp_destroy(it);
    hr_graph_destroy(g);
    hr_model_close(m);
    return path;
}
