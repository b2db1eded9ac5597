/* What the commands say: in a pipe, on terminals of several widths, without colour, as JSON.  A null device of a fixed
 * size, asked for alone, makes the answers the same on every machine. */
#include "golden.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NULL_ONLY "null:0 --null-device 8GiB"

/* ---- devices ---- */

TEST(devices, in_a_pipe_is_a_plain_table) {
    const golden_result r = GOLDEN_RUN("devices " NULL_ONLY);
    CHECK_STR(r.err, "");
    CHECK_EQ(r.code, 0);
    CHECK(!golden_has_control(r.out));
    golden_compare("devices_pipe", r.out);
}

TEST(devices, on_a_terminal_is_coloured) {
    const golden_result r = GOLDEN_RUN("devices " NULL_ONLY, .columns = 120);
    CHECK_EQ(r.code, 0);
    CHECK(strstr(r.out, "\033[1m"));
    golden_compare("devices_tty", r.out);
}

TEST(devices, no_color_on_a_terminal_has_no_control_character) {
    const golden_result r = GOLDEN_RUN("devices " NULL_ONLY, .columns = 120, .env = {"NO_COLOR=1"});
    CHECK(!golden_has_control(r.out));
    CHECK_STR(r.out, GOLDEN_RUN("devices " NULL_ONLY).out);
}

TEST(devices, a_dumb_terminal_has_no_control_character) {
    const golden_result r = GOLDEN_RUN("devices " NULL_ONLY, .columns = 120, .env = {"TERM=dumb"});
    CHECK(!golden_has_control(r.out));
}

TEST(devices, on_a_narrow_terminal_stands_upright) {
    const golden_result r = GOLDEN_RUN("devices " NULL_ONLY " --color never", .columns = 40);
    CHECK_EQ(r.code, 0);
    for (const char *line = r.out; *line;) {
        const size_t length = strcspn(line, "\n");
        CHECK_LE(length, 40);
        line += length + (line[length] == '\n');
    }
    golden_compare("devices_narrow", r.out);
}

TEST(devices, color_always_colours_a_pipe_and_beats_no_color) {
    const golden_result r = GOLDEN_RUN("devices --color=always " NULL_ONLY, .env = {"NO_COLOR=1"});
    CHECK(strstr(r.out, "\033[1m"));
}

TEST(devices, json_has_every_key_and_the_parts_add_up) {
    const golden_result r = GOLDEN_RUN("devices --json --no-cuda --null-device 8GiB");
    CHECK_EQ(r.code, 0);
    json_error_t error;
    json_t *root = json_loadb(r.out, r.out_bytes, JSON_REJECT_DUPLICATES, &error);
    CHECK(root);
    CHECK_EQ(json_integer_value(json_object_get(root, "version")), 1);
    json_t *devices = json_object_get(root, "devices"), *device;
    CHECK(json_array_size(devices) >= 2);
    static const char *const keys[] = {"total_bytes",  "free_bytes", "ours_bytes",
                                       "others_bytes", "page_bytes", "runtime_bytes",
                                       "limits_bytes", "held_bytes", "logical_count"};
    size_t i;
    int nulls = 0;
    json_array_foreach(devices, i, device) {
        CHECK(json_is_string(json_object_get(device, "name")));
        CHECK(json_is_string(json_object_get(device, "description")));
        CHECK(json_is_string(json_object_get(device, "backend")));
        json_int_t values[9];
        for (size_t k = 0; k < 9; k++) {
            CHECK(json_is_integer(json_object_get(device, keys[k])));
            values[k] = json_integer_value(json_object_get(device, keys[k]));
            CHECK(values[k] >= 0);
        }
        CHECK_EQ(values[0], values[1] + values[2] + values[3]);
        if (!strcmp(json_string_value(json_object_get(device, "name")), "null:0")) {
            nulls++;
            CHECK_EQ(values[0], 8589934592);
        }
    }
    CHECK_EQ(nulls, 1);
    json_decref(root);
}

