/* Proof of a token without showing it: HMAC-SHA-256 over who speaks, both nonces, rank, size and run.  The roles differ, so
 * that an answer cannot be sent back as a question's.  Not encrypted: see docs/scaling.md. */
#ifndef HRI_NET_PROOF_H
#define HRI_NET_PROOF_H

#include <stdbool.h>
#include <stdint.h>
#include <headroom/status.h>
#include "base/prose.h"
#include "base/sha256.h"

enum { HRI_TOKEN_BYTES = 32, HRI_NONCE_BYTES = 32 };

typedef struct hri_proof_of {
    bool caller; /* who connected; false: who accepted */
    const unsigned char *caller_nonce, *called_nonce;
    uint32_t rank, size; /* the caller's */
    const char *run;
} hri_proof_of;

void hri_hmac_sha256(const void *key, size_t key_bytes, const void *data, size_t bytes,
                     unsigned char out[HRI_SHA256_BYTES]);
void hri_proof_make(const unsigned char token[HRI_TOKEN_BYTES], const hri_proof_of *of,
                    unsigned char out[HRI_SHA256_BYTES]);
/* In a time that does not depend on where they differ. */
bool hri_proof_equal(const unsigned char a[HRI_SHA256_BYTES],
                     const unsigned char b[HRI_SHA256_BYTES]);
HR_MUST_CHECK hr_status hri_random_bytes(void *out, size_t bytes);
/* The token in a file that only its owner can read: SHA-256 of its bytes, of which there are at least 16.  HR_E_INVALID: too short,
 * or others may read it. */
HR_MUST_CHECK hr_status hri_token_read(const char *path, unsigned char out[HRI_TOKEN_BYTES],
                                       hri_prose *why);

#endif
