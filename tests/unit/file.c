/* Files: read whole under a cap, replaced whole or not at all, whatever fails on the way. */
#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"

static char folder[64];

static const char *in_folder(const char *name) {
    static char path[128];
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/tmp/headroom-file-XXXXXX");
        CHECK(mkdtemp(folder));
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int count_files(void) {
    DIR *d = opendir(folder);
    CHECK(d);
    int count = 0;
    for (struct dirent *e; (e = readdir(d));) {
        count += e->d_name[0] != '.';
    }
    closedir(d);
    return count;
}

static void remove_folder(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK_EQ(system(command), 0);
}

static void check_holds(const char *path, const char *wanted) {
    char *text;
    size_t bytes;
    CHECK_OK(hri_file_read(path, 1 << 20, &text, &bytes, NULL));
    CHECK_STR(text, wanted);
    CHECK_EQ(bytes, strlen(wanted));
    hri_free(text);
}

TEST(file, what_is_written_is_read) {
    const char *path = in_folder("a");
    CHECK(!hri_file_exists(path));
    CHECK_OK(hri_file_write(path, "hello", 5, NULL));
    CHECK(hri_file_exists(path));
    check_holds(path, "hello");
    CHECK_OK(hri_file_write(path, "", 0, NULL));
    check_holds(path, "");
    CHECK_EQ(count_files(), 1);
    struct stat info;
    const mode_t mask = umask(0);
    umask(mask);
    CHECK(stat(path, &info) == 0 && (info.st_mode & 0777) == (0666 & ~mask));
    CHECK_EQ(chmod(path, 0640), 0);
    CHECK_OK(hri_file_write(path, "x", 1, NULL));
    CHECK(stat(path, &info) == 0 && (info.st_mode & 0777) == 0640);
    remove_folder();
}

TEST(file, only_a_regular_file_is_opened_and_nothing_is_waited_for) {
    hri_prose why = {""};
    int fd = -7;
    uint64_t bytes = 0;
    CHECK_OK(hri_file_write(in_folder("a"), "12345", 5, NULL));
    CHECK_OK(hri_file_open_regular(in_folder("a"), &fd, &bytes, &why));
    CHECK(fd >= 0 && bytes == 5);
    close(fd);
    fd = -7;
    CHECK_EQ(mkfifo(in_folder("fifo"), 0600), 0);
    CHECK_STATUS(hri_file_open_regular(in_folder("fifo"), &fd, &bytes, &why), HR_E_FORMAT);
    CHECK(strstr(why.text, "fifo: not a regular file but a FIFO"));
    CHECK_STATUS(hri_file_open_regular(folder, &fd, &bytes, &why), HR_E_FORMAT);
    CHECK(strstr(why.text, "a folder"));
    CHECK_STATUS(hri_file_open_regular("/dev/null", &fd, &bytes, &why), HR_E_FORMAT);
    CHECK(strstr(why.text, "a device"));
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", in_folder("socket"));
    const int s = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(s >= 0 && bind(s, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK_STATUS(hri_file_open_regular(in_folder("socket"), &fd, &bytes, &why), HR_E_FORMAT);
    CHECK(strstr(why.text, "a socket"));
    close(s);
    CHECK_STATUS(hri_file_open_regular(in_folder("none"), &fd, &bytes, &why), HR_E_NOT_FOUND);
    CHECK_EQ(fd, -7);
    remove_folder();
}

TEST(file, a_file_over_the_cap_is_refused) {
    const char *path = in_folder("a");
    char *text = NULL;
    hri_prose why = {""};
    CHECK_OK(hri_file_write(path, "12345", 5, NULL));
    CHECK_OK(hri_file_read(path, 5, &text, NULL, &why));
    hri_free(text);
    text = NULL;
    CHECK_STATUS(hri_file_read(path, 4, &text, NULL, &why), HR_E_RANGE);
    CHECK(!text && strstr(why.text, "/a: longer than 4 bytes"));
    remove_folder();
}

TEST(file, files_without_a_size_are_read_too) {
    char *text;
    size_t bytes;
    CHECK_OK(hri_file_read("/proc/self/status", 1 << 20, &text, &bytes, NULL));
    CHECK(bytes > 100 && strlen(text) == bytes && strstr(text, "VmRSS"));
    hri_free(text);
}

TEST(file, refusals_name_the_path) {
    char *text = NULL;
    hri_prose why = {""};
    CHECK_STATUS(hri_file_read("/nowhere/x", 10, &text, NULL, &why), HR_E_NOT_FOUND);
    CHECK_STR(why.text, "/nowhere/x: no such file or directory");
    CHECK_STATUS(hri_file_write("/nowhere/x", "", 0, &why), HR_E_NOT_FOUND);
    CHECK_STATUS(hri_file_read("/tmp", 10, &text, NULL, &why), HR_E_IO);
    CHECK_STR(why.text, "/tmp: read: Is a directory");
    CHECK(!text);
}

TEST(file, an_abandoned_writer_leaves_the_old_file) {
    const char *path = in_folder("a");
    CHECK_OK(hri_file_write(path, "old", 3, NULL));
    hri_writer w;
    CHECK_OK(hri_writer_open(&w, path, NULL));
    CHECK_OK(hri_writer_write(&w, "new", 3, NULL));
    CHECK_EQ(w.bytes, 3);
    CHECK_EQ(count_files(), 2);
    hri_writer_abandon(&w);
    hri_writer_abandon(&w);
    CHECK_EQ(count_files(), 1);
    check_holds(path, "old");
    CHECK_OK(hri_writer_open(&w, path, NULL));
    CHECK_OK(hri_writer_write(&w, "new", 3, NULL));
    CHECK_OK(hri_writer_write(&w, "er", 2, NULL));
    CHECK_OK(hri_writer_commit(&w, NULL));
    hri_writer_abandon(&w);
    check_holds(path, "newer");
    remove_folder();
}

/* Pieces go to the disk while the next are written: of every length, none is lost between two. */
TEST(file, a_link_stays_and_the_file_behind_it_is_replaced) {
    char file[128], link[128];
    struct stat is;
    snprintf(file, sizeof file, "%s", in_folder("file"));
    snprintf(link, sizeof link, "%s", in_folder("link"));
    CHECK_OK(hri_file_write(file, "old", 3, NULL));
    CHECK_EQ(symlink("file", link), 0);
    CHECK_OK(hri_file_write(link, "new", 3, NULL));
    CHECK_EQ(lstat(link, &is), 0);
    CHECK(S_ISLNK(is.st_mode));
    check_holds(file, "new");
    CHECK_EQ(count_files(), 2);
    remove_folder();
}

TEST(file, a_pipe_is_written_as_it_is_and_one_that_nobody_reads_is_refused) {
    char path[128], got[8] = "";
    struct stat is;
    hri_prose why = {""};
    snprintf(path, sizeof path, "%s", in_folder("pipe"));
    CHECK_EQ(mkfifo(path, 0600), 0);
    CHECK_EQ(hri_file_write(path, "new", 3, &why), HR_E_IO);
    CHECK(strstr(why.text, "nobody reads from it"));
    const int end = open(path, O_RDONLY | O_NONBLOCK);
    CHECK(end >= 0);
    CHECK_OK(hri_file_write(path, "new", 3, &why));
    CHECK_EQ(read(end, got, sizeof got), 3);
    CHECK_STR(got, "new");
    close(end);
    CHECK_EQ(lstat(path, &is), 0);
    CHECK(S_ISFIFO(is.st_mode));
    CHECK_EQ(count_files(), 1);
    CHECK_OK(hri_file_write("/dev/null", "new", 3, &why));
    CHECK_EQ(lstat("/dev/null", &is), 0);
    CHECK(S_ISCHR(is.st_mode));
    remove_folder();
}

TEST(file, a_writer_of_many_pieces_loses_none) {
    enum { most = 3 * HRI_BEHIND_BYTES + 4099, step = 700001 };
    unsigned char *made = hri_malloc(most), *got = NULL;
    CHECK(made);
    for (size_t i = 0; i < most; i++) {
        made[i] = (unsigned char)(i * 2654435761u >> 13);
    }
    const char *path = in_folder("long");
    hri_writer w;
    CHECK_OK(hri_writer_open(&w, path, NULL));
    for (size_t at = 0; at < most; at += step) {
        CHECK_OK(hri_writer_write(&w, made + at, most - at < step ? most - at : step, NULL));
    }
    CHECK_OK(hri_writer_commit(&w, NULL));
    size_t bytes;
    CHECK_OK(hri_file_read(path, most, (char **)&got, &bytes, NULL));
    CHECK_EQ(bytes, most);
    CHECK(!memcmp(got, made, most));
    hri_free(got);
    CHECK_OK(hri_file_write(path, made, most, NULL));
    CHECK_OK(hri_file_read(path, most, (char **)&got, &bytes, NULL));
    CHECK(bytes == most && !memcmp(got, made, most));
    hri_free(got);
    hri_free(made);
    remove_folder();
}

TEST(path, parts_are_joined) {
    static const char *const cases[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"", "b", "b"}, {"a", "/b", "/b"}, {"/", "b", "/b"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *joined;
        CHECK_OK(hri_path_join(cases[i][0], cases[i][1], &joined));
        CHECK_STR(joined, cases[i][2]);
        hri_free(joined);
    }
    CHECK_STR(hri_path_name("a/b.c"), "b.c");
    CHECK_STR(hri_path_name("b.c"), "b.c");
}

TEST(path, folders_are_made_with_those_above) {
    hri_prose why = {""};
    CHECK_OK(hri_path_make_folders(in_folder("x/y//z/"), &why));
    CHECK(hri_file_exists(in_folder("x/y/z")));
    CHECK_OK(hri_path_make_folders(in_folder("x/y"), &why));
    CHECK_OK(hri_file_write(in_folder("file"), "", 0, &why));
    CHECK_STATUS(hri_path_make_folders(in_folder("file/z"), &why), HR_E_IO);
    CHECK(strstr(why.text, "/file: make the folder: File exists"));
    remove_folder();
}

static void check_cache(const char *own, const char *xdg, const char *home, const char *wanted) {
    char *path = NULL;
    own ? setenv("HEADROOM_CACHE_DIR", own, 1) : unsetenv("HEADROOM_CACHE_DIR");
    xdg ? setenv("XDG_CACHE_HOME", xdg, 1) : unsetenv("XDG_CACHE_HOME");
    home ? setenv("HOME", home, 1) : unsetenv("HOME");
    CHECK_STATUS(hri_path_cache(&path), wanted ? HR_OK : HR_E_NOT_FOUND);
    if (wanted) {
        CHECK_STR(path, wanted);
        hri_free(path);
    }
}

TEST(path, the_cache_follows_the_environment) {
    check_cache("/own", "/xdg", "/home/x", "/own");
    check_cache("", "/xdg", "/home/x", "/xdg/headroom");
    check_cache(NULL, "relative", "/home/x", "/home/x/.cache/headroom");
    check_cache(NULL, NULL, "/home/x", "/home/x/.cache/headroom");
    check_cache(NULL, NULL, NULL, NULL);
}

#ifdef HEADROOM_FAULTS
static int open_descriptors(void) {
    DIR *d = opendir("/proc/self/fd");
    CHECK(d);
    int count = 0;
    while (readdir(d)) {
        count++;
    }
    closedir(d);
    return count;
}

/* Replaces and reads a file with the nth fault of a kind; false when none was delivered. */
static bool replace_with_fault(hri_fault_kind kind, uint64_t nth, int for_ever) {
    char path[128];
    snprintf(path, sizeof path, "%s", in_folder("a"));
    CHECK_OK(hri_file_write(path, "old", 3, NULL));
    const int descriptors = open_descriptors();
    const int64_t allocs = hri_fault_live_allocs();
    hri_fault_set(kind, nth, for_ever);
    const hr_status written = hri_file_write(path, "new", 3, NULL);
    char *text = NULL;
    const hr_status read = hri_file_read(path, 100, &text, NULL, NULL);
    const bool delivered = hri_fault_delivered() > 0;
    hri_fault_set(kind, 0, 0);
    const hr_status wanted = kind == HRI_FAULT_ALLOC ? HR_E_NOMEM_HOST : HR_E_IO;
    CHECK(written == HR_OK || written == wanted);
    CHECK(read == HR_OK || read == wanted);
    if (read == HR_OK) {
        CHECK_STR(text, written == HR_OK ? "new" : "old");
    } else {
        CHECK(!text);
    }
    hri_free(text);
    check_holds(path, written == HR_OK ? "new" : "old");
    CHECK_EQ(count_files(), 1);
    CHECK_EQ(open_descriptors(), descriptors);
    CHECK_EQ(hri_fault_live_allocs(), allocs);
    return delivered;
}

TEST(file, every_refusal_leaves_the_old_file_or_the_new_one) {
    static const hri_fault_kind kinds[] = {HRI_FAULT_OPEN, HRI_FAULT_READ, HRI_FAULT_WRITE,
                                           HRI_FAULT_ALLOC};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        for (int for_ever = 0; for_ever < 2; for_ever++) {
            uint64_t nth = 1;
            while (replace_with_fault(kinds[k], nth, for_ever)) {
                nth++;
            }
            CHECK(nth > 1);
        }
    }
    remove_folder();
}
#endif
