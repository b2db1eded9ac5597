/* The families against torchvision's and transformers' own models: 8 steps of training in f32 from the same weights, by their names, on
 * the same batches give the same losses; tools/parity/make_family_losses.py wrote them.  And whole models have as many parameters. */
#include <headroom/headroom.h>

#include "loop/run.h"
#include "loop/source.h"
#include "parity.h"
#include "test.h"

enum { STEPS = 8 };

static hr_status begin(void *user, const hr_graph *g, hri_interp *it) {
    (void)user;
    for (hr_value v = 1; v <= hr_graph_value_count(g); v++) {
        if (hr_graph_kind(g, v) == HR_VALUE_PARAM) {
            const hr_shape shape = hr_graph_meta(g, v).shape;
            parity_weight(hr_graph_name(g, v), &shape, hri_interp_data(it, v));
        }
    }
    return HR_OK;
}

static void check_family(const char *name) {
    char path[128];
    snprintf(path, sizeof path, "families/%s", name);
    json_t *record = parity_load(HEADROOM_SOURCE, path);
    const json_t *run = json_array_get(json_object_get(record, "runs"), 0);
    hr_error error = {0};
    hr_model *m;
    hri_threads *threads;
    float losses[STEPS];
    CHECK_OK(hr_model_open(parity_text(record, "model"), &m, NULL));
    CHECK_OK(hri_threads_create(2, &threads));
    hri_interp_job job = {.build = hr_model_build,
                          .user = m,
                          .batch = (int64_t)parity_number(record, "batch"),
                          .steps = STEPS,
                          .seed = parity_number(record, "seed"),
                          .cycle = parity_number(record, "cycle"),
                          .limit = (uint32_t)hr_model_classes(m),
                          .threads = threads,
                          .begin = begin};
    job.options.size = sizeof job.options;
    CHECK_OK(hr_train_options_parse(parity_text(run, "options"), &job.options, NULL));
    if (hri_train_run(&job, losses, &error) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", name, error.message);
    }
    parity_compare(run, losses, STEPS);
    hri_threads_destroy(threads);
    hr_model_close(m);
    json_decref(record);
}

#define FAMILY(CASE, NAME)                                                                         \
    TEST_TIMEOUT(families, CASE, 120) {                                                            \
        check_family(NAME);                                                                        \
    }

FAMILY(resnet50_is_torchvisions, "resnet50")
FAMILY(resnext50_is_torchvisions, "resnext50_32x4d")
FAMILY(wide_resnet50_is_torchvisions, "wide_resnet50_2")
FAMILY(vgg11_is_torchvisions, "vgg11")
FAMILY(vgg11_bn_is_torchvisions, "vgg11_bn")
FAMILY(mobilenet_v2_is_torchvisions, "mobilenet_v2")
FAMILY(mobilenet_v3_large_is_torchvisions, "mobilenet_v3_large")
FAMILY(mobilenet_v3_small_is_torchvisions, "mobilenet_v3_small")
FAMILY(efficientnet_b0_is_torchvisions, "efficientnet_b0")
FAMILY(densenet121_is_torchvisions, "densenet121")
FAMILY(convnext_tiny_is_torchvisions, "convnext_tiny")
FAMILY(llama_is_that_of_transformers, "llama-nano")
FAMILY(llama_with_tables_in_two_parts_is_that_of_transformers, "llama-long")
FAMILY(bert_with_masked_words_is_that_of_transformers, "bert-masked")
FAMILY(bert_with_classes_and_padding_is_that_of_transformers, "bert-class")
FAMILY(lstm_language_model_is_torchs, "lstm")
FAMILY(lstm_both_ways_with_classes_is_torchs, "lstm-class")

/* As torchvision's documentation and the models' cards have them. */
TEST(families, whole_models_have_the_parameters_of_the_originals) {
    static const struct {
        const char *name;
        uint64_t parameters;
    } known[] = {{"resnet101", 44549160},
                 {"resnet152", 60192808},
                 {"resnext50_32x4d", 25028904},
                 {"resnext101_32x8d", 88791336},
                 {"wide_resnet50_2", 68883240},
                 {"wide_resnet101_2", 126886696},
                 {"vgg11", 132863336},
                 {"vgg16_bn", 138365992},
                 {"mobilenet_v2", 3504872},
                 {"mobilenet_v3_large", 5483032},
                 {"mobilenet_v3_small", 2542856},
                 {"efficientnet_b0", 5288548},
                 {"efficientnet_b7", 66347960},
                 {"densenet121", 7978856},
                 {"densenet201", 20013928},
                 {"convnext_tiny", 28589128},
                 {"convnext_large", 197767336},
                 {"llama-1b", 1100048384},
                 {"llama-8b", 8030261248},
                 {"bert-base-uncased", 109514298},
                 {"bert-base-uncased:classes=2", 109483778},
                 {"bert-large-uncased:classes=2", 335143938}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        hri_model_input input;
        hri_prose why = {{0}};
        hr_model *m;
        CHECK_OK(hr_model_open(known[i].name, &m, NULL));
        CHECK_OK(hri_model_input_of(m, &input, &why));
        CHECK_EQ(input.parameters, known[i].parameters);
        hr_model_close(m);
    }
}
