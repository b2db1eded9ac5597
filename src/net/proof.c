/* See proof.h. */
#include "net/proof.h"

#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"

void hri_hmac_sha256(const void *key, size_t key_bytes, const void *data, size_t bytes,
                     unsigned char out[HRI_SHA256_BYTES]) {
    unsigned char block[64] = {0}, inner[HRI_SHA256_BYTES];
    hri_sha256 s;
    if (key_bytes > sizeof block) {
        hri_sha256_init(&s);
        hri_sha256_add(&s, key, key_bytes);
        hri_sha256_get(&s, block);
    } else {
        memcpy(block, key, key_bytes);
    }
    for (size_t i = 0; i < sizeof block; i++) {
        block[i] ^= 0x36;
    }
    hri_sha256_init(&s);
    hri_sha256_add(&s, block, sizeof block);
    hri_sha256_add(&s, data, bytes);
    hri_sha256_get(&s, inner);
    for (size_t i = 0; i < sizeof block; i++) {
        block[i] ^= 0x36 ^ 0x5c;
    }
    hri_sha256_init(&s);
    hri_sha256_add(&s, block, sizeof block);
    hri_sha256_add(&s, inner, sizeof inner);
    hri_sha256_get(&s, out);
}

void hri_proof_make(const unsigned char token[HRI_TOKEN_BYTES], const hri_proof_of *of,
                    unsigned char out[HRI_SHA256_BYTES]) {
    unsigned char text[16 + 2 * HRI_NONCE_BYTES + 8 + 64] = "headroom 1";
    text[15] = of->caller ? 'c' : 'a';
    memcpy(text + 16, of->caller_nonce, HRI_NONCE_BYTES);
    memcpy(text + 16 + HRI_NONCE_BYTES, of->called_nonce, HRI_NONCE_BYTES);
    unsigned char *at = text + 16 + 2 * HRI_NONCE_BYTES;
    for (int i = 0; i < 4; i++) {
        at[i] = (unsigned char)(of->rank >> (8 * i));
        at[4 + i] = (unsigned char)(of->size >> (8 * i));
    }
    strncpy((char *)at + 8, of->run, 63);
    hri_hmac_sha256(token, HRI_TOKEN_BYTES, text, sizeof text, out);
}

bool hri_proof_equal(const unsigned char a[HRI_SHA256_BYTES],
                     const unsigned char b[HRI_SHA256_BYTES]) {
    unsigned char differs = 0;
    for (int i = 0; i < HRI_SHA256_BYTES; i++) {
        differs = (unsigned char)(differs | (a[i] ^ b[i]));
    }
    return differs == 0;
}

hr_status hri_random_bytes(void *out, size_t bytes) {
    return !HRI_FAULT(READ) && getrandom(out, bytes, 0) == (ssize_t)bytes ? HR_OK : HR_E_IO;
}

hr_status hri_token_read(const char *path, unsigned char out[HRI_TOKEN_BYTES], hri_prose *why) {
    struct stat st;
    if (stat(path, &st) == 0 && (st.st_mode & 077) != 0) {
        return hri_prose_set(why, HR_E_INVALID, "%s: others may read this token; chmod 600 it",
                             path);
    }
    char *text = NULL;
    size_t bytes = 0;
    hr_status status = hri_file_read(path, 4096, &text, &bytes, why);
    if (status == HR_OK && bytes < 16) {
        status = hri_prose_set(why, HR_E_INVALID, "%s: a token has at least 16 bytes, not %zu",
                               path, bytes);
    }
    if (status == HR_OK) {
        hri_sha256 s;
        hri_sha256_init(&s);
        hri_sha256_add(&s, text, bytes);
        hri_sha256_get(&s, out);
    }
    hri_free(text);
    return status;
}
