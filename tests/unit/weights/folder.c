/* The folder of a run: locked before it is looked at. */
#include "weights/folder.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "pictures.h"
#include "test.h"

static const char *in(const char *name) {
    static char path[2048];
    snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    return path;
}

TEST(folder, is_made_locked_and_removed_when_nothing_was_written) {
    hri_folder f, second;
    hri_prose why = {""};
    CHECK_OK(hri_folder_open(in("a/b/c/"), HRI_FOLDER_ANY, &f, &why));
    CHECK_EQ(access(in("a/b/c"), F_OK), 0);
    CHECK_STATUS(hri_folder_open(in("a/b/c"), HRI_FOLDER_ANY, &second, &why), HR_E_BUSY);
    CHECK(strstr(why.text, "another run"));
    CHECK_STATUS(hri_folder_open(in("a/b/c"), HRI_FOLDER_NEW, &second, &why), HR_E_EXISTS);
    hri_folder_close(&f);
    hri_folder_close(&f);
    CHECK(access(in("a"), F_OK) != 0);
    CHECK_EQ(mkdir(in("a"), 0755), 0);
    CHECK_OK(hri_folder_open(in("a/b"), HRI_FOLDER_NEW, &f, &why));
    test_write(test_folder(), "a/b/file", "x", 1);
    hri_folder_close(&f);
    CHECK_EQ(access(in("a/b/file"), F_OK), 0);
    CHECK_OK(hri_folder_open(in("a/b"), HRI_FOLDER_ANY, &f, &why));
    hri_folder_close(&f);
    CHECK_EQ(access(in("a/b"), F_OK), 0);
}

TEST(folder, a_long_path_is_that_path) {
    char path[1600];
    hri_folder f;
    struct stat info;
    int n = snprintf(path, sizeof path, "%s", test_folder());
    for (int i = 0; i < 6; i++) {
        n += snprintf(path + n, sizeof path - (size_t)n, "/%0200d", i);
    }
    CHECK_OK(hri_folder_open(path, HRI_FOLDER_ANY, &f, NULL));
    CHECK(stat(path, &info) == 0 && S_ISDIR(info.st_mode));
    hri_folder_close(&f);
}

TEST(folder, one_that_cannot_be_written_is_refused_at_once) {
    hri_folder f;
    hri_prose why = {""};
    CHECK_STATUS(hri_folder_open("/proc/self/nothing", HRI_FOLDER_ANY, &f, &why), HR_E_NOT_FOUND);
    CHECK_STATUS(hri_folder_open("/proc/self", HRI_FOLDER_ANY, &f, &why), HR_E_NOT_FOUND);
    CHECK(strstr(why.text, "not writable"));
    test_write(test_folder(), "file", "x", 1);
    CHECK_STATUS(hri_folder_open(in("file"), HRI_FOLDER_ANY, &f, &why), HR_E_IO);
    CHECK_STATUS(hri_folder_open(in("file/below"), HRI_FOLDER_ANY, &f, &why), HR_E_IO);
}

/* Many processes want the same folder: exactly one of them gets it, every time, and has it until it ends. */
TEST(folder, of_many_at_once_one_gets_it) {
    enum { MANY = 8 };
    for (int round = 0; round < 20; round++) {
        char name[2048], inside[2100], byte;
        int hold[2], won = 0, status;
        snprintf(name, sizeof name, "%s/race%d/below", test_folder(), round);
        snprintf(inside, sizeof inside, "%s/won", name);
        CHECK_EQ(pipe(hold), 0);
        for (int i = 0; i < MANY; i++) {
            const pid_t child = fork();
            CHECK(child >= 0);
            if (!child) {
                hri_folder f;
                close(hold[1]);
                if (hri_folder_open(name, i % 2 ? HRI_FOLDER_ANY : HRI_FOLDER_NEW, &f, NULL) !=
                    HR_OK) {
                    _exit(1);
                }
                const int first = fopen(inside, "wx") != NULL;
                while (read(hold[0], &byte, 1) > 0) { /* until all others have tried */
                }
                _exit(first ? 0 : 2);
            }
        }
        for (int i = 0; i < MANY; i++) {
            if (i == MANY - 1) {
                close(hold[1]);
            }
            CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) != 2);
            won += WEXITSTATUS(status) == 0;
        }
        close(hold[0]);
        CHECK_EQ(won, 1);
    }
}

#ifdef HEADROOM_FAULTS
TEST(folder, every_call_to_the_outside_may_fail_and_nothing_stays) {
    for (uint64_t nth = 1;; nth++) {
        CHECK(nth < 100);
        hri_folder f;
        const int64_t live = hri_fault_live_allocs();
        hri_fault_set(HRI_FAULT_ANY, nth, 0);
        const hr_status status = hri_folder_open(in("x/y"), HRI_FOLDER_ANY, &f, NULL);
        const uint64_t delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ANY, 0, 0);
        if (status == HR_OK) {
            hri_folder_close(&f);
        }
        CHECK_EQ(hri_fault_live_allocs(), live);
        /* One that was made and could not be locked may be another's by now: it stays. */
        CHECK(access(in("x"), F_OK) != 0 || rmdir(in("x/y")) == 0);
        (void)rmdir(in("x"));
        if (!delivered) {
            CHECK_OK(status);
            break;
        }
        CHECK(status == HR_E_IO || status == HR_E_NOMEM_HOST);
    }
}
#endif
