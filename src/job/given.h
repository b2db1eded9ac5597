/* The pictures that a prediction is given: a folder, files, or standard input, as the text of a source.
 *
 * Standard input is a picture when it begins like one (hri_image_is), and otherwise a list of paths, one a line.  It is
 * kept in a file without a name, because a pipe can be read only once. */
#ifndef HRI_JOB_GIVEN_H
#define HRI_JOB_GIVEN_H

#include <stddef.h>
#include "job/why.h"

typedef struct hri_given {
    char text[2048];   /* "images:flowers,classes=off,names=on" */
    char prefix[1024]; /* stands before the names that the source gives: "flowers/", or "" */
    const char *only;  /* the name of the only sample, where the source has none to show: "-" */
    int pictures;      /* 0: the argument is the text of a source; samples have numbers */
    int fd;            /* of the file without a name; -1: none */
} hri_given;

/* "-" stands for standard input.  close is allowed after a failure. */
HR_MUST_CHECK hr_status hri_given_open(int count, const char *const *paths, hri_given *out,
                                       hri_why *why);
void hri_given_close(hri_given *g);

#endif
