/* Weights of samples: rows that count for nothing are not learnt, losses scale with them, the same bits through budgets, parts
 * and resuming, and what is no weight is named with its place. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../train_rig.h"

enum { ROWS = 240 };

#define LINE                                                                                       \
    "mlp:width=16 --data csv:line.csv,x=a+b,y=t,weight=w --val-split 0.2 --batch 16 --seed 3 "     \
    "--optimizer adam --rate 0.01 "

static float row_of(int i, int column) {
    unsigned state = (unsigned)(i * 2 + column) * 2654435761u;
    state ^= state >> 15;
    return (float)(state % 2000) / 1000.0f - 1.0f;
}

/* t = 2 a - b; every third row is wrong, with weight 0; the others weigh 1, `bad` with another text in row 7. */
static void make_line(const char *name, const char *bad) {
    FILE *f = fopen(in(name), "w");
    CHECK(f);
    fputs("a,b,t,w,two\n", f);
    for (int i = 0; i < ROWS; i++) {
        const float a = row_of(i, 0), b = row_of(i, 1);
        const int wrong = i % 3 == 2;
        const char *weight = i == 6 && bad ? bad : wrong ? "0" : "1";
        fprintf(f, "%.6f,%.6f,%.6f,%s,2\n", (double)a, (double)b,
                (double)(wrong ? -9.0f : 2 * a - b), weight);
    }
    CHECK(fclose(f) == 0);
}

static program_outcome call(const char *arguments) {
    return program_run(&(program_options){.folder = where()}, arguments);
}

TEST_TIMEOUT(tasks, rows_of_weight_0_are_not_learnt, 60) {
    begin();
    make_line("line.csv", NULL);
    program_outcome o = run_well(LINE "--epochs 25 --out run"),
                    no = run_well("mlp:width=16 --data csv:line.csv,x=a+b,y=t --val-split 0.2 "
                                  "--batch 16 --seed 3 --optimizer adam --rate 0.01 --epochs 25 "
                                  "--no-save");
    CHECK(strstr(o.words, "line.csv: the loss is weighted by column \"w\""));
    CHECK(program_number(&o, "val_loss") < 0.02);
    CHECK(program_number(&no, "val_loss") > 0.2);
    program_end(&no);
    program_end(&o);
    o = call("eval run --data csv:line.csv,weight=w --split val --json");
    program_outcome plain = call("eval run --data csv:line.csv --json"),
                    twice = call("eval run --data csv:line.csv,weight=two --json");
    CHECK(!o.code && !plain.code && !twice.code);
    CHECK(program_number(&o, "loss") < 0.02);
    CHECK(program_number(&plain, "loss") > 0.2); /* without weights every row counts */
    CHECK(fabs(program_number(&twice, "loss") / program_number(&plain, "loss") - 2) < 1e-5);
    program_end(&twice);
    program_end(&plain);
    program_end(&o);
}

#define WIDE                                                                                       \
    "mlp:width=384,layers=6 --data csv:line.csv,x=a+b,y=t,weight=w --batch 200 --steps 2 "         \
    "--seed 3 --no-save "

TEST_TIMEOUT(tasks, weighted_samples_have_the_same_bits_in_every_budget_and_resumed, 60) {
    PROGRAM_NEED_MEMORY();
    begin();
    make_line("line.csv", NULL);
    program_outcome plain = run_well(WIDE), no = run(WIDE "--budget 4MiB");
    CHECK_EQ(no.code, 1);
    const double most = program_number(&plain, "planned_peak_bytes");
    const double least = program_number(&no, "smallest_bytes") + (1 << 20);
    for (int k = 0; k < 2; k++) {
        char arguments[512];
        snprintf(arguments, sizeof arguments, WIDE "--budget %.0f", k ? (least + most) / 2 : least);
        program_outcome o = run_well(arguments);
        CHECK(program_number(&o, "planned_peak_bytes") < most);
        CHECK_STR(program_text(&o, "weights"), program_text(&plain, "weights"));
        program_end(&o);
    }
    program_end(&no);
    program_end(&plain);
    plain = run_well(LINE "--epochs 3 --no-save");
    program_outcome o = run_well(LINE "--epochs 3 --steps 14 --out run");
    program_end(&o);
    o = run_well(LINE "--epochs 3 --out run --resume");
    CHECK_STR(program_text(&o, "history"), program_text(&plain, "history"));
    CHECK_STR(program_text(&o, "weights"), program_text(&plain, "weights"));
    program_end(&o);
    program_end(&plain);
    refused("mlp:width=16 --data csv:line.csv,x=a+b,y=t,weight=two --val-split 0.2 --batch 16 "
            "--seed 3 --optimizer adam --rate 0.01 --epochs 4 --out run --resume",
            2, "data");
}

