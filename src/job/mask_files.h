/* Predicted masks as files: FOLDER/NAME.png with the classes, and FOLDER/NAME-overlay.png with their colours over the image.
 *
 * A mask has the size of its image and a palette, so that it is both the numbers of the classes and a picture of them; it can be
 * read back as data.  It is written row by row.  An overlay is at most HRI_OVERLAY_SIDE pixels wide and high, and is left out
 * where the image cannot be decoded within HRI_MASK_FILES_BYTES, which is what all of this needs at most.
 *
 * Names are those of the images below their folder; of files that were listed, the last part of the path, which must differ. */
#ifndef HRI_JOB_MASK_FILES_H
#define HRI_JOB_MASK_FILES_H

#include <headroom/predictor.h>
#include "base/map.h"
#include "data/element.h"
#include "job/given.h"

enum { HRI_MASK_FILES_BYTES = 8 << 20, HRI_OVERLAY_SIDE = 768, HRI_MASK_FILES_CLASSES = 255 };

typedef struct hri_mask_files {
    const char *folder; /* the caller's */
    const hri_given *given;
    uint32_t palette[HRI_MASK_FILES_CLASSES]; /* 0xrrggbb */
    uint64_t classes;
    hri_strmap written;
    hri_buffer_pool *pool;
    hri_memory memory;
    uint8_t *mask; /* of the last one, as large as the model's output */
    int64_t height, width;
    /* Of the last one. */
    char name[4096];                       /* the mask's path */
    char overlay[4096];                    /* ""; there is none */
    double shares[HRI_MASK_FILES_CLASSES]; /* of the pixels, by class */
} hri_mask_files;

/* Makes the folder.  HR_E_INVALID: the model predicts no masks, or has more classes than a palette. */
HR_MUST_CHECK hr_status hri_mask_files_open(const hr_predictor *p, const char *folder,
                                            const hri_given *given, hri_mask_files *out,
                                            hri_prose *why);
/* A zeroed one is allowed. */
void hri_mask_files_close(hri_mask_files *f);
/* Writes what belongs to one prediction.  HR_E_EXISTS: two images have the same name. */
HR_MUST_CHECK hr_status hri_mask_files_write(hri_mask_files *f, const hr_prediction *p,
                                             hri_prose *why);

#endif
