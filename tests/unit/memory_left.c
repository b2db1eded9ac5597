/* What the machine and its control groups leave, against made-up machines. */
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/cores.h"
#include "pictures.h"
#include "memory/left.h"
#include "test.h"

#define PUT(PATH, TEXT) test_write(root, PATH, TEXT, sizeof TEXT - 1)

static hri_memory_left read_left(const char *root) {
    hri_memory_left left;
    hri_memory_left_read(root, &left);
    return left;
}

static const char *small_machine(void) {
    const char *root = test_folder();
    PUT("proc/meminfo", "MemTotal:  2097152 kB\nMemFree: 5 kB\nMemAvailable:   1048576 kB\n");
    return root;
}

TEST(memory_left, without_groups_it_is_what_the_machine_says) {
    const char *root = small_machine();
    const hri_memory_left left = read_left(root);
    CHECK_EQ(left.total_bytes, INT64_C(2) << 30);
    CHECK_EQ(left.free_bytes, 1 << 30);
    CHECK(left.group_limit == UINT64_MAX && left.group_free == UINT64_MAX && !left.group_path[0]);
}

TEST(memory_left, a_machine_that_says_nothing_has_no_bounds) {
    const hri_memory_left left = read_left(test_folder());
    CHECK(left.machine_free == UINT64_MAX && left.group_free == UINT64_MAX);
    CHECK_EQ(left.total_bytes, 0);
    CHECK_EQ(left.free_bytes, 0);
}

TEST(memory_left, version_2_counts_every_group_on_the_way_up) {
    const char *root = small_machine();
    PUT("proc/self/cgroup", "0::/a/b\n");
    PUT("sys/fs/cgroup/a/b/memory.max", "max\n");
    PUT("sys/fs/cgroup/a/b/memory.current", "5000\n");
    CHECK_EQ(read_left(root).free_bytes, 1 << 30);
    PUT("sys/fs/cgroup/a/memory.max", "100000000\n");
    PUT("sys/fs/cgroup/a/memory.current", "60000000\n");
    CHECK_EQ(read_left(root).free_bytes, 40000000);
    CHECK_EQ(read_left(root).total_bytes, 100000000);
    CHECK(strstr(read_left(root).group_path, "/a/memory.max"));
}

TEST(memory_left, what_can_be_reclaimed_counts_as_free) {
    const char *root = small_machine();
    PUT("proc/self/cgroup", "0::/a\n");
    PUT("sys/fs/cgroup/a/memory.max", "100000000\n");
    PUT("sys/fs/cgroup/a/memory.current", "60000000\n");
    PUT("sys/fs/cgroup/a/memory.stat",
        "anon 5\nfile 9\nshmem 7\ninactive_file 20000000\nactive_file 3000000\n"
        "slab_reclaimable 400000\nslab_unreclaimable 7\n");
    CHECK_EQ(read_left(root).free_bytes, 63400000);
    PUT("proc/self/cgroup", "3:cpu,memory:/x\n");
    PUT("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "50000000\n");
    PUT("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "40000000\n");
    PUT("sys/fs/cgroup/memory/x/memory.stat",
        "inactive_file 1\nactive_file 1\ntotal_inactive_file 5000000\ntotal_active_file 600000\n");
    CHECK_EQ(read_left(root).free_bytes, 15600000);
}

TEST(memory_left, memory_high_is_a_limit_too) {
    const char *root = small_machine();
    PUT("proc/self/cgroup", "0::/a\n");
    PUT("sys/fs/cgroup/a/memory.max", "100000000\n");
    PUT("sys/fs/cgroup/a/memory.high", "80000000\n");
    PUT("sys/fs/cgroup/a/memory.current", "0\n");
    CHECK_EQ(read_left(root).free_bytes, 80000000);
    CHECK(strstr(read_left(root).group_path, "/a/memory.high"));
}

TEST(memory_left, version_1_writes_a_huge_number_for_no_limit) {
    const char *root = small_machine();
    PUT("proc/self/cgroup", "9:name=systemd:/\n4:memory:/x\n0::/\n");
    PUT("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712\n");
    PUT("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "60000000\n");
    CHECK(read_left(root).group_limit == UINT64_MAX);
    PUT("sys/fs/cgroup/memory/memory.limit_in_bytes", "50000000\n");
    PUT("sys/fs/cgroup/memory/memory.usage_in_bytes", "60000000\n");
    CHECK_EQ(read_left(root).free_bytes, 0);
    CHECK_EQ(read_left(root).group_limit, 50000000);
}

TEST(memory_left, a_container_sees_its_own_group_as_the_root_of_the_mount) {
    const char *root = small_machine();
    PUT("proc/self/cgroup", "4:memory:/docker/0123\n");
    PUT("proc/self/mountinfo", "24 20 0:22 / /proc rw - proc proc rw\n"
                               "30 20 0:26 /docker/0123 /mnt/groups/memory ro,nosuid shared:9 - "
                               "cgroup cgroup rw,memory\n");
    PUT("mnt/groups/memory/memory.limit_in_bytes", "70000000\n");
    PUT("mnt/groups/memory/memory.usage_in_bytes", "10000000\n");
    CHECK_EQ(read_left(root).free_bytes, 60000000);
    PUT("proc/self/cgroup", "0::/../other\n"); /* of a namespace that this mount does not show */
    PUT("proc/self/mountinfo", "30 20 0:26 / /mnt/two rw - cgroup2 cgroup rw,nsdelegate\n");
    PUT("mnt/two/memory.max", "80000000\n");
    PUT("mnt/two/memory.current", "10000000\n");
    CHECK_EQ(read_left(root).free_bytes, 70000000);
}

TEST(memory_left, nonsense_puts_no_bound) {
    const char *root = small_machine();
    PUT("proc/self/cgroup", "nonsense\n0:\n:::\n0::/gone\n5:memoryless:/x");
    PUT("proc/self/mountinfo", "\n - \n1 2 3 - cgroup2\n");
    PUT("sys/fs/cgroup/memory.max", "many\n");
    CHECK(read_left(root).group_limit == UINT64_MAX);
    CHECK_EQ(read_left(root).free_bytes, 1 << 30);
}

TEST(memory_left, a_limit_on_addresses_is_one_too) {
    const char *root = small_machine();
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    PUT("proc/self/statm", "1000 500 9 9 0 9 0\n");
    PUT("proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max stack size            8192                 unlimited            bytes     \n"
        "Max address space         unlimited            unlimited            bytes     \n");
    CHECK_EQ(read_left(root).free_bytes, 1 << 30);
    CHECK(read_left(root).space_limit == UINT64_MAX && read_left(root).stack_bytes == 0);
    PUT("proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max stack size            8192                 unlimited            bytes     \n"
        "Max address space         500000000            unlimited            bytes     \n");
    const hri_memory_left left = read_left(root);
    CHECK_EQ(left.total_bytes, 500000000);
    CHECK_EQ(left.free_bytes, 500000000 - 1000 * page);
    CHECK_EQ(left.stack_bytes, 2 * 8192 * (uint64_t)hri_cores_usable());
    PUT("proc/self/statm", "1000000000 500 9 9 0 9 0\n");
    CHECK_EQ(read_left(root).free_bytes, 0);
}
