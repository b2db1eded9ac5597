/* Allocations fail while a model is quantized: a status, nothing left behind, no file half written, and a retry works. */
#include <headroom/headroom.h>

#include "graph/graph.h"
#include "runs.h"
#include "sweep.h"
#include "test.h"
#include "weights/merge.h"
#include "weights/quantize.h"
#include "weights/weight_codes.h"

static hr_job_options options(const char *model, const char *name) {
    hr_job_options o = test_job(model, name);
    o.data = "synthetic:count=8";
    o.batch = 4;
    o.steps = 1;
    return o;
}

static hr_status quantize(const void *to) {
    static hri_range ranges[4096]; /* more than the model has values */
    hri_checkpoint c = {.file = {.fd = -1}};
    hri_quantizing q = {0};
    hri_quantize_report r;
    hri_prose why = {""};
    hr_graph *g = NULL;
    hr_status status = hri_checkpoint_open(test_in("run"), &c, &why);
    status = status == HR_OK ? hri_quantize_graph(&c, "", &g, &why) : status;
    status = status == HR_OK ? hri_quantizing_init(&q, g, 0) : status;
    status = status == HR_OK ? hri_checkpoint_quantize(&c, &q, *(const hri_quantize_to *)to, ranges,
                                                       test_in("q.safetensors"), &r, &why)
                             : status;
    hri_quantizing_deinit(&q);
    hr_graph_destroy(g);
    hri_checkpoint_close(&c);
    return status;
}

TEST_TIMEOUT(quantize, a_file_is_whole_or_is_not_there, 60) {
    const hr_job_options o = options("resnet18:size=8,width=2,layers=1,classes=2", "run");
    (void)test_trained(&o);
    for (int to = HRI_QUANTIZE_I8; to <= HRI_QUANTIZE_FOLD; to++) {
        test_sweep(quantize, &(hri_quantize_to){(hri_quantize_to)to});
    }
}

static hr_status pack(const void *user) {
    (void)user;
    hri_checkpoint c = {.file = {.fd = -1}};
    hri_quantize_report r;
    hri_prose why = {""};
    hr_graph *g = NULL;
    hr_status status = hri_checkpoint_open(test_in("text"), &c, &why);
    status = status == HR_OK ? hri_quantize_graph(&c, "", &g, &why) : status;
    status = status == HR_OK ? hri_checkpoint_weight_codes(&c, g, "weights:bits=4",
                                                           test_in("w.safetensors"), &r, &why)
                             : status;
    hr_graph_destroy(g);
    hri_checkpoint_close(&c);
    return status;
}

static hr_status merge(const void *user) {
    (void)user;
    hri_checkpoint c = {.file = {.fd = -1}};
    hri_merge_report r;
    hri_prose why = {""};
    hr_status status = hri_checkpoint_open(test_in("lora"), &c, &why);
    status =
        status == HR_OK ? hri_checkpoint_merge(&c, test_in("m.safetensors"), &r, &why) : status;
    hri_checkpoint_close(&c);
    return status;
}

TEST_TIMEOUT(quantize, a_file_of_small_weights_is_whole_or_is_not_there, 60) {
    hr_job_options o = options("gpt2-nano:layers=1,context=8,vocab=16,width=8,heads=2", "text");
    (void)test_trained(&o);
    test_sweep(pack, NULL);
    o.passes = "lora:rank=2";
    o.init = test_in("w.safetensors");
    o.folder = test_in("lora");
    (void)test_trained(&o);
    test_sweep(merge, NULL);
}
