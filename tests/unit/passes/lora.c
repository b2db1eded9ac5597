/* LoRA as a pass: which layers, which names, what is frozen; patterns. */
#include <headroom/headroom.h>

#include <math.h>
#include <string.h>

#include "passes/common/lora.h"
#include "passes/common/pass.h"
#include "passes/common/pattern.h"
#include "run/interpret.h"
#include "step/objective.h"
#include "test.h"

static hr_graph *model(const char *text) {
    hr_model *m;
    hr_graph *g;
    CHECK_OK(hr_model_open(text, &m, NULL));
    CHECK_OK(hr_graph_create(&g));
    CHECK_OK(hr_model_build(m, g, 3, 0));
    hr_model_close(m);
    return g;
}

/* The model after these passes; a failure stays on the graph. */
static hr_graph *with(const char *text, const char *passes) {
    hr_graph *g = model(text);
    hri_passes p;
    hri_prose why = {""};
    CHECK_OK(hri_passes_parse(passes, &p, &why));
    const hr_status status = hri_passes_apply(&p, 0, &g);
    CHECK_EQ(status, g->error.code);
    hri_passes_deinit(&p);
    return g;
}

TEST(lora, a_pattern_means_a_layer_by_its_last_names_and_all_inside_it) {
    CHECK(hri_pattern_has("c_attn", "h.0.attn.c_attn"));
    CHECK(hri_pattern_has("c_attn+c_fc", "h.3.mlp.c_fc.weight"));
    CHECK(hri_pattern_has("h.*.attn", "h.11.attn.c_proj"));
    CHECK(hri_pattern_has("h.1", "h.1.mlp.c_proj") && !hri_pattern_has("h.1", "h.11.mlp.c_proj"));
    CHECK(hri_pattern_has("h.?.mlp", "h.1.mlp.c_proj") && hri_pattern_has("*", "fc"));
    CHECK(!hri_pattern_has("attn", "h.0.attnx.c_attn") && !hri_pattern_has("proj", "c_proj"));
    CHECK(hri_pattern_has("*proj", "h.0.c_proj") && hri_pattern_has("a*b*c", "x.abbc"));
    CHECK(!hri_pattern_has("a*b*d", "x.abbc"));
    hri_prose why = {""};
    CHECK_OK(hri_pattern_check("h.*.attn+fc", &why));
    CHECK_STATUS(hri_pattern_check("", &why), HR_E_INVALID);
    CHECK_STATUS(hri_pattern_check("a++b", &why), HR_E_INVALID);
    CHECK_STATUS(hri_pattern_check("a b", &why), HR_E_INVALID);
    CHECK(strstr(why.text, "a b"));
}

TEST(lora, texts_are_read_printed_and_refused_with_the_name_of_the_pass) {
    hri_passes p;
    hri_prose why = {""};
    hri_text text = {0};
    CHECK_OK(hri_passes_parse("lora:rank=4,alpha=8,layers=c_attn", &p, &why));
    hri_passes_print(&p, &text);
    CHECK_STR(hri_text_get(&text), "lora:rank=4,alpha=8,layers=c_attn,train=head");
    const hri_lora *o = hri_passes_find(&p, "lora");
    CHECK(o && o->rank == 4 && hri_lora_scale(o) == 2.0 && !hri_passes_find(&p, "loss"));
    hri_passes_deinit(&p);
    hri_text_clear(&text);
    CHECK_OK(hri_passes_parse("lora", &p, &why));
    hri_passes_print(&p, &text);
    CHECK_STR(hri_text_get(&text), "lora:rank=8,alpha=auto,train=head");
    hri_passes_deinit(&p);
    hri_text_deinit(&text);
    CHECK_OK(hri_passes_parse(NULL, &p, &why));
    CHECK_EQ(p.count, 0);
    CHECK_STATUS(hri_passes_parse("lora:rank=0", &p, &why), HR_E_RANGE);
    CHECK(!strncmp(why.text, "lora: rank", 10));
    CHECK_STATUS(hri_passes_parse("lora:layers=a b", &p, &why), HR_E_INVALID);
    CHECK_STATUS(hri_passes_parse("lora:layer=a", &p, &why), HR_E_NOT_FOUND);
    CHECK_STATUS(hri_passes_parse("loss", &p, &why), HR_E_INVALID);
    CHECK_STATUS(hri_passes_parse("lora;", &p, &why), HR_E_NOT_FOUND);
}

