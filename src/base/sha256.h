/* SHA-256 (FIPS 180-4), for what must not be forged: names and contents of files that are run.
 *
 *   hri_sha256 s;  hri_sha256_init(&s);  hri_sha256_add(&s, p, n) ...;  hri_sha256_get(&s, digest);
 *
 * hash.h is faster and enough for everything else.  Any thread. */
#ifndef HRI_BASE_SHA256_H
#define HRI_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { HRI_SHA256_BYTES = 32, HRI_SHA256_TEXT = 65 };

typedef struct hri_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char tail[64];
} hri_sha256;

void hri_sha256_init(hri_sha256 *s);
void hri_sha256_add(hri_sha256 *s, const void *data, size_t bytes);
/* A text with its NUL, so that "ab","c" and "a","bc" differ. */
void hri_sha256_add_string(hri_sha256 *s, const char *text);
/* May be called at any time and changes nothing. */
void hri_sha256_get(const hri_sha256 *s, unsigned char out[HRI_SHA256_BYTES]);
/* 64 hexadecimal digits and a NUL. */
void hri_sha256_print(const unsigned char digest[HRI_SHA256_BYTES], char out[HRI_SHA256_TEXT]);

#endif
