/* 11.9: stages from a checkpoint's text were pasted into a pipeline, so a crafted file made `eval` write files. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "forge.h"
#include "pictures.h"
#include "program.h"
#include "test.h"

/* A checkpoint as 0.1.0 wrote it, with these stages. */
static void write_old(const char *from, const char *to, const char *stages) {
    json_t *header = forge_read(from), *text = forge_text(header);
    json_object_set_new(text, "version", json_integer(1));
    json_object_set_new(text, "stages", json_string(stages));
    json_object_del(text, "normalise");
    forge_write(from, to, header, text);
    json_decref(text);
    json_decref(header);
}

static program_outcome eval(const char *folder) {
    return program_run(&(program_options){.folder = folder},
                       "eval forged --data npy:x.npy,y.npy --json");
}

TEST(f11_09, stages_of_a_checkpoint_are_never_run) {
    static const char *const evil[] = {
        " | cache(stolen)",
        " | decode(size=4x4,channels=1,centre=1) | cache(stolen)",
        " | normalise(mean=0.5,std=0.5) | cache(stolen)",
        " | normalise(mean=0.5,std=0.5 | cache(stolen))",
        " | resize(size=4x4) | shuffle(1000000000)",
        " | rename(x,to=image,to=y)",
        " | rename(x | cache(stolen),to=image)",
        " | resize(size=99999999x1)",
        " | normalise(mean=0.5,std=0)",
        " | normalise(mean=0.5,0.5,std=0.5)",
        "| load",
        " ",
    };
    const char *folder = test_folder();
    const char *last = forge_train(folder, "run", "");
    char forged[512], stolen[512];
    snprintf(forged, sizeof forged, "%s/forged", folder);
    snprintf(stolen, sizeof stolen, "%s/stolen", folder);
    for (size_t i = 0; i < sizeof evil / sizeof evil[0]; i++) {
        write_old(last, forged, evil[i]);
        program_outcome o = eval(folder);
        CHECK(o.code == 2 || o.code == 3);
        CHECK(strstr(o.words, "stages"));
        CHECK(access(stolen, F_OK) != 0);
        program_end(&o);
    }
}

TEST(f11_09, what_0_1_wrote_is_read_for_its_numbers) {
    const char *folder = test_folder();
    const char *last = forge_train(folder, "run", "");
    char forged[512];
    snprintf(forged, sizeof forged, "%s/forged", folder);
    program_outcome new = program_run(&(program_options){.folder = folder},
                                      "eval run/last.safetensors --data npy:x.npy,y.npy --json");
    program_expect(&new, 0, NULL);
    write_old(last, forged, " | rename(x,to=image) | normalise(mean=0.5,std=0.5)");
    program_outcome old = eval(folder);
    program_expect(&old, 0, NULL);
    CHECK(program_number(&old, "loss") == program_number(&new, "loss"));
    program_end(&old);
    /* another mean is another loss: the numbers are used */
    write_old(last, forged, " | rename(x,to=image) | normalise(mean=0.125,std=0.5)");
    old = eval(folder);
    program_expect(&old, 0, NULL);
    CHECK(program_number(&old, "loss") != program_number(&new, "loss"));
    program_end(&old);
    program_end(&new);
}

static void change(const char *from, const char *folder, const char *key, json_t *value,
                   const char *sentence) {
    char forged[512];
    snprintf(forged, sizeof forged, "%s/forged", folder);
    json_t *header = forge_read(from), *text = forge_text(header);
    json_object_set_new(text, key, value);
    forge_write(from, forged, header, text);
    json_decref(text);
    json_decref(header);
    program_outcome o = eval(folder);
    CHECK(o.code == 2 || o.code == 3);
    CHECK(!strchr(o.words, '\033') && !strchr(o.out, '\033'));
    if (!strstr(o.words, sentence)) {
        test_fail(__FILE__, __LINE__, "%s: %s", key, o.words);
    }
    program_end(&o);
}

TEST(f11_09, every_text_and_number_of_it_has_a_range) {
    const char *folder = test_folder();
    char from[512];
    snprintf(from, sizeof from, "%s", forge_train(folder, "run", ""));
    change(from, folder, "model", json_string("mlp | cache(x)"), "model");
    change(from, folder, "model", json_string("\033]0;owned\007mlp"), "model");
    change(from, folder, "precision", json_string("f32,optimizer=adam"), "precision");
    change(from, folder, "input", json_string("image) | cache(x"), "input");
    change(from, folder, "normalise", json_pack("{s:[f],s:[f]}", "mean", 0.5, "std", 0.0), "std");
    change(from, folder, "normalise", json_pack("{s:[f,f],s:[f]}", "mean", 0.5, 0.5, "std", 0.5),
           "std");
    change(from, folder, "normalise", json_pack("{s:[s],s:[f]}", "mean", "0.5", "std", 0.5),
           "numbers");
    change(from, folder, "split", json_pack("{s:f}", "fraction", 7.0), "fraction");
    change(from, folder, "classes", json_pack("[i]", 7), "classes");
    change(from, folder, "version", json_integer(3), "version 3");
}
