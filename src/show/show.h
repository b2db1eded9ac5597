/* What everything shown shares: a line in bold, and text for whoever takes it in pieces. */
#ifndef HRI_SHOW_SHOW_H
#define HRI_SHOW_SHOW_H

#include <headroom/event.h>
#include "base/json.h"
#include "base/out.h"
#include "base/term.h"

/* A line in bold where there is colour. */
void hri_show_title(hri_out *out, const hri_term *term, const char *format, ...) HR_PRINTF(3, 4);
void hri_show_vtitle(hri_out *out, const hri_term *term, const char *format, va_list args);

/* Text for an hr_write_fn.  begin gives the stream to print to; end flushes it and returns the first failure: status, the
 * taker's answer, or HR_E_NOMEM_HOST. */
typedef struct hri_taker {
    hr_write_fn *write;
    void *user;
    hr_status status;
    hri_term term;
    hri_out *out; /* owned */
} hri_taker;

/* columns 0: 80. */
HR_MUST_CHECK hr_status hri_taker_begin(hri_taker *t, hr_write_fn *write, void *user,
                                        uint32_t columns, bool color);
HR_MUST_CHECK hr_status hri_taker_end(hri_taker *t, hr_status status);
/* Gives a whole text away and frees it; NULL: there was no memory for it. */
HR_MUST_CHECK hr_status hri_taker_give(hr_write_fn *write, void *user, char *text);
/* The same with the text of an object, which is deinitialized; status: of whoever built it. */
HR_MUST_CHECK hr_status hri_taker_give_json(hr_write_fn *write, void *user, hri_json *json,
                                            hr_status status);

#endif
