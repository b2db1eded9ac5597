/* From texts to predictions: folders of text files and a column of a CSV file, by an LSTM and a BERT, as bytes and as tokens; inside
 * budgets, resumed, judged; and mistakes of data. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../train_rig.h"
#include "data/text/pcre2.h"

#define LSTM "lstm:layers=1,width=16,hidden=32 "
#define MOODS                                                                                      \
    LSTM "--data texts:moods,length=64 --val-split 0.2 --batch 20 --optimizer adam --rate 0.01 "   \
         "--seed 3 "

static program_outcome call(const char *arguments) {
    return program_run(&(program_options){.folder = where()}, arguments);
}

static void make(const char *how, const char *name, int count, int seed) {
    char command[1024];
    snprintf(command, sizeof command, "%s %s %s %d %d", HEADROOM_SENTENCES, how, in(name), count,
             seed);
    CHECK_EQ(system(command), 0);
}

static void put(const char *name, const char *text, size_t bytes) {
    FILE *f = fopen(in(name), "w");
    CHECK(f && fwrite(text, 1, bytes, f) == bytes && fclose(f) == 0);
}

/* Lines "path,class,...": how many have the mood that the number of their text says. */
static int count_right(const char *csv, int *rows) {
    int right = 0;
    *rows = 0;
    for (const char *at = strchr(csv, '\n') + 1; *at; at = strchr(at, '\n') + 1) {
        const char *digits = at + strcspn(at, "0123456789");
        const char *mood = atoi(digits) % 2 ? ",pleased," : ",annoyed,";
        const size_t n = strcspn(at, ",");
        right += !strncmp(at + n, mood, strlen(mood));
        ++*rows;
    }
    return right;
}

TEST_TIMEOUT(tasks, folders_of_texts_are_learnt_and_predicted, 120) {
    int rows;
    make("", "moods", 200, 1);
    make("", "new", 20, 2);
    program_outcome o = run_well(MOODS "--epochs 12 --out run");
    CHECK(program_number(&o, "val_accuracy") > 0.9);
    CHECK(strstr(program_text(&o, "model"), "context=64,vocab=256"));
    CHECK(strstr(program_text(&o, "model"), "classes=2"));
    program_end(&o);
    o = call("predict run texts:new,classes=off");
    CHECK_EQ(o.code, 0);
    CHECK(!strncmp(o.out, "path,class,probability\nannoyed/0000.txt,", 40));
    CHECK(count_right(o.out, &rows) >= 18);
    CHECK_EQ(rows, 20);
    program_end(&o);
    o = call("predict run new/pleased/0001.txt");
    CHECK_EQ(o.code, 0);
    CHECK(strstr(o.out, "new/pleased/0001.txt,"));
    program_end(&o);
    o = call("eval run --data texts:moods --split val --json");
    CHECK_EQ(o.code, 0);
    CHECK(program_number(&o, "accuracy") > 0.9);
    program_end(&o);
}

#define COLUMN                                                                                     \
    "bert-nano:dropout=0 --data csv:moods.csv,text=body,y=mood,key=id,length=48,tokenizer=t.json " \
    "--val-split 0.2 --batch 20 --optimizer adam --rate 0.002 --seed 3 "

TEST_TIMEOUT(tasks, a_column_of_texts_is_learnt_with_a_tokenizer_and_predicted_with_its_key, 120) {
    hri_pcre2 pcre2;
    int rows;
    if (!hri_pcre2_load(&pcre2)) {
        test_skip("libpcre2-8 is not installed");
        return;
    }
    hri_pcre2_unload(&pcre2);
    make("--csv", "moods.csv", 240, 1);
    make("--csv", "new.csv", 20, 2);
    program_outcome o = call("tokenize moods.csv --train 300 --out t.json");
    CHECK_EQ(o.code, 0);
    program_end(&o);
    o = run_well(COLUMN "--epochs 12 --out run");
    CHECK(program_number(&o, "val_accuracy") > 0.95);
    CHECK(strstr(program_text(&o, "model"), "vocab=301")); /* one behind its last fills */
    CHECK(strstr(program_text(&o, "model"), "pad=300"));
    program_end(&o);
    o = call("predict run csv:new.csv,tokenizer=t.json");
    CHECK_EQ(o.code, 0);
    CHECK(!strncmp(o.out, "id,class,probability\ns0,", 24));
    CHECK(count_right(o.out, &rows) >= 19);
    CHECK_EQ(rows, 20);
    program_end(&o);
    o = call("predict run new.csv"); /* its tokens would be bytes */
    CHECK_EQ(o.code, 2);
    CHECK(strstr(o.words, "has tokens below 256, but the model has 301; give the tokenizer that it "
                          "was trained with, tokenizer=FILE"));
    program_end(&o);
    o = call("eval run --data csv:moods.csv,tokenizer=t.json --split val --json");
    CHECK_EQ(o.code, 0);
    CHECK(program_number(&o, "accuracy") > 0.95);
    program_end(&o);
}

