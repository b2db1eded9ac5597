/* Time, work and bytes of a recording, by layer, by kind of op, or by category: what report and diff add up. */
#ifndef HRI_SEE_GROUP_H
#define HRI_SEE_GROUP_H

#include "base/text.h"
#include "see/recording.h"

typedef enum hri_see_by { HRI_SEE_BY_LAYER, HRI_SEE_BY_KIND, HRI_SEE_BY_CATEGORY } hri_see_by;

typedef struct hri_see_group {
    const char *name; /* of the arena of the groups */
    uint64_t ops;
    double ns, flops, bytes; /* of its ops */
    uint64_t alive_bytes;    /* of its buffers at the peak */
} hri_see_group;

HRI_VECTOR(hri_see_group_list, hri_see_group)

typedef struct hri_see_groups {
    hri_see_group_list list;
    hri_strmap numbers;
    hri_arena arena;
} hri_see_groups;

/* In the order of first appearance.  A zeroed one may be closed. */
HR_MUST_CHECK hr_status hri_see_groups_open(const hri_recording *r, hri_see_by by,
                                            hri_see_groups *out);
void hri_see_groups_close(hri_see_groups *g);
/* NULL when there is none. */
const hri_see_group *hri_see_groups_find(const hri_see_groups *g, const char *name);

/* What buffer i is called: "gradient of fc.weight".  hri_text_get() of `out`, which is cleared first. */
const char *hri_see_buffer_name(const hri_recording *r, const hri_see_buffer *b, hri_text *out);

#endif
