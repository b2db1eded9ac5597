/* The number of usable cores, against a made-up cgroup tree. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cores.h"

static void write_text(const char *folder, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

TEST(cores, the_smallest_share_on_the_way_up_counts) {
    char root[] = "/tmp/headroom-cores-XXXXXX";
    char inner[64], v1[64];
    CHECK(mkdtemp(root));
    snprintf(inner, sizeof inner, "%s/a", root);
    CHECK_EQ(mkdir(inner, 0700), 0);
    snprintf(v1, sizeof v1, "%s/cpu", root);
    CHECK_EQ(mkdir(v1, 0700), 0);
    CHECK_EQ(hri_cores_of_cgroup("0::/a\n", root), 0);
    write_text(root, "cpu.max", "max 100000\n");
    write_text(inner, "cpu.max", "250000 100000\n");
    CHECK_EQ(hri_cores_of_cgroup("0::/a\n", root), 3);
    CHECK_EQ(hri_cores_of_cgroup("1:name=systemd:/\n0::/a", root), 3);
    CHECK_EQ(hri_cores_of_cgroup("0::/\n", root), 0);
    write_text(root, "cpu.max", "100000 100000\n");
    CHECK_EQ(hri_cores_of_cgroup("0::/a\n", root), 1);
    write_text(v1, "cpu.cfs_quota_us", "-1\n");
    write_text(v1, "cpu.cfs_period_us", "100000\n");
    CHECK_EQ(hri_cores_of_cgroup("4:cpuacct,cpu:/\n", root), 0);
    write_text(v1, "cpu.cfs_quota_us", "150000\n");
    CHECK_EQ(hri_cores_of_cgroup("4:cpuacct,cpu:/\n", root), 2);
    CHECK_EQ(hri_cores_of_cgroup("4:cpuset:/\n", root), 0);
    CHECK_EQ(hri_cores_of_cgroup("no colons", root), 0);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", root);
    CHECK_EQ(system(command), 0);
}

TEST(cores, there_is_at_least_one) {
    CHECK(hri_cores_usable() >= 1);
}
