/* SHA-256 against the examples of FIPS 180-4 and NIST's vectors. */
#include "base/sha256.h"

#include <stdlib.h>
#include <string.h>
#include "test.h"

static void gives(const char *data, size_t bytes, size_t step, const char *wanted) {
    hri_sha256 s;
    unsigned char digest[HRI_SHA256_BYTES];
    char text[HRI_SHA256_TEXT];
    hri_sha256_init(&s);
    for (size_t at = 0; at < bytes; at += step) {
        hri_sha256_add(&s, data + at, bytes - at < step ? bytes - at : step);
    }
    hri_sha256_get(&s, digest);
    hri_sha256_print(digest, text);
    CHECK_STR(text, wanted);
}

TEST(sha256, gives_the_published_digests) {
    static const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    gives("", 0, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    gives("abc", 3, 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    gives(two, 56, 5, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    char *million = malloc(1000000);
    CHECK(million != NULL);
    memset(million, 'a', 1000000);
    gives(million, 1000000, 1000000,
          "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    gives(million, 1000000, 77, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}
