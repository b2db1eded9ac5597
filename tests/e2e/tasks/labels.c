/* Any number of labels per sample: images that a CSV file names with 0 or 1 for each label, and a table; to predictions, and mistakes
 * of data. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../train_rig.h"

#define SHAPES                                                                                     \
    "resnet18:size=48,width=8 --data csv:lab/labels.csv,image=file,y=circle+square+star "          \
    "--val-split 0.2 --batch 16 --optimizer adam --rate 0.003 --augment flip --seed 3 "

static program_outcome call(const char *arguments) {
    return program_run(&(program_options){.folder = where()}, arguments);
}

static void make_shapes(const char *name, int count, int seed) {
    char command[1200];
    snprintf(command, sizeof command, "%s --labels %s %d %d >/dev/null", HEADROOM_SHAPES, in(name),
             count, seed);
    CHECK_EQ(system(command), 0);
}

/* Rows "name,p,p,p" of images that are numbered: labels that are told rightly at 0.5. */
static int count_right(const char *csv, int *rows) {
    int right = 0;
    *rows = 0;
    for (const char *at = strchr(csv, '\n') + 1; *at; at = strchr(at, '\n') + 1) {
        const int labels = atoi(strstr(at, "images/") + strlen("images/")) % 8;
        const char *p = at;
        for (int k = 0; k < 3; k++) {
            p = strchr(p, ',') + 1;
            right += (atof(p) > 0.5) == (labels >> k & 1);
        }
        ++*rows;
    }
    return right;
}

TEST_TIMEOUT(tasks, labels_of_images_are_learnt_judged_and_predicted, 120) {
    int rows;
    make_shapes("lab", 400, 1);
    make_shapes("new", 48, 2);
    program_outcome o = run_well(SHAPES "--epochs 10 --metric f1:star,auc --out run");
    CHECK(strstr(program_text(&o, "model"), "classes=3"));
    program_end(&o);
    o = call("eval run --data csv:new/labels.csv --json");
    CHECK_EQ(o.code, 0);
    printf("    f1 %.3f, auc %.3f on new images\n", program_number(&o, "metrics.f1"),
           program_number(&o, "metrics.auc"));
    CHECK(program_number(&o, "metrics.f1") > 0.7);
    CHECK(program_number(&o, "metrics.auc") > 0.9);
    program_end(&o);
    o = call("eval run --data csv:lab/labels.csv --split val");
    CHECK(strstr(o.out, "LABEL") && strstr(o.out, "\n  star "));
    CHECK(!strstr(o.words, "warning"));
    program_end(&o);
    o = call("predict run csv:new/labels.csv");
    CHECK_EQ(o.code, 0);
    CHECK(!strncmp(o.out, "path,circle,square,star\nimages/0000.jpg,", 40));
    CHECK(count_right(o.out, &rows) > 108); /* of 144 */
    CHECK_EQ(rows, 48);
    program_end(&o);
    o = call("predict run new/images --top 2");
    CHECK(!strncmp(o.out, "path,class,probability,class_2,probability_2\nnew/images/", 56));
    program_end(&o);
}

TEST_TIMEOUT(tasks, labels_of_images_have_the_same_bits_when_resumed, 90) {
    make_shapes("lab", 60, 1);
    program_outcome plain = run_well(SHAPES "--epochs 3 --no-save");
    program_outcome o = run_well(SHAPES "--epochs 3 --steps 4 --out run");
    program_end(&o);
    o = run_well(SHAPES "--epochs 3 --out run --resume");
    CHECK_STR(program_text(&o, "history"), program_text(&plain, "history"));
    program_end(&o);
    program_end(&plain);
}

/* hot = u > 0.2, wet = v + u > 0; some labels are missing. */
static void make_weather(void) {
    unsigned state = 1;
    FILE *f = fopen(in("w.csv"), "w");
    CHECK(f && fputs("id,u,v,hot,wet\n", f) >= 0);
    for (int i = 0; i < 300; i++) {
        double x[2];
        for (int k = 0; k < 2; k++) {
            state = state * 1664525u + 1013904223u;
            x[k] = (state >> 8) % 2001 / 1000.0 - 1;
        }
        fprintf(f, "d%d,%.3f,%.3f,%s,%d\n", i, x[0], x[1],
                i % 50 == 7  ? ""
                : x[0] > 0.2 ? "1"
                             : "0",
                x[1] + x[0] > 0);
    }
    CHECK(fclose(f) == 0);
}

