/* Passes: found by name, options read from one table, a new graph with the names, tags and results of the old one. */
#include <headroom/headroom.h>

#include <string.h>

#include "passes/common/pass.h"
#include "test.h"

static hr_graph *model(const char *text, int training) {
    hr_model *m;
    hr_graph *g;
    CHECK_OK(hr_model_open(text, &m, NULL));
    CHECK_OK(hr_graph_create(&g));
    CHECK_OK(hr_model_build(m, g, 3, training));
    hr_model_close(m);
    return g;
}

/* Applies a pass; the caller destroys *out and the map. */
static hr_status apply(const char *text, const hr_graph *from, hr_graph **out, hri_pass_map *map) {
    hri_pass_options pass;
    hri_prose why = {""};
    CHECK_OK(hri_pass_parse(text, &pass, &why));
    CHECK_OK(hr_graph_create(out));
    const hr_status status = hri_pass_apply(&pass, from, *out, map);
    hri_pass_options_deinit(&pass);
    return status;
}

static hr_status append(void *user, const char *text, size_t bytes) {
    return hri_text_add(user, "%.*s", (int)bytes, text), HR_OK;
}

TEST(passes, the_list_is_the_folder_and_what_is_not_there_is_refused_by_name) {
    hri_pass_options o;
    hri_prose why = {""};
    CHECK(hri_pass_find("precision") && hri_pass_find("loss") && !hri_pass_find("lose"));
    CHECK_STATUS(hri_pass_parse("lose:smoothing=0.1", &o, &why), HR_E_NOT_FOUND);
    CHECK(strstr(why.text, "lose") && strstr(why.text, "precision"));
    CHECK_STATUS(hri_pass_parse("precision:to=f8", &o, &why), HR_E_INVALID);
    CHECK_STATUS(hri_pass_parse("loss:smoothing=2", &o, &why), HR_E_RANGE);
    for (const hri_pass *const *p = hri_passs; *p; p++) {
        CHECK((*p)->help[0] && (*p)->options_bytes <= HRI_PASS_BYTES);
        /* Some need to be told something, and say what. */
        const hr_status status = hri_pass_parse((*p)->name, &o, &why);
        if (status == HR_OK) {
            hri_pass_options_deinit(&o);
        } else {
            CHECK_STATUS(status, HR_E_INVALID);
            CHECK(strstr(why.text, "missing") || strstr(why.text, "not a pass to ask for"));
        }
    }
}

TEST(passes, one_that_changes_nothing_gives_the_same_text) {
    static const char *const models[] = {"resnet18:size=32,width=8",
                                         "gpt2-nano",
                                         "vit-tiny:size=32",
                                         "unet:size=32",
                                         "lenet",
                                         "mlp"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        hr_graph *g = model(models[i], 1), *copy;
        hri_pass_map map = {0};
        hri_text was = {0}, is = {0};
        CHECK_OK(apply("loss:metrics=no", g, &copy, &map));
        CHECK_OK(hr_graph_write(g, append, &was, NULL));
        CHECK_OK(hr_graph_write(copy, append, &is, NULL));
        CHECK_STR(hri_text_get(&is), hri_text_get(&was));
        for (hr_value v = 1; v < map.value_count; v++) {
            CHECK_EQ(map.values[v], v);
        }
        hri_text_deinit(&was);
        hri_text_deinit(&is);
        hri_pass_map_deinit(&map);
        hr_graph_destroy(copy);
        hr_graph_destroy(g);
    }
}

TEST(passes, a_parameter_is_read_through_its_cast_where_nobody_reads_it_otherwise) {
    hr_graph *g = model("lenet", 1), *small;
    hri_pass_map map = {0};
    CHECK_OK(apply("precision:to=f16", g, &small, &map));
    int casts = 0;
    for (hr_value v = 1; v < map.value_count; v++) {
        if (g->values[v].kind == HR_VALUE_PARAM && g->values[v].node == HRI_NO_NODE) {
            const hr_value read = hri_pass_read(&map, map.values[v]);
            CHECK_STR(small->values[map.values[v]].name, g->values[v].name);
            casts += read != map.values[v];
            CHECK(read == map.values[v] || small->values[read].meta.type == HR_TYPE_F16);
        }
    }
    CHECK(casts > 0);
    hri_pass_map_deinit(&map);
    hr_graph_destroy(small);
    hr_graph_destroy(g);
}

TEST(passes, a_failure_leaves_the_reason_on_the_new_graph) {
    hr_graph *g, *to;
    hri_pass_map map = {0};
    CHECK_OK(hr_graph_create(&g));
    const hr_value x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_1(3));
    hr_graph_result(g, hr_mean(g, x, NULL, 0), "loss");
    CHECK_STATUS(apply("loss:smoothing=0.1", g, &to, &map), HR_E_UNSUPPORTED);
    CHECK(strstr(to->error.message, "cross-entropy") && !map.values);
    hr_graph_destroy(to);
    hr_graph_destroy(g);
}
