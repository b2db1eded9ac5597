#include "images.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "emulate.h"

typedef struct hash {
    unsigned long long a, b;
} hash;

/* FNV-1a twice, from two starts; the closing zero is in it, so that words stay apart. */
static void add(hash *h, const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    do {
        h->a = (h->a ^ *at) * 0x100000001b3ull;
        h->b = (h->b ^ *at ^ 0x5a) * 0x100000001b3ull;
    } while (*at++);
}

void fake_image_place(fake_image *place, const char *compiler, const char *machine,
                      const char *text, int option_count, const char *const *options) {
    hash h = {fake_kernels_stamp(), ~fake_kernels_stamp()};
    add(&h, compiler);
    add(&h, machine);
    add(&h, __VERSION__);
    add(&h, text);
    for (int i = 0; i < option_count; i++) {
        add(&h, options[i]);
    }
    snprintf(place->folder, sizeof place->folder, "%s", FAKE_IMAGES);
    snprintf(place->path, sizeof place->path, "%s/%016llx%016llx", place->folder, h.a, h.b);
}

char *fake_image_find(const fake_image *place, size_t *bytes) {
    FILE *file = fopen(place->path, "rb");
    struct stat info;
    char *image = NULL;
    if (file && fstat(fileno(file), &info) == 0 && info.st_size > 0) {
        *bytes = (size_t)info.st_size;
        image = malloc(*bytes);
        if (image && fread(image, 1, *bytes, file) != *bytes) {
            free(image);
            image = NULL;
        }
    }
    if (file) {
        fclose(file);
    }
    return image;
}

static void make_folders(const char *path) {
    char folder[512];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *at = folder + 1; (at = strchr(at, '/')) != NULL; *at++ = '/') {
        *at = '\0';
        (void)mkdir(folder, 0777);
    }
    (void)mkdir(folder, 0777);
}

void fake_image_keep(const fake_image *place, const char *image, size_t bytes) {
    char beside[640];
    make_folders(place->folder);
    snprintf(beside, sizeof beside, "%s.XXXXXX", place->path);
    const int fd = mkstemp(beside);
    FILE *file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (!file) {
        if (fd >= 0) {
            close(fd);
            unlink(beside);
        }
        return;
    }
    const int whole = fwrite(image, 1, bytes, file) == bytes;
    if (fclose(file) != 0 || !whole || rename(beside, place->path) != 0) {
        unlink(beside);
    }
}
