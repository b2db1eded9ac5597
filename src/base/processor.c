/* See processor.h. */
#include "base/processor.h"

#include <stdio.h>
#include <string.h>

#include "base/proc.h"

/* Arm's processors say who made them and which part they are, in numbers (MIDR). */
static const struct {
    unsigned implementer;
    const char *name;
} makers[] = {{0x41, "Arm"},       {0x42, "Broadcom"},      {0x43, "Cavium"},   {0x44, "DEC"},
              {0x46, "Fujitsu"},   {0x48, "HiSilicon"},     {0x49, "Infineon"}, {0x4d, "Motorola"},
              {0x4e, "NVIDIA"},    {0x50, "Applied Micro"}, {0x51, "Qualcomm"}, {0x53, "Samsung"},
              {0x56, "Marvell"},   {0x61, "Apple"},         {0x66, "Faraday"},  {0x69, "Intel"},
              {0x6d, "Microsoft"}, {0x70, "Phytium"},       {0xc0, "Ampere"}};

static const struct {
    unsigned implementer, part;
    const char *name;
} parts[] = {{0x41, 0xd03, "Cortex-A53"},
             {0x41, 0xd04, "Cortex-A35"},
             {0x41, 0xd05, "Cortex-A55"},
             {0x41, 0xd07, "Cortex-A57"},
             {0x41, 0xd08, "Cortex-A72"},
             {0x41, 0xd09, "Cortex-A73"},
             {0x41, 0xd0a, "Cortex-A75"},
             {0x41, 0xd0b, "Cortex-A76"},
             {0x41, 0xd0c, "Neoverse-N1"},
             {0x41, 0xd0d, "Cortex-A77"},
             {0x41, 0xd40, "Neoverse-V1"},
             {0x41, 0xd41, "Cortex-A78"},
             {0x41, 0xd44, "Cortex-X1"},
             {0x41, 0xd46, "Cortex-A510"},
             {0x41, 0xd47, "Cortex-A710"},
             {0x41, 0xd48, "Cortex-X2"},
             {0x41, 0xd49, "Neoverse-N2"},
             {0x41, 0xd4a, "Neoverse-E1"},
             {0x41, 0xd4b, "Cortex-A78C"},
             {0x41, 0xd4d, "Cortex-A715"},
             {0x41, 0xd4e, "Cortex-X3"},
             {0x41, 0xd4f, "Neoverse-V2"},
             {0x41, 0xd80, "Cortex-A520"},
             {0x41, 0xd81, "Cortex-A720"},
             {0x41, 0xd82, "Cortex-X4"},
             {0x41, 0xd83, "Neoverse-V3AE"},
             {0x41, 0xd84, "Neoverse-V3"},
             {0x41, 0xd85, "Cortex-X925"},
             {0x41, 0xd87, "Cortex-A725"},
             {0x41, 0xd8e, "Neoverse-N3"},
             {0x43, 0x0a1, "ThunderX"},
             {0x43, 0x0af, "ThunderX2"},
             {0x46, 0x001, "A64FX"},
             {0x48, 0xd01, "Kunpeng-920"},
             {0x4e, 0x004, "Carmel"},
             {0x61, 0x022, "M1 Icestorm"},
             {0x61, 0x023, "M1 Firestorm"},
             {0x61, 0x024, "M1 Pro Icestorm"},
             {0x61, 0x025, "M1 Pro Firestorm"},
             {0x61, 0x028, "M1 Max Icestorm"},
             {0x61, 0x029, "M1 Max Firestorm"},
             {0x61, 0x032, "M2 Blizzard"},
             {0x61, 0x033, "M2 Avalanche"},
             {0xc0, 0xac3, "Ampere-1"},
             {0xc0, 0xac4, "Ampere-1a"},
             {0xc0, 0xac5, "Ampere-1b"}};

/* "Arm Neoverse-N1"; what is in no table is shown as its numbers. */
static void name_arm(unsigned implementer, unsigned part, char *out, size_t size) {
    char maker[32], name[32];
    snprintf(maker, sizeof maker, "implementer 0x%02x", implementer);
    snprintf(name, sizeof name, "part 0x%03x", part);
    for (size_t i = 0; i < sizeof makers / sizeof makers[0]; i++) {
        if (makers[i].implementer == implementer) {
            snprintf(maker, sizeof maker, "%s", makers[i].name);
        }
    }
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].implementer == implementer && parts[i].part == part) {
            snprintf(name, sizeof name, "%s", parts[i].name);
        }
    }
    snprintf(out, size, "%s %s", maker, name);
}

/* The register itself, where the kernel shows it and /proc/cpuinfo says nothing. */
static void read_midr(const char *root, char *out, size_t size) {
    hri_proc f;
    char line[64];
    unsigned long long midr;
    if (!hri_proc_open(&f, root, "/sys/devices/system/cpu/cpu0/regs/identification/midr_el1")) {
        return;
    }
    if (hri_proc_line(&f, line, sizeof line) && sscanf(line, "%llx", &midr) == 1) {
        name_arm((unsigned)(midr >> 24 & 0xff), (unsigned)(midr >> 4 & 0xfff), out, size);
    }
    hri_proc_close(&f);
}

void hri_processor_name(const char *root, char *out, size_t size) {
    hri_proc f;
    char line[256];
    unsigned implementer = 0, part = 0;
    int arm = 0; /* 1: the implementer is known, 2: the part */
    out[0] = '\0';
    if (hri_proc_open(&f, root, "/proc/cpuinfo")) {
        while (!out[0] && arm != 3 && hri_proc_line(&f, line, sizeof line)) {
            const char *value = strchr(line, ':');
            if (!value) {
                continue;
            }
            value += 1 + strspn(value + 1, " ");
            if (!strncmp(line, "CPU implementer", 15)) {
                arm |= sscanf(value, "%x", &implementer) == 1 ? 1 : 0;
            } else if (!strncmp(line, "CPU part", 8)) {
                arm |= sscanf(value, "%x", &part) == 1 ? 2 : 0;
            } else if (!strncmp(line, "model name", 10)) {
                snprintf(out, size, "%s", value);
            }
        }
        hri_proc_close(&f);
    }
    if (!out[0] && arm == 3) {
        name_arm(implementer, part, out, size);
    } else if (!out[0]) {
        read_midr(root, out, size);
    }
}
