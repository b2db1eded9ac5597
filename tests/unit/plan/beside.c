/* Gradients that write again what their op made: `beside` of problem.h. */
#include <string.h>

#include "base/alloc.h"
#include "plan/problem.h"
#include "test.h"

/* Forward: x = M(in), y = F(x), z = N(y).  Backward: dz from z, dy from dz; W reads y and dz, G reads x and dy.  G has F
 * beside it. */
enum { IN, X, Y, Z, DZ, DY, DW, DX, VALUES };
enum { M, F, N, LOSS, DGRAD, W, G, OPS };

static void small(hri_problem *p) {
    static const char *const names[] = {"in", "x", "y", "z", "dz", "dy", "dw", "dx"};
    static const struct {
        uint32_t in[2], in_count, out;
        uint8_t phase;
    } ops[OPS] = {
        {{IN}, 1, X, HRI_PROBLEM_FORWARD},      {{X}, 1, Y, HRI_PROBLEM_FORWARD},
        {{Y}, 1, Z, HRI_PROBLEM_FORWARD},       {{Z}, 1, DZ, HRI_PROBLEM_BACKWARD},
        {{DZ}, 1, DY, HRI_PROBLEM_BACKWARD},    {{Y, DZ}, 2, DW, HRI_PROBLEM_BACKWARD},
        {{X, DY}, 2, DX, HRI_PROBLEM_BACKWARD},
    };
    const hri_problem_variant one = {"", 10, 0};
    uint32_t number;
    hri_problem_init(p, 4);
    for (uint32_t v = 0; v < VALUES; v++) {
        const hri_problem_value value = {.name = names[v],
                                         .bytes = v == DW ? 4 : 100,
                                         .role = v == IN ? HRI_ROLE_INPUT : HRI_ROLE_MADE,
                                         .result = v == DW || v == DX};
        CHECK_OK(hri_problem_add_value(p, &value, &number));
    }
    for (uint32_t n = 0; n < OPS; n++) {
        const hri_problem_output out = {.value = ops[n].out, .overwrite = n == G ? 2 : 0};
        const hri_problem_op op = {.name = names[ops[n].out],
                                   .phase = ops[n].phase,
                                   .beside = n == G ? F + 1 : 0,
                                   .beside_share = n == G ? 0.5 : 0,
                                   .in_count = ops[n].in_count,
                                   .in = ops[n].in,
                                   .out_count = 1,
                                   .out = &out,
                                   .variant_count = 1,
                                   .variants = &one};
        CHECK_OK(hri_problem_add_op(p, &op, &number));
    }
    CHECK_OK(hri_problem_finish(p, NULL));
}

TEST(beside, is_written_and_read_and_counts_in_the_hash) {
    hri_problem p, q;
    char *text;
    small(&p);
    CHECK(hri_problem_has_beside(&p) && hri_problem_beside(&p, G) == F);
    CHECK_EQ(hri_problem_beside(&p, W), HRI_PROBLEM_NONE);
    CHECK_OK(hri_problem_print(&p, &text));
    CHECK_OK(hri_problem_parse(text, strlen(text), &q, NULL));
    CHECK(q.ops[G].beside == F + 1 && q.ops[G].beside_share == 0.5 && q.hash == p.hash);
    p.ops[G].beside_share = 0.25;
    CHECK_OK(hri_problem_finish(&p, NULL));
    CHECK(p.hash != q.hash);
    p.ops[G].beside = 0;
    CHECK_OK(hri_problem_finish(&p, NULL));
    CHECK(p.hash != q.hash && !hri_problem_has_beside(&p));
    hri_free(text);
    hri_problem_deinit(&p);
    hri_problem_deinit(&q);
}

TEST(beside, must_be_an_op_before_that_may_run_again_and_is_not_read) {
    hri_problem p;
    hri_prose why = {{0}};
    small(&p);
    p.ops[G].beside_share = 1.5;
    CHECK_STATUS(hri_problem_finish(&p, &why), HR_E_RANGE);
    CHECK(strstr(why.text, "beside_share"));
    p.ops[G].beside_share = 1;
    CHECK_OK(hri_problem_finish(&p, NULL));
    p.ops[F].once = 1;
    CHECK_STATUS(hri_problem_finish(&p, NULL), HR_E_INVALID);
    p.ops[F].once = 0;
    p.ops[G].beside = G + 1; /* itself */
    CHECK_STATUS(hri_problem_finish(&p, &why), HR_E_INVALID);
    CHECK(strstr(why.text, "before it"));
    p.ops[G].beside = M + 1; /* it reads x */
    CHECK_STATUS(hri_problem_finish(&p, &why), HR_E_INVALID);
    CHECK(strstr(why.text, "is not read"));
    hri_problem_deinit(&p);
}

TEST(beside, of_a_file_is_the_index_of_an_op_before) {
    static const char text[] =
        "{\"headroom\": \"problem\", \"version\": 1, \"values\": [{\"bytes\": 4}, {\"bytes\": 4}], "
        "\"ops\": [{\"out\": [0]}, {\"out\": [1], \"beside_op\": 1}]}";
    hri_problem p;
    hri_prose why = {{0}};
    CHECK_STATUS(hri_problem_parse(text, sizeof text - 1, &p, &why), HR_E_FORMAT);
    CHECK(strstr(why.text, "op 1: beside_op"));
}
