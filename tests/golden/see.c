/* What models and summary say, and that their sums are those of a plan. */
#include "golden.h"

#include <jansson.h>
#include <string.h>

static json_t *parse(const golden_result *r) {
    json_error_t error;
    json_t *root = json_loadb(r->out, r->out_bytes, JSON_REJECT_DUPLICATES, &error);
    CHECK(root);
    CHECK_EQ(json_integer_value(json_object_get(root, "version")), 1);
    return root;
}

static long long number(const json_t *root, const char *key) {
    const json_t *value = json_object_get(root, key);
    CHECK(json_is_integer(value));
    return (long long)json_integer_value(value);
}

TEST(see, models_are_listed_with_parameters_and_keys) {
    const golden_result all = GOLDEN_RUN("models");
    CHECK_EQ(all.code, 0);
    CHECK(strstr(all.out, "resnet50") && strstr(all.out, "25.6 M"));
    const golden_result one = GOLDEN_RUN("models mlp");
    CHECK_EQ(one.code, 0);
    CHECK(strstr(one.out, "dropout"));
    const golden_result none = GOLDEN_RUN("models resnet51");
    CHECK_EQ(none.code, 2);
    CHECK(strstr(none.err, "resnet5"));
}

TEST(see, summary_sums_are_those_of_the_plan) {
    static const char *const models[] = {"resnet18:size=32,width=8", "gpt2-nano", "unet:size=32"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        char command[256];
        snprintf(command, sizeof command, "summary %s --batch 4 --json", models[i]);
        const golden_result s = GOLDEN_RUN(command);
        CHECK_EQ(s.code, 0);
        snprintf(command, sizeof command,
                 "plan %s --batch 4 --json --no-choices --no-measure --device null:9GiB",
                 models[i]);
        const golden_result p = GOLDEN_RUN(command);
        CHECK_EQ(p.code, 0);
        json_t *summary = parse(&s), *plan = parse(&p);
        const json_t *parts = json_object_get(plan, "parts");
        CHECK_EQ(number(summary, "parameter_bytes"), number(parts, "weights"));
        CHECK_EQ(number(summary, "state_bytes"), number(parts, "states"));
        long long parameters = 0, kept = 0;
        size_t k;
        json_t *layer;
        json_array_foreach(json_object_get(summary, "layers"), k, layer) {
            parameters += number(layer, "parameters");
            kept += number(layer, "kept_bytes");
        }
        CHECK(k > 3 && kept > 0);
        CHECK_EQ(parameters, number(summary, "parameters"));
        CHECK_EQ(kept, number(summary, "kept_bytes"));
        /* Everything kept is alive when the backward pass begins. */
        CHECK(kept + number(parts, "weights") <= number(plan, "unplanned_peak_bytes"));
        json_decref(summary);
        json_decref(plan);
    }
}

TEST(see, summary_of_nothing_is_refused) {
    const golden_result r = GOLDEN_RUN("summary resnet51");
    CHECK_EQ(r.code, 2);
    CHECK(strstr(r.err, "resnet51") && strstr(r.err, "resnet50"));
    CHECK_EQ(GOLDEN_RUN("summary").code, 2);
    CHECK_EQ(GOLDEN_RUN("summary mlp --options optimizer=none").code, 2);
}
