/* Names of processors, from made-up machines. */
#include "base/processor.h"

#include <string.h>

#include "pictures.h"
#include "test.h"

static const char *name_of(const char *cpuinfo) {
    static char name[96];
    const char *root = test_folder();
    test_write(root, "proc/cpuinfo", cpuinfo, strlen(cpuinfo));
    hri_processor_name(root, name, sizeof name);
    return name;
}

#define CHECK_NAME(CPUINFO, NAME) CHECK_EQ(strcmp(name_of(CPUINFO), NAME), 0)

TEST(processor, arm_is_named_by_its_numbers) {
    CHECK_NAME("processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\n"
               "CPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n",
               "Arm Neoverse-N1");
    CHECK_NAME("CPU implementer\t: 0x41\nCPU part\t: 0xd4f\n", "Arm Neoverse-V2");
    CHECK_NAME("CPU implementer\t: 0x61\nCPU part\t: 0x023\n", "Apple M1 Firestorm");
    CHECK_NAME("CPU implementer\t: 0xc0\nCPU part\t: 0xac3\n", "Ampere Ampere-1");
}

TEST(processor, what_is_in_no_table_is_shown_as_numbers) {
    CHECK_NAME("CPU implementer\t: 0x41\nCPU part\t: 0xfff\n", "Arm part 0xfff");
    CHECK_NAME("CPU implementer\t: 0x99\nCPU part\t: 0x123\n", "implementer 0x99 part 0x123");
}

TEST(processor, a_name_of_the_kernel_comes_first) {
    CHECK_NAME("processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 7763\n",
               "AMD EPYC 7763");
}

TEST(processor, the_register_itself_is_asked_when_the_list_says_nothing) {
    const char *root = test_folder();
    const char midr[] = "0x00000000410fd400\n";
    char name[96];
    test_write(root, "proc/cpuinfo", "processor\t: 0\n", 14);
    test_write(root, "sys/devices/system/cpu/cpu0/regs/identification/midr_el1", midr,
               sizeof midr - 1);
    hri_processor_name(root, name, sizeof name);
    CHECK_EQ(strcmp(name, "Arm Neoverse-V1"), 0);
    hri_processor_name("/nowhere", name, sizeof name);
    CHECK_EQ(name[0], 0);
}
