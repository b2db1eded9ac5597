/* interchange_weights MODEL OUT TYPE [IN]: saves the weights of a model, as it begins or loaded from another file, for
 * tests that let other programs read and write the same files. */
#include <headroom/headroom.h>

#include <stdio.h>

#include "run/interpret.h"

static hr_status work(char **argv, int loads, hr_model *m, hr_graph *g, hr_error *why) {
    hri_interp *it;
    hr_weights_options o = {
        .size = sizeof o, .get = hri_interp_get, .put = hri_interp_put, .check = 1, .steps = 3};
    hr_status status = hr_model_build(m, g, 1, 1);
    status = status == HR_OK ? hr_type_find(argv[3], &o.type) : status;
    status = status == HR_OK ? hr_graph_freeze(g) : status;
    status = status == HR_OK ? hri_interp_create(g, NULL, 11, &it) : status;
    if (status != HR_OK) {
        return status;
    }
    o.user = it;
    status = loads ? hr_model_load(m, g, argv[4], &o, why) : HR_OK;
    status = status == HR_OK ? hr_model_save(m, g, argv[2], &o, why) : status;
    hri_interp_destroy(it);
    return status;
}

int main(int argc, char **argv) {
    hr_model *m = NULL;
    hr_graph *g = NULL;
    hr_error why = {0};
    if (argc != 4 && argc != 5) {
        fprintf(stderr, "interchange_weights MODEL OUT TYPE [IN]\n");
        return 2;
    }
    hr_status status = hr_model_open(argv[1], &m, &why);
    status = status == HR_OK ? hr_graph_create(&g) : status;
    status = status == HR_OK ? work(argv, argc == 5, m, g, &why) : status;
    if (status != HR_OK) {
        fprintf(stderr, "%s: %s\n", hr_status_name(status), why.message);
    }
    hr_graph_destroy(g);
    hr_model_close(m);
    return status == HR_OK ? 0 : 1;
}
