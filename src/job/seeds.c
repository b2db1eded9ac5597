/* Reading seeds; see seeds.h. */
#include "job/seeds.h"

#include "base/options.h"

typedef struct options {
    int64_t data, init, dropout, augment; /* INT64_MIN: not named */
} options;

#define SEED(NAME, HELP)                                                                           \
    {                                                                                              \
#NAME, HELP, offsetof(options, NAME), HRI_FIELD_INT, "auto", .min = 0, .max = 1e15,        \
                                                                     .word = "auto"                \
    }

static const hri_field fields[] = {SEED(data, "order of samples, and which of them validate"),
                                   SEED(init, "first parameters"),
                                   SEED(dropout, "random ops of the model"),
                                   SEED(augment, "augmentation and mixing of samples"),
                                   {0}};

static uint64_t seed_of(int64_t given, uint64_t seed) {
    return given < 0 ? seed : (uint64_t)given;
}

hr_status hri_seeds_parse(const char *text, uint64_t seed, hri_seeds *out, hri_prose *why) {
    options given;
    hri_options o = {0};
    hr_status status = hri_options_init(&o, fields, &given, why);
    if (status == HR_OK && text) {
        status = hri_options_set_text(&o, text, why);
    }
    if (status == HR_OK) {
        *out = (hri_seeds){seed_of(given.data, seed), seed_of(given.init, seed),
                           seed_of(given.dropout, seed), seed_of(given.augment, seed)};
    }
    hri_options_deinit(&o);
    return status;
}
