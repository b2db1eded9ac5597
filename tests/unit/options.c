/* The option table: every type from every source, all or nothing, and a sentence for each refusal. */
#include "test.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/options.h"

static const char *const precisions[] = {"f32", "bf16", "f16", NULL};

typedef struct settings {
    int64_t batch;
    double rate;
    bool verbose, recompute;
    const char *device, *budget;
    uint64_t cache_bytes;
    int precision;
    hri_list mean;
    hri_dims shape;
} settings;

static const hri_field fields[] = {
    {"batch", "samples per step", offsetof(settings, batch), HRI_FIELD_INT, "32", .min = 1,
     .max = 1e9, .env = "HEADROOM_TEST_BATCH", .letter = 'n'},
    {"rate", "learning rate", offsetof(settings, rate), HRI_FIELD_DOUBLE, "0.1", .min = 0,
     .max = 10},
    {"verbose", "say more", offsetof(settings, verbose), HRI_FIELD_BOOL, "false", .letter = 'v'},
    {"recompute", "drop what can be computed again", offsetof(settings, recompute), HRI_FIELD_BOOL,
     "true"},
    {"device", "where to run", offsetof(settings, device), HRI_FIELD_STRING, NULL,
     .env = "HEADROOM_TEST_DEVICE", .letter = 'd'},
    {"budget", "the bound on the measured peak", offsetof(settings, budget), HRI_FIELD_SIZE, NULL},
    {"cache-size", "memory of the input cache", offsetof(settings, cache_bytes), HRI_FIELD_BYTES,
     "1GiB", .min = 4096, .max = 0x1p40},
    {"precision", "type of the numbers", offsetof(settings, precision), HRI_FIELD_ENUM, "f32",
     .choices = precisions},
    {"mean", "of each channel", offsetof(settings, mean), HRI_FIELD_LIST, NULL, .min = 1, .max = 3},
    {"shape", "of the input", offsetof(settings, shape), HRI_FIELD_DIMS, "2x3"},
    {0},
};

typedef struct fixture {
    settings s;
    hri_options o;
    hri_prose why;
} fixture;

static void start(fixture *f) {
    memset(f, 0, sizeof *f);
    CHECK_OK(hri_options_init(&f->o, fields, &f->s, &f->why));
}

static void check_refused(fixture *f, hr_status is, hr_status wanted, const char *sentence) {
    CHECK_STATUS(is, wanted);
    CHECK_STR(f->why.text, sentence);
}

static hr_status set(fixture *f, const char *name, const char *text) {
    return hri_options_set(&f->o, name, text, HRI_ORIGIN_CODE, &f->why);
}

static const char *value_of(fixture *f, const char *name) {
    static char buf[128];
    const hri_field *field = hri_options_field(&f->o, name);
    CHECK(field);
    CHECK_EQ(hri_options_print(&f->o, field, buf, sizeof buf), strlen(buf));
    return buf;
}

TEST(options, defaults_are_set_and_known_as_such) {
    fixture f;
    start(&f);
    CHECK(f.s.batch == 32 && f.s.rate == 0.1 && !f.s.verbose && f.s.recompute && !f.s.device);
    CHECK(!f.s.budget && f.s.cache_bytes == 1 << 30 && f.s.precision == 0 && f.s.mean.count == 0);
    CHECK(f.s.shape.count == 2 && f.s.shape.at[1] == 3);
    for (size_t i = 0; i < f.o.count; i++) {
        CHECK_EQ(hri_options_origin(&f.o, &fields[i]), HRI_ORIGIN_DEFAULT);
    }
    CHECK_STR(hri_origin_name(HRI_ORIGIN_DEFAULT), "default");
    hri_options_deinit(&f.o);
    hri_options_deinit(&f.o);
}

