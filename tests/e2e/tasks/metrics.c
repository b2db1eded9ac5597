/* Metrics by name: told of each validation and by eval, the best by any of them, the same in every budget, split and resumed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../train_rig.h"

#define KINDS                                                                                      \
    "mlp:width=16 --data csv:kinds.csv,x=a+b,y=kind --val-split 0.3 --batch 16 --optimizer adam "  \
    "--rate 0.01 --seed 5 "
#define WANTED "--metric f1,recall:rare,top2,auc,iou:0 "

/* Three kinds that overlap, one of them rare. */
static void make_kinds(void) {
    unsigned state = 7;
    FILE *f = fopen(in("kinds.csv"), "w");
    CHECK(f);
    fputs("a,b,kind,price\n", f);
    for (int i = 0; i < 240; i++) {
        state = state * 1664525u + 1013904223u;
        const double a = (double)(state >> 16 & 255) / 64;
        state = state * 1664525u + 1013904223u;
        const double b = (double)(state >> 16 & 255) / 64;
        const char *kind = i % 13 == 0 ? "rare" : a + b + (double)(i % 3) / 2 > 4 ? "high" : "low";
        fprintf(f, "%.4f,%.4f,%s,%.4f\n", a, b, kind, 3 * a - b);
    }
    CHECK(fclose(f) == 0);
}

static program_outcome call(const char *arguments) {
    return program_run(&(program_options){.folder = where()}, arguments);
}

/* Of the last validation. */
static double told(const program_outcome *o, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "val_metrics.%s", name);
    return program_number(o, path);
}

TEST_TIMEOUT(tasks, metrics_of_a_validation_are_those_of_eval_on_the_held_out_split, 300) {
    static const char *const names[] = {"f1", "recall:rare", "top2", "auc", "iou:0"};
    begin();
    make_kinds();
    program_outcome o = run_well(KINDS WANTED "--epochs 3 --out run");
    program_outcome e = call("eval run --data csv:kinds.csv --split val --json --metric "
                             "f1,recall:rare,top2,auc,iou:0 --confusion -");
    CHECK_EQ(e.code, 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[64];
        snprintf(path, sizeof path, "metrics.%s", names[i]);
        const double is = told(&o, names[i]), should = program_number(&e, path);
        CHECK(is >= 0 && is <= 1);
        CHECK(fabs(is - should) < 1e-12);
    }
    CHECK_STR(program_text(&o, "best_by"), "loss");
    CHECK(strstr(e.out, "\"confusion\""));
    program_end(&e);
    e = call("eval run --data csv:kinds.csv --split val --confusion -");
    CHECK_EQ(e.code, 0);
    CHECK(strstr(e.out, "LABEL") && strstr(e.out, "rare"));
    program_end(&e);
    program_end(&o);
}

TEST_TIMEOUT(tasks, the_best_goes_by_a_metric_and_early_stopping_too, 300) {
    begin();
    make_kinds();
    program_outcome o =
        run_well(KINDS "--best-by recall:rare --epochs 4 --log run.jsonl --out run");
    FILE *f = fopen(in("run.jsonl"), "r");
    char line[4096];
    double best = -1, first = -1;
    CHECK(f);
    while (fgets(line, sizeof line, f)) { /* larger is better: an equal one is not */
        const char *at = strstr(line, "\"recall:rare\":");
        if (at) {
            const double is = atof(at + strlen("\"recall:rare\":"));
            CHECK((strstr(line, "\"best\":true") != NULL) == (is > best));
            first = first < 0 ? is : first;
            best = is > best ? is : best;
        }
    }
    fclose(f);
    CHECK(first >= 0 && best == program_number(&o, "best"));
    CHECK_STR(program_text(&o, "best_by"), "recall:rare");
    program_end(&o);
    o = run_well(KINDS "--best-by top3 --patience 2 --epochs 9 --no-save"); /* always 1 */
    CHECK_STR(program_text(&o, "ended"), "early stopping");
    CHECK(program_number(&o, "epochs") == 3 && program_number(&o, "best") == 1);
    program_end(&o);
    o = run_well(
        "mlp:width=8 --data csv:kinds.csv,x=a+b,y=price --val-split 0.3 --batch 16 --seed 5 "
        "--best-by mae --metric r2,rmse --epochs 4 --no-save");
    CHECK(program_number(&o, "best") <= told(&o, "mae"));
    CHECK(told(&o, "r2") < 1 && told(&o, "rmse") > 0);
    program_end(&o);
}

TEST_TIMEOUT(tasks, metrics_are_the_same_in_budgets_replicas_and_resumed, 300) {
    static const char *const others[] = {
        KINDS WANTED "--best-by f1 --epochs 4 --no-save --micro-batches 4 --replicas 2",
        KINDS WANTED
        "--best-by f1 --epochs 4 --no-save --micro-batches 4 --replicas 4 --shard weights",
        KINDS WANTED "--best-by f1 --epochs 4 --no-save --micro-batches 4 --val-batch 7",
    };
    begin();
    make_kinds();
    program_outcome plain =
        run_well(KINDS WANTED "--best-by f1 --epochs 4 --no-save --micro-batches 4");
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        program_outcome o = run_well(others[i]);
        CHECK_STR(program_text(&o, "history"), program_text(&plain, "history"));
        CHECK(told(&o, "f1") == told(&plain, "f1"));
        CHECK(told(&o, "auc") == told(&plain, "auc"));
        CHECK(program_number(&o, "best") == program_number(&plain, "best"));
        program_end(&o);
    }
    program_outcome o =
        run_well(KINDS WANTED "--best-by f1 --epochs 2 --micro-batches 4 --out run");
    program_end(&o);
    o = run_well(KINDS WANTED "--best-by f1 --epochs 4 --micro-batches 4 --out run --resume");
    CHECK_STR(program_text(&o, "history"), program_text(&plain, "history"));
    CHECK(program_number(&o, "best") == program_number(&plain, "best"));
    CHECK(program_number(&o, "best_epoch") == program_number(&plain, "best_epoch"));
    program_end(&o);
    refused(KINDS WANTED "--best-by auc --epochs 5 --micro-batches 4 --out run --resume", 2,
            "--best-by");
    program_end(&plain);
}

TEST_TIMEOUT(tasks, metrics_that_make_no_sense_are_refused_in_a_sentence, 300) {
    begin();
    make_kinds();
    refused(KINDS "--metric r2 --no-save", 2,
            "\"r2\" is not a metric of a model that predicts classes");
    refused(KINDS "--best-by recall:blue --no-save", 2, "\"blue\" is not a class of the model");
    refused(KINDS "--best-by f1,auc --no-save", 2, "is more than one metric");
    refused("mlp --data csv:kinds.csv,x=a,y=kind --best-by f1 --no-save", 2, "--best-by");
    refused("mlp --data csv:kinds.csv,x=a,y=price --val-split 0.3 --metric auc --no-save", 2,
            "predicts numbers (loss, mae, rmse, r2)");
}
