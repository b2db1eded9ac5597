/* 22.2: images eight or more folders below their class were left out silently. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pictures.h"
#include "program.h"
#include "test.h"

static void write_image(const char *name) {
    size_t bytes;
    unsigned char *jpeg = test_jpeg_of(16, 16, 1, NULL, &bytes);
    test_write(test_folder(), name, jpeg, bytes);
    free(jpeg);
}

TEST(f22_02, images_at_any_depth_belong_to_their_class) {
    char name[1200] = "d/a";
    write_image("d/b/0.jpg");
    for (int i = 0; i < 60; i++) {
        const size_t used = strlen(name);
        snprintf(name + used, sizeof name - used, "/x%d", i);
        char file[1300];
        snprintf(file, sizeof file, "%s/1.jpg", name);
        write_image(file);
    }
    program_outcome o = program_run(NULL, "data 'images:d | decode(8)' --json");
    program_expect(&o, 0, NULL);
    CHECK_EQ(program_number(&o, "count"), 61);
    program_end(&o);
    o = program_run(NULL, "data 'images:d,classes=off | decode(8)' --json");
    CHECK_EQ(program_number(&o, "count"), 61);
    program_end(&o);
}

TEST(f22_02, links_in_a_circle_are_left_out_and_said) {
    write_image("d/a/1.jpg");
    write_image("d/b/c/2.jpg");
    char path[600];
    snprintf(path, sizeof path, "%s/d/b/c/up", test_folder());
    CHECK_EQ(symlink("../..", path), 0);
    snprintf(path, sizeof path, "%s/d/a/self", test_folder());
    CHECK_EQ(symlink(".", path), 0);
    program_outcome o = program_run(&(program_options){.seconds = 20},
                                    "train mlp:size=8,channels=3,width=4 --data images:d --batch 1 "
                                    "--steps 1 --no-save");
    program_expect(&o, 0, "skipping 2 folders that link to a parent folder");
    CHECK(strstr(o.out, "2 training samples"));
    program_end(&o);
}
