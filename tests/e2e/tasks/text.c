/* From a text file to text: a GPT over bytes learns a rhyme and says it again, inside budgets, resumed and judged. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../train_rig.h"
#include "data/text/pcre2.h"

#define RHYME "the owl and the cat went to sea in a boat.\n"
#define BOOK                                                                                       \
    "gpt2-nano:layers=1 --data text:book.txt,length=32,stride=11 --val-split 0.1 --batch 8 "       \
    "--optimizer adamw --rate 0.005 --warmup 20 --seed 3 "

static void make_book(void) {
    FILE *f = fopen(in("book.txt"), "w");
    CHECK(f);
    for (int i = 0; i < 200; i++) {
        CHECK(fputs(RHYME, f) >= 0);
    }
    CHECK(fclose(f) == 0);
}

static program_outcome call(const char *arguments) {
    return program_run(&(program_options){.folder = where()}, arguments);
}

TEST_TIMEOUT(tasks, a_gpt_that_trains_on_text_speaks, 60) {
    make_book();
    program_outcome o = run_well(BOOK "--epochs 4 --out run");
    CHECK(program_number(&o, "val_loss") < 0.15);
    CHECK(strstr(program_text(&o, "model"), "vocab=256"));
    program_end(&o);
    o = call("generate run --prompt 'the owl' --temperature 0 --max 60 --json");
    CHECK_EQ(o.code, 0);
    CHECK_STR(program_text(&o, "text"),
              " and the cat went to sea in a boat.\nthe owl and the cat went");
    CHECK_EQ(program_number(&o, "prompt_tokens"), 7);
    CHECK_EQ(program_number(&o, "cache_bytes"), 2 * 32 * 32 * 4);
    CHECK(program_number(&o, "measured_peak_bytes") <= program_number(&o, "planned_peak_bytes"));
    program_end(&o);
    o = call("generate run --prompt 'the owl' --temperature 0 --max 60 --no-cache --json");
    CHECK_STR(program_text(&o, "text"),
              " and the cat went to sea in a boat.\nthe owl and the cat went");
    CHECK_EQ(program_number(&o, "cache_bytes"), 0);
    program_end(&o);
    o = call("generate run --prompt 'the owl' --temperature 0 --max 12");
    CHECK_STR(o.out, "the owl and the cat\n");
    program_end(&o);
    o = call(
        "generate --model gpt2-nano:layers=1,vocab=256 --weights run/last.safetensors --prompt "
        "'the owl' --temperature 0 --max 12");
    CHECK_STR(o.out, "the owl and the cat\n");
    program_end(&o);
    o = call("eval run --data text:book.txt,stride=11 --split val --json");
    CHECK_EQ(o.code, 0);
    CHECK(fabs(program_number(&o, "metrics.perplexity") - exp(program_number(&o, "loss"))) < 1e-9);
    CHECK(program_number(&o, "metrics.perplexity") < 1.2);
    program_end(&o);
}

TEST_TIMEOUT(tasks, a_seed_and_a_budget_decide_neither_more_nor_less_than_they_say, 60) {
    PROGRAM_NEED_MEMORY();
    make_book();
    program_outcome o = run_well(BOOK "--steps 20 --out run");
    program_end(&o);
    const char *const hot = "generate run --prompt t --temperature 1.5 --max 40 --json --seed ";
    char arguments[256], first[512];
    o = program_run(&(program_options){.folder = where()}, "%s1", hot);
    snprintf(first, sizeof first, "%s", program_text(&o, "text"));
    const double peak = program_number(&o, "planned_peak_bytes");
    program_end(&o);
    o = program_run(&(program_options){.folder = where()}, "%s2", hot);
    CHECK(strcmp(program_text(&o, "text"), first) != 0);
    program_end(&o);
    snprintf(arguments, sizeof arguments, "%s1 --budget %.0f", hot, peak + (1 << 20));
    o = call(arguments);
    CHECK_EQ(o.code, 0);
    CHECK_STR(program_text(&o, "text"), first);
    CHECK(program_number(&o, "measured_peak_bytes") <= peak + (1 << 20));
    program_end(&o);
    o = call("generate run --budget 2MiB --json");
    CHECK_EQ(o.code, 1);
    CHECK(strstr(o.words, "does not fit"));
    program_end(&o);
}

TEST_TIMEOUT(tasks, a_bert_learns_hidden_bytes_and_does_not_write, 60) {
    make_book();
    program_outcome o =
        run_well("bert-nano:dropout=0,layers=1 --data text:book.txt,length=32,stride=43,mask=0.15 "
                 "--val-split 0.1 --batch 16 --optimizer adamw --rate 0.01 "
                 "--epochs 8 --seed 3 --out run");
    CHECK(program_number(&o, "val_loss") < 2.0);
    program_end(&o);
    o = call("eval run --data text:book.txt,stride=43,mask=0.15 --split val --json");
    CHECK_EQ(o.code, 0);
    CHECK(program_number(&o, "loss") < 2.0);
    program_end(&o);
    o = call("generate run --prompt x");
    program_expect(&o, 2, "does not predict the next token");
    program_end(&o);
}

TEST_TIMEOUT(tasks, a_tokenizer_of_our_own_is_trained_and_trained_with, 60) {
    hri_pcre2 pcre2;
    if (!hri_pcre2_load(&pcre2)) {
        test_skip("libpcre2-8.so.0 is not installed");
    }
    hri_pcre2_unload(&pcre2);
    make_book();
    program_outcome o = call("tokenize book.txt --train 280 --out tokenizer.json --json");
    CHECK_EQ(o.code, 0);
    CHECK_EQ(program_number(&o, "vocab"), 280);
    program_end(&o);
    o = run_well("gpt2-nano:layers=1 --data "
                 "text:book.txt,length=16,stride=3,tokenizer=tokenizer.json,cache=kept --val-split "
                 "0.1 --batch 8 --optimizer adamw --rate 0.005 --epochs 3 --seed 3 --out run");
    CHECK(strstr(program_text(&o, "model"), "vocab=280"));
    CHECK(program_number(&o, "val_loss") < 0.5);
    program_end(&o);
    o = call(
        "eval run --data text:book.txt,stride=3,tokenizer=tokenizer.json,cache=kept --split val "
        "--json");
    CHECK_EQ(o.code, 0);
    CHECK(program_number(&o, "metrics.perplexity") < 1.7);
    program_end(&o);
    o = call("generate run --tokenizer tokenizer.json --prompt 'the owl' --temperature 0 --max 12 "
             "--json");
    CHECK(!strncmp(program_text(&o, "text"), " and the cat went", 17));
    program_end(&o);
    o = call("tokenize book.txt --train 100 --out tokenizer.json");
    program_expect(&o, 2, "--train: 100 tokens; it must be 257 to");
    program_end(&o);
}

TEST_TIMEOUT(tasks, mistakes_with_text_are_named, 60) {
    begin();
    make_book();
    FILE *f = fopen(in("short.txt"), "w");
    CHECK(f && fputs("abc", f) >= 0 && fclose(f) == 0);
    refused("gpt2-nano --data text:short.txt --no-save", 2, "short.txt: fewer than 32 + 1 bytes");
    refused("gpt2-nano --data text:none.txt --no-save", 2, "none.txt");
    program_outcome o = run_well("lenet:channels=3,size=24 --data images:pics --batch 20 --steps 1 "
                                 "--out pictures");
    program_end(&o);
    o = call("generate pictures --prompt x");
    program_expect(&o, 2, "does not predict the next token");
    program_end(&o);
    o = run_well("gpt2-nano --data synthetic:64 --batch 8 --steps 1 --out numbers");
    program_end(&o);
    o = call("generate --model gpt2-nano --prompt x");
    program_expect(&o, 2, "--model MODEL with --weights FILE");
    program_end(&o);
    o = call("generate numbers --prompt x");
    program_expect(&o, 2, "--tokenizer is missing: the model has 128 tokens");
    program_end(&o);
}
