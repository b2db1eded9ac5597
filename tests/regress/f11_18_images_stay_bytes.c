/* Issue 11, number 18: images crossed to the device as f32, normalised on the host.  They are bytes until they are there,
 * and the first op of the graph normalises them, to the bits that the pipeline's stage gives. */
#include <string.h>

#include "graph/graph.h"
#include "program.h"
#include "test.h"
#include "step/objective.h"
#include "loop/source.h"

static const hr_graph *build(const char *model, const char *data, const char *options,
                             hr_step_kind kind, hr_graph **out) {
    hr_model *m;
    hri_model_input want;
    hri_source s;
    hri_prose why = {""};
    hr_error error = {0};
    hr_train_options o = {.size = sizeof o};
    CHECK_OK(hr_model_open(model, &m, &error));
    CHECK_OK(hri_model_input_of(m, &want, &why));
    CHECK_OK(hri_source_look(data, &want, &s, &why));
    hri_objective objective = {.build = hr_model_build, .user = m};
    hri_source_pixels(&s, &want, &objective.pixels);
    objective.eval_pixels = objective.pixels;
    CHECK_OK(hr_train_options_parse(options, &o, &error));
    CHECK_OK(hr_step_build(&o, hri_objective_build, &objective, kind, 4, out, &error));
    hri_source_deinit(&s);
    hr_model_close(m);
    return *out;
}

static uint32_t count_live(const hr_graph *g, const char *op, int32_t type) {
    uint32_t count = 0;
    for (uint32_t n = 0; n < g->node_count; n++) {
        const hri_node_record *node = &g->nodes[n];
        count += node->live && !strcmp(node->sig.op->name, op) &&
                 (!node->sig.out_count || node->sig.out[0].type == type);
    }
    return count;
}

TEST(f11_18, the_graph_takes_bytes_in_training_and_evaluation) {
    static const hr_step_kind kinds[] = {HR_STEP_WHOLE, HR_STEP_EVALUATE};
    for (int i = 0; i < 2; i++) {
        hr_graph *g;
        build("resnet18:size=32", "synthetic:64", "precision=f32", kinds[i], &g);
        CHECK_EQ(hr_graph_meta(g, hr_graph_find(g, "image")).type, HR_TYPE_U8);
        CHECK_EQ(count_live(g, "normalise", HR_TYPE_F32), 1);
        hr_graph_destroy(g);
    }
}

TEST(f11_18, bytes_become_small_numbers_in_one_pass) {
    hr_graph *g;
    build("resnet18:size=32", "synthetic:64", "precision=bf16", HR_STEP_WHOLE, &g);
    CHECK_EQ(count_live(g, "normalise", HR_TYPE_BF16), 1);
    CHECK_EQ(count_live(g, "normalise", HR_TYPE_F32), 0); /* nobody makes the f32 ones */
    hr_graph_destroy(g);
}

TEST(f11_18, data_that_is_real_stays_the_users_business) {
    hr_graph *g;
    build("resnet18:size=32", "synthetic:64,type=f32", "", HR_STEP_WHOLE, &g);
    CHECK_EQ(hr_graph_meta(g, hr_graph_find(g, "image")).type, HR_TYPE_F32);
    CHECK_EQ(count_live(g, "normalise", HR_TYPE_F32), 0);
    hr_graph_destroy(g);
}

/* The graph's op and the user's stage give one history, whatever the precision. */
TEST_TIMEOUT(f11_18, op_and_stage_give_the_same_bits, 120) {
    static const char *const precisions[] = {"f32", "bf16", "f16"};
    for (size_t i = 0; i < sizeof precisions / sizeof precisions[0]; i++) {
        const char *rest = "--batch 8 --steps 3 --seed 1 --no-save --threads 2 --json";
        program_outcome op = program_run(
            NULL, "train lenet:channels=3 --data synthetic:48,shape=28x28x3 --precision %s %s",
            precisions[i], rest);
        program_outcome stage = program_run(
            NULL,
            "train lenet:channels=3 --data 'synthetic:48,shape=28x28x3,classes=10 | "
            "shuffle(seed=1) | normalise(mean=0.485,0.456,0.406,std=0.229,0.224,0.225)' "
            "--precision %s %s",
            precisions[i], rest);
        program_expect(&op, 0, NULL);
        program_expect(&stage, 0, NULL);
        CHECK_STR(program_text(&op, "history"), program_text(&stage, "history"));
        program_end(&op);
        program_end(&stage);
    }
}
