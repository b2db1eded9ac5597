/* Files of algorithm choices, given by --choices or found in the cache.  A given file is taken whole or refused with a
 * sentence; of the cache's lines the good ones are taken.  Whatever was taken is written and read back with the same
 * digest, which stands for the bits of a run. */
#include "source.h"

#include <fcntl.h>

#include "base/alloc.h"
#include "device/cuda/gpu_tune.h"

typedef struct desk {
    hri_gpu gpu;
    hri_gpu_libs libs;
    hri_gpu_environment found;
} desk;

static hr_status open_desk(desk *d, char *cache, const char *given, hri_prose *why) {
    *d = (desk){.gpu = {.cache = cache, .noting = 1}};
    d->gpu.libs = &d->libs;
    return hri_gpu_choices_open(&d->gpu, given, why);
}

static void close_desk(desk *d) {
    d->libs.close[HRI_GPU_PART_CHOICES](d->libs.part[HRI_GPU_PART_CHOICES]);
}

/* Uses every key that the bytes could mean. */
static void use_all(desk *d, const uint8_t *data, size_t size) {
    char key[HRI_GPU_KEY];
    for (size_t at = 0; at < size;) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        const size_t length = end ? (size_t)(end - data) - at : size - at;
        const uint8_t *tab = memchr(data + at, '\t', length);
        const size_t bytes = tab ? (size_t)(tab - data) - at : 0;
        if (bytes > 0 && bytes < sizeof key && !memchr(data + at, 0, bytes)) {
            memcpy(key, data + at, bytes);
            key[bytes] = 0;
            const char *job = key; /* jobs are not named so; it marks choices by time alone */
            while (strncmp(job, "fastest ", 8) == 0) {
                job += 8;
            }
            if (hri_gpu_choice_get(&d->gpu, job)) {
                hri_gpu_choice_used(&d->gpu, job);
            }
        }
        at += length + 1;
    }
    hri_gpu_environment_get(&d->gpu, &d->found);
    must(d->found.untried == 0 && strlen(d->found.choices) == 32);
}

/* What was used, written and given again, is the same. */
static void check_written(desk *d, const char *folder, const uint8_t *data, size_t size) {
    char path[80];
    hri_prose why = {""};
    desk again;
    snprintf(path, sizeof path, "%s/written", folder);
    must(hri_gpu_choices_write(&d->gpu, path, &why) == HR_OK);
    must(open_desk(&again, NULL, path, &why) == HR_OK);
    use_all(&again, data, size);
    must(again.found.noted == d->found.noted && !strcmp(again.found.choices, d->found.choices));
    close_desk(&again);
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char folder[] = "/tmp/fuzz-choices-XXXXXX", path[80];
    hri_prose why = {""};
    desk d;
    must(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/choices-2", folder);
    const int fd = open(path, O_WRONLY | O_CREAT, 0600);
    must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
    const hr_status status = open_desk(&d, NULL, path, &why);
    must(status == HR_OK || (status == HR_E_FORMAT && why.text[0]));
    if (status == HR_OK) {
        use_all(&d, data, size);
        check_written(&d, folder, data, size);
        close_desk(&d);
    }
    must(open_desk(&d, folder, NULL, &why) == HR_OK);
    use_all(&d, data, size);
    check_written(&d, folder, data, size);
    close_desk(&d);
    unlink(path);
    rmdir(folder);
    return 0;
}
