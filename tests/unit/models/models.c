/* Models: names, keys, sentences, parameters as torchvision and Hugging Face count and name them. */
#include <headroom/headroom.h>

#include <string.h>

#include "test.h"

static hr_graph *build(const char *text, int64_t batch, int training) {
    hr_model *m;
    hr_graph *g;
    hr_error why = {0};
    if (hr_model_open(text, &m, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", text, why.message);
    }
    CHECK_OK(hr_graph_create(&g));
    const hr_status status = hr_model_build(m, g, batch, training);
    hr_graph_error(g, &why);
    if (status != HR_OK || hr_graph_freeze(g) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", text, why.message);
    }
    hr_model_close(m);
    return g;
}

static int64_t parameters(const char *text) {
    hr_graph *g = build(text, 1, 1);
    int64_t sum = 0;
    for (hr_value v = 1; v <= hr_graph_value_count(g); v++) {
        if (hr_graph_kind(g, v) == HR_VALUE_PARAM) {
            const hr_shape shape = hr_graph_meta(g, v).shape;
            sum += hr_shape_count(&shape);
        }
    }
    hr_graph_destroy(g);
    return sum;
}

static void check_value(const hr_graph *g, const char *name, const char *meta) {
    char text[256];
    const hr_value v = hr_graph_find(g, name);
    if (v == HR_NONE) {
        test_fail(__FILE__, __LINE__, "there is no %s", name);
    }
    const hr_meta is = hr_graph_meta(g, v);
    CHECK_STR(hr_meta_print(&is, text, sizeof text), meta);
}

/* Fails to open, with `part` in the sentence. */
static void check_refused(const char *text, hr_status status, const char *part) {
    hr_model *m = NULL;
    hr_error why = {0};
    CHECK_STATUS(hr_model_open(text, &m, &why), status);
    CHECK(m == NULL);
    CHECK_EQ(why.code, status);
    if (!strstr(why.message, part)) {
        test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", why.message, part);
    }
}

TEST(models, every_name_of_the_list_opens_and_reads_its_own_text) {
    hr_model_info info = {.size = sizeof info}, found = {.size = sizeof found};
    size_t count = 0;
    for (; hr_model_list(count, &info) == HR_OK; count++) {
        hr_model *m, *again;
        CHECK_OK(hr_model_find(info.name, &found, NULL));
        CHECK_STR(found.family, info.family);
        CHECK_OK(hr_model_open(info.name, &m, NULL));
        CHECK_STR(hr_model_name(m), info.name);
        CHECK(hr_model_classes(m) > 0);
        CHECK_OK(hr_model_open(hr_model_text(m), &again, NULL));
        CHECK_STR(hr_model_text(again), hr_model_text(m));
        hr_model_close(again);
        hr_model_close(m);
    }
    CHECK(count >= 14);
}

TEST(models, keys_are_listed_with_the_defaults_of_the_name) {
    hr_model_key key = {.size = sizeof key};
    int found = 0;
    size_t i = 0;
    for (; hr_model_keys("resnet50", i, &key) == HR_OK; i++) {
        if (!strcmp(key.name, "layers")) {
            CHECK_STR(key.value, "3x4x6x3");
            found = 1;
        }
    }
    CHECK(found);
    CHECK_STATUS(hr_model_keys("resnet50", i, &key), HR_E_EOF);
}

TEST(models, wrong_strings_are_refused_with_what_was_meant) {
    check_refused("resnet81", HR_E_NOT_FOUND, "resnet18");
    check_refused("", HR_E_NOT_FOUND, "mlp");
    check_refused("resnet18:clases=10", HR_E_INVALID, "did you mean classes?");
    check_refused("resnet18:classes=0", HR_E_RANGE, "classes");
    check_refused("resnet18:classes=ten", HR_E_INVALID, "classes");
    check_refused("resnet18:classes=1,classes=2", HR_E_INVALID, "twice");
    check_refused("resnet18:layers=2x0", HR_E_RANGE, "layers");
    check_refused("gpt2:heads=7", HR_E_INVALID, "multiple of the number of heads");
    check_refused("bert-nano:heads=7", HR_E_INVALID, "multiple of the number of heads");
    check_refused("bert-base-uncased:context=513", HR_E_INVALID, "less than context");
    check_refused("bert-nano:pad=128", HR_E_INVALID, "not below vocab");
    check_refused("lstm-nano:both=on", HR_E_INVALID, "needs classes");
    check_refused("vit-tiny:size=30", HR_E_INVALID, "multiple of patch");
    check_refused("mlp:size=-4", HR_E_RANGE, "size");
}

TEST(models, resnets_have_the_parameters_of_torchvision) {
    CHECK_EQ(parameters("resnet18"), 11689512);
    CHECK_EQ(parameters("resnet34"), 21797672);
    CHECK_EQ(parameters("resnet50"), 25557032);
}

TEST(models, resnets_have_the_names_of_torchvision) {
    hr_graph *g = build("resnet50:classes=10,size=64", 2, 1);
    check_value(g, "image", "f32[2,64,64,3]");
    check_value(g, "label", "i32[2]");
    check_value(g, "logits", "f32[2,10]");
    check_value(g, "loss", "f32[]");
    check_value(g, "conv1.weight", "f32[7,7,3,64]");
    check_value(g, "layer1.0.bn1.running_mean", "f32[64]");
    check_value(g, "layer2.0.conv2.weight", "f32[3,3,128,128]");
    check_value(g, "layer2.0.downsample.0.weight", "f32[1,1,256,512]");
    check_value(g, "layer2.0.downsample.1.running_var", "f32[512]");
    check_value(g, "layer4.2.bn3.bias", "f32[2048]");
    check_value(g, "fc.weight", "f32[10,2048]");
    hr_graph_destroy(g);
}

/* Hugging Face: GPT2Model without a head of its own; torchvision: vit_b_16.  lenet by hand. */
TEST(models, transformers_have_the_parameters_of_their_files) {
    CHECK_EQ(parameters("gpt2"), 124439808);
    CHECK_EQ(parameters("gpt2-medium"), 354823168);
    CHECK_EQ(parameters("gpt2-large"), 774030080);
    CHECK_EQ(parameters("gpt2-xl"), 1557611200);
    CHECK_EQ(parameters("vit-base"), 86567656);
    CHECK_EQ(parameters("vit-small"), 22050664);
    CHECK_EQ(parameters("vit-tiny"), 5717416);
    CHECK_EQ(parameters("lenet"), 61706);
}

TEST(models, transformers_have_the_names_of_their_files) {
    hr_graph *g = build("gpt2-nano", 2, 1);
    check_value(g, "tokens", "i32[2,32]");
    check_value(g, "label", "i32[2,32]");
    check_value(g, "logits", "f32[2,32,128]");
    check_value(g, "wte.weight", "f32[128,32]");
    check_value(g, "wpe.weight", "f32[32,32]");
    check_value(g, "h.1.attn.c_attn.weight", "f32[32,96]");
    check_value(g, "h.1.mlp.c_proj.weight", "f32[128,32]");
    check_value(g, "ln_f.bias", "f32[32]");
    hr_graph_destroy(g);
    g = build("vit-tiny:size=64", 2, 0);
    check_value(g, "class_token", "f32[1,1,192]");
    check_value(g, "conv_proj.weight", "f32[16,16,3,192]");
    check_value(g, "encoder.pos_embedding", "f32[1,17,192]");
    check_value(g, "encoder.layers.encoder_layer_11.self_attention.in_proj_weight", "f32[576,192]");
    check_value(g, "encoder.layers.encoder_layer_0.mlp.3.weight", "f32[192,768]");
    check_value(g, "heads.head.weight", "f32[1000,192]");
    hr_graph_destroy(g);
}

/* The counts of the same model in torch (tools/parity/models.py). */
TEST(models, unet_has_long_skips_and_a_class_for_every_pixel) {
    CHECK_EQ(parameters("unet"), 17263042);
    hr_graph *g = build("unet:size=32,width=8,classes=3", 2, 1);
    check_value(g, "label", "i32[2,32,32]");
    check_value(g, "logits", "f32[2,32,32,3]");
    check_value(g, "inc.double_conv.0.weight", "f32[3,3,3,8]");
    check_value(g, "down4.maxpool_conv.1.double_conv.4.running_var", "f32[64]");
    check_value(g, "up1.conv.double_conv.0.weight", "f32[3,3,128,64]");
    check_value(g, "up4.conv.double_conv.3.weight", "f32[3,3,8,8]");
    check_value(g, "outc.conv.bias", "f32[3]");
    hr_graph_destroy(g);
    check_refused("unet:size=40", HR_E_INVALID, "multiple of 16");
}

TEST(models, a_graph_for_inference_updates_nothing) {
    hr_graph *g = build("resnet18:size=32,width=8", 2, 0);
    hr_graph *t = build("resnet18:size=32,width=8", 2, 1);
    CHECK(hr_graph_node_count(g) != hr_graph_node_count(t));
    char text[256];
    const hr_meta meta = hr_graph_meta(g, hr_graph_find(g, "logits"));
    CHECK_STR(hr_meta_print(&meta, text, sizeof text), "f32[2,1000]");
    hr_graph_destroy(g);
    hr_graph_destroy(t);
}

TEST(models, a_negative_batch_is_refused_by_the_name_of_the_input) {
    hr_model *m;
    hr_graph *g;
    hr_error why;
    CHECK_OK(hr_model_open("resnet18", &m, NULL));
    CHECK_OK(hr_graph_create(&g));
    CHECK(hr_model_build(m, g, -3, 1) != HR_OK);
    hr_graph_error(g, &why);
    CHECK(strstr(why.message, "image") != NULL);
    hr_graph_destroy(g);
    hr_model_close(m);
}
