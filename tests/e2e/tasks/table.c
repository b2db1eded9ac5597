/* From a CSV file to predictions: regression and classification, inside budgets, resumed, judged; and mistakes of data. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../train_rig.h"

#define HOUSES                                                                                     \
    "mlp:width=16 --data csv:houses.csv,x=area+rooms+city,y=price,key=id --val-split 0.2 --batch " \
    "20 "
#define RATE "--optimizer adam --rate 0.01 --seed 3 "

static void write_file(const char *name, const char *text) {
    FILE *f = fopen(in(name), "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* price = 3000 area + 20000 rooms + what the city adds; kind is big from 110 on. */
static double price_of(double area, int rooms, int city) {
    return 3000 * area + 20000 * rooms + (double[]){50000, 0, 120000}[city];
}

static void make_houses(const char *name, int count, int seed) {
    static const char *const cities[] = {"Bonn", "\"Ulm, old town\"", "Jena"};
    unsigned state = (unsigned)seed;
    FILE *f = fopen(in(name), "w");
    CHECK(f);
    fputs("id,area,rooms,city,kind,price\n", f);
    for (int i = 0; i < count; i++) {
        unsigned r[3];
        for (int k = 0; k < 3; k++) {
            state = state * 1664525u + 1013904223u;
            r[k] = state >> 8;
        }
        const double area = 30 + r[0] % 1700 / 10.0;
        const int rooms = 1 + (int)(r[1] % 6), city = (int)(r[2] % 3);
        fprintf(f, "h%d,%.1f,%d,%s,%s,%.0f\n", i, area, rooms, cities[city],
                area < 110 ? "small" : "big", price_of(area, rooms, city));
    }
    CHECK(fclose(f) == 0);
}

static program_outcome call(const char *arguments) {
    return program_run(&(program_options){.folder = where()}, arguments);
}

TEST_TIMEOUT(tasks, a_table_of_numbers_is_learnt_and_predicted_with_its_key, 60) {
    begin();
    make_houses("houses.csv", 500, 1);
    make_houses("new.csv", 40, 2);
    program_outcome o = run_well(HOUSES RATE "--epochs 30 --out run");
    CHECK(program_number(&o, "val_loss") < 0.01); /* of a variance of 1 */
    program_end(&o);
    o = call("predict run new.csv");
    CHECK_EQ(o.code, 0);
    CHECK(!strncmp(o.out, "id,price\nh0,", 12));
    FILE *f = fopen(in("new.csv"), "r");
    char line[256];
    const char *at = strchr(o.out, '\n') + 1;
    double off = 0;
    CHECK(f && fgets(line, sizeof line, f));
    for (int i = 0; i < 40; i++) {
        CHECK(fgets(line, sizeof line, f));
        off += fabs(atof(strchr(at, ',') + 1) - atof(strrchr(line, ',') + 1)) / 40;
        at = strchr(at, '\n') + 1;
    }
    fclose(f);
    CHECK(!*at);
    printf("    mean error %.0f of prices around 450000\n", off);
    CHECK(off < 12000);
    program_end(&o);
    o = call("eval run --data csv:houses.csv --split val --json");
    CHECK_EQ(o.code, 0);
    CHECK(program_number(&o, "loss") < 0.01);
    program_end(&o);
}

#define WIDE                                                                                       \
    "mlp:width=384,layers=6 --data csv:houses.csv,x=area+rooms+city,y=price --batch 250 --steps "  \
    "2 "                                                                                           \
    "--seed 3 --no-save "

/* Unconstrained, half-way and at the smallest budget that a refusal names. */
TEST_TIMEOUT(tasks, a_table_has_the_same_bits_in_every_budget, 60) {
    PROGRAM_NEED_MEMORY();
    begin();
    make_houses("houses.csv", 300, 1);
    program_outcome plain = run_well(WIDE), no = run(WIDE "--budget 4MiB");
    CHECK_EQ(no.code, 1);
    const double most = program_number(&plain, "planned_peak_bytes");
    const double least = program_number(&no, "smallest_bytes") + (1 << 20);
    CHECK(least < most);
    for (int k = 0; k < 2; k++) {
        char arguments[1024];
        snprintf(arguments, sizeof arguments, WIDE "--budget %.0f", k ? (least + most) / 2 : least);
        program_outcome o = run_well(arguments);
        CHECK(program_number(&o, "planned_peak_bytes") < most);
        CHECK_STR(program_text(&o, "history"), program_text(&plain, "history"));
        CHECK_STR(program_text(&o, "weights"), program_text(&plain, "weights"));
        program_end(&o);
    }
    program_end(&no);
    program_end(&plain);
}

TEST_TIMEOUT(tasks, a_table_has_the_same_bits_when_resumed, 60) {
    begin();
    make_houses("houses.csv", 300, 1);
    program_outcome plain = run_well(HOUSES RATE "--epochs 4 --no-save");
    program_outcome o = run_well(HOUSES RATE "--epochs 4 --steps 20 --out run");
    program_end(&o);
    o = run_well(HOUSES RATE "--epochs 4 --out run --resume");
    CHECK_STR(program_text(&o, "history"), program_text(&plain, "history"));
    CHECK(program_number(&o, "val_loss") == program_number(&plain, "val_loss"));
    program_end(&o);
    program_end(&plain);
}

