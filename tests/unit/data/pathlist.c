/* Lists of paths: in order, whole, and counted to the end when the budget has no room. */
#include "data/formats/pathlist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/pipeline.h"
#include "test.h"

static hri_stage stage;
static hr_pipeline *pipeline;

static void open_list(hri_pathlist *list, uint64_t budget) {
    hr_pipeline_options o = {.size = sizeof o, .budget_bytes = budget, .workers = 1};
    CHECK_OK(hr_pipeline_create(&o, &pipeline));
    stage = (hri_stage){.pipeline = pipeline};
    CHECK_OK(
        hri_ledger_open(hri_pool_ledger(hri_pipeline_pool(pipeline)), "list", 0, &stage.account));
    *list = (hri_pathlist){.stage = &stage};
}

static void close_list(hri_pathlist *list) {
    hri_pathlist_deinit(list);
    CHECK_OK(hri_ledger_check(hri_pool_ledger(hri_pipeline_pool(pipeline))));
    hr_pipeline_destroy(pipeline);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

TEST(pathlist, keeps_folders_and_sorted_names) {
    enum { FOLDERS = 300, MOST = 200 };
    hri_pathlist list;
    uint64_t seed = test_seed();
    static char *want[FOLDERS * MOST];
    size_t count = 0;
    open_list(&list, 64 << 20);
    for (int f = 0; f < FOLDERS; f++) {
        char folder[64], name[64], path[160];
        snprintf(folder, sizeof folder, "f%d/%0*d", f, (int)(test_random(&seed) % 30) + 1, f);
        CHECK_OK(hri_pathlist_enter(&list, folder));
        const uint64_t first = list.count, n = test_random(&seed) % MOST;
        for (uint64_t i = 0; i < n; i++) {
            snprintf(name, sizeof name, "%llu.jpg", (unsigned long long)test_random(&seed));
            CHECK_OK(hri_pathlist_add(&list, name));
            snprintf(path, sizeof path, "%s/%s", folder, name);
            want[count++] = strdup(path);
        }
        hri_pathlist_sort(&list, first);
        qsort(want + first, n, sizeof want[0], by_text);
    }
    CHECK_EQ(list.count, count);
    CHECK_OK(hri_pathlist_check(&list, NULL));
    CHECK_EQ(stage.account->held, list.wanted_bytes);
    CHECK_LE(stage.account->held, count * 32); /* 20 digits, ".jpg", a NUL, four bytes */
    for (size_t i = 0; i < count; i++) {
        char path[160];
        CHECK_EQ(hri_pathlist_print(&list, i, path, sizeof path), strlen(want[i]));
        CHECK_STR(path, want[i]);
        free(want[i]);
    }
    close_list(&list);
}

TEST(pathlist, without_room_goes_on_counting_and_never_waits) {
    hri_pathlist large, small;
    uint64_t wanted = 0;
    for (int round = 0; round < 2; round++) {
        hri_pathlist *list = round ? &small : &large;
        open_list(list, round ? 100 << 10 : 64 << 20);
        CHECK_OK(hri_pathlist_enter(list, ""));
        for (int i = 0; i < 50000; i++) {
            char name[64];
            snprintf(name, sizeof name, "/a/folder/%d.png", i);
            CHECK_OK(hri_pathlist_add(list, name));
        }
        hri_pathlist_sort(list, 0);
        hri_prose why = {""};
        CHECK_STATUS(hri_pathlist_check(list, &why), round ? HR_E_LIMIT : HR_OK);
        CHECK(!round || (list->wanted_bytes == wanted && strstr(why.text, "50000 files")));
        wanted = list->wanted_bytes;
        close_list(list);
    }
}
