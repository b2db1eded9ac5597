/* Two recordings side by side: what grew, what moved, what costs more.
 *
 * Each side gives the best that it knows: measured bytes and times where there are some, else planned ones; so two plans, two
 * profiles, or a plan and the profile of its run can be compared.  Rows are matched by name; buffers by name, category and
 * which life of the name it is.
 *
 *   hri_see_diff d = {0};
 *   status = hri_see_diff_open(&a, &b, &d);     the recordings must outlive it
 *   hri_see_diff_over(&d, .05)                  did memory or time grow by more than 5 %?
 *   hri_see_diff_close(&d); */
#ifndef HRI_SEE_DIFF_H
#define HRI_SEE_DIFF_H

#include "base/json.h"
#include "base/out.h"
#include "base/term.h"
#include "see/recording.h"

typedef struct hri_see_change {
    const char *name;
    double before, after;
} hri_see_change;

typedef enum hri_see_fate {
    HRI_SEE_SAME,
    HRI_SEE_MOVED, /* another place or another lifetime */
    HRI_SEE_GREW,
    HRI_SEE_SHRANK,
    HRI_SEE_NEW,
    HRI_SEE_GONE,
    HRI_SEE_FATES
} hri_see_fate;

const char *hri_see_fate_name(hri_see_fate fate);

/* A buffer that is not the same; before or after is NULL for one that is new or gone. */
typedef struct hri_see_buffer_change {
    hri_see_fate fate;
    const hri_see_buffer *before, *after;
} hri_see_buffer_change;

HRI_VECTOR(hri_see_changes, hri_see_change)
HRI_VECTOR(hri_see_buffer_changes, hri_see_buffer_change)

typedef struct hri_see_diff {
    const hri_recording *a, *b;
    hri_see_change peak, step; /* bytes; ns, 0 when not known */
    hri_see_changes
        parts; /* bytes at the peak; they add up to `peak` where recordings have parts */
    hri_see_changes layers, kinds;  /* ns */
    hri_see_changes layer_bytes;    /* alive at the peak */
    hri_see_buffer_changes buffers; /* by size of the change */
    uint64_t counts[HRI_SEE_FATES];
    hri_arena arena;      /* of names */
    hri_recording own[2]; /* of hri_see_diff_files */
} hri_see_diff;

/* A zeroed one may be closed.  Lists are sorted, the largest change first; `parts` keep their order. */
HR_MUST_CHECK hr_status hri_see_diff_open(const hri_recording *a, const hri_recording *b,
                                          hri_see_diff *out);
/* The same of two files, which it opens as hri_see_open() does. */
HR_MUST_CHECK hr_status hri_see_diff_files(const char *a, const char *b, hri_see_diff *out,
                                           hri_prose *why);
void hri_see_diff_close(hri_see_diff *d);

/* after / before - 1; infinite for something out of nothing. */
double hri_see_growth(const hri_see_change *c);
/* The peak or the step time grew by more than this share. */
bool hri_see_diff_over(const hri_see_diff *d, double share);
/* "5%", "2.5%" as a share; HR_E_INVALID for anything else. */
HR_MUST_CHECK hr_status hri_see_share_parse(const char *text, double *out);

HR_MUST_CHECK hr_status hri_see_diff_text(const hri_see_diff *d, size_t rows, hri_out *out,
                                          const hri_term *term);
void hri_see_diff_json(const hri_see_diff *d, hri_json *json);

#endif