TEST(lora, linear_layers_have_adapters_and_everything_else_is_frozen) {
    hr_graph *g = with("gpt2-nano", "lora:rank=4,alpha=8");
    size_t trained = 0, weights = 0;
    CHECK_EQ(g->error.code, HR_OK);
    for (hr_value v = 1; v < g->value_count; v++) {
        const hri_value *value = &g->values[v];
        if (value->kind != HR_VALUE_PARAM) {
            continue;
        }
        const int adapter = strstr(value->name, ".lora_") != NULL;
        CHECK_EQ(hri_graph_tags(g, v)->frozen, !adapter);
        CHECK_EQ(hri_lora_is_adapter(g, v), adapter);
        trained += (size_t)(adapter ? hr_shape_count(&value->meta.shape) : 0);
        weights += hri_lora_find(g, value->name, HRI_LORA_B) != HR_NONE;
    }
    /* c_attn 32 to 96, c_proj 32 to 32, c_fc 32 to 128, c_proj 128 to 32, in two layers */
    CHECK_EQ(trained, 2 * 4 * (32 + 96 + 32 + 32 + 32 + 128 + 128 + 32));
    CHECK_EQ(weights, 8);
    const hr_value a = hr_graph_find(g, "h.0.attn.c_attn.lora_A.weight");
    const hr_value b = hr_graph_find(g, "h.0.attn.c_attn.lora_B.weight");
    CHECK(a != HR_NONE && b != HR_NONE);
    CHECK(g->values[a].meta.shape.dim[0] == 4 && g->values[a].meta.shape.dim[1] == 32);
    CHECK(g->values[b].meta.shape.dim[0] == 96 && g->values[b].meta.shape.dim[1] == 4);
    CHECK(hri_graph_begins_zero(g, b) && !hri_graph_begins_zero(g, a));
    hr_graph_destroy(g);
    g = with("gpt2-nano", "lora:layers=h.1.attn");
    CHECK(hr_graph_find(g, "h.0.attn.c_attn.lora_A.weight") == HR_NONE);
    CHECK(hr_graph_find(g, "h.1.attn.c_proj.lora_A.weight") != HR_NONE);
    CHECK(hr_graph_find(g, "h.1.mlp.c_fc.lora_A.weight") == HR_NONE);
    hr_graph_destroy(g);
}

TEST(lora, the_head_is_trained_whole_unless_it_is_said_otherwise) {
    static const char net[] = "mlp:size=4,width=6,layers=3,classes=5";
    hr_graph *g = model(net);
    const char *head = NULL;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const hri_node_record *n = &g->nodes[i];
        head = !strcmp(n->sig.op->name, "matmul") ? g->values[n->in[1]].name : head;
    }
    CHECK(head != NULL);
    static const char *const texts[] = {"lora:rank=2", "lora:rank=2,train=none",
                                        "lora:rank=2,layers=*"};
    for (int i = 0; i < 3; i++) {
        hr_graph *to = with(net, texts[i]);
        const hr_value w = hr_graph_find(to, head);
        CHECK_EQ(hri_graph_tags(to, w)->frozen, i > 0);
        CHECK_EQ(hri_lora_find(to, head, HRI_LORA_A) != HR_NONE, i == 2);
        hr_graph_destroy(to);
    }
    hr_graph_destroy(g);
}

