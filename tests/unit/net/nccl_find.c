/* Where NCCL is looked for: what wheels of a site-packages brought. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/nccl_min.h"
#include "net/net.h"
#include "test.h"

typedef struct variables {
    const char *names[3], *values[3];
} variables;

static const char *value_of(void *user, const char *name) {
    const variables *v = user;
    for (int i = 0; i < 3 && v->names[i]; i++) {
        if (strcmp(v->names[i], name) == 0) {
            return v->values[i];
        }
    }
    return NULL;
}

static void put(const char *root, const char *packages) {
    char path[512];
    const int length =
        snprintf(path, sizeof path, "%s/%s/nvidia/nccl/lib/libnccl.so.2", root, packages);
    for (int i = 1; i < length; i++) {
        if (path[i] == '/') {
            path[i] = '\0';
            (void)!mkdir(path, 0700);
            path[i] = '/';
        }
    }
    FILE *file = fopen(path, "w");
    CHECK(file);
    fclose(file);
}

static int found(const variables *v, const char *root, const char *first) {
    hri_text places = {0};
    hri_nccl_places(value_of, (void *)(uintptr_t)v, root, &places);
    CHECK_OK(hri_text_status(&places));
    const char *text = hri_text_get(&places);
    int lines = 0;
    for (const char *at = text; *at; at++) {
        lines += *at == '\n';
    }
    CHECK(strncmp(text, first, strlen(first)) == 0);
    hri_text_deinit(&places);
    return lines;
}

TEST(net_nccl, the_library_of_a_wheel_is_found) {
    char root[] = "nccl-XXXXXX", path[256], wanted[512];
    CHECK(mkdtemp(root));
    const variables none = {{0}, {0}};
    CHECK_EQ(found(&none, root, ""), 0);
    put(root, "usr/lib/python3/dist-packages");
    snprintf(wanted, sizeof wanted,
             "%s/usr/lib/python3/dist-packages/nvidia/nccl/lib/libnccl.so.2\n", root);
    CHECK_EQ(found(&none, root, wanted), 1);
    /* The active environment comes before the system. */
    snprintf(path, sizeof path, "%s/a [b]*c", root);
    put(path, "lib/python3.12/site-packages");
    const variables venv = {{"VIRTUAL_ENV"}, {path}};
    snprintf(wanted, sizeof wanted, "%s/lib/python3.12/site-packages/nvidia", path);
    CHECK_EQ(found(&venv, root, wanted), 2);
    /* Named: a site-packages, or the nvidia folder in one, after one that is not there. */
    char named[1024];
    snprintf(named, sizeof named, "/nowhere::%s/lib/python3.12/site-packages/nvidia", path);
    const variables cuda = {{"HEADROOM_CUDA_PATH"}, {named}};
    CHECK_EQ(found(&cuda, root, wanted), 2);
    CHECK_EQ(system("rm -rf nccl-??????"), 0);
}

/* Measured on a GPU: 468 MiB of one rank, 446 MiB on each of two. */
TEST(net_nccl, its_memory_is_counted_as_it_was_measured) {
    const hri_net_options two = {.wire = "nccl", .who = {.size = 2}};
    const hri_net_options eight = {.wire = "nccl", .who = {.size = 8}};
    hri_net_cost_bytes few = {0}, many = {0}, bounded = {0};
    hri_prose why = {""};
    CHECK(unsetenv(HRI_NCCL_CHANNELS) == 0);
    CHECK_OK(hri_net_cost(&two, &few, &why));
    CHECK_OK(hri_net_cost(&eight, &many, &why));
    CHECK(few.device_bytes >= (uint64_t)480 << 20 && few.device_bytes <= (uint64_t)600 << 20);
    CHECK_EQ(many.device_bytes - few.device_bytes, (uint64_t)6 * 4 * (12 << 20));
    CHECK(setenv(HRI_NCCL_CHANNELS, "1", 1) == 0);
    CHECK_OK(hri_net_cost(&eight, &bounded, &why));
    CHECK(bounded.device_bytes < many.device_bytes);
}
