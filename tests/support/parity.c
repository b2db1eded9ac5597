/* See parity.h. */
#include "parity.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "test.h"
#include "weights/tensor_move.h"

enum { WEIGHT_NODE = 0x7fffff40 };

static uint64_t fnv1a(const char *text) {
    uint64_t h = 0xcbf29ce484222325u;
    for (; *text; text++) {
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    }
    return h;
}

/* Where element `i` of the file, (O, C, KH, KW) for convolutions, lies in memory, (KH, KW, C, O). */
static int64_t index_in_memory(const hr_shape *memory, int64_t i) {
    if (memory->rank != 4) {
        return i;
    }
    const int64_t kw = memory->dim[1], kh = memory->dim[0], c = memory->dim[2], o = memory->dim[3];
    const int64_t s = i % kw, r = i / kw % kh, k = i / kw / kh % c;
    return ((r * kw + s) * c + k) * o + i / kw / kh / c;
}

/* One parameter by the rule of the script; `i` counts in the layout of files. */
void parity_weight(const char *name, const hr_shape *shape, float *out) {
    const uint64_t key = fnv1a(name);
    const hr_shape file = hri_file_shape(shape, shape->rank == 4 ? HR_LAYOUT_CONV : HR_LAYOUT_SAME);
    const int64_t count = hr_shape_count(shape);
    const size_t length = strlen(name);
    const int gain = length >= 6 && !strcmp(name + length - 6, "weight");
    const float scale = (float)(1.0 / sqrt((double)(count / file.dim[0])));
    for (int64_t i = 0; i < count; i++) {
        const uint32_t word = hri_random_u32_of(key, 0, WEIGHT_NODE, 0, (uint64_t)i);
        const float u = (float)(word >> 8) * 0x1p-23f - 1.0f;
        float x = shape->rank > 1 ? u * scale : u / 8.0f;
        x = shape->rank == 1 && gain ? 1.0f + x : x;
        out[index_in_memory(shape, i)] = x;
    }
}

json_t *parity_load(const char *root, const char *name) {
    char path[512];
    json_t *record;
    hri_prose why = {""};
    snprintf(path, sizeof path, "%s/tests/e2e/parity/%s.json", root, name);
    if (hri_json_load(path, NULL, &record, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.text);
    }
    return record;
}

const char *parity_text(const json_t *object, const char *key) {
    const char *text = NULL;
    CHECK_OK(hri_json_get_string(object, key, &text, NULL));
    return text;
}

uint64_t parity_number(const json_t *object, const char *key) {
    uint64_t number = 0;
    CHECK_OK(hri_json_get_u64(object, key, &number, NULL));
    return number;
}

void parity_compare(const json_t *run, const float *losses, size_t steps) {
    const char *options = parity_text(run, "options");
    const double most = strstr(options, "precision=bf16") ? 2e-2 : 1e-4;
    const json_t *wanted = json_object_get(run, "losses");
    double worst = 0.0;
    CHECK_EQ(json_array_size(wanted), steps);
    for (size_t s = 0; s < steps; s++) {
        const double theirs = json_number_value(json_array_get(wanted, s));
        const double apart = fabs((double)losses[s] - theirs) / theirs;
        if (!(apart <= most)) {
            test_fail(__FILE__, __LINE__,
                      "%s, step %zu: the loss is %.7f and PyTorch's %.7f, %.1e apart", options, s,
                      (double)losses[s], theirs, apart);
        }
        worst = apart > worst ? apart : worst;
    }
    printf("    %s: at most %.1e apart\n", options, worst);
}
