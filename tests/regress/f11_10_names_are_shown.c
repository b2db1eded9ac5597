/* 11.10: names of classes reached the terminal with raw escapes. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "forge.h"
#include "pictures.h"
#include "program.h"
#include "test.h"

static void rename_classes(const char *from, const char *to) {
    json_t *header = forge_read(from), *text = forge_text(header);
    json_object_set_new(text, "classes",
                        json_pack("[s,s]", "\033]0;owned\007rose\033[2J",
                                  "tu\xe2\x80\xaelip\n,x\xc2\x9b"
                                  "1m"));
    forge_write(from, to, header, text);
    json_decref(text);
    json_decref(header);
}

static int has_control(const char *text) {
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if ((*p < 0x20 && *p != '\n') || *p == 0x7f || (*p == 0xc2 && p[1] < 0xa0) ||
            (*p == 0xe2 && p[1] == 0x80 && p[2] == 0xae)) {
            return 1;
        }
    }
    return 0;
}

TEST(f11_10, names_of_classes_do_not_speak_to_the_terminal) {
    const char *folder = test_folder();
    const char *last = forge_train(folder, "run", "");
    char forged[512];
    snprintf(forged, sizeof forged, "%s/forged", folder);
    rename_classes(last, forged);
    static const char *const commands[] = {
        "eval forged --data npy:x.npy,y.npy",
        "predict forged npy:x.npy --top 2",
    };
    for (int i = 0; i < 2; i++) {
        program_outcome o = program_run(&(program_options){.folder = folder}, "%s", commands[i]);
        program_expect(&o, 0, NULL);
        CHECK(!has_control(o.out) && !has_control(o.words));
        program_end(&o);
    }
    program_outcome o = program_run(&(program_options){.folder = folder}, "%s", commands[1]);
    CHECK(strstr(o.out, "rose\\x1b[2J") &&
          strstr(o.out, "tu\\xe2\\x80\\xaelip\\x0a,x\\xc2\\x9b1m\""));
    program_end(&o);
    /* JSON is exact */
    o = program_run(&(program_options){.folder = folder},
                    "predict forged npy:x.npy --top 2 --json");
    program_expect(&o, 0, NULL);
    CHECK(o.json && strstr(o.out, "\\u001B[2J") && strstr(o.out, "\\n,x"));
    program_end(&o);
}

TEST(f11_10, names_of_files_do_not_speak_to_the_terminal) {
    const char *folder = test_folder();
    char path[512];
    snprintf(path, sizeof path, "%s/d\033[31m", folder);
    CHECK_EQ(mkdir(path, 0755), 0);
    static const char *const commands[] = {
        "eval 'd\033[31m' --data npy:x.npy,y.npy",
        "data 'lines:d\033[31m/none'",
        "plan --problem 'd\033[31m'",
        "train mlp --data 'images:d\033[31m'",
        "pack 'd\033[31m'",
    };
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        program_outcome o = program_run(&(program_options){.folder = folder}, "%s", commands[i]);
        CHECK(o.code != 0 && o.code != -1);
        CHECK(strstr(o.words, "\\x1b[31m") && !has_control(o.words) && !has_control(o.out));
        program_end(&o);
    }
}