TEST(options, every_type_is_set_and_printed_back) {
    fixture f;
    start(&f);
    static const char *const pairs[][2] = {
        {"batch", "7"},
        {"rate", "0.001"},
        {"verbose", "true"},
        {"recompute", "false"},
        {"device", "cuda:0,x\\"},
        {"budget", "75%"},
        {"cache-size", "1536MiB"},
        {"precision", "bf16"},
        {"mean", "a,b\\,c,d\\\\"},
        {"shape", "1x-2x3"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        CHECK_OK(set(&f, pairs[i][0], pairs[i][1]));
        CHECK_STR(value_of(&f, pairs[i][0]), pairs[i][1]);
        CHECK_EQ(hri_options_origin(&f.o, hri_options_field(&f.o, pairs[i][0])), HRI_ORIGIN_CODE);
    }
    CHECK(f.s.batch == 7 && f.s.rate == 0.001 && f.s.verbose && !f.s.recompute);
    CHECK(f.s.cache_bytes == (uint64_t)1536 << 20 && f.s.precision == 1 && f.s.mean.count == 3);
    CHECK_STR(f.s.mean.items[1], "b,c");
    CHECK_STR(f.s.mean.items[2], "d\\");
    CHECK(f.s.shape.count == 3 && f.s.shape.at[1] == -2);
    CHECK_OK(set(&f, "shape", ""));
    CHECK_EQ(f.s.shape.count, 0);
    CHECK_OK(set(&f, "cache_size", "4097"));
    CHECK_STR(value_of(&f, "cache-size"), "4097");
    CHECK_OK(set(&f, "precision", "F16"));
    CHECK_EQ(f.s.precision, 2);
    hri_options_deinit(&f.o);
}

TEST(options, a_refusal_is_a_sentence_and_changes_nothing) {
    fixture f;
    start(&f);
    const settings before = f.s;
    check_refused(&f, set(&f, "batch", "0"), HR_E_RANGE, "batch: 0 is below 1");
    check_refused(&f, set(&f, "batch", "1000000001"), HR_E_RANGE,
                  "batch: 1000000001 is above 1000000000");
    check_refused(&f, set(&f, "batch", "12x"), HR_E_INVALID, "batch: \"12x\" is not an integer");
    check_refused(&f, set(&f, "batch", ""), HR_E_INVALID, "batch: \"\" is not an integer");
    check_refused(&f, set(&f, "batch", " 1"), HR_E_INVALID, "batch: \" 1\" is not an integer");
    check_refused(&f, set(&f, "batch", "99999999999999999999"), HR_E_RANGE,
                  "batch: 99999999999999999999 does not fit in 64 bits");
    check_refused(&f, set(&f, "rate", "fast"), HR_E_INVALID, "rate: \"fast\" is not a number");
    check_refused(&f, set(&f, "rate", "nan"), HR_E_INVALID, "rate: \"nan\" is not a number");
    check_refused(&f, set(&f, "rate", "-1e-9"), HR_E_RANGE, "rate: -1e-09 is below 0");
    check_refused(&f, set(&f, "rate", "1e999"), HR_E_RANGE, "rate: 1e999 is too large");
    check_refused(&f, set(&f, "verbose", "maybe"), HR_E_INVALID,
                  "verbose: \"maybe\" is not true or false");
    check_refused(&f, set(&f, "cache-size", "1k"), HR_E_RANGE, "cache-size: 1 KiB is below 4 KiB");
    check_refused(&f, set(&f, "cache-size", "50%"), HR_E_INVALID,
                  "cache-size: \"50%\" is not a size such as 1536MiB or 8GiB");
    check_refused(&f, set(&f, "budget", "lots"), HR_E_INVALID,
                  "budget: \"lots\" is not a size such as 8GiB or 75%");
    check_refused(&f, set(&f, "precision", "f23"), HR_E_INVALID,
                  "precision: \"f23\" is not one of f32, bf16, f16; did you mean \"f32\"?");
    check_refused(&f, set(&f, "precision", "double"), HR_E_INVALID,
                  "precision: \"double\" is not one of f32, bf16, f16");
    check_refused(&f, set(&f, "mean", "1,2,3,4"), HR_E_RANGE, "mean: 4 items are above 3 items");
    check_refused(&f, set(&f, "mean", "1,,2"), HR_E_INVALID, "mean: \"1,,2\" has an empty item");
    check_refused(&f, set(&f, "shape", "1x2x3x4x5x6x7x8x9"), HR_E_RANGE,
                  "shape: \"1x2x3x4x5x6x7x8x9\" has more than 8 numbers");
    check_refused(&f, set(&f, "shape", "3x"), HR_E_INVALID,
                  "shape: \"3x\" is not a list of integers joined by x");
    check_refused(&f, set(&f, "btach", "3"), HR_E_NOT_FOUND,
                  "unknown option btach; did you mean batch?");
    CHECK_STATUS(hri_options_set(&f.o, "zzz", "3", HRI_ORIGIN_CODE, NULL), HR_E_NOT_FOUND);
    CHECK(!memcmp(&before, &f.s, sizeof before));
    hri_options_deinit(&f.o);
}

TEST(options, key_value_text_sets_all_or_nothing) {
    fixture f;
    start(&f);
    CHECK_OK(hri_options_set_text(&f.o, "batch=4,verbose,mean=0.1,0.2,device=a\\,b=c", &f.why));
    CHECK(f.s.batch == 4 && f.s.verbose && f.s.mean.count == 2);
    CHECK_STR(f.s.mean.items[1], "0.2");
    CHECK_STR(f.s.device, "a,b=c");
    CHECK_EQ(hri_options_origin(&f.o, &fields[0]), HRI_ORIGIN_TEXT);
    CHECK_EQ(hri_options_origin(&f.o, &fields[1]), HRI_ORIGIN_DEFAULT);
    CHECK_OK(hri_options_set_text(&f.o, "", &f.why));
    const settings before = f.s;
    check_refused(&f, hri_options_set_text(&f.o, "batch=9,rate=99", &f.why), HR_E_RANGE,
                  "rate: 99 is above 10");
    check_refused(&f, hri_options_set_text(&f.o, "batch=9,batch=8", &f.why), HR_E_INVALID,
                  "batch is given twice");
    check_refused(&f, hri_options_set_text(&f.o, "batch", &f.why), HR_E_INVALID,
                  "batch: missing value (batch=...)");
    check_refused(&f, hri_options_set_text(&f.o, "batch=9,", &f.why), HR_E_INVALID,
                  "\"batch=9,\" has an empty item");
    check_refused(&f, hri_options_set_text(&f.o, "batch=9,sape=3", &f.why), HR_E_NOT_FOUND,
                  "unknown option sape; did you mean shape?");
    check_refused(&f, hri_options_set_text(&f.o, "mean=1,2,3,4,batch=2", &f.why), HR_E_RANGE,
                  "mean: 4 items are above 3 items");
    CHECK(!memcmp(&before, &f.s, sizeof before));
    CHECK_STR(f.s.device, "a,b=c");
    hri_options_deinit(&f.o);
}

TEST(options, the_environment_is_read_and_named_in_errors) {
    fixture f;
    start(&f);
    setenv("HEADROOM_TEST_BATCH", "64", 1);
    setenv("HEADROOM_TEST_DEVICE", "", 1);
    CHECK_OK(hri_options_set_env(&f.o, &f.why));
    CHECK(f.s.batch == 64 && !f.s.device);
    CHECK_EQ(hri_options_origin(&f.o, &fields[0]), HRI_ORIGIN_ENV);
    setenv("HEADROOM_TEST_DEVICE", "host", 1);
    setenv("HEADROOM_TEST_BATCH", "-1", 1);
    check_refused(&f, hri_options_set_env(&f.o, &f.why), HR_E_RANGE,
                  "HEADROOM_TEST_BATCH: -1 is below 1");
    CHECK(f.s.batch == 64 && !f.s.device);
    hri_options_deinit(&f.o);
}

static hr_status argv(fixture *f, hri_list *rest, const char *line) {
    static char copy[256];
    static char *words[32];
    int count = 1;
    words[0] = copy;
    snprintf(copy, sizeof copy, "%s", line);
    char *save = NULL;
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        words[count++] = w;
    }
    return hri_options_set_argv(&f->o, count, words, rest, &f->why);
}