TEST(lora, what_no_layer_matches_is_refused_with_those_there_are) {
    hr_graph *g = with("gpt2-nano", "lora:layers=nothing");
    CHECK_EQ(g->error.code, HR_E_INVALID);
    CHECK(strstr(g->error.message, "nothing") && strstr(g->error.message, "h.0.attn.c_attn"));
    hr_graph_destroy(g);
    g = with("gpt2-nano", "lora:layers=wte"); /* a table that is the head, too */
    CHECK_EQ(g->error.code, HR_E_INVALID);
    hr_graph_destroy(g);
    g = with("unet:size=32", "lora");
    CHECK_EQ(g->error.code, HR_E_INVALID);
    CHECK(strstr(g->error.message, "no linear layer"));
    hr_graph_destroy(g);
}

/* The loss of the model's own evaluation, with these passes or none. */
static float loss_of(const char *passes) {
    hr_model *m;
    hr_graph *g;
    hri_interp *it;
    hri_passes p;
    float loss;
    hr_train_options o = {.size = sizeof o};
    CHECK_OK(hr_train_options_parse("", &o, NULL));
    CHECK_OK(hr_model_open("gpt2-nano", &m, NULL));
    CHECK_OK(hri_passes_parse(passes, &p, NULL));
    const hri_objective objective = {.build = hr_model_build, .user = m, .passes = &p};
    CHECK_OK(hr_step_build(&o, hri_objective_build, (void *)(uintptr_t)&objective, HR_STEP_EVALUATE,
                           2, &g, NULL));
    CHECK_OK(hri_interp_create(g, NULL, 7, &it));
    int32_t tokens[2 * 32];
    for (int i = 0; i < 64; i++) {
        tokens[i] = i * 37 % 128;
    }
    memcpy(hri_interp_data(it, hr_graph_find(g, "tokens")), tokens, sizeof tokens);
    memcpy(hri_interp_data(it, hr_graph_find(g, "label")), tokens, sizeof tokens);
    CHECK_OK(hri_interp_run(it, 0, NULL));
    memcpy(&loss, hri_interp_data(it, hr_graph_find(g, "loss")), sizeof loss);
    hri_interp_destroy(it);
    hr_graph_destroy(g);
    hri_passes_deinit(&p);
    hr_model_close(m);
    return loss;
}

TEST(lora, adapters_begin_as_nothing) {
    const float own = loss_of(NULL), adapted = loss_of("lora:rank=4,alpha=32");
    CHECK(isfinite(own) && memcmp(&own, &adapted, sizeof own) == 0);
}

/* No gradient, no state and no sum of what is frozen is in the graph of a step. */
TEST(lora, what_is_frozen_has_neither_gradients_nor_states) {
    hr_model *m;
    hri_passes p;
    hr_train_options o = {.size = sizeof o};
    CHECK_OK(hr_train_options_parse("optimizer=adamw,clip=1", &o, NULL));
    CHECK_OK(hr_model_open("gpt2-nano", &m, NULL));
    CHECK_OK(hri_passes_parse("lora:rank=4", &p, NULL));
    const hri_objective objective = {.build = hr_model_build, .user = m, .passes = &p};
    for (int kind = HR_STEP_WHOLE; kind <= HR_STEP_LAST; kind++) {
        hr_graph *g;
        CHECK_OK(hr_step_build(&o, hri_objective_build, (void *)(uintptr_t)&objective,
                               (hr_step_kind)kind, 2, &g, NULL));
        size_t states = 0, updates = 0;
        for (hr_value v = 1; v < g->value_count; v++) {
            const hri_value *value = &g->values[v];
            if (value->kind == HR_VALUE_STATE) {
                CHECK(strstr(value->name, ".lora_") != NULL);
                states++;
            }
        }
        for (uint32_t i = 0; i < g->node_count; i++) {
            updates += !strcmp(g->nodes[i].sig.op->name, "adamw");
        }
        CHECK_EQ(updates, kind == HR_STEP_PART ? 0 : 16);
        CHECK_EQ(states, kind == HR_STEP_WHOLE ? 32 : kind == HR_STEP_PART ? 16 : 48);
        hr_graph_destroy(g);
    }
    hri_passes_deinit(&p);
    hr_model_close(m);
}