TEST(devices, figures_of_a_line_add_up_as_printed) {
    const golden_result r = GOLDEN_RUN("devices host");
    CHECK_EQ(r.code, 0);
    /* the last eight words before "none" are: total unit free unit ours unit others unit */
    const char *line = strstr(r.out, "\nhost");
    CHECK(line);
    double values[4] = {-1, -1, -1, -1};
    int found = 0;
    for (const char *p = line + 1; *p && *p != '\n' && found < 4; p++) {
        char unit[4] = "";
        double value;
        if (p[-1] == ' ' && isdigit((unsigned char)*p) && sscanf(p, "%lf %3s", &value, unit) == 2 &&
            (!strcmp(unit, "GiB") || !strcmp(unit, "MiB"))) {
            values[found++] = value;
        }
    }
    CHECK_EQ(found, 4);
    CHECK_EQ((long long)(values[0] * 100 + 0.5),
             (long long)((values[1] + values[2] + values[3]) * 100 + 0.5));
}

TEST(devices, an_unknown_visible_device_is_bad_input) {
    const golden_result r = GOLDEN_RUN("devices --visible-devices cuda:99");
    CHECK_EQ(r.code, 2);
    CHECK_STR(r.out, "");
    CHECK(strstr(r.err, "cuda:99"));
}

TEST(devices, an_unknown_name_is_bad_input_with_the_names_there_are) {
    const golden_result r = GOLDEN_RUN("devices hots");
    CHECK_EQ(r.code, 2);
    CHECK_STR(r.out, "");
    CHECK(strstr(r.err, "hots"));
    CHECK(strstr(r.err, "host"));
    CHECK_EQ(GOLDEN_RUN("doctor hots").code, 2);
}

TEST(devices, the_variable_is_read_and_the_flag_is_stronger) {
    const char *env = "HEADROOM_VISIBLE_DEVICES=null:0";
    const golden_result by_env = GOLDEN_RUN("devices --null-device 8GiB", .env = {env});
    const char *null = strstr(by_env.out, "\nnull:0"), *host = strstr(by_env.out, "\nhost");
    CHECK(null && host && null < host);
    const golden_result by_flag =
        GOLDEN_RUN("devices --null-device 8GiB --visible-devices host", .env = {env});
    CHECK(strstr(by_flag.out, "\nhost"));
    CHECK(!strstr(by_flag.out, "\nnull:0"));
}

/* ---- doctor ---- */

/* Drops what differs between machines: the lines of the sections "machine" and "found". */
static char *mask_doctor(const char *text) {
    char *masked = golden_replace(text, "\001", ""), *to = masked;
    int dropped = 0;
    for (const char *line = text; *line;) {
        const size_t length = strcspn(line, "\n") + 1;
        if (line[0] != ' ') {
            dropped = !strncmp(line, "machine\n", 8) || !strncmp(line, "found\n", 6);
        }
        if (line[0] != ' ' || !dropped) {
            memcpy(to, line, length);
            to += length;
        }
        line += length;
    }
    *to = 0;
    return masked;
}

TEST(doctor, says_yes_when_all_is_right) {
    const golden_result r = GOLDEN_RUN(
        "doctor --no-cuda " NULL_ONLY,
        .env = {"HEADROOM_CACHE_DIR=/tmp/hr-golden", "NO_COLOR=1", "CUDA_VISIBLE_DEVICES=0,1"});
    CHECK_STR(r.err, "");
    CHECK_EQ(r.code, 0);
    CHECK(!golden_has_control(r.out));
    golden_compare("doctor_good", mask_doctor(r.out));
}

TEST(doctor, a_cache_directory_that_cannot_be_written_fails) {
    const golden_result r = GOLDEN_RUN("doctor --no-cuda " NULL_ONLY,
                                       .env = {"HEADROOM_CACHE_DIR=/dev/null/x", "NO_COLOR=1"});
    CHECK_EQ(r.code, 1);
    golden_compare("doctor_no_cache", mask_doctor(r.out));
}

