/* A text file that is written in pieces: printf into a buffer that goes to a file beside its place, renamed at the end. */
#ifndef HRI_SEE_LINES_H
#define HRI_SEE_LINES_H

#include "base/file.h"
#include "base/text.h"

typedef struct hri_see_lines {
    hri_writer writer;
    hri_text text;
    hr_status status; /* the first failure; afterwards nothing is written */
    hri_prose *why;
} hri_see_lines;

void hri_see_lines_open(hri_see_lines *l, const char *path, hri_prose *why);
void hri_see_lines_add(hri_see_lines *l, const char *format, ...) HR_PRINTF(2, 3);
/* In quotes, as JSON has it: what is not UTF-8 becomes '?'. */
void hri_see_lines_json(hri_see_lines *l, const char *text);
/* In quotes where RFC 4180 needs them.  A spreadsheet never takes it for a formula. */
void hri_see_lines_csv(hri_see_lines *l, const char *text);
/* The whole file stands, or the old one does. */
HR_MUST_CHECK hr_status hri_see_lines_close(hri_see_lines *l);

#endif