TEST_TIMEOUT(tasks, classes_of_a_table_have_names_and_rare_ones_may_weigh_more, 60) {
    begin();
    make_houses("houses.csv", 400, 1);
    make_houses("new.csv", 5, 2);
    program_outcome o =
        run_well("mlp:width=16 --data csv:houses.csv,x=*,y=kind,key=id --val-split 0.2 --batch 20 "
                 "--class-weights auto --epochs 8 --out run " RATE);
    CHECK(program_number(&o, "val_accuracy") > 0.95);
    program_end(&o);
    o = call("predict run new.csv --top 2");
    CHECK_EQ(o.code, 0);
    CHECK(!strncmp(o.out, "id,class,probability,class_2,probability_2\nh0,", 46));
    CHECK(strstr(o.out, "big") && strstr(o.out, "small"));
    program_end(&o);
    write_file("unlabelled.csv",
               "area,rooms,city,price,id,kind\n50,2,Bonn,1,a,unknown\n60,2,Ulm,1,b,\n");
    o = call("predict run unlabelled.csv"); /* what is asked for may be anything */
    CHECK_EQ(o.code, 0);
    CHECK(strstr(o.out, "\na,small,") || strstr(o.out, "\na,big,"));
    program_end(&o);
    o = call("eval run --data csv:houses.csv --split val --json");
    CHECK(program_number(&o, "accuracy") > 0.95);
    program_end(&o);
}

/* One sentence each, which names the file and the place. */
TEST_TIMEOUT(tasks, mistakes_of_data_are_named_with_file_and_place, 60) {
    static const struct {
        const char *text, *columns, *sentence;
    } mistakes[] = {
        {"a,b\n1,2\n3,4\n", "x=a+c,y=b", "m.csv has no column \"c\"; it has a, b"},
        {"a,b\n1,2\n", "x=a+b,y=b", "column \"b\" of m.csv is in both x and y"},
        {"a,a\n1,2\n", "x=a", "two columns of m.csv are named \"a\""},
        {"", "x=a,y=b", "m.csv: the file is empty"},
        {"a,b\n1,2\n3\n", "x=a,y=b", "m.csv, record 2: fewer than 2 values"},
        {"a,b\n1,x\n2,\"y\n3,x\n4,y\n", "x=a,y=b", "m.csv, record 2: a quote is not closed"},
        {"a,b\n1,2\n3,4,5\n", "x=a,y=b", "m.csv, record 2: more than 2 values"},
        {"a,b\n1,2\ninf,4\n", "x=a,y=b", "m.csv, record 2: \"inf\" in column \"a\" is not finite"},
        {"a,b\n1,2\n2,2\n3,2\n4,2\n5,2\n6,2\n7,2\n8,2\n9,2\n1O,4\n2,2\n", "x=a,y=b",
         "m.csv, record 10: \"1O\" in column \"a\" is not a number"},
        {"a,b\n,2\nNA,4\n", "x=a,y=b", "m.csv: column \"a\" has no values"},
        {"a,b\n1,2\n,4\n", "x=a,y=b,missing=error", "1 value of column \"a\" is missing"},
        {"a,b\n1,2\n3,4\n", "y=b", "need x=NAME+NAME, or x=*"},
        {"a,b\n1,2\n3,4\n", "x=a,y=b,header=off", "needs a header"},
        {"a,b,c\n1,u,2\n3,v,4\n", "x=a,y=b+c", "several columns of y must be numbers"},
        {"a;b\n1;2\n3;4\n", "x=a,y=b",
         "m.csv has no column \"b\"; it has a;b; to split it at semicolons, add "
         "separator=;"},
        {"a\tb\n1\t2\n3\t4\n", "x=a,y=b", "separator=tab"},
        {"a;b\n0,5;2\n1,5;4\n", "separator=\\;,x=a,y=b",
         "m.csv, record 1: \"0,5\" in column \"a\" has a decimal comma; write numbers with a "
         "point"},
        {"a,b\n1,Ulm\n2,K\xf6ln\n", "x=a,y=b",
         "m.csv, record 2: \"K\\xf6ln\" in column \"b\" is not UTF-8; convert the file"},
        {"a,b\xf6\n1,2\n", "x=a", "m.csv: the name of column 2, \"b\\xf6\", is not UTF-8"},
        {"\xff\xfe"
         "a,b\n1,2\n",
         "x=a,y=b", "m.csv is UTF-16; convert it to UTF-8"},
    };
    begin();
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        char arguments[256];
        write_file("m.csv", mistakes[i].text);
        snprintf(arguments, sizeof arguments, "mlp --data csv:m.csv,%s --batch 1 --no-save",
                 mistakes[i].columns);
        refused(arguments, 2, mistakes[i].sentence);
    }
    write_file("w.txt", "small,1\nhuge,2\n");
    make_houses("houses.csv", 60, 1);
    refused("mlp --data csv:houses.csv,x=area,y=kind --no-save --class-weights w.txt", 2,
            "w.txt, line 2: class \"huge\" is not in the data");
    refused("mlp --data csv:houses.csv,x=area,y=kind --no-save --loss mse", 2,
            "in column \"kind\" is not a number");
    refused("mlp --data csv:houses.csv,x=area,y=price --no-save --loss hubert", 2,
            "unknown loss \"hubert\"");
    refused("mlp --data csv:houses.csv,x=area,y=price --no-save --smoothing 0.1", 2,
            "needs a loss over classes, not mse");
}

/* A class for a row of tokens: random data has such a label, too. */
TEST_TIMEOUT(tasks, random_tokens_have_labels_where_the_model_asks_for_them, 30) {
    begin();
    program_outcome o =
        run_well("'net: input(8,vocab=20) | embedding(6,20) | global_pool | dense(3)' "
                 "--data synthetic:64 --batch 8 --steps 3 --no-save");
    program_end(&o);
}
