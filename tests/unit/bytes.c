/* Byte sizes: what people write, to the byte; what they must not. */
#include "test.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <headroom/bytes.h>
#include "base/bytes_up.h"

static uint64_t parsed(const char *text, uint64_t whole) {
    uint64_t bytes = 0;
    const hr_status status = hr_bytes_parse(text, whole, &bytes);
    if (status != HR_OK) {
        test_fail(__FILE__, __LINE__, "\"%s\" gave %s", text, hr_status_name(status));
    }
    return bytes;
}

static void refused(const char *text, uint64_t whole, hr_status wanted) {
    uint64_t bytes = 77;
    const hr_status status = hr_bytes_parse(text, whole, &bytes);
    if (status != wanted) {
        test_fail(__FILE__, __LINE__, "\"%s\" gave %s, wanted %s", text, hr_status_name(status),
                  hr_status_name(wanted));
    }
    CHECK_EQ(bytes, 77);
}

TEST(bytes, units_are_powers_of_1024_or_1000) {
    CHECK_EQ(parsed("8GiB", 0), (uint64_t)8 << 30);
    CHECK_EQ(parsed("1536MiB", 0), (uint64_t)1536 << 20);
    CHECK_EQ(parsed("512KiB", 0), 512 << 10);
    CHECK_EQ(parsed("64k", 0), 64 << 10);
    CHECK_EQ(parsed("2G", 0), (uint64_t)2 << 30);
    CHECK_EQ(parsed("3T", 0), (uint64_t)3 << 40);
    CHECK_EQ(parsed("5PiB", 0), (uint64_t)5 << 50);
    CHECK_EQ(parsed("4096", 0), 4096);
    CHECK_EQ(parsed("4096B", 0), 4096);
    CHECK_EQ(parsed("1kB", 0), 1000);
    CHECK_EQ(parsed("8gb", 0), 8000000000);
    CHECK_EQ(parsed("8gib", 0), (uint64_t)8 << 30);
    CHECK_EQ(parsed("7PB", 0), 7000000000000000);
    CHECK_EQ(parsed("  12 \t MiB  ", 0), 12 << 20);
    CHECK_EQ(parsed("0", 0), 0);
}

TEST(bytes, fractions_and_exponents_are_exact_and_rounded_down) {
    CHECK_EQ(parsed("1.5GiB", 0), (uint64_t)3 << 29);
    CHECK_EQ(parsed("1.5e9", 0), 1500000000);
    CHECK_EQ(parsed("0.1e1", 0), 1);
    CHECK_EQ(parsed("1e3k", 0), 1024000);
    CHECK_EQ(parsed("1E-1GiB", 0), parsed("0.1GiB", 0));
    CHECK_EQ(parsed("0.1GiB", 0), 107374182); /* 107374182.4 */
    CHECK_EQ(parsed(".5k", 0), 512);
    CHECK_EQ(parsed("5.k", 0), 5120);
    CHECK_EQ(parsed("0.9999999999999999999999999999B", 0), 0);
    CHECK_EQ(parsed("1.9999999999999999999999999999", 0), 1);
    CHECK_EQ(parsed("0.00000000000000000001e20", 0), 1);
    CHECK_EQ(parsed("100000000000000000000e-20", 0), 1);
    CHECK_EQ(parsed("1e-999999999999999999999", 0), 0);
    CHECK_EQ(parsed("0e999999999999999999999", 0), 0);
    CHECK_EQ(parsed("0.0009765625KiB", 0), 1); /* exactly 1/1024 */
    CHECK_EQ(parsed("0.00097656249999999999999999999999999999999999999KiB", 0), 0);
}

TEST(bytes, the_largest_number_is_read_and_the_next_refused) {
    CHECK(parsed("18446744073709551615", 0) == UINT64_MAX);
    CHECK(parsed("18446744073709551615.99", 0) == UINT64_MAX);
    CHECK(parsed("16383.999999PiB", 0) < UINT64_MAX);
    refused("18446744073709551616", 0, HR_E_RANGE);
    refused("16384PiB", 0, HR_E_RANGE);
    refused("1e20", 0, HR_E_RANGE);
    refused("1e999999999999999999999999", 0, HR_E_RANGE);
    refused("99999999999999999999999999999999999999999999999999", 0, HR_E_RANGE);
}

TEST(bytes, percentages_are_of_the_whole) {
    CHECK_EQ(parsed("75%", 1000), 750);
    CHECK_EQ(parsed("33.3 %", 1000), 333);
    CHECK_EQ(parsed("0%", 5), 0);
    CHECK(parsed("100%", UINT64_MAX) == UINT64_MAX);
    CHECK(parsed("50%", UINT64_MAX) == UINT64_MAX / 2);
    CHECK_EQ(parsed("1e1%", 10), 1);
    refused("75%", 0, HR_E_INVALID);
    refused("100.0000000000000000001%", 3, HR_E_RANGE);
    refused("101%", 3, HR_E_RANGE);
    refused("1e50%", 3, HR_E_RANGE);
    refused("50%%", 3, HR_E_INVALID);
}

