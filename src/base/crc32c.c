/* CRC-32C: the processor's instruction where there is one, else eight bytes a step by tables.
 *
 * The instruction (SSE 4.2; on Arm the extension crc, which is not in the first 64-bit architecture) is looked for when the program runs.
 * The tables are made once, by whoever comes first. */
#include "base/crc32c.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

static uint32_t tables[8][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_tables(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) {
            c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
        }
        tables[0][i] = c;
    }
    for (int t = 1; t < 8; t++) {
        for (uint32_t i = 0; i < 256; i++) {
            tables[t][i] = tables[t - 1][i] >> 8 ^ tables[0][tables[t - 1][i] & 255];
        }
    }
}

static uint32_t by_tables(uint32_t crc, const unsigned char *p, size_t n) {
    pthread_once(&once, make_tables);
    for (; n >= 8; n -= 8, p += 8) {
        const uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                                    (uint32_t)p[3] << 24);
        crc = tables[7][low & 255] ^ tables[6][low >> 8 & 255] ^ tables[5][low >> 16 & 255] ^
              tables[4][low >> 24] ^ tables[3][p[4]] ^ tables[2][p[5]] ^ tables[1][p[6]] ^
              tables[0][p[7]];
    }
    while (n-- > 0) {
        crc = crc >> 8 ^ tables[0][(crc ^ *p++) & 255];
    }
    return crc;
}

#if defined(__x86_64__)
static bool has_instruction(void) {
    return __builtin_cpu_supports("sse4.2");
}

__attribute__((target("sse4.2,crc32"))) static uint32_t
by_instruction(uint32_t crc, const unsigned char *p, size_t n) {
    uint64_t wide = crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        wide = _mm_crc32_u64(wide, word);
    }
    crc = (uint32_t)wide;
    while (n-- > 0) {
        crc = _mm_crc32_u8(crc, *p++);
    }
    return crc;
}
#elif defined(__aarch64__)
enum { CRC32_BIT = 1 << 7 }; /* HWCAP_CRC32, of asm/hwcap.h */

static bool has_instruction(void) {
    return (getauxval(AT_HWCAP) & CRC32_BIT) != 0;
}

static uint32_t by_instruction(uint32_t crc, const unsigned char *p, size_t n) {
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
    }
    while (n-- > 0) {
        __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"((uint32_t)*p++));
    }
    return crc;
}
#else
static bool has_instruction(void) {
    return false;
}

static uint32_t by_instruction(uint32_t crc, const unsigned char *p, size_t n) {
    return by_tables(crc, p, n);
}
#endif

uint32_t hri_crc32c(uint32_t crc, const void *data, size_t bytes) {
    return ~(has_instruction() ? by_instruction(~crc, data, bytes) : by_tables(~crc, data, bytes));
}

uint32_t hri_crc32c_portable(uint32_t crc, const void *data, size_t bytes) {
    return ~by_tables(~crc, data, bytes);
}

uint32_t hri_crc32c_masked(const void *data, size_t bytes) {
    const uint32_t crc = hri_crc32c(0, data, bytes);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}
