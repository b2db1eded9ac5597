/* Numbers in text have a point, in a program whose own numbers have a comma. */
#include "test.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <headroom/data.h>
#include <headroom/model.h>
#include "base/number.h"
#include "pictures.h"

/* One that the machine has, or else one that is made of its sources for this test alone. */
static void take_a_comma(void) {
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "nl_NL.UTF-8"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (setlocale(LC_ALL, names[i])) {
            return;
        }
    }
    char command[512];
    const char *folder = test_folder();
    snprintf(command, sizeof command, "localedef -i de_DE -f ISO-8859-1 %s/de_DE >/dev/null 2>&1",
             folder);
    if (system(command) != 0 || setenv("LOCPATH", folder, 1) != 0 || !setlocale(LC_ALL, "de_DE")) {
        test_skip("this machine has no locale with a decimal comma");
    }
}

static void check_comma(void) {
    char text[16];
    snprintf(text, sizeof text, "%.1f", 0.5);
    CHECK_STR(text, "0,5");
}

TEST(number, has_a_point_and_leaves_the_locale_alone) {
    char text[64], *end;
    take_a_comma();
    check_comma();
    CHECK_EQ(hri_snprintf(text, sizeof text, "%s %.2f %g", "a", 1.25, 1e-7), 12);
    CHECK_STR(text, "a 1.25 1e-07");
    CHECK(hri_strtod("2.75,x", &end) == 2.75);
    CHECK_STR(end, ",x");
    check_comma();
}

/* Lines of the model's file, to be freed. */
static char *file_of(const char *model, const char *name) {
    char path[512];
    hr_model *m;
    hr_error why = {0};
    snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    CHECK_OK(hr_model_open(model, &m, &why));
    CHECK_OK(hr_model_write(m, path, &why));
    hr_model_close(m);
    CHECK_OK(hr_model_open(path, &m, &why));
    hr_model_close(m);
    FILE *f = fopen(path, "r");
    CHECK(f);
    char *text = calloc(1, 1 << 20);
    CHECK(text && fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    return text;
}

TEST(number, models_and_their_files_are_the_same_with_a_comma) {
    static const char *const models[] = {
        "net: input(8x8x1) | conv(4,3) | elu(0.5) | dropout(0.25) | flatten | dense(10)",
        "efficientnet_b0:size=32,classes=10,dropout=0.3", "llama-nano:theta=10000.5"};
    char *before[3];
    for (size_t i = 0; i < 3; i++) {
        before[i] = file_of(models[i], "before.hr");
    }
    take_a_comma();
    for (size_t i = 0; i < 3; i++) {
        char *after = file_of(models[i], "after.hr");
        CHECK_STR(after, before[i]);
        free(after);
        free(before[i]);
    }
    check_comma();
}

TEST(number, tables_are_the_same_with_a_comma) {
    static const char table[] = "area,price\n1.5,2.25\n3.75,4.125\n";
    char data[512];
    hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 16 << 20};
    hr_pipeline *p;
    hr_element *e;
    hr_error why = {0};
    take_a_comma();
    test_write(test_folder(), "t.csv", table, sizeof table - 1);
    snprintf(data, sizeof data, "csv:%s/t.csv", test_folder());
    CHECK_OK(hr_pipeline_open(&o, data, &why, &p));
    CHECK_OK(hr_pipeline_next(p, &e));
    const hr_field *area = hr_element_find(e, "area"), *price = hr_element_find(e, "price");
    CHECK(area && area->meta.type == HR_TYPE_F32 && *(const float *)area->data == 1.5f);
    CHECK(price && price->meta.type == HR_TYPE_F32 && *(const float *)price->data == 2.25f);
    hr_element_unref(e);
    hr_pipeline_destroy(p);
}
