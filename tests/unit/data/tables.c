/* Tables: what columns are, how cells become numbers, what a checkpoint keeps of them. */
#include <headroom/headroom.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json_stream.h"
#include "data/element.h"
#include "data/formats/cells.h"
#include "data/pipeline.h"
#include "loop/survey.h"
#include "test.h"
#include "weights/checkpoint_table.h"

/* A file with this text and no name. */
static int file_of(const char *text, char path[32]) {
    const int fd = memfd_create("table", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    snprintf(path, 32, "/proc/self/fd/%d", fd);
    return fd;
}

static hr_pipeline *open_table(const char *text, const char *columns, const hri_tabular *table,
                               int *fd) {
    char path[32], source[256];
    const hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 1 << 20, .workers = 1};
    hr_pipeline *p;
    hr_error error = {0};
    *fd = file_of(text, path);
    snprintf(source, sizeof source, "csv:%s%s%s", path, *columns ? "," : "", columns);
    CHECK_OK(hri_pipeline_open_with(&o, source, table, &error, &p));
    return p;
}

static const char *const text = "id,area,city,rooms,price\n"
                                "a,10,Ulm,2,1.5\n"
                                "b,\"20\",Bonn,3,2.5\n"
                                "\"c,1\",,Ulm,3,NA\n"
                                "d, 40 ,?,2,4\n";

TEST(tables, columns_are_numbers_categories_and_classes) {
    int fd;
    hr_pipeline *p = open_table(text, "x=area+city,y=price,key=id", NULL, &fd);
    CHECK_EQ(hr_pipeline_count(p), 4);
    static const float x[4][3] = {{10, 0, 1}, {20, 1, 0}, {NAN, 0, 1}, {40, 0, 0}};
    static const float y[4] = {1.5f, 2.5f, NAN, 4};
    static const char *const keys[] = {"a", "b", "c,1", "d"};
    for (int i = 0; i < 4; i++) {
        hr_element *e;
        CHECK_OK(hr_pipeline_next(p, &e));
        const hr_field *f = hr_element_find(e, "x"), *t = hr_element_find(e, "y");
        const hr_field *name = hr_element_find(e, "name");
        CHECK_EQ(f->bytes, sizeof x[0]);
        for (int k = 0; k < 3; k++) {
            const float is = ((const float *)f->data)[k];
            CHECK(is == x[i][k] || (isnan(is) && isnan(x[i][k])));
        }
        const float is = *(const float *)t->data;
        CHECK(is == y[i] || (isnan(is) && isnan(y[i])));
        CHECK(name->bytes == strlen(keys[i]) && !memcmp(name->data, keys[i], name->bytes));
        hr_element_unref(e);
    }
    CHECK(strstr(hr_pipeline_note(p, 0), "1 value of column \"area\" is missing"));
    hr_pipeline_destroy(p);
    close(fd);
    p = open_table(text, "x=area,y=rooms", NULL, &fd);
    CHECK_STR(hr_pipeline_class(p, 0), "2");
    CHECK_STR(hr_pipeline_class(p, 1), "3");
    CHECK(!hr_pipeline_class(p, 2));
    hr_pipeline_destroy(p);
    close(fd);
    p = open_table(text, "x=area,y=rooms,task=numbers", NULL, &fd);
    CHECK(!hr_pipeline_class(p, 0));
    hr_pipeline_destroy(p);
    close(fd);
    p = open_table(text, "x=city+rooms,y=price,ids=city,categories=rooms", NULL, &fd);
    hr_element *e;
    CHECK_OK(hr_pipeline_next(p, &e));
    const float *row = hr_element_find(e, "x")->data;
    CHECK(row[0] == 2 && row[1] == 1 && row[2] == 0); /* Ulm is the second city; 2 of 2, 3 rooms */
    hr_element_unref(e);
    hr_pipeline_destroy(p);
    close(fd);
}

/* Reads a table back from its own text. */
static hri_tabular *again(const hri_tabular *t) {
    hri_json j;
    char *json;
    hri_json_init(&j);
    hri_checkpoint_put_table(&j, t);
    CHECK_OK(hri_json_print(&j, 0, &json));
    hri_json_deinit(&j);
    hri_json_memory memory = {.text = json, .bytes = strlen(json)};
    const hri_json_stream_options o = {.read = hri_json_read_memory,
                                       .user = &memory,
                                       .max_bytes = 1 << 20,
                                       .max_depth = 6,
                                       .max_key = 256,
                                       .max_text = 1024};
    hri_json_stream *s = NULL;
    hri_json_token token;
    hri_prose why = {""};
    hri_tabular *out = NULL;
    CHECK_OK(hri_json_stream_open(&o, &s, &why));
    CHECK_OK(hri_json_stream_next(s, &token, &why));
    CHECK_OK(hri_json_stream_next(s, &token, &why));
    CHECK_OK(hri_checkpoint_read_table(s, &token, &out, &why));
    hri_json_stream_close(s);
    hri_free(json);
    return out;
}

