/* Parts of the program that no command shows yet, or that need an odd terminal: progress, tables, cleaning,
 * cgroups. */
#include "golden.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cli/common/cli.h"
#include "job/machine.h"
#include "show/progress.h"
#include "base/table.h"

#define MS UINT64_C(1000000)

/* What was written to `file` since it was made. */
static char *written(FILE *file) {
    static char text[65536];
    fflush(file);
    const ssize_t count = pread(fileno(file), text, sizeof text - 1, 0);
    CHECK(count >= 0);
    text[count] = 0;
    return text;
}

static char *progress_of(const hri_term *term, uint64_t total, uint64_t step_ms) {
    static hri_out out;
    FILE *file = tmpfile();
    CHECK(file);
    hri_out_init(&out, fileno(file));
    hri_progress p;
    hri_progress_init(&p, &out, term, "Epoch 1/2", total, 0);
    for (uint64_t i = 1; i < total; i++) {
        hri_progress_step(&p, i, "loss: 0.5", i * step_ms * MS);
    }
    hri_progress_end(&p, total, "loss: 0.25", total * step_ms * MS);
    char *text = written(file);
    fclose(file);
    return text;
}

TEST(progress, in_a_file_is_a_few_whole_lines) {
    const hri_term file = {.tty = 0, .color = 0, .utf8 = 1, .width = SIZE_MAX};
    const char *text = progress_of(&file, 1000, 10);
    CHECK(!golden_has_control(text));
    golden_compare("progress_file", text);
}

TEST(progress, in_a_file_speaks_at_least_every_30_seconds) {
    const hri_term file = {.tty = 0, .utf8 = 1, .width = SIZE_MAX};
    const char *text = progress_of(&file, 10, 65000);
    size_t lines = 0;
    for (const char *p = text; *p; p++) {
        lines += *p == '\n';
    }
    CHECK_EQ(lines, 10);
}

TEST(progress, on_a_terminal_redraws_one_line_ten_times_a_second) {
    const hri_term tty = {.tty = 1, .color = 1, .utf8 = 1, .width = 80};
    const char *text = progress_of(&tty, 100, 10);
    size_t draws = 0, newlines = 0;
    for (const char *p = text; *p; p++) {
        draws += *p == '\r';
        newlines += *p == '\n';
    }
    CHECK_EQ(newlines, 1);
    CHECK_EQ(draws, 11); /* the first, nine redraws in the second that follows, the last */
    golden_compare("progress_tty", text);
}

TEST(progress, never_wider_than_the_terminal) {
    for (size_t width = 1; width < 90; width++) {
        const hri_term tty = {.tty = 1, .utf8 = width % 2 == 0, .width = width};
        char *text = progress_of(&tty, 100, 10), *save = NULL;
        for (char *line = strtok_r(text, "\r\n", &save); line;
             line = strtok_r(NULL, "\r\n", &save)) {
            CHECK(!strncmp(line, "\033[K", 3));
            CHECK_LE(hri_term_columns(line + 3), width > 1 ? width - 1 : 1);
        }
    }
}

TEST(progress, without_utf8_is_ascii) {
    const hri_term tty = {.tty = 1, .utf8 = 0, .width = 80};
    for (const char *p = progress_of(&tty, 100, 10); *p; p++) {
        CHECK((unsigned char)*p < 0x80);
    }
}

TEST(table, columns_when_they_fit_and_upright_when_not) {
    static const char *const headings[] = {"NAME", ">SIZE", "NOTE"};
    static hri_out out;
    for (size_t width = 10; width <= 60; width += 50) {
        hri_table table;
        hri_table_init(&table, headings, 3);
        hri_table_cell(&table, HRI_STYLE_BOLD, "first");
        hri_table_cell(&table, HRI_STYLE_PLAIN, "12 MiB");
        hri_table_cell(&table, HRI_STYLE_PLAIN, "%s", "");
        hri_table_cell(&table, HRI_STYLE_BOLD, "second one");
        hri_table_cell(&table, HRI_STYLE_PLAIN, "9 B");
        hri_table_cell(&table, HRI_STYLE_PLAIN, "%s", "not\nhere");
        FILE *file = tmpfile();
        CHECK(file);
        hri_out_init(&out, fileno(file));
        const hri_term term = {.width = width};
        CHECK_OK(hri_table_print(&table, &out, &term, 0, 1));
        hri_out_flush(&out);
        golden_compare(width == 10 ? "table_upright" : "table_columns", written(file));
        hri_table_deinit(&table);
        fclose(file);
    }
}

TEST(out, long_prints_arrive_whole) {
    static hri_out out;
    char *large = malloc(100001);
    CHECK(large);
    memset(large, 'x', 100000);
    large[100000] = 0;
    FILE *file = tmpfile();
    CHECK(file);
    hri_out_init(&out, fileno(file));
    hri_out_text(&out, "a");
    hri_out_printf(&out, "%s\n", large);
    hri_out_text(&out, large);
    CHECK_EQ(hri_out_finish(&out, 0), 0);
    CHECK_EQ(lseek(fileno(file), 0, SEEK_END), 200002);
    fclose(file);
    free(large);
}

static void put_file(const char *root, const char *path, const char *text) {
    char full[512];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* `limits`: path and text in turn, NULL at the end. */
static hr_machine_info machine_in(const char *membership, const char *const *limits) {
    char root[] = "/tmp/headroom-golden-XXXXXX";
    CHECK(mkdtemp(root));
    put_file(root, "proc/self/cgroup", membership);
    for (size_t i = 0; limits[i]; i += 2) {
        char path[128];
        snprintf(path, sizeof path, "sys/fs/cgroup/%s", limits[i]);
        put_file(root, path, limits[i + 1]);
    }
    hr_machine_info machine;
    hri_machine_read_cgroup(&machine, root);
    GOLDEN_RUN("-rf", .program = "rm", .last_arg = root);
    return machine;
}

TEST(machine, the_smallest_cgroup_limit_on_the_way_up_counts) {
    static const char *const limits[] = {
        "a/b/memory.max", "max\n", "a/memory.max", "1048576\n", "memory.max", "4194304\n", NULL};
    const hr_machine_info machine = machine_in("0::/a/b\n", limits);
    CHECK_EQ(machine.cgroup_limit_bytes, 1048576);
    CHECK(strstr(machine.cgroup_path, "/a/memory.max"));
}

TEST(machine, version_1_cgroups_are_read_and_their_huge_number_is_no_limit) {
    static const char *const limits[] = {"memory/c/memory.limit_in_bytes", "2097152\n", NULL};
    static const char *const none[] = {"memory/c/memory.limit_in_bytes", "9223372036854771712\n",
                                       NULL};
    const char *membership = "3:cpu:/x\n2:memory:/c\n0::/\n";
    CHECK_EQ(machine_in(membership, limits).cgroup_limit_bytes, 2097152);
    CHECK(machine_in(membership, none).cgroup_limit_bytes == UINT64_MAX);
}

TEST(machine, a_group_that_cannot_be_read_is_no_limit) {
    static const char *const limits[] = {"elsewhere/memory.max", "5\n", NULL};
    CHECK(machine_in("0::/gone\n", limits).cgroup_limit_bytes == UINT64_MAX);
    CHECK(machine_in("nonsense\n0:\n", limits).cgroup_limit_bytes == UINT64_MAX);
}