TEST(options, flags_are_read_and_the_rest_left) {
    fixture f;
    hri_list rest;
    start(&f);
    CHECK_OK(argv(&f, &rest,
                  "resnet50 --batch 8 --rate=0.5 --verbose --no-recompute -d host "
                  "--mean 1,2 --mean=3 data - -- --batch"));
    CHECK(f.s.batch == 8 && f.s.rate == 0.5 && f.s.verbose && !f.s.recompute);
    CHECK_STR(f.s.device, "host");
    CHECK_EQ(f.s.mean.count, 3);
    CHECK_STR(f.s.mean.items[2], "3");
    CHECK_EQ(rest.count, 4);
    CHECK_STR(rest.items[0], "resnet50");
    CHECK_STR(rest.items[1], "data");
    CHECK_STR(rest.items[2], "-");
    CHECK_STR(rest.items[3], "--batch");
    CHECK_EQ(hri_options_origin(&f.o, &fields[0]), HRI_ORIGIN_FLAG);
    CHECK_OK(argv(&f, &rest, "-vn3 --verbose=no --batch 2 -n 5 --rate 1e-1"));
    CHECK(f.s.batch == 5 && !f.s.verbose && rest.count == 0 && f.s.rate == 0.1);
    hri_options_deinit(&f.o);
}

