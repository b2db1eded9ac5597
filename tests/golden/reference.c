/* Completions, man pages and docs/commands.md: tried, not only printed. */
#include "golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/command.h"

/* Every command that is shown, in the build's order, each between `before` and `after`. */
static const char *all_commands(const char *before, const char *after) {
    static char text[4096];
    text[0] = '\0';
    for (size_t i = 0; hri_commands[i]; i++) {
        if (!hri_commands[i]->hidden) {
            const size_t used = strlen(text);
            snprintf(text + used, sizeof text - used, "%s%s%s", before, hri_commands[i]->name,
                     after);
        }
    }
    return text;
}

/* What bash would offer for the words, the last of which is being typed. */
static char *complete(const char *words, const char *index) {
    char *script =
        golden_replace("source <(@program completion bash) || exit 9; COMP_WORDS=(@typed); "
                       "COMP_CWORD=@index; _headroom; echo ${COMPREPLY[*]}",
                       "@program", HEADROOM_PROGRAM);
    script = golden_replace(golden_replace(script, "@typed", words), "@index", index);
    const golden_result r = GOLDEN_RUN("-c", .program = "bash", .last_arg = script);
    CHECK_STR(r.err, "");
    CHECK_EQ(r.code, 0);
    return r.out;
}

TEST(completion, bash_offers_commands_flags_and_choices) {
    if (!golden_has_program("bash")) {
        test_skip("bash is not installed");
    }
    char *every = complete("headroom ''", "1");
    CHECK(strlen(every) > 0);
    every[strlen(every) - 1] = ' '; /* the newline */
    CHECK_STR(every, all_commands("", " "));
    CHECK_STR(complete("headroom de", "1"), "devices\n");
    CHECK_STR(complete("headroom devices --js", "2"), "--json\n");
    CHECK_STR(complete("headroom completion ''", "2"), "bash zsh\n");
    CHECK_STR(complete("headroom help do", "2"), "doctor\n");
    CHECK_STR(complete("headroom --log-level d", "2"), "debug\n");
    CHECK_STR(complete("headroom --log-level debug ver", "3"), "version\n");
    CHECK_STR(complete("headroom devices --log-level = i", "4"), "info\n");
    CHECK_STR(complete("headroom devices --no", "2"), "--no-cuda\n");
    CHECK_STR(complete("headroom devices --threads ''", "3"), "\n");
    CHECK_STR(complete("headroom nonsense ''", "2"), "\n");
}

TEST(completion, scripts_are_the_ones_we_read) {
    golden_compare("completion_bash", GOLDEN_RUN("completion bash").out);
    golden_compare("completion_zsh", GOLDEN_RUN("completion zsh").out);
}

TEST(completion, zsh_accepts_the_script) {
    if (!golden_has_program("zsh")) {
        test_skip("zsh is not installed: the syntax of its script was not checked");
    }
    char path[] = "/tmp/headroom-golden-XXXXXX";
    CHECK(mkstemp(path) >= 0);
    GOLDEN_RUN("completion zsh", .stdout_to = path);
    const golden_result r = GOLDEN_RUN("-n", .program = "zsh", .last_arg = path);
    unlink(path);
    CHECK_STR(r.err, "");
    CHECK_EQ(r.code, 0);
}

TEST(man, pages_are_the_ones_we_read) {
    golden_compare("man_headroom", GOLDEN_RUN("man").out);
    golden_compare("man_devices", GOLDEN_RUN("man devices").out);
}

TEST(man, groff_finds_nothing_to_warn_of) {
    if (!golden_has_program("groff")) {
        test_skip("groff is not installed");
    }
    static const char *const pages[] = {"man",      "man devices", "man doctor", "man completion",
                                        "man help", "man version"};
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        char path[] = "/tmp/headroom-golden-XXXXXX";
        CHECK(mkstemp(path) >= 0);
        CHECK_EQ(GOLDEN_RUN(pages[i], .stdout_to = path).code, 0);
        const golden_result r =
            GOLDEN_RUN("-man -Tutf8 -ww -z", .program = "groff", .last_arg = path);
        unlink(path);
        CHECK_STR(r.err, "");
        CHECK_EQ(r.code, 0);
    }
}

TEST(man, dir_writes_one_page_a_command) {
    char dir[] = "/tmp/headroom-golden-XXXXXX";
    CHECK(mkdtemp(dir));
    const golden_result r = GOLDEN_RUN("man --dir", .last_arg = dir);
    const golden_result list = GOLDEN_RUN("-1", .program = "ls", .last_arg = dir);
    GOLDEN_RUN("-rf", .program = "rm", .last_arg = dir);
    CHECK_EQ(r.code, 0);
    char pages[4096];
    snprintf(pages, sizeof pages, "%sheadroom.1\n", all_commands("headroom-", ".1\n"));
    CHECK_STR(list.out, pages);
    const golden_result bad = GOLDEN_RUN("man --dir /dev/null/x");
    CHECK_EQ(bad.code, 3);
    CHECK(strstr(bad.err, "/dev/null/x/headroom.1"));
}

TEST(docs, commands_md_is_what_the_program_prints) {
    const golden_result r = GOLDEN_RUN("man --markdown");
    CHECK_EQ(r.code, 0);
    golden_compare_file("docs/commands.md", r.out);
}