TEST(doctor, a_bad_variable_is_a_failed_check_and_not_the_end) {
    const golden_result r = GOLDEN_RUN(
        "doctor host", .env = {"HEADROOM_LOG=loud", "HEADROOM_CACHE_DIR=/tmp/hr-golden"});
    CHECK_EQ(r.code, 1);
    CHECK(strstr(r.out, "HEADROOM_LOG=loud"));
    CHECK(strstr(r.out, "copies and compares"));
}

TEST(doctor, on_a_narrow_terminal_wraps_what_is_long) {
    const golden_result r = GOLDEN_RUN("doctor --no-cuda --color never " NULL_ONLY, .columns = 48,
                                       .env = {"HEADROOM_CACHE_DIR=/tmp/hr-golden"});
    CHECK_EQ(r.code, 0);
    golden_compare("doctor_narrow", mask_doctor(r.out));
    for (const char *line = mask_doctor(r.out); *line;) {
        const size_t length = strcspn(line, "\n");
        CHECK_LE(length, 48);
        line += length + (line[length] == '\n');
    }
}

TEST(doctor, leaves_no_cache_directory_behind) {
    char dir[] = "/tmp/headroom-golden-XXXXXX", variable[128], inner[128];
    CHECK(mkdtemp(dir));
    snprintf(variable, sizeof variable, "HEADROOM_CACHE_DIR=%s/a/b", dir);
    snprintf(inner, sizeof inner, "%s/a", dir);
    const golden_result r = GOLDEN_RUN("doctor " NULL_ONLY, .env = {variable});
    const int left = access(inner, F_OK) == 0;
    rmdir(dir);
    CHECK_EQ(r.code, 0);
    CHECK(!left);
}

TEST(doctor, tries_the_host_for_real) {
    const golden_result r = GOLDEN_RUN("doctor --json --visible-devices host",
                                       .env = {"HEADROOM_CACHE_DIR=/tmp/hr-golden"});
    CHECK_EQ(r.code, 0);
    json_t *root = json_loadb(r.out, r.out_bytes, JSON_REJECT_DUPLICATES, NULL);
    CHECK(root);
    CHECK_EQ(json_integer_value(json_object_get(root, "version")), 1);
    CHECK(json_is_true(json_object_get(root, "ok")));
    CHECK(json_is_object(json_object_get(root, "machine")));
    CHECK(json_array_size(json_object_get(root, "components")) >= 2);
    json_t *checks = json_object_get(root, "checks"), *item;
    size_t i, copies = 0, ok = 0;
    json_array_foreach(checks, i, item) {
        const char *result = json_string_value(json_object_get(item, "result"));
        const char *subject = json_string_value(json_object_get(item, "subject"));
        const char *name = json_string_value(json_object_get(item, "name"));
        ok += !strcmp(result, "ok");
        copies += !strcmp(subject, "host") && !strncmp(name, "copies", 6) && !strcmp(result, "ok");
    }
    CHECK_EQ(copies, 2);
    CHECK_EQ(json_integer_value(json_object_get(root, "checks_ok")), ok);
    json_array_foreach(json_object_get(root, "settings"), i, item) {
        CHECK(json_is_string(json_object_get(item, "origin")));
        if (!strcmp(json_string_value(json_object_get(item, "name")), "cache-dir")) {
            CHECK_STR(json_string_value(json_object_get(item, "origin")), "environment");
        }
        if (!strcmp(json_string_value(json_object_get(item, "name")), "visible-devices")) {
            CHECK_STR(json_string_value(json_object_get(item, "origin")), "flag");
        }
        if (!strcmp(json_string_value(json_object_get(item, "name")), "log")) {
            CHECK_STR(json_string_value(json_object_get(item, "origin")), "default");
        }
    }
    json_decref(root);
}