TEST(options, wrong_flags_are_named_and_change_nothing) {
    fixture f;
    hri_list rest = {NULL, 99};
    start(&f);
    const settings before = f.s;
    check_refused(&f, argv(&f, &rest, "--batch 5 --bacth 3"), HR_E_NOT_FOUND,
                  "unknown flag --bacth; did you mean --batch?");
    check_refused(&f, argv(&f, &rest, "--batch 0"), HR_E_RANGE, "--batch: 0 is below 1");
    check_refused(&f, argv(&f, &rest, "-n 0"), HR_E_RANGE, "-n: 0 is below 1");
    check_refused(&f, argv(&f, &rest, "--batch"), HR_E_INVALID, "--batch: missing value");
    check_refused(&f, argv(&f, &rest, "--batch --verbose"), HR_E_INVALID, "--batch: missing value");
    check_refused(&f, argv(&f, &rest, "--no-verbose=1"), HR_E_INVALID,
                  "--no-verbose does not take a value");
    check_refused(&f, argv(&f, &rest, "--no-batch"), HR_E_NOT_FOUND,
                  "unknown flag --no-batch; did you mean --batch?");
    check_refused(&f, argv(&f, &rest, "-q"), HR_E_NOT_FOUND, "unknown flag -q");
    check_refused(&f, argv(&f, &rest, "--mean 1,2 --mean 3,4"), HR_E_RANGE,
                  "--mean: 4 items are above 3 items");
    check_refused(&f, argv(&f, &rest, "--=3"), HR_E_NOT_FOUND,
                  "unknown flag --; there are --batch, --rate, --verbose, --recompute, --device, "
                  "--budget, --cache-size, --precision, --mean, --shape");
    CHECK(!memcmp(&before, &f.s, sizeof before));
    CHECK_EQ(rest.count, 99);
    hri_options_deinit(&f.o);
}

TEST(options, a_wrong_default_is_a_bug) {
    static const hri_field wrong[] = {{"n", "a number", 0, HRI_FIELD_INT, "5", .min = 6, .max = 7},
                                      {0}};
    int64_t n = 3;
    hri_options o;
    hri_prose why;
    CHECK_STATUS(hri_options_init(&o, wrong, &n, &why), HR_E_INTERNAL);
    CHECK_STR(why.text, "n: 5 is below 6");
    CHECK_EQ(n, 3);
}