/* An array of NumPy: f32, `rank` 1 or 2. */
static void write_npy(const char *name, const char *type, const char *shape, const void *data,
                      size_t bytes) {
    char head[128];
    const int n = snprintf(head, sizeof head,
                           "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);
    memset(head + n, ' ', sizeof head - (size_t)n);
    head[117] = '\n';
    FILE *f = fopen(in(name), "wb");
    CHECK(f && fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, f) == 10 &&
          fwrite(head, 1, 118, f) == 118 && fwrite(data, 1, bytes, f) == bytes && fclose(f) == 0);
}

#define ARRAYS                                                                                     \
    "mlp:width=8 --data npy:x.npy,y.npy,weight=%s --batch 8 --epochs 2 --seed 1 --no-save"

TEST_TIMEOUT(tasks, arrays_have_weights_beside_them, 60) {
    float x[ROWS][2], w[ROWS], bad[ROWS];
    int64_t y[ROWS];
    char arguments[256];
    begin();
    for (int i = 0; i < ROWS; i++) {
        x[i][0] = row_of(i, 0);
        x[i][1] = row_of(i, 1);
        y[i] = x[i][0] > x[i][1];
        w[i] = 1;
        bad[i] = i == 17 ? -0.5f : 1;
    }
    write_npy("x.npy", "<f4", "(240, 2)", x, sizeof x);
    write_npy("y.npy", "<i8", "(240,)", y, sizeof y);
    write_npy("one.npy", "<f4", "(240,)", w, sizeof w);
    write_npy("bad.npy", "<f4", "(240,)", bad, sizeof bad);
    write_npy("wide.npy", "<f4", "(240, 2)", x, sizeof x);
    program_outcome plain = run_well("mlp:width=8 --data npy:x.npy,y.npy --loss cross_entropy "
                                     "--batch 8 --epochs 2 --seed 1 --no-save");
    snprintf(arguments, sizeof arguments, ARRAYS, "one.npy");
    program_outcome o = run_well(arguments);
    CHECK(fabs(program_number(&o, "loss") - program_number(&plain, "loss")) < 1e-4);
    program_end(&o);
    program_end(&plain);
    snprintf(arguments, sizeof arguments, ARRAYS, "bad.npy");
    refused(arguments, 2, "bad.npy: the weight in row 17 (counted from 0) is negative");
    snprintf(arguments, sizeof arguments, ARRAYS, "wide.npy");
    refused(arguments, 2, "wide.npy has f32[2] for each sample");
}

TEST_TIMEOUT(tasks, what_is_no_weight_is_named_with_its_row, 60) {
    static const char *const bad[][2] = {
        {"-1", "line.csv, record 7: the weight \"-1\" is negative"},
        {"nan", "line.csv, record 7: the weight of this row is missing"},
        {"", "line.csv, record 7: the weight of this row is missing"},
        {"much", "line.csv, record 7: the weight \"much\" is not a number"},
        {"1e9", "line.csv, record 7: the weight \"1e9\" is out of range"}};
    begin();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        make_line("line.csv", bad[i][0]);
        refused(LINE "--no-save", 2, bad[i][1]);
    }
    make_line("line.csv", NULL);
    refused("mlp --data csv:line.csv,x=a+w,y=t,weight=w --no-save", 2, "in both x and weight");
    refused("mlp --data csv:line.csv,x=a,y=t,weight=t --no-save", 2, "cannot be x, y or key");
    refused("mlp --data csv:line.csv,x=a,y=t,weight=z --no-save", 2,
            "line.csv has no column \"z\" for weights");
    refused("mlp --data csv:line.csv,x=a,y=t,weight=w --val-data csv:line.csv --no-save", 2,
            "has no weights, but the training data has");
}
