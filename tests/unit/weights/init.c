/* Weights to begin with: whole files, heads for other classes, backbones without a head, and files of something else. */
#include "weights/init.h"

#include <headroom/headroom.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/graph.h"
#include "models/common/model.h"
#include "run/interpret.h"
#include "test.h"

static char path[64];

/* Writes ones under these names. */
static void write_ones(const hri_tensor_plan *plan, size_t count) {
    hri_tensors_writer w;
    snprintf(path, sizeof path, "/tmp/headroom-init-XXXXXX");
    const int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    CHECK_OK(hri_tensors_create(&w, path, plan, count, NULL, NULL));
    for (size_t i = 0; i < count; i++) {
        for (int64_t n = hr_shape_count(&plan[i].meta.shape); n > 0; n--) {
            CHECK_OK(hri_tensors_write(&w, (const float[]){1}, 1, HR_TYPE_F32, HR_TYPE_F32, NULL));
        }
    }
    CHECK_OK(hri_tensors_commit(&w, NULL));
}

/* A file of ones for every weight of the model but `without`. */
static void file_for(const hr_graph *g, const char *without, const char *but) {
    hri_tensor_plan plan[32];
    size_t count = 0;
    for (hr_value v = 1; v < g->value_count; v++) {
        const char *name = g->values[v].name;
        if (hri_keep_of(g, v) == HR_KEEP_MODEL && strncmp(name, without, strlen(without)) != 0 &&
            strcmp(name, but) != 0) {
            CHECK(count < 32);
            plan[count++] = (hri_tensor_plan){name, hri_file_meta(g, v)};
        }
    }
    write_ones(plan, count);
}

typedef struct rig {
    hr_model *m;
    hr_graph *g;
    hri_interp *it;
} rig;

static rig rig_of(const char *model) {
    rig r = {0};
    CHECK_OK(hr_model_open(model, &r.m, NULL));
    CHECK_OK(hr_graph_create(&r.g));
    CHECK_OK(hr_model_build(r.m, r.g, 1, 1));
    CHECK_OK(hr_graph_freeze(r.g));
    CHECK_OK(hri_interp_create(r.g, NULL, 11, &r.it));
    return r;
}

static void rig_end(rig *r) {
    hri_interp_destroy(r->it);
    hr_graph_destroy(r->g);
    hr_model_close(r->m);
}

static hr_status load(const rig *r, int64_t classes, hri_init_report *out, hri_prose *why) {
    const hri_values to = {.put = hri_interp_put, .user = r->it};
    const hr_status status = hri_init_load(path, r->g, &to, classes, r->m->heads, out, why);
    unlink(path);
    return status;
}

static float first_of(const rig *r, const char *name) {
    float x = -7;
    CHECK_OK(hri_interp_get(r->it, hr_graph_find(r->g, name), 0, &x, sizeof x));
    return x;
}

TEST(init, a_backbone_without_a_head_is_taken_and_the_head_stays_as_the_seed_made_it) {
    rig r = rig_of("lenet:classes=10");
    hri_init_report report = {0};
    const float before = first_of(&r, "fc3.weight");
    file_for(r.g, "fc3.", "");
    CHECK_OK(load(&r, 10, &report, NULL));
    CHECK_EQ(report.missing, 2);
    CHECK_EQ(report.replaced, 0);
    CHECK_EQ(report.loaded, 8);
    CHECK_STR(report.head, "fc3.weight");
    CHECK(first_of(&r, "fc3.weight") == before && before != 1);
    CHECK(first_of(&r, "fc2.weight") == 1);
    rig_end(&r);
}

