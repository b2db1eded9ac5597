/* Compiled kernels kept in a folder below build/, for every runner of every preset: g++ needs a third of a second a text. */
#ifndef FAKECUDA_IMAGES_H
#define FAKECUDA_IMAGES_H

#include <stddef.h>

/* Where the image of this text, with these options and for this kind of machine, is or would be. */
typedef struct fake_image {
    char folder[512], path[600];
} fake_image;

void fake_image_place(fake_image *place, const char *compiler, const char *machine,
                      const char *text, int option_count, const char *const *options);
/* The bytes, or NULL; the caller frees them. */
char *fake_image_find(const fake_image *place, size_t *bytes);
/* What cannot be written is not kept, and compiled again the next time. */
void fake_image_keep(const fake_image *place, const char *image, size_t bytes);

#endif