TEST(options, doubles_survive_the_way_through_text_in_any_locale) {
    fixture f;
    start(&f);
    setlocale(LC_ALL, "de_DE.UTF-8"); /* may not be there; then this is the C locale again */
    uint64_t state = test_seed();
    for (int i = 0; i < 2000; i++) {
        const double x = (double)(test_random(&state) >> 11) * 0x1p-53 * 10;
        f.s.rate = x;
        char text[64];
        snprintf(text, sizeof text, "%s", value_of(&f, "rate"));
        CHECK(!strchr(text, ','));
        CHECK_OK(set(&f, "rate", text));
        CHECK(f.s.rate == x);
    }
    hri_options_deinit(&f.o);
}

static int keep(void *user, const char *bytes, size_t count) {
    hri_text_bytes(user, bytes, count);
    return 0;
}

/* free() it. */
static char *page(void (*print)(hri_out *out)) {
    static hri_out out;
    hri_text text = {0};
    hri_out_init_sink(&out, keep, &text);
    print(&out);
    hri_out_flush(&out);
    char *copy = strdup(hri_text_get(&text));
    hri_text_deinit(&text);
    return copy;
}

static void print_help(hri_out *out) {
    hri_options_help(fields, 60, out);
}

static void print_reference(hri_out *out) {
    hri_options_reference(fields, out);
}

TEST(options, help_names_every_field_inside_the_width) {
    char *text = page(print_help);
    for (const hri_field *field = fields; field->name; field++) {
        CHECK(strstr(text, field->name));
    }
    CHECK(strstr(text, "  -n, --batch N           samples per step (default 32;\n"
                       "                          HEADROOM_TEST_BATCH)\n"));
    CHECK(strstr(text, "      --[no-]recompute    drop what can be computed again\n"));
    CHECK(strstr(text, "--precision f32|bf16|f16\n"));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        CHECK_LE(strlen(line), 60);
    }
    free(text);
}

TEST(options, reference_rows_have_five_cells) {
    char *text = page(print_reference);
    size_t rows = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), rows++) {
        int bars = 0;
        for (const char *p = line; *p; p++) {
            bars += *p == '|' && (p == line || p[-1] != '\\');
        }
        CHECK_EQ(bars, 6);
    }
    CHECK_EQ(rows, 2 + hri_fields_count(fields));
    free(text);
}

#ifdef HEADROOM_FAULTS
/* The whole life with the nth allocation refused; false when none was. */
static bool life_with_fault(uint64_t nth, int for_ever) {
    fixture f;
    hri_list rest;
    memset(&f, 0, sizeof f);
    hri_fault_set(HRI_FAULT_ALLOC, nth, for_ever);
    hr_status status = hri_options_init(&f.o, fields, &f.s, &f.why);
    if (status == HR_OK) {
        const settings before = f.s;
        status = hri_options_set_text(&f.o, "batch=4,mean=a,b,device=x", &f.why);
        CHECK(status == HR_OK || !memcmp(&before, &f.s, sizeof before));
    }
    if (status == HR_OK) {
        const settings before = f.s;
        status = argv(&f, &rest, "--mean 1 --mean 2 --device y rest");
        CHECK(status == HR_OK || !memcmp(&before, &f.s, sizeof before));
    }
    const bool delivered = hri_fault_delivered() > 0;
    hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
    CHECK_STATUS(status, delivered ? HR_E_NOMEM_HOST : HR_OK);
    CHECK(!delivered || strstr(f.why.text, "out of memory"));
    hri_options_deinit(&f.o);
    CHECK_EQ(hri_fault_live_allocs(), 0);
    return delivered;
}

TEST(options, refused_memory_is_a_status_and_changes_nothing) {
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        uint64_t nth = 1;
        while (life_with_fault(nth, for_ever)) {
            nth++;
        }
        CHECK(nth > 6);
    }
}
#endif