TEST(init, what_is_missing_before_the_head_is_another_model) {
    static const struct {
        const char *without, *but, *part;
    } all[] = {{"fc2.", "", "tensor fc2.weight is missing"},
               {"", "fc3.weight", "tensor fc3.weight is missing"}, /* its bias comes behind it */
               {"conv1.", "", "tensor conv1.weight is missing"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        rig r = rig_of("lenet:classes=10");
        hri_init_report report = {.loaded = 77};
        hri_prose why = {""};
        file_for(r.g, *all[i].without ? all[i].without : "-", all[i].but);
        CHECK_STATUS(load(&r, 10, &report, &why), HR_E_NOT_FOUND);
        CHECK(strstr(why.text, all[i].part));
        CHECK_EQ(report.loaded, 77);
        CHECK(first_of(&r, "conv2.weight") != 1);
        rig_end(&r);
    }
}

TEST(init, a_head_for_other_classes_starts_over) {
    rig r = rig_of("lenet:classes=10"), other = rig_of("lenet:classes=4");
    hri_init_report report = {0};
    file_for(r.g, "-", "");
    CHECK_OK(load(&other, 4, &report, NULL));
    CHECK_EQ(report.replaced, 2);
    CHECK_EQ(report.file_classes, 10);
    CHECK_EQ(report.missing, 0);
    rig_end(&r);
    rig_end(&other);
}

/* A file of the model's weights as another class of transformers names them: without `strip`, with gamma and beta where `old`, and
 * without those that begin with `head` or `other`. */
static void transformers_file(const hr_graph *g, const char *strip, int old, const char *head,
                              const char *other) {
    static char names[64][128];
    hri_tensor_plan plan[64];
    size_t count = 0;
    for (hr_value v = 1; v < g->value_count; v++) {
        const char *name = g->values[v].name;
        if (hri_keep_of(g, v) != HR_KEEP_MODEL || !strncmp(name, head, strlen(head)) ||
            !strncmp(name, other, strlen(other))) {
            continue;
        }
        CHECK(count < 64);
        name += *strip && !strncmp(name, strip, strlen(strip)) ? strlen(strip) : 0;
        snprintf(names[count], sizeof names[0], "%s", name);
        char *norm = old ? strstr(names[count], "LayerNorm.") : NULL;
        if (norm) {
            snprintf(norm + 10, 10, "%s", norm[10] == 'w' ? "gamma" : "beta");
        }
        plan[count] = (hri_tensor_plan){names[count], hri_file_meta(g, v)};
        count++;
    }
    write_ones(plan, count);
}

TEST(init, files_of_other_classes_of_transformers_are_taken_and_the_head_starts_over) {
    static const struct {
        const char *model, *strip, *head, *other;
        int old;
        size_t missing;
    } all[] = {
        {"bert-nano:classes=3", "", "classifier.", "-", 0, 2},            /* BertForPreTraining */
        {"bert-nano:classes=3", "bert.", "classifier.", "-", 1, 2},       /* BertModel, old names */
        {"bert-nano:classes=3", "", "classifier.", "bert.pooler.", 0, 4}, /* BertForMaskedLM */
        {"bert-nano", "bert.", "cls.predictions.", "-", 1, 5},            /* BertModel */
        {"llama-nano", "model.", "lm_head.", "-", 0, 0},                  /* LlamaModel, tied */
        {"llama-nano", "", "-", "-", 0, 0},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        rig r = rig_of(all[i].model);
        hri_init_report report = {0};
        hri_prose why = {""};
        transformers_file(r.g, all[i].strip, all[i].old, all[i].head, all[i].other);
        if (load(&r, hr_model_classes(r.m), &report, &why) != HR_OK) {
            test_fail(__FILE__, __LINE__, "%s: %s", all[i].model, why.text);
        }
        CHECK_EQ(report.missing, all[i].missing);
        CHECK_EQ(report.replaced, 0);
        rig_end(&r);
    }
}

/* A block that is not there is another model, whatever may be missing of the head. */
TEST(init, a_file_of_fewer_blocks_is_refused) {
    rig r = rig_of("bert-nano:classes=3");
    hri_init_report report = {0};
    hri_prose why = {""};
    transformers_file(r.g, "", 0, "bert.encoder.layer.1.", "classifier.");
    CHECK_STATUS(load(&r, 3, &report, &why), HR_E_NOT_FOUND);
    CHECK(strstr(why.text, "tensor bert.encoder.layer.1.attention.self.query.weight is missing"));
    rig_end(&r);
}
