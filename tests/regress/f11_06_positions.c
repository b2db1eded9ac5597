/* gpt2 could not run on samples shorter than its table of positions: a Hugging Face file with 1,024 positions, tokens of
 * 512. */
#include <headroom/headroom.h>

#include <string.h>

#include "pictures.h"
#include "program.h"
#include "test.h"
#include "loop/run.h"

enum { STEPS = 4, WIDTH = 32, LONG = 20, SHORT = 8 };

typedef struct watch {
    hr_model *m;
    float before[LONG * WIDTH], after[LONG * WIDTH];
} watch;

static hr_status build(void *user, hr_graph *g, int64_t batch, int training) {
    return hr_model_build(((watch *)user)->m, g, batch, training);
}

static void copy_table(const hr_graph *g, hri_interp *it, float *to) {
    const hr_value v = hr_graph_find(g, "wpe.weight");
    const hr_meta meta = hr_graph_meta(g, v);
    memcpy(to, hri_interp_data(it, v), hr_meta_bytes(&meta));
}

static hr_status begin(void *user, const hr_graph *g, hri_interp *it) {
    copy_table(g, it, ((watch *)user)->before);
    return HR_OK;
}

static hr_status end(void *user, const hr_graph *g, hri_interp *it) {
    copy_table(g, it, ((watch *)user)->after);
    return HR_OK;
}

static watch train(const char *model, const char *options, int64_t part, float *losses) {
    static watch w;
    hri_interp_job job = {.build = build,
                          .user = &w,
                          .batch = 4,
                          .part = part,
                          .steps = STEPS,
                          .seed = 9,
                          .limit = 128,
                          .begin = begin,
                          .end = end};
    CHECK_OK(hr_model_open(model, &w.m, NULL));
    job.options.size = sizeof job.options;
    CHECK_OK(hr_train_options_parse(options, &job.options, NULL));
    CHECK_OK(hri_train_run(&job, losses, NULL));
    hr_model_close(w.m);
    return w;
}

TEST(f11_06, a_longer_table_of_positions_changes_nothing_and_keeps_its_other_rows) {
    static const char *const options[] = {"rate=0.1", "optimizer=adam", "rate=0.1,precision=bf16",
                                          "rate=0.1,clip=0.1"};
    for (size_t i = 0; i < 4; i++) {
        for (int64_t part = 0; part < 3; part++) {
            float a[STEPS], b[STEPS];
            const watch own = train("gpt2-nano:context=8", options[i], part, a);
            const watch more = train("gpt2-nano:context=8,positions=20", options[i], part, b);
            const size_t used = SHORT * WIDTH, rest = (LONG - SHORT) * WIDTH;
            CHECK(!memcmp(a, b, sizeof a));
            CHECK(!memcmp(own.after, more.after, used * sizeof(float)));
            CHECK(memcmp(more.before, more.after, used * sizeof(float)) != 0);
            CHECK(!memcmp(more.before + used, more.after + used, rest * sizeof(float)));
        }
    }
}

TEST(f11_06, a_table_that_is_too_short_is_refused) {
    hr_model *m;
    hr_error why = {0};
    CHECK_STATUS(hr_model_open("gpt2-nano:context=8,positions=7", &m, &why), HR_E_INVALID);
    CHECK(strstr(why.message, "positions") && strstr(why.message, "8"));
    CHECK_OK(hr_model_open("gpt2-nano:context=8,positions=8", &m, NULL));
    hr_model_close(m);
}

TEST_TIMEOUT(f11_06, a_file_with_more_positions_is_trained_on_and_written_whole, 120) {
    uint16_t tokens[2000];
    for (int i = 0; i < 2000; i++) {
        tokens[i] = (uint16_t)(i * i % 61);
    }
    test_write(test_folder(), "tokens.bin", tokens, sizeof tokens);
    program_outcome r = program_run(NULL, "train gpt2-nano --data tokens:tokens.bin --batch 4 "
                                          "--steps 3 --out long --json");
    program_expect(&r, 0, NULL);
    program_end(&r);
    r = program_run(NULL, "train gpt2-nano:context=12 --data tokens:tokens.bin --batch 4 --steps 3 "
                          "--init long/last.safetensors --no-save");
    program_expect(&r, 2, "wpe.weight");
    program_end(&r);
    double losses[2];
    for (int i = 0; i < 2; i++) {
        r = program_run(
            NULL,
            "train gpt2-nano:context=12,positions=32 --data tokens:tokens.bin --batch 4 "
            "--steps 6 --optimizer adamw --init long/last.safetensors --out short%d "
            "%s --json",
            i, i ? "--micro-batches 4" : "");
        program_expect(&r, 0, NULL);
        losses[i] = program_number(&r, "loss");
        program_end(&r);
    }
    CHECK(losses[0] > 0 && losses[0] - losses[1] < 1e-4 && losses[1] - losses[0] < 1e-4);
    r = program_run(NULL, "eval short0 --data tokens:tokens.bin --json");
    program_expect(&r, 0, NULL);
    program_end(&r);
    r = program_run(NULL, "train gpt2-nano --data tokens:tokens.bin --batch 4 --steps 1 --no-save "
                          "--init short0/last.safetensors --json");
    program_expect(&r, 0, NULL); /* all 32 positions are in it */
    program_end(&r);
}
