/* A picture of a whole training: loss of training and validation above, planned and measured memory below, over steps.
 *
 * The history has a fixed size whatever the number of steps: when its places are used up, neighbours become one (the
 * mean of their losses, the larger of their memories) and from then on each place stands for twice as many steps.  So
 * the highest memory is never averaged away.  Threads: one at a time. */
#ifndef HRI_RECORDS_PICTURE_H
#define HRI_RECORDS_PICTURE_H

#include <stddef.h>
#include <stdint.h>
#include <headroom/status.h>

enum { HRI_PICTURE_POINTS = 1024 };

typedef struct hri_picture_curve {
    size_t count;
    uint64_t each, taken; /* records in a place; records in the last, which is still growing */
    double step[HRI_PICTURE_POINTS], mean[HRI_PICTURE_POINTS], most[HRI_PICTURE_POINTS];
} hri_picture_curve;

typedef struct hri_picture {
    hri_picture_curve train, validation; /* mean: loss; most: memory in bytes */
} hri_picture;

typedef struct hri_picture_text {
    const char *title;
    uint64_t planned_bytes, budget_bytes; /* 0: not drawn */
} hri_picture_text;

/* A zeroed hri_picture is an empty one.  memory_bytes NAN: not known. */
void hri_picture_step(hri_picture *p, uint64_t step, double loss, double memory_bytes);
void hri_picture_validation(hri_picture *p, uint64_t step, double loss);
/* The SVG; hri_free() it. */
HR_MUST_CHECK hr_status hri_picture_draw(const hri_picture *p, const hri_picture_text *text,
                                         char **out);

#endif
