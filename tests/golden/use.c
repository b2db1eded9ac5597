/* Wrong use, closed pipes, full disks: the exit code and the sentence. */
#include "golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TEST(use, without_a_command_is_short_help_on_stderr) {
    const golden_result r = GOLDEN_RUN("");
    CHECK_EQ(r.code, 2);
    CHECK_STR(r.out, "");
    golden_compare("no_command", r.err);
}

TEST(use, an_unknown_command_suggests_the_nearest) {
    const golden_result r = GOLDEN_RUN("devcies");
    CHECK_EQ(r.code, 2);
    CHECK_STR(r.out, "");
    golden_compare("unknown_command", r.err);
}

TEST(use, a_beginning_of_a_command_suggests_it) {
    CHECK(strstr(GOLDEN_RUN("doc").err, "\"doctor\""));
    CHECK(strstr(GOLDEN_RUN("help devics").err, "\"devices\""));
    CHECK_EQ(GOLDEN_RUN("help devics").code, 2);
}

TEST(use, options_in_sentences_of_the_library_are_what_is_typed) {
    const golden_result both =
        GOLDEN_RUN("train mlp --data synthetic --val-data synthetic --val-split 0.5");
    CHECK_EQ(both.code, 2);
    CHECK_STR(both.err, "headroom: --val-data and --val-split cannot be combined\n");
    const golden_result large =
        GOLDEN_RUN("train mlp --data synthetic:count=8 --batch 9 --no-save");
    CHECK_EQ(large.code, 2);
    CHECK(strstr(large.err, "; use --batch 8 or less\n"));
    const golden_result split =
        GOLDEN_RUN("plan resnet18:size=32 --micro-batches 2 --no-measure --device null:1GiB");
    CHECK(strstr(split.err, "; --ghost-norm allows it\n"));
}

TEST(use, a_far_word_suggests_nothing) {
    const golden_result r = GOLDEN_RUN("xylophone");
    CHECK_EQ(r.code, 2);
    CHECK(!strstr(r.err, "did you mean"));
}

TEST(use, an_unknown_flag_suggests_the_nearest) {
    const golden_result r = GOLDEN_RUN("devices --jsno");
    CHECK_EQ(r.code, 2);
    CHECK_STR(r.out, "");
    golden_compare("unknown_flag", r.err);
    CHECK_EQ(GOLDEN_RUN("--lgo debug devices").code, 2);
}

TEST(use, flags_may_stand_before_and_behind_the_command) {
    const char *want = GOLDEN_RUN("devices null:0 --visible-devices null:0 --null-device 1GiB").out;
    CHECK(strstr(want, "null:0"));
    CHECK_STR(GOLDEN_RUN("--visible-devices null:0 --null-device=1GiB devices null:0").out, want);
    CHECK_STR(GOLDEN_RUN("--null-device 1GiB devices --visible-devices=null:0 null:0").out, want);
}

TEST(use, too_many_and_too_few_arguments_are_wrong_use) {
    CHECK_EQ(GOLDEN_RUN("version host").code, 2);
    CHECK_EQ(GOLDEN_RUN("completion").code, 2);
    CHECK_EQ(GOLDEN_RUN("completion bash zsh").code, 2);
    CHECK_EQ(GOLDEN_RUN("completion fish").code, 2);
    CHECK_EQ(GOLDEN_RUN("help no-such-thing").code, 2);
}

TEST(use, bad_values_are_wrong_use_with_the_name_in_the_sentence) {
    const golden_result size = GOLDEN_RUN("devices --null-device -3GiB");
    CHECK_EQ(size.code, 2);
    CHECK(strstr(size.err, "null-device"));
    const golden_result level = GOLDEN_RUN("devices --log=loud");
    CHECK_EQ(level.code, 2);
    CHECK(strstr(level.err, "log"));
    CHECK_EQ(GOLDEN_RUN("devices --threads 99999999").code, 2);
    CHECK_EQ(GOLDEN_RUN("devices --json=maybe").code, 2);
    CHECK_EQ(GOLDEN_RUN("devices --log").code, 2);
    /* A folder where a file is to be written, before anything is done. */
    const golden_result folder = GOLDEN_RUN("tokenize /dev/null --out /tmp");
    CHECK_EQ(folder.code, 2);
    CHECK(strstr(folder.err, "--out") && strstr(folder.err, "it is a directory"));
    const golden_result matrix = GOLDEN_RUN("eval nothing --data synthetic --confusion /tmp");
    CHECK_EQ(matrix.code, 2);
    CHECK(strstr(matrix.err, "--confusion") && strstr(matrix.err, "it is a directory"));
    const golden_result also = GOLDEN_RUN("train lenet --data synthetic --also lenet");
    CHECK_EQ(also.code, 2);
    CHECK(strstr(also.err, "--also: --data is required, for"));
}

TEST(use, find_rate_reads_its_last_rate_without_a_schedule) {
    const golden_result r =
        GOLDEN_RUN("find-rate mlp --data synthetic --batch 4 --steps 2 --final-rate 1 --threads 1");
    CHECK_EQ(r.code, 0);
    CHECK_STR(r.err, "");
}

TEST(use, control_characters_in_arguments_are_not_echoed) {
    const golden_result r = GOLDEN_RUN("", .last_arg = "\033[31mred\nnext");
    CHECK_EQ(r.code, 2);
    CHECK(!golden_has_control(r.err));
}

TEST(output, a_full_disk_is_a_sentence_and_exit_code_3) {
    static const char *const commands[] = {"version", "help",         "completion bash",
                                           "man",     "devices host", "devices host --json"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        const golden_result r = GOLDEN_RUN(commands[i], .stdout_to = "/dev/full");
        CHECK_EQ(r.code, 3);
        CHECK(strstr(r.err, "cannot write the result"));
        CHECK(strstr(r.err, "No space left"));
    }
}

TEST(output, a_closed_pipe_is_silent_and_keeps_the_verdict) {
    const golden_result help = GOLDEN_RUN("help", .stdout_to = "early");
    CHECK_STR(help.err, "");
    CHECK_EQ(help.code, 0);
    const golden_result bad = GOLDEN_RUN("doctor null:0 --null-device 1GiB", .stdout_to = "early",
                                         .env = {"HEADROOM_CACHE_DIR=/dev/null/x"});
    CHECK_STR(bad.err, "");
    CHECK_EQ(bad.code, 1);
}

TEST(output, a_closed_stdout_is_a_fault) {
    const golden_result r = GOLDEN_RUN("devices host", .stdout_to = "close");
    CHECK_EQ(r.code, 3);
    CHECK(strstr(r.err, "cannot write the result"));
}