/* The words of the file itself, and letters: a vocab.txt as BERT has it. */
static void make_vocabulary(const char *texts, const char *name) {
    char text[1 << 15], seen[1 << 15] = " ";
    read_text(texts, text, sizeof text);
    FILE *f = fopen(in(name), "w");
    CHECK(f && fputs("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", f) >= 0);
    for (char c = 'a'; c <= 'z'; c++) {
        fprintf(f, "%c\n##%c\n", c, c);
    }
    for (char *word = strtok(text, " ,.\"\n"); word; word = strtok(NULL, " ,.\"\n")) {
        char one[64];
        for (char *c = word; *c; c++) {
            *c |= *c >= 'A' && *c <= 'Z' ? 0x20 : 0;
        }
        snprintf(one, sizeof one, " %.60s ", word);
        if (strlen(word) > 1 && !strstr(seen, one) && strlen(seen) + 64 < sizeof seen) {
            strcat(seen, one + 1);
            fprintf(f, "%s\n", word);
        }
    }
    CHECK(fclose(f) == 0);
}

#define WORDS                                                                                      \
    "bert-nano:dropout=0 --data csv:moods.csv,text=body,y=mood,key=id,length=32,tokenizer=v/"      \
    "vocab.txt --val-split 0.2 --batch 20 --optimizer adam --rate 0.002 --seed 3 "

TEST_TIMEOUT(tasks, a_bert_is_trained_from_texts_with_its_own_vocabulary, 120) {
    int rows;
    make("--csv", "moods.csv", 240, 1);
    make("--csv", "new.csv", 20, 2);
    CHECK_EQ(mkdir(in("v"), 0777), 0);
    make_vocabulary("moods.csv", "v/vocab.txt");
    program_outcome o = run_well(WORDS "--epochs 8 --out run");
    CHECK(program_number(&o, "val_accuracy") > 0.95);
    CHECK(strstr(program_text(&o, "model"), "pad=0") || !strstr(program_text(&o, "model"), "pad="));
    program_end(&o);
    o = call("predict run csv:new.csv,tokenizer=v");
    CHECK_EQ(o.code, 0);
    CHECK(count_right(o.out, &rows) >= 19);
    CHECK_EQ(rows, 20);
    program_end(&o);
    put("v/tokenizer.json", "{\"model\":{\"type\":\"Unigram\"}}", 28);
    refused("bert-nano --data csv:moods.csv,text=body,y=mood,tokenizer=v --no-save", 2,
            "v: its model (Unigram) is not supported; byte-level BPE and BERT's WordPiece are");
}

#define WIDE                                                                                       \
    "bert-nano:layers=4,width=64,dropout=0 --data texts:moods,length=64 --batch 40 --steps 2 "     \
    "--seed 3 --no-save --micro-batches 1 "

TEST_TIMEOUT(tasks, texts_have_the_same_bits_in_every_budget, 120) {
    PROGRAM_NEED_MEMORY();
    make("", "moods", 80, 1);
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

TEST_TIMEOUT(tasks, texts_have_the_same_bits_when_resumed, 120) {
    make("", "moods", 60, 1);
    program_outcome plain = run_well(MOODS "--epochs 4 --no-save");
    program_outcome o = run_well(MOODS "--epochs 4 --steps 5 --out run");
    program_end(&o);
    o = run_well(MOODS "--epochs 4 --out run --resume");
    CHECK_STR(program_text(&o, "history"), program_text(&plain, "history"));
    CHECK(program_number(&o, "val_loss") == program_number(&plain, "val_loss"));
    program_end(&o);
    program_end(&plain);
}

TEST_TIMEOUT(tasks, mistakes_of_texts_are_named_with_file_and_place, 120) {
    make("", "moods", 8, 1);
    put("moods/annoyed/0000.txt", "", 0);
    refused(LSTM "--data texts:moods --batch 2 --steps 5 --no-save", 2,
            "annoyed/0000.txt: shuffle: the text is empty");
    put("moods/annoyed/0000.txt", "a\0b", 3);
    refused(LSTM "--data texts:moods --batch 2 --steps 5 --no-save", 2,
            "annoyed/0000.txt: shuffle: byte 1 is 0, the token that fills short texts");
    refused(LSTM "--data texts:nowhere --batch 2 --no-save", 2, "nowhere");
    refused(LSTM "--data texts:moods/annoyed --batch 2 --no-save", 2,
            "moods/annoyed contains no class folders (it has 4 texts; classes=off reads them "
            "without labels)");
    put("m.csv", "id,body,mood\n1,good,a\n2,  ,b\n3,bad,a\n", 36);
    refused(LSTM "--data csv:m.csv,text=words,y=mood --batch 2 --no-save", 2,
            "m.csv has no column \"words\"; it has id, body, mood");
    refused(LSTM "--data csv:m.csv,text=body,y=body --batch 2 --no-save", 2,
            "column \"body\" of m.csv is in both text and y");
    refused(LSTM "--data csv:m.csv,text=body,x=id,y=mood --batch 2 --no-save", 2,
            "x and text cannot be combined");
    refused(LSTM "--data csv:m.csv,text=body,y=mood --batch 2 --steps 5 --no-save", 2,
            "m.csv, record 2: shuffle: the text is empty");
}