TEST_TIMEOUT(tasks, labels_of_a_table_are_learnt_and_predicted_by_their_names, 60) {
    make_weather();
    program_outcome o = run_well("mlp:width=16 --data csv:w.csv,x=u+v,y=hot+wet,key=id --val-split "
                                 "0.2 --batch 20 --epochs 12 --optimizer adam --rate 0.01 --seed 3 "
                                 "--out run");
    program_end(&o);
    o = call("eval run --data csv:w.csv --split val --json");
    CHECK_EQ(o.code, 0);
    CHECK(program_number(&o, "metrics.f1") > 0.9);
    program_end(&o);
    o = call("predict run w.csv");
    CHECK(!strncmp(o.out, "id,hot,wet\nd0,", 14));
    program_end(&o);
    /* the same columns as numbers, where the user says so */
    o = run_well("mlp:width=16 --data csv:w.csv,x=u+v,y=hot+wet,key=id,task=numbers --steps 3 "
                 "--batch 20 --out numbers");
    program_end(&o);
    o = call("eval numbers --data csv:w.csv --json");
    CHECK(program_number(&o, "metrics.rmse") > 0);
    program_end(&o);
}

/* "Bonjour, now!": french and urgent. */
TEST_TIMEOUT(tasks, labels_of_texts_are_learnt_and_predicted, 60) {
    FILE *f = fopen(in("m.csv"), "w");
    CHECK(f && fputs("body,urgent,french\n", f) >= 0);
    for (int i = 0; i < 120; i++) {
        fprintf(f, "\"%s, %s\",%d,%d\n", i % 2 ? "Bonjour" : "Hello", i % 3 ? "now!" : "later",
                i % 3 > 0, i % 2);
    }
    CHECK(fclose(f) == 0);
    program_outcome o = run_well("bert-nano:dropout=0 --data "
                                 "csv:m.csv,text=body,y=urgent+french,length=24 --batch 20 "
                                 "--epochs 12 --val-split 0.2 --optimizer adam --rate 0.003 "
                                 "--seed 3 --out run");
    CHECK(strstr(program_text(&o, "model"), "classes=2"));
    program_end(&o);
    o = call("eval run --data csv:m.csv --split val --json");
    CHECK_EQ(o.code, 0);
    CHECK(program_number(&o, "metrics.f1") > 0.95);
    program_end(&o);
    o = call("predict run m.csv");
    CHECK(!strncmp(o.out, "path,urgent,french\n0,", 21));
    program_end(&o);
}

static void put(const char *name, const char *text) {
    FILE *f = fopen(in(name), "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

TEST_TIMEOUT(tasks, mistakes_of_labels_are_named_with_file_and_place, 60) {
#define NET "resnet18:size=32,width=8 --batch 2 --steps 4 --no-save --data csv:"
    make_shapes("lab", 4, 1);
    put("lab/two.csv", "file,a,b\nimages/0000.jpg,0,1\nimages/0009.jpg,1,0\nimages/0001.jpg,1,1\n");
    refused(NET "lab/two.csv,image=file,y=a+b", 2, "lab/two.csv, record 2: ");
    refused(NET "lab/two.csv,image=file,y=a+b", 2, "lab/images/0009.jpg: ");
    refused(NET "lab/two.csv,image=file,y=a+b,folder=there", 2,
            "lab/two.csv: none of its images is there (the last one would be "
            "there/images/0001.jpg); folder=DIR says where their paths begin");
    refused(NET "lab/two.csv,image=path,y=a+b", 2, "has no column \"path\"; it has file, a, b");
    refused(NET "lab/two.csv,image=file,x=a,y=b", 2, "x and image cannot be combined");
    put("lab/empty.csv", "file,a,b\nimages/0000.jpg,0,1\n,1,0\nimages/0001.jpg,1,1\n");
    refused(NET "lab/empty.csv,image=file,y=a+b", 2, "lab/empty.csv, record 2: ");
    refused(NET "lab/empty.csv,image=file,y=a+b", 2, "it names no image");
    put("lab/three.csv", "file,a,b\nimages/0000.jpg,0,1\nimages/0001.jpg,1,3\n");
    refused(NET "lab/three.csv,image=file,y=a+b --loss bce", 2,
            "has labels from 0 to 3, but bce needs 0 or 1 for each output");
}
