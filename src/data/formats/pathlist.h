/* Many paths in little memory, all of it charged to a stage: folders once, the names of their files behind one another.
 *
 * A file takes its name, a NUL and four bytes; storage comes in pieces of 16 KiB that never move, so that growing needs no
 * second copy.  When the budget has no room the list goes on counting, without keeping anything, so that the refusal can
 * say how much all of it would have taken.  Nothing ever waits: nobody could give back what this waited for.
 *
 * Threads: one at a time while it grows; then any number may read. */
#ifndef HRI_DATA_PATHLIST_H
#define HRI_DATA_PATHLIST_H

#include "data/stage.h"

typedef struct hri_pieces {
    hri_buffer **items;
    size_t count;
} hri_pieces;

typedef struct hri_pathlist {
    hri_stage *stage;
    hri_pieces text, starts, folders;
    uint64_t text_used, folder_count, count;
    uint64_t wanted_bytes; /* of all pieces, had there been room */
    bool counting;         /* the budget is used up */
} hri_pathlist;

/* Files that are added next lie in this folder; "": their names are whole paths. */
HR_MUST_CHECK hr_status hri_pathlist_enter(hri_pathlist *list, const char *folder);
HR_MUST_CHECK hr_status hri_pathlist_add(hri_pathlist *list, const char *name);
/* Sorts the files from `first` on by name; they lie in one folder. */
void hri_pathlist_sort(hri_pathlist *list, uint64_t first);
/* HR_E_LIMIT, with the bytes that all of it takes, when the budget had no room; else HR_OK. */
HR_MUST_CHECK hr_status hri_pathlist_check(const hri_pathlist *list, hri_prose *why);
void hri_pathlist_deinit(hri_pathlist *list);

const char *hri_pathlist_name(const hri_pathlist *list, uint64_t i);
/* "folder/name"; its whole length, as snprintf. */
size_t hri_pathlist_print(const hri_pathlist *list, uint64_t i, char *buf, size_t size);

#endif
