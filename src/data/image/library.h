/* Libraries of picture formats, found at run time: without one, pictures of its format are refused with its name. */
#ifndef HRI_DATA_IMAGE_LIBRARY_H
#define HRI_DATA_IMAGE_LIBRARY_H

#include <stdbool.h>

/* The first of `names` (NULL ends them) that is there; NULL: none.  It stays in the process, so that the next picture finds it at
 * once. */
void *hri_image_library_open(const char *const *names);
void hri_image_library_close(void *library);
/* Its function of that name into the pointer at `to`, NULL where there is none or no library; whether there is. */
bool hri_image_library_get(void *library, const char *name, void *to);

#endif
