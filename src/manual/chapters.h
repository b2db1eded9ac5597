/* Chapters of docs/commands.md behind the commands: options of training, models, sources and stages. */
#ifndef HRI_MANUAL_CHAPTERS_H
#define HRI_MANUAL_CHAPTERS_H

#include "base/out.h"

void hri_manual_chapters(hri_out *out);

#endif
