/* A folder of files that may be run: what somebody else could have put there is the same as none. */
#include "base/cache_dir.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "pictures.h"
#include "test.h"

static char *in(const char *name) {
    static char path[2][512];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", test_folder(), name);
    return path[turn];
}

static unsigned mode_of(const char *path) {
    struct stat info;
    CHECK_EQ(lstat(path, &info), 0);
    return info.st_mode & 07777;
}

static hr_status try_read(const char *name) {
    hri_cache c = {.fd = -1};
    char *text = NULL;
    size_t bytes = 0;
    CHECK_OK(hri_cache_open(in("a/b"), NULL, 0, &c, NULL));
    const hr_status status = hri_cache_read(&c, name, 100, &text, &bytes);
    CHECK(status != HR_OK || (bytes == 5 && !strcmp(text, "hello")));
    hri_free(text);
    hri_cache_close(&c);
    return status;
}

static void set_up(void) {
    hri_cache c = {.fd = -1};
    CHECK_OK(hri_cache_open(in("a/b"), NULL, 1, &c, NULL));
    CHECK_OK(hri_cache_write(&c, "file", "hello", 5));
    hri_cache_close(&c);
}

TEST(cache_dir, folders_are_0700_and_files_0600_whatever_the_umask) {
    hri_cache c = {.fd = -1};
    umask(0);
    CHECK_STATUS(hri_cache_open(in("a/b"), "below", 0, &c, NULL), HR_E_NOT_FOUND);
    CHECK(access(in("a"), F_OK) != 0);
    CHECK_OK(hri_cache_open(in("a/b//"), "below", 1, &c, NULL));
    CHECK_OK(hri_cache_write(&c, "file", "hello", 5));
    CHECK_OK(hri_cache_append(&c, "lines", "one\n", 4));
    CHECK_OK(hri_cache_append(&c, "lines", "two\n", 4));
    char *text;
    size_t bytes;
    CHECK_OK(hri_cache_read(&c, "lines", 100, &text, &bytes));
    CHECK_STR(text, "one\ntwo\n");
    hri_free(text);
    CHECK_STATUS(hri_cache_read(&c, "lines", 7, &text, &bytes), HR_E_RANGE);
    CHECK_STATUS(hri_cache_read(&c, "none", 7, &text, &bytes), HR_E_NOT_FOUND);
    hri_cache_close(&c);
    CHECK(mode_of(in("a")) == 0700 && mode_of(in("a/b")) == 0700 &&
          mode_of(in("a/b/below")) == 0700);
    CHECK(mode_of(in("a/b/below/file")) == 0600 && mode_of(in("a/b/below/lines")) == 0600);
}

TEST(cache_dir, folders_that_others_may_write_or_that_are_links_are_refused) {
    hri_cache c = {.fd = -1};
    hri_prose why = {""};
    set_up();
    CHECK_EQ(chmod(in("a/b"), 0770), 0);
    CHECK_STATUS(hri_cache_open(in("a/b"), NULL, 1, &c, &why), HR_E_INVALID);
    CHECK(strstr(why.text, "writable by others"));
    CHECK_EQ(chmod(in("a/b"), 0755), 0); /* to read is no harm */
    CHECK_OK(hri_cache_open(in("a/b"), NULL, 1, &c, &why));
    hri_cache_close(&c);
    CHECK_EQ(symlink("b", in("a/link")), 0);
    CHECK_STATUS(hri_cache_open(in("a/link"), NULL, 1, &c, &why), HR_E_INVALID);
    CHECK_STATUS(hri_cache_open(in("a/link/"), NULL, 0, &c, &why), HR_E_INVALID);
    CHECK(strstr(why.text, "symbolic link"));
    CHECK_STATUS(hri_cache_open(in("a"), "link", 1, &c, &why), HR_E_INVALID);
    if (geteuid() == 0) {
        CHECK_EQ(chown(in("a/b"), 65534, 65534), 0);
        CHECK_STATUS(hri_cache_open(in("a/b"), NULL, 1, &c, &why), HR_E_INVALID);
        CHECK(strstr(why.text, "belongs to user 65534"));
    }
    CHECK_EQ(c.fd, -1);
}

TEST(cache_dir, files_that_others_could_have_put_there_are_none) {
    set_up();
    CHECK_STATUS(try_read("file"), HR_OK);
    CHECK_EQ(chmod(in("a/b/file"), 0620), 0);
    CHECK_STATUS(try_read("file"), HR_E_NOT_FOUND);
    CHECK_EQ(chmod(in("a/b/file"), 0600), 0);
    CHECK_EQ(symlink("file", in("a/b/link")), 0);
    CHECK(try_read("link") != HR_OK);
    CHECK_EQ(mkfifo(in("a/b/fifo"), 0600), 0);
    CHECK(try_read("fifo") != HR_OK); /* and at once */
    CHECK_EQ(link(in("a/b/file"), in("a/b/second")), 0);
    CHECK_STATUS(try_read("second"), HR_E_NOT_FOUND);
    CHECK_EQ(unlink(in("a/b/second")), 0);
    CHECK(try_read("../b/file") != HR_OK);
    if (geteuid() == 0) {
        CHECK_EQ(chown(in("a/b/file"), 65534, 65534), 0);
        CHECK_STATUS(try_read("file"), HR_E_NOT_FOUND);
    }
    set_up(); /* it is replaced, whatever it was */
    CHECK_STATUS(try_read("file"), HR_OK);
}

#ifdef HEADROOM_FAULTS
static hr_status all_of_it(void) {
    hri_cache c = {.fd = -1};
    char *text = NULL;
    size_t bytes;
    hr_status status = hri_cache_open(in("a/b"), "below", 1, &c, NULL);
    if (status == HR_OK) {
        status = hri_cache_write(&c, "file", "hello", 5);
    }
    if (status == HR_OK) {
        status = hri_cache_append(&c, "lines", "x\n", 2);
    }
    if (status == HR_OK) {
        status = hri_cache_read(&c, "file", 100, &text, &bytes);
    }
    hri_free(text);
    hri_cache_close(&c);
    return status;
}

TEST(cache_dir, every_call_to_the_outside_may_fail) {
    for (uint64_t nth = 1;; nth++) {
        CHECK(nth < 100);
        const int64_t live = hri_fault_live_allocs();
        hri_fault_set(HRI_FAULT_ANY, nth, 0);
        const hr_status status = all_of_it();
        const uint64_t delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ANY, 0, 0);
        CHECK_EQ(hri_fault_live_allocs(), live);
        CHECK_OK(all_of_it());
        if (!delivered) {
            CHECK_OK(status);
            break;
        }
        CHECK(status == HR_E_IO || status == HR_E_NOMEM_HOST);
    }
}
#endif
