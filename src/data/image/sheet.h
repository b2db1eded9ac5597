/* A contact sheet: the pictures of an element or a batch side by side in one PNG file. */
#ifndef HRI_DATA_IMAGE_SHEET_H
#define HRI_DATA_IMAGE_SHEET_H

#include <headroom/data.h>
#include "base/prose.h"

/* Takes the field "image": one picture (height, width, channels) or a batch of them, u8 or real numbers, which are
 * stretched so that the smallest is black and the largest white.  HR_E_SHAPE: there is none, or no sheet can be made of
 * it. */
HR_MUST_CHECK hr_status hri_sheet_write(const hr_element *element, const char *path,
                                        hri_prose *why);

#endif
