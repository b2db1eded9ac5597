/* A contact sheet: the pictures of an element or a batch side by side in one PNG file. */
#ifndef HRI_CLI_CONTACT_H
#define HRI_CLI_CONTACT_H

#include <headroom/data.h>
#include "cli/common/cli.h"

/* Takes the field "image": one picture (height, width, channels) or a batch of them, u8 or real numbers, which are
 * stretched so that the smallest is black and the largest white.  Returns an exit code. */
int hri_contact_sheet(hri_cli *cli, const hr_element *element, const char *path);

#endif
