/* headroom train from outside: what goes wrong is a sentence and an exit code, and what was saved before stays. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pictures.h"
#include "train_rig.h"
#include "weights/checkpoint.h"

TEST(train, what_cannot_be_is_a_sentence_and_an_exit_code) {
    begin();
    refused("resnet18 --data images:nowhere", 2, "nowhere");
    refused("resnet18:size=32 --batch 8", 2, "--data is required");
    refused(RESNET " --batch 400", 2, "larger than the data set (60 samples");
    refused(RESNET " --val-split 0.8 --batch 20 --no-save", 2,
            "larger than the data set (12 samples");
    refused("resnet19 --data images:pics", 2, "resnet18");
    refused(RESNET " --batch many", 2, "is not auto or a number");
    refused(RESNET " --rate fast", 2, "rate");
    refused(RESNET " --out pics/class0/00.jpg", 2, "00.jpg");
    refused("mlp:classes=2,size=20,channels=3 --data images:pics --batch 8 --steps 2 --no-save", 2,
            "is out of range: the model has 2 classes (0-1)");
    refused("'net: dense(2)' --data images:pics --batch 8 --no-save", 2,
            "put flatten or global_pool before it"); /* the size is the images' own */
    program_outcome o = run(RESNET " --budget 1MiB --no-save");
    CHECK_EQ(o.code, 1);
    CHECK(json_is_false(json_object_get(o.json, "fits")));
    CHECK(json_array_size(json_object_get(o.json, "ways_out")) >= 1);
    program_end(&o);
}

TEST(train, a_folder_that_cannot_be_read_and_a_picture_that_is_none) {
    begin();
    test_write(where(), "pics/class1/zz.jpg", "no picture", 10);
    refused("lenet:channels=3,size=24 --data images:pics --batch 20 --epochs 2 --no-save", 2,
            "zz.jpg");
    refused("lenet:channels=3,size=24 --data images:pics --batch 20 --epochs 2 --no-save", 2,
            "--skip-bad");
    program_outcome o =
        run_well("lenet:channels=3,size=24 --data images:pics --batch 20 --epochs 2 "
                 "--no-save --skip-bad");
    CHECK(program_number(&o, "bad_samples") >= 1);
    program_end(&o);
    if (geteuid() != 0) {
        CHECK_EQ(chmod(in("pics"), 0), 0);
        refused("lenet --data images:pics", 2, "ermission denied");
        chmod(in("pics"), 0700);
    }
}

TEST(train, a_loss_that_is_no_number_ends_it_and_leaves_the_checkpoint) {
    begin();
    program_outcome o = run_well(RESNET " --steps 7 --out run");
    program_end(&o);
    refused(RESNET " --steps 40 --rate 1e6 --out other", 3, "--rate");
    refused(RESNET " --steps 40 --rate 1e6 --out run --resume", 2, "the run used --rate");
    check_checkpoint(in("run/last.safetensors"));
    o = run_well(RESNET " --steps 9 --out run --resume");
    CHECK_EQ(program_number(&o, "steps"), 9);
    char history[32];
    snprintf(history, sizeof history, "%s", program_text(&o, "history"));
    program_end(&o);
    o = run_well(RESNET " --steps 9 --out run --resume"); /* nothing is left to do */
    CHECK(program_number(&o, "steps") == 9 && json_is_null(json_object_get(o.json, "loss")));
    CHECK_EQ(strcmp(program_text(&o, "history"), history), 0);
    program_end(&o);
}

static uint64_t size_of(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
}

/* A disk of its own that holds two checkpoints of this model, but not the third one beside them that replaces the
 * second: in a namespace that only this test sees. */
TEST_TIMEOUT(train, a_full_disk_is_said_and_the_old_checkpoint_stands, 60) {
    begin();
    program_outcome whole = run_well(RESNET " --epochs 4 --out whole");
    const uint64_t last = size_of(in("whole/last.safetensors"));
    const uint64_t best = size_of(in("whole/best.safetensors"));
    CHECK(last > 1000000 && best > 500000);
    char command[2048];
    snprintf(command, sizeof command,
             "cd '%s' && mkdir disk && unshare -rm true 2>/dev/null || exit 9; unshare -rm sh -c "
             "'mount -t tmpfs -o size=%llu none disk || exit 9; \"%s\" train " RESNET
             " --epochs 4 --out disk/run --no-measure --json >out 2>words; echo $? >code; "
             "ls disk/run >left; cp -r disk/run run'",
             where(), (unsigned long long)(last + 2 * best + 65536), HEADROOM_PROGRAM);
    const int status = system(command);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 9) {
        program_end(&whole);
        test_skip("no file system can be mounted here");
    }
    char words[4096] = "", code[16] = "", left[256] = "";
    read_text("words", words, sizeof words);
    read_text("code", code, sizeof code);
    read_text("left", left, sizeof left);
    CHECK_EQ(atoi(code), 3);
    CHECK(strstr(words, "could not be written") && strstr(words, "No space left") &&
          strstr(words, "the one of step 7 is kept"));
    CHECK_EQ(strcmp(left, "best.safetensors\nlast.safetensors\n"), 0); /* no halves */
    hri_checkpoint c;
    hri_prose why = {""};
    CHECK_STATUS(hri_checkpoint_open(in("run/last.safetensors"), &c, &why), HR_OK);
    CHECK_EQ(c.progress.state.step, 7);
    hri_checkpoint_close(&c);
    program_outcome o = run_well(RESNET " --epochs 4 --out run --resume"); /* there is room here */
    CHECK_EQ(strcmp(program_text(&o, "history"), program_text(&whole, "history")), 0);
    program_end(&o);
    program_end(&whole);
}

TEST_TIMEOUT(train, a_checkpoint_of_another_training_or_cut_short_is_refused, 60) {
    begin();
    program_outcome o = run_well(RESNET " --epochs 1 --out run");
    program_end(&o);
    refused(RESNET " --epochs 2 --out run", 2, "already contains a run");
    refused("resnet18:size=32,width=4 --data images:pics --batch 8 --seed 3 --out run --resume", 2,
            "the run used the model resnet18");
    refused(RESNET " --epochs 2 --out run --resume --batch 6", 2, "--batch 8");
    refused(RESNET " --epochs 2 --out run --resume --seed 4", 2, "--seed 3");
    refused(RESNET " --epochs 2 --out run --resume --augment flip", 2,
            "the run used --augment none");
    CHECK_EQ(truncate(in("run/last.safetensors"), (off_t)size_of(in("run/last.safetensors")) - 9),
             0);
    refused(RESNET " --epochs 2 --out run --resume", 2, "last.safetensors");
}