TEST(bytes, nonsense_is_refused_and_changes_nothing) {
    static const char *const nonsense[] = {
        "",      " ",     "-1",   "-0",    "+1",  "nan", "inf",  "GiB",        "8Gi",  "8iB",
        "8GiBs", "8 G B", "1..2", "1.2.3", ".",   "e5",  "1e",   "1e+",        "1ee5", "0x10",
        "1,5G",  "1_000", "8XB",  "8bb",   "1 2", "%",   "8G\n", "8\xc2\xa0G", "٣",
    };
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        refused(nonsense[i], 100, HR_E_INVALID);
    }
    refused(NULL, 0, HR_E_INVALID);
    CHECK_STATUS(hr_bytes_parse("1", 0, NULL), HR_E_INVALID);
}

/* Against long division in 128 bits, for random texts that it can hold. */
TEST(bytes, agrees_with_plain_arithmetic) {
    __extension__ typedef unsigned __int128 u128;
    static const struct {
        const char *name;
        uint64_t factor;
    } units[] = {{"", 1}, {"K", 1024}, {"MB", 1000000}, {"GiB", 1 << 30}, {"PB", 1000000000000000}};
    uint64_t state = test_seed();
    for (int i = 0; i < 20000; i++) {
        const unsigned unit = (unsigned)(test_random(&state) % 5);
        const uint64_t word = test_random(&state);
        const uint64_t digits = word >> (32 + test_random(&state) % 32);
        const unsigned places = (unsigned)(test_random(&state) % 10);
        uint64_t ten = 1;
        for (unsigned p = 0; p < places; p++) {
            ten *= 10;
        }
        char text[64];
        snprintf(text, sizeof text, "%llue-%u%s", (unsigned long long)digits, places,
                 units[unit].name);
        const u128 wanted = (u128)digits * units[unit].factor / ten;
        if (wanted > UINT64_MAX) {
            refused(text, 0, HR_E_RANGE);
        } else {
            CHECK(parsed(text, 0) == (uint64_t)wanted);
        }
    }
}

static void shown(uint64_t bytes, const char *wanted) {
    char buf[32];
    CHECK_STR(hr_bytes_print(bytes, buf, sizeof buf), wanted);
}

TEST(bytes, sizes_are_shown_with_three_figures_and_whole_ones_exactly) {
    shown(0, "0 B");
    shown(512, "512 B");
    shown(1023, "1023 B");
    shown(1024, "1 KiB");
    shown(1536, "1.50 KiB");
    shown((uint64_t)148 << 20, "148 MiB");
    shown(((uint64_t)148 << 20) + 400000, "148 MiB");
    shown(25662389453u, "23.9 GiB");
    shown(10 * 1024 - 1, "10.0 KiB");
    shown(100 * 1024 - 1, "100 KiB");
    shown(1010 * 1024 + 300, "1010 KiB");
    shown((1 << 20) - 1, "1.00 MiB");
    shown(1 << 20, "1 MiB");
    shown((1 << 20) + 1, "1.00 MiB");
    shown(UINT64_MAX, "16384 PiB");
}

TEST(bytes, print_stays_inside_its_buffer) {
    char buf[8] = "#######";
    hr_bytes_print((uint64_t)148 << 20, buf, 4);
    CHECK_STR(buf, "148");
    CHECK_STR(buf + 4, "###");
    hr_bytes_print(1, NULL, 0);
}

TEST(bytes, shown_sizes_read_back_within_half_a_percent) {
    uint64_t state = test_seed();
    for (int i = 0; i < 20000; i++) {
        const uint64_t word = test_random(&state);
        const uint64_t bytes = word >> (1 + test_random(&state) % 63);
        char buf[32];
        const uint64_t back = parsed(hr_bytes_print(bytes, buf, sizeof buf), 0);
        const uint64_t off = back > bytes ? back - bytes : bytes - back;
        CHECK_LE(off, bytes / 200 + 1); /* half of the third figure, and reading rounds down */
    }
}

TEST(bytes, a_size_rounded_up_is_enough_when_it_is_typed_back) {
    uint64_t state = test_seed();
    char buf[32];
    CHECK_STR(hri_bytes_print_up(((uint64_t)14 << 20) + 1, buf, sizeof buf), "14.1 MiB");
    CHECK_STR(hri_bytes_print_up((uint64_t)14 << 20, buf, sizeof buf), "14 MiB");
    CHECK_STR(hri_bytes_print_up(1023 * 1024 + 1, buf, sizeof buf), "1.00 MiB");
    for (int i = 0; i < 20000; i++) {
        const uint64_t word = test_random(&state);
        const uint64_t bytes = word >> (1 + test_random(&state) % 63);
        const uint64_t back = parsed(hri_bytes_print_up(bytes, buf, sizeof buf), 0);
        CHECK(back >= bytes);
        CHECK_LE(back - bytes, bytes / 100 + 1);
    }
}