TEST(doctor, control_characters_of_the_environment_are_not_echoed) {
    const golden_result r = GOLDEN_RUN(
        "doctor " NULL_ONLY, .env = {"CUDA_VISIBLE_DEVICES=\033[31m\007evil", "NO_COLOR=1"});
    CHECK(!golden_has_control(r.out));
    CHECK(strstr(r.out, "\\x1b[31m\\x07evil"));
}

/* ---- version, help, log ---- */

TEST(version, in_words_and_as_json) {
    const golden_result words = GOLDEN_RUN("version");
    golden_compare("version", words.out);
    CHECK_STR(GOLDEN_RUN("--version").out, words.out);
    const golden_result r = GOLDEN_RUN("version --json");
    json_t *root = json_loadb(r.out, r.out_bytes, JSON_REJECT_DUPLICATES, NULL);
    CHECK_EQ(json_integer_value(json_object_get(root, "version")), 1);
    CHECK(json_is_string(json_object_get(root, "headroom")));
    json_decref(root);
}

TEST(help, of_the_program) {
    const golden_result r = GOLDEN_RUN("help");
    CHECK_EQ(r.code, 0);
    golden_compare("help", r.out);
    CHECK_STR(GOLDEN_RUN("--help").out, r.out);
    CHECK_STR(GOLDEN_RUN("-h").out, r.out);
}

TEST(help, of_a_command) {
    const golden_result r = GOLDEN_RUN("help devices");
    CHECK_EQ(r.code, 0);
    golden_compare("help_devices", r.out);
    CHECK_STR(GOLDEN_RUN("devices --help").out, r.out);
    CHECK_STR(GOLDEN_RUN("--help devices").out, r.out);
}

TEST(help, wraps_at_a_narrow_terminal) {
    const golden_result r = GOLDEN_RUN("help doctor --color never", .columns = 60);
    CHECK(!golden_has_control(r.out));
    for (const char *line = r.out; *line;) {
        const size_t length = strcspn(line, "\n");
        CHECK_LE(length, 60);
        line += length + (line[length] == '\n');
    }
    golden_compare("help_doctor_narrow", r.out);
}

TEST(help, works_with_a_broken_environment) {
    CHECK_EQ(GOLDEN_RUN("help", .env = {"HEADROOM_LOG=loud"}).code, 0);
    CHECK_EQ(GOLDEN_RUN("version", .env = {"HEADROOM_LOG=loud"}).code, 0);
    const golden_result r = GOLDEN_RUN("devices", .env = {"HEADROOM_LOG=loud"});
    CHECK_EQ(r.code, 2);
    CHECK(strstr(r.err, "HEADROOM_LOG=loud"));
}

TEST(log, debug_lines_go_to_stderr_and_never_to_stdout) {
    const golden_result quiet = GOLDEN_RUN("devices nowhere");
    const golden_result loud = GOLDEN_RUN("devices nowhere", .env = {"HEADROOM_LOG=debug"});
    CHECK(!strstr(quiet.err, "debug: "));
    CHECK_STR(loud.out, "");
    CHECK(strstr(loud.err, "headroom: debug: "));
    CHECK_STR(GOLDEN_RUN("devices nowhere --log debug").err, loud.err);
}

/* Sanitizer builds end with exit code 1 and a report when something was not given back; others learn nothing here. */
TEST_TIMEOUT(memory, every_command_gives_its_memory_back, 120) {
    static const char *const commands[] = {"devices",       "devices --json", "doctor",
                                           "doctor --json", "help devices",   "devices nowhere",
                                           "devices --jsno"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        const golden_result r =
            GOLDEN_RUN(commands[i],
                       .env = {"ASAN_OPTIONS=detect_leaks=1", "HEADROOM_CACHE_DIR=/tmp/hr-golden"});
        CHECK(!strstr(r.err, "Sanitizer"));
        CHECK_EQ(r.code, i < 5 ? 0 : 2);
    }
}
