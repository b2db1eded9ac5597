/* The folder of a run: one training at a time, and no halves of killed ones.
 *
 * Opening does all of it, in the one order that holds between processes: the folder is made where it is missing, locked, and
 * only then looked at.  Whoever has the lock may test what is in the folder and write there; nobody else can come between.
 * A file is written for a try, so a place that cannot be written is refused now and not after the first epoch.
 *
 * The folder itself is locked (flock), so a lock dies with its process, however that dies.  Files that a killed training
 * was writing beside its checkpoints are removed: nobody else can be writing them. */
#ifndef HRI_WEIGHTS_FOLDER_H
#define HRI_WEIGHTS_FOLDER_H

#include <stddef.h>
#include "base/prose.h"

typedef struct hri_folder {
    int fd; /* -1: none */
    int locked;
    char *path;
    size_t made_from,
        made_to; /* lengths of the first and the last part of path made here; 0: none */
} hri_folder;

typedef enum hri_folder_kind {
    HRI_FOLDER_ANY, /* there or not */
    HRI_FOLDER_NEW  /* HR_E_EXISTS when it is there */
} hri_folder_kind;

/* HR_E_BUSY when another training runs in it, HR_E_IO when nothing can be written there.  On failure nothing that was made
 * stays. */
HR_MUST_CHECK hr_status hri_folder_open(const char *path, hri_folder_kind kind, hri_folder *out,
                                        hri_prose *why);
/* Gives the lock back.  What was made and is still empty is removed.  A zeroed one is allowed. */
void hri_folder_close(hri_folder *folder);

#endif
