/* The folder of a run: one training at a time, and no halves of killed ones.
 *
 * The folder itself is locked (flock), so a lock dies with its process, however that dies.  Files that a killed training
 * was writing beside its checkpoints are removed: nobody else can be writing them. */
#ifndef HRI_TRAIN_FOLDER_H
#define HRI_TRAIN_FOLDER_H

#include "base/prose.h"

/* Makes the folder where it is missing.  HR_E_BUSY when another training runs in it.  *out is for hri_folder_close. */
HR_MUST_CHECK hr_status hri_folder_open(const char *path, int *out, hri_prose *why);
/* -1 is allowed. */
void hri_folder_close(int folder);

#endif
