/* The pictures that a command was given: a folder, files, or standard input, as the text of a source.
 *
 * Standard input is a picture when it begins like one (JPEG, PNG), and otherwise a list of paths, one a line.  It is
 * kept in a file without a name, because a pipe can be read only once. */
#ifndef HRI_CLI_GIVEN_H
#define HRI_CLI_GIVEN_H

#include <stddef.h>
#include "cli/common/cli.h"

typedef struct hri_given {
    hri_cli *cli;
    char text[2048];   /* "images:flowers,classes=off,names=on" */
    char prefix[1024]; /* stands before the names that the source gives: "flowers/", or "" */
    const char *only;  /* the name of the only sample, where the source has none to show: "-" */
    int pictures;      /* 0: the argument is the text of a source; samples have numbers */
    int fd;            /* of the file without a name; -1: none */
} hri_given;

/* An exit code; what is wrong was said.  close is allowed after a failure. */
int hri_given_open(hri_cli *cli, int count, const char *const *arguments, hri_given *out);
void hri_given_close(hri_given *g);

#endif
