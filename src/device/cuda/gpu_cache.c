/* Compiled kernels on disk: <cache>/kernels/NAME-KEY.cubin, so that the second run compiles nothing.
 *
 * The key is a hash of everything that a cubin depends on (text, options, architecture, version of NVRTC), so an entry
 * is never out of date, only unused.  Each file starts with its length and hash: half a file, or one with a flipped bit,
 * is the same as none and is written anew.  Files are renamed into place, so processes may share the folder.
 *
 * A cache that cannot be read or written is no failure.  Nothing is ever removed here. */
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/file.h"
#include "device/cuda/gpu_state.h"

enum { MOST_BYTES = 256 << 20 };

typedef struct head {
    char magic[8];
    uint64_t bytes;
    hri_hash128 hash;
} head;

static const char magic[8] = "hrcubin1";

static hr_status path_of(const hri_gpu *gpu, const char *name, hri_hash128 key, char **out) {
    char file[160];
    snprintf(file, sizeof file, "kernels/%.100s-%016llx%016llx.cubin", name,
             (unsigned long long)key.hi, (unsigned long long)key.lo);
    return hri_path_join(gpu->cache, file, out);
}

hr_status hri_gpu_cache_get(hri_gpu *gpu, const char *name, hri_hash128 key, char **out,
                            size_t *out_bytes) {
    char *path = NULL, *data = NULL;
    size_t bytes = 0;
    if (!gpu->cache) {
        return HR_E_NOT_FOUND;
    }
    hr_status status = path_of(gpu, name, key, &path);
    if (status == HR_OK) {
        status = hri_file_read(path, MOST_BYTES, &data, &bytes, NULL);
        hri_free(path);
    }
    if (status != HR_OK) {
        return status == HR_E_NOMEM_HOST ? status : HR_E_NOT_FOUND;
    }
    head h = {0};
    if (bytes > sizeof h) {
        memcpy(&h, data, sizeof h);
    }
    const hri_hash128 is = hri_hash_bytes128(data + sizeof h * (bytes > sizeof h),
                                             bytes > sizeof h ? bytes - sizeof h : 0, 0);
    if (memcmp(h.magic, magic, sizeof magic) != 0 || h.bytes != bytes - sizeof h ||
        h.hash.lo != is.lo || h.hash.hi != is.hi) {
        hri_free(data);
        return HR_E_NOT_FOUND;
    }
    memmove(data, data + sizeof h, (size_t)h.bytes);
    *out = data;
    *out_bytes = (size_t)h.bytes;
    return HR_OK;
}

static hr_status write_entry(const char *path, const char *cubin, size_t bytes) {
    head h = {.bytes = bytes, .hash = hri_hash_bytes128(cubin, bytes, 0)};
    memcpy(h.magic, magic, sizeof magic);
    hri_writer w = {.fd = -1};
    hr_status status = hri_writer_open(&w, path, NULL);
    if (status == HR_OK) {
        status = hri_writer_write(&w, &h, sizeof h, NULL);
    }
    if (status == HR_OK) {
        status = hri_writer_write(&w, cubin, bytes, NULL);
    }
    if (status == HR_OK) {
        status = hri_writer_commit(&w, NULL);
    }
    hri_writer_abandon(&w);
    return status;
}

void hri_gpu_cache_put(hri_gpu *gpu, const char *name, hri_hash128 key, const char *cubin,
                       size_t bytes) {
    char *folder = NULL, *path = NULL;
    if (!gpu->cache) {
        return;
    }
    hr_status status = hri_path_join(gpu->cache, "kernels", &folder);
    if (status == HR_OK) {
        status = hri_path_make_folders(folder, NULL);
    }
    if (status == HR_OK) {
        status = path_of(gpu, name, key, &path);
    }
    if (status == HR_OK) {
        status = write_entry(path, cubin, bytes);
    }
    if (status != HR_OK) {
        hri_log_write(gpu->dev->base.lib->log, HR_LOG_DEBUG, "%s is not kept in %s: %s", name,
                      gpu->cache, hr_status_text(status));
    }
    hri_free(folder);
    hri_free(path);
}
