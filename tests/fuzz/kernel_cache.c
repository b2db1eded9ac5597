/* Entries of the kernel cache.  What they hold is run on the GPU, so nothing but what was put there may come out: the bytes
 * as a file give back a cubin only when head and digest are right; the bytes as a cubin come back whole, and with one bit
 * flipped, one byte cut off or one added the entry is the same as none. */
#include "source.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "device/cuda/gpu_state.h"

enum { HEAD_BYTES = 8 + 8 + HRI_SHA256_BYTES };

static const hri_gpu_key key = {{1, 2, 3}};

static void put_file(const char *path, const void *data, size_t bytes) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
    close(fd);
}

/* 1: the cache has an entry, and it is these bytes. */
static int is_there(hri_gpu *gpu, const void *bytes, size_t count) {
    char *cubin = NULL;
    size_t cubin_bytes = 0;
    const hr_status status = hri_gpu_cache_get(gpu, "fuzz", &key, &cubin, &cubin_bytes);
    must(status == HR_OK || (status == HR_E_NOT_FOUND && !cubin));
    must(status != HR_OK || (cubin_bytes == count && memcmp(cubin, bytes, count) == 0));
    hri_free(cubin);
    return status == HR_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char folder[] = "/tmp/fuzz-kernels-XXXXXX", inside[64], path[192], digits[HRI_SHA256_TEXT];
    must(mkdtemp(folder) != NULL);
    hri_gpu gpu = {.cache = folder};
    snprintf(inside, sizeof inside, "%s/kernels", folder);
    hri_sha256_print(key.digest, digits);
    snprintf(path, sizeof path, "%s/fuzz-%s.cubin", inside, digits);
    must(mkdir(inside, 0700) == 0);
    put_file(path, data, size);
    const size_t head = size < HEAD_BYTES ? size : HEAD_BYTES;
    (void)is_there(&gpu, data + head, size - head);

    hri_gpu_cache_put(&gpu, "fuzz", &key, (const char *)data, size);
    must(is_there(&gpu, data, size) == (size > 0));
    uint8_t *entry = malloc(HEAD_BYTES + size + 1);
    const int fd = open(path, O_RDONLY);
    must(entry && fd >= 0 &&
         read(fd, entry, HEAD_BYTES + size + 1) == (ssize_t)(HEAD_BYTES + size));
    close(fd);
    for (size_t at = 0; at < HEAD_BYTES + size; at += 1 + size / 8) {
        entry[at] ^= 1;
        put_file(path, entry, HEAD_BYTES + size);
        must(!is_there(&gpu, NULL, 0));
        entry[at] ^= 1;
    }
    put_file(path, entry, HEAD_BYTES + size - 1);
    must(!is_there(&gpu, NULL, 0));
    entry[HEAD_BYTES + size] = 0;
    put_file(path, entry, HEAD_BYTES + size + 1);
    must(!is_there(&gpu, NULL, 0));
    free(entry);
    unlink(path);
    rmdir(inside);
    rmdir(folder);
    return 0;
}
