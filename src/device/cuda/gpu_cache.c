/* Compiled kernels on disk: <cache>/kernels/NAME-KEY.cubin, so that the second run compiles nothing.
 *
 * The key is the SHA-256 of everything that a cubin depends on (text, options, architecture, version of NVRTC), so an entry
 * is never out of date, only unused.  Each file starts with its length and the SHA-256 of key and code: half a file, one with
 * a flipped bit or under another's name is the same as none and is written anew.  A cubin is run, so the folder and the file
 * must be this user's own (base/cache_dir.h).  Files are renamed into place, so processes may share the folder.
 *
 * A cache that cannot be read or written is no failure.  Nothing is ever removed here. */
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/cache_dir.h"
#include "device/cuda/gpu_state.h"

enum { MOST_BYTES = 256 << 20, NAME = 192 };

typedef struct head {
    char magic[8];
    uint64_t bytes;
    unsigned char digest[HRI_SHA256_BYTES];
} head;

static const char magic[8] = "hrcubin2";

static const char *name_of(const char *name, const hri_gpu_key *key, char buf[NAME]) {
    char digits[HRI_SHA256_TEXT];
    hri_sha256_print(key->digest, digits);
    snprintf(buf, NAME, "%.100s-%s.cubin", name, digits);
    return buf;
}

static void digest_of(const hri_gpu_key *key, const char *cubin, size_t bytes,
                      unsigned char out[HRI_SHA256_BYTES]) {
    hri_sha256 s;
    hri_sha256_init(&s);
    hri_sha256_add(&s, key->digest, sizeof key->digest);
    hri_sha256_add(&s, cubin, bytes);
    hri_sha256_get(&s, out);
}

hr_status hri_gpu_cache_get(hri_gpu *gpu, const char *name, const hri_gpu_key *key, char **out,
                            size_t *out_bytes) {
    hri_cache cache = {.fd = -1};
    char file[NAME], *data = NULL;
    size_t bytes = 0;
    if (!gpu->cache) {
        return HR_E_NOT_FOUND;
    }
    hr_status status = hri_cache_open(gpu->cache, "kernels", 0, &cache, NULL);
    if (status == HR_OK) {
        status = hri_cache_read(&cache, name_of(name, key, file), MOST_BYTES, &data, &bytes);
        hri_cache_close(&cache);
    }
    if (status != HR_OK) {
        return status == HR_E_NOMEM_HOST ? status : HR_E_NOT_FOUND;
    }
    head h = {0};
    unsigned char is[HRI_SHA256_BYTES] = {1};
    if (bytes > sizeof h) {
        memcpy(&h, data, sizeof h);
        digest_of(key, data + sizeof h, bytes - sizeof h, is);
    }
    if (memcmp(h.magic, magic, sizeof magic) != 0 || h.bytes != bytes - sizeof h ||
        memcmp(h.digest, is, sizeof is) != 0) {
        hri_free(data);
        return HR_E_NOT_FOUND;
    }
    memmove(data, data + sizeof h, (size_t)h.bytes);
    *out = data;
    *out_bytes = (size_t)h.bytes;
    return HR_OK;
}

static hr_status write_entry(const hri_cache *cache, const char *name, const hri_gpu_key *key,
                             const char *cubin, size_t bytes) {
    head h = {.bytes = bytes};
    char file[NAME], *whole = hri_malloc(sizeof h + bytes);
    if (!whole) {
        return HR_E_NOMEM_HOST;
    }
    memcpy(h.magic, magic, sizeof magic);
    digest_of(key, cubin, bytes, h.digest);
    memcpy(whole, &h, sizeof h);
    memcpy(whole + sizeof h, cubin, bytes);
    const hr_status status =
        hri_cache_write(cache, name_of(name, key, file), whole, sizeof h + bytes);
    hri_free(whole);
    return status;
}

void hri_gpu_cache_put(hri_gpu *gpu, const char *name, const hri_gpu_key *key, const char *cubin,
                       size_t bytes) {
    hri_cache cache = {.fd = -1};
    hri_prose why = {""};
    if (!gpu->cache) {
        return;
    }
    hr_status status = hri_cache_open(gpu->cache, "kernels", 1, &cache, &why);
    if (status == HR_OK) {
        status = write_entry(&cache, name, key, cubin, bytes);
        hri_cache_close(&cache);
    }
    if (status != HR_OK) {
        hri_log_write(gpu->dev->base.lib->log, HR_LOG_DEBUG, "%s was not cached in %s: %s", name,
                      gpu->cache, why.text[0] ? why.text : hr_status_text(status));
    }
}