TEST(tables, a_fitted_one_reads_another_file_as_it_read_the_first) {
    int fd;
    char path[32], source[64];
    hri_source s = {0};
    hri_prose why = {""};
    fd = file_of(text, path);
    snprintf(source, sizeof source, "csv:%s,x=area+city,y=price,key=id", path);
    CHECK_OK(hri_source_look(source, NULL, &s, &why));
    CHECK(s.table && s.target == HRI_TARGET_NUMBERS && s.table->width == 3);
    CHECK_OK(hri_survey_table(source, &s, 1, &why));
    CHECK(fabs(s.table->inputs[0].mean - 70.0 / 3) < 1e-9);
    CHECK(fabs(s.table->inputs[0].std - sqrt(1400.0 / 9)) < 1e-6);
    CHECK(fabs(s.table->targets[0].mean - 8.0 / 3) < 1e-9);
    close(fd);
    hri_tabular *t = again(s.table);
    CHECK(t->fitted && t->width == 3 && !strcmp(t->key, "id"));
    CHECK(t->inputs[0].mean == s.table->inputs[0].mean &&
          t->inputs[0].std == s.table->inputs[0].std);
    CHECK_EQ(t->inputs[1].value_count, 2);
    /* no target, another order, a city that is not known, a number that is missing */
    hr_pipeline *p = open_table("city,id,area\nJena,x,\nUlm,y,40\n", "", t, &fd);
    for (int i = 0; i < 2; i++) {
        hr_element *e;
        CHECK_OK(hr_pipeline_next(p, &e));
        const float *row = hr_element_find(e, "x")->data;
        const double is = i ? (40 - t->inputs[0].mean) / t->inputs[0].std : 0;
        CHECK(fabs((double)row[0] - is) < 1e-6 && row[1] == 0 && row[2] == (float)i);
        CHECK(!hr_element_find(e, "y"));
        hr_element_unref(e);
    }
    hr_pipeline_destroy(p);
    close(fd);
    hri_tabular_close(t);
    hri_source_deinit(&s);
}

TEST(tables, a_file_without_a_column_of_the_model_is_refused_by_name) {
    int fd;
    char path[32], source[64];
    const hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 1 << 20, .workers = 1};
    hr_pipeline *p = open_table(text, "x=area+city,y=price", NULL, &fd), *other = NULL;
    hri_tabular *t = hri_pipeline_take_table(p);
    CHECK(t && !hri_pipeline_take_table(p));
    hr_pipeline_destroy(p);
    close(fd);
    hr_error error = {0};
    fd = file_of("area,town\n1,Ulm\n", path);
    snprintf(source, sizeof source, "csv:%s", path);
    CHECK_STATUS(hri_pipeline_open_with(&o, source, t, &error, &other), HR_E_NOT_FOUND);
    CHECK(strstr(error.message,
                 "no column \"city\", which the model was trained with; it has area, town"));
    close(fd);
    hri_tabular_close(t);
}

/* Rounded to f32, such a number is another one than in the file. */
TEST(tables, a_column_of_one_huge_number_becomes_0) {
    char path[32], source[64];
    hri_source s = {0};
    hri_prose why = {""};
    int fd = file_of("a,b,y\n1,1e30,0.5\n2,1e30,1.5\n", path);
    snprintf(source, sizeof source, "csv:%s,x=a+b,y=y", path);
    CHECK_OK(hri_source_look(source, NULL, &s, &why));
    CHECK_OK(hri_survey_table(source, &s, 1, &why));
    CHECK_EQ(s.table->inputs[1].std > 0, 1);
    close(fd);
    hri_tabular *t = again(s.table);
    hr_pipeline *p = open_table("a,b,y\n1,1e30,0.5\n", "", t, &fd);
    hr_element *e;
    CHECK_OK(hr_pipeline_next(p, &e));
    CHECK(fabs((double)((const float *)hr_element_find(e, "x")->data)[1]) < 1e-6);
    hr_element_unref(e);
    hr_pipeline_destroy(p);
    close(fd);
    hri_tabular_close(t);
    hri_source_deinit(&s);
}

static void refused(const char *table, const char *sentence) {
    char path[32], source[64];
    const hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 1 << 20, .workers = 1};
    hr_pipeline *p = NULL;
    hr_error error = {0};
    const int fd = file_of(table, path);
    snprintf(source, sizeof source, "csv:%s,x=*,y=y", path);
    CHECK_STATUS(hri_pipeline_open_with(&o, source, NULL, &error, &p), HR_E_FORMAT);
    if (!strstr(error.message, sentence)) {
        test_fail(__FILE__, __LINE__, "\"%s\" is not in: %s", sentence, error.message);
    }
    close(fd);
}

TEST(tables, what_cannot_be_a_table_of_f32_is_refused_with_its_place) {
    refused("a,y\r1,2\r3,4\r", "its lines end in CR alone");
    refused("a,y\n1,2\n1e39,4\n", "record 2: \"1e39\" in column \"a\" is too large");
    refused("a,y\n1,2\ninf,4\n", "record 2: \"inf\" in column \"a\" is not finite");
    int fd;
    hr_pipeline *p = open_table("\"a\rb\",y\r\n1,2\r\n", "x=*,y=y", NULL, &fd);
    CHECK_EQ(hr_pipeline_count(p), 1); /* a name may have one in it, and lines may end in both */
    hr_pipeline_destroy(p);
    close(fd);
}

