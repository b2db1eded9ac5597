/* Masks: a class for every pixel of an image, as a PNG, a BMP, a TIFF or a lossless WebP, which keep values as they are.
 *
 *   ids       the value of a grey pixel, or the number of a palette's colour, is the class: 0, 1, 2 ...
 *   colours   each class has a colour
 *
 * The one idea: what is a class is settled once, from names and colours that the user gives or from a look at masks; it is kept as
 * a list of texts ("road", "road #804080", "#804080", "3"), which a checkpoint keeps like the classes of a table, so that
 * other masks are read as those of training were.  Pixels that belong to no class are named with their place. */
#ifndef HRI_DATA_IMAGE_MASK_H
#define HRI_DATA_IMAGE_MASK_H

#include "data/image/image.h"

#define HRI_MASK_FILES "PNG, BMP, TIFF or lossless WebP"

enum {
    HRI_MASK_CLASSES = 255, /* at most */
    HRI_MASK_IGNORED = 255, /* in a decoded mask: the pixel counts for nothing */
    HRI_MASK_TEXT = 64      /* bytes of a class's text */
};

typedef struct hri_mask_classes {
    char texts[HRI_MASK_CLASSES][HRI_MASK_TEXT];
    uint32_t colours[HRI_MASK_CLASSES]; /* 0xrrggbb; where has_colours */
    size_t count;
    bool has_colours;
    int64_t ignore; /* an id, or 0xrrggbb where has_colours; -1: nothing is ignored */
} hri_mask_classes;

/* What was seen in masks. */
typedef struct hri_mask_seen {
    bool values[256];
    uint32_t colours[HRI_MASK_CLASSES + 1]; /* rising */
    size_t colour_count;
    bool coloured; /* there was a pixel that is no grey */
} hri_mask_seen;

/* Adds what is in one mask.  HR_E_FORMAT: a format that does not keep values, or more colours than classes can be. */
HR_MUST_CHECK hr_status hri_mask_look(const void *data, size_t bytes, hri_memory *memory,
                                      hri_mask_seen *seen, hri_prose *why);
/* Classes from options and a look: names and colours are "a+b+c" and "ff0000+00ff00" (NULL: none), ignore is a value, a
 * colour, "none" or NULL: 255 among ids, nothing among colours.  `seen` may be NULL where colours are given. */
HR_MUST_CHECK hr_status hri_mask_classes_settle(const char *names, const char *colours,
                                                const char *ignore, const hri_mask_seen *seen,
                                                hri_mask_classes *out, hri_prose *why);
/* The same from the texts that were kept. */
HR_MUST_CHECK hr_status hri_mask_classes_take(const char *const *texts, size_t count,
                                              const char *ignore, hri_mask_classes *out,
                                              hri_prose *why);
/* The colour at the end of a class's text; false: it has none. */
bool hri_mask_colour(const char *text, uint32_t *out);

/* out[height][width]: classes, or HRI_MASK_IGNORED.  HR_E_FORMAT with the place of the first pixel that is of no class. */
HR_MUST_CHECK hr_status hri_mask_decode(const void *data, size_t bytes, const hri_mask_classes *c,
                                        hri_memory *memory, uint8_t *out, hri_prose *why);

#endif
