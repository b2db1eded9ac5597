/* doctor names processors of arm64; tests/unit/processor.c has the made-up machines. */
#include <string.h>

#include "base/processor.h"
#include "pictures.h"
#include "test.h"

TEST(f22_10, arm64_is_no_unknown_processor) {
    const char *root = test_folder();
    const char cpuinfo[] = "CPU implementer\t: 0x41\nCPU part\t: 0xd40\n";
    char name[96];
    test_write(root, "proc/cpuinfo", cpuinfo, sizeof cpuinfo - 1);
    hri_processor_name(root, name, sizeof name);
    CHECK_EQ(strcmp(name, "Arm Neoverse-V1"), 0);
}