TEST(tables, a_cell_in_hex_is_text) {
    static const struct {
        const char *cell;
        hri_cell_kind kind;
        double real;
    } cells[] = {{"0x1F", HRI_CELL_TEXT, 0},         {"0X1p3", HRI_CELL_TEXT, 0},
                 {"nan(1)", HRI_CELL_TEXT, 0},       {"31", HRI_CELL_WHOLE, 31},
                 {" 1.5e1 ", HRI_CELL_REAL, 15},     {"+.5", HRI_CELL_REAL, 0.5},
                 {"-inf", HRI_CELL_REAL, -HUGE_VAL}, {"1F", HRI_CELL_TEXT, 0}};
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
        double real;
        int64_t whole;
        CHECK_EQ(hri_cell_read(cells[i].cell, strlen(cells[i].cell), &real, &whole), cells[i].kind);
        CHECK(cells[i].kind == HRI_CELL_TEXT || real == cells[i].real);
    }
    int fd; /* a column of such is one of categories */
    hr_pipeline *p = open_table("code,y\n0x1F,1.5\n0x20,2\n0x1F,3\n", "x=*,y=y", NULL, &fd);
    hri_tabular *t = hri_pipeline_take_table(p);
    CHECK_EQ(t->inputs[0].kind, HRI_COLUMN_ONEHOT);
    hri_tabular_close(t);
    hr_pipeline_destroy(p);
    close(fd);
}

TEST(tables, hostile_texts_of_a_checkpoint_are_refused) {
    static const char *const texts[] = {
        "{\"table\":[]}",
        "{\"table\":{}}",
        "{\"table\":{\"inputs\":[]}}",
        "{\"table\":{\"inputs\":[{\"kind\":\"number\"}]}}",
        "{\"table\":{\"inputs\":[{\"name\":\"a\",\"kind\":\"numbers\"}]}}",
        "{\"table\":{\"inputs\":[{\"name\":\"a\",\"kind\":\"number\",\"std\":0}]}}",
        "{\"table\":{\"inputs\":[{\"name\":\"a\",\"kind\":\"number\",\"mean\":\"1\"}]}}",
        "{\"table\":{\"inputs\":[{\"name\":\"a\",\"kind\":\"onehot\"}]}}",
        "{\"table\":{\"inputs\":[{\"name\":\"a\",\"kind\":\"onehot\",\"values\":[\"u\",\"u\"]}]}}",
        "{\"table\":{\"inputs\":[{\"name\":\"a\",\"kind\":\"classes\",\"values\":[\"u\"]}]}}",
        "{\"table\":{\"inputs\":[{\"name\":\"a\",\"kind\":\"number\",\"values\":[\"u\"]}]}}",
        "{\"table\":{\"inputs\":[{\"name\":\"a\",\"kind\":\"number\"}],\"targets\":[{\"name\":"
        "\"b\","
        "\"kind\":\"onehot\",\"values\":[\"u\"]}]}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        hri_json_memory memory = {.text = texts[i], .bytes = strlen(texts[i])};
        const hri_json_stream_options o = {.read = hri_json_read_memory,
                                           .user = &memory,
                                           .max_bytes = 1 << 20,
                                           .max_depth = 6,
                                           .max_key = 256,
                                           .max_text = 1024};
        hri_json_stream *s = NULL;
        hri_json_token token;
        hri_prose why = {""};
        hri_tabular *out = NULL;
        CHECK_OK(hri_json_stream_open(&o, &s, &why));
        CHECK_OK(hri_json_stream_next(s, &token, &why));
        CHECK_OK(hri_json_stream_next(s, &token, &why));
        CHECK_STATUS(hri_checkpoint_read_table(s, &token, &out, &why), HR_E_FORMAT);
        CHECK(!out && why.text[0]);
        hri_json_stream_close(s);
    }
}

TEST(tables, a_number_that_is_not_whole_is_no_class) {
    static float real[] = {2, 2.5f, -1, NAN, 1e20f};
    static uint8_t byte[] = {7};
    const hr_field f = {.name = "label",
                        .meta = {.type = HR_TYPE_F32, .shape = {.rank = 1, .dim = {5}}},
                        .data = real,
                        .bytes = sizeof real};
    const hr_field b = {.name = "label",
                        .meta = {.type = HR_TYPE_U8, .shape = {.rank = 1, .dim = {1}}},
                        .data = byte,
                        .bytes = 1};
    int64_t is = 0;
    CHECK(hri_field_whole(&f, 0, &is) && is == 2);
    CHECK(!hri_field_whole(&f, 1, &is));
    CHECK(hri_field_whole(&f, 2, &is) && is == -1);
    CHECK(!hri_field_whole(&f, 3, &is) && !hri_field_whole(&f, 4, &is));
    CHECK(hri_field_whole(&b, 0, &is) && is == 7);
}
