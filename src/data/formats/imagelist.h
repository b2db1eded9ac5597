/* The images of a folder, or its texts: their paths, sizes and times, classes from the folders in it, and the largest image.
 *
 * Listing charges the names to the stage (pathlist.h).  Sizes and times of the last change go into a fingerprint.  Up to 4096
 * files, spread evenly, are looked into for the largest image, which goes to the stage's spec.  What is left out (files of
 * other types, classes without images, images beside the classes, folders that contain themselves) becomes a note of the
 * pipeline.
 *
 * Threads: one at a time while it is opened; then any number may read. */
#ifndef HRI_DATA_IMAGELIST_H
#define HRI_DATA_IMAGELIST_H

#include <limits.h>
#include <time.h>
#include "base/hash.h"
#include "base/vector.h"
#include "data/formats/pathlist.h"

enum { HRI_IMAGELIST_PATH = PATH_MAX, HRI_IMAGELIST_SAMPLE = 4096, HRI_IMAGELIST_HEAD = 256 << 10 };

HRI_VECTOR(hri_names, char *)

typedef struct hri_imagelist {
    const char *path; /* the caller's */
    bool texts;       /* any file, instead of images */
    hri_pathlist files;
    uint64_t *class_first; /* the first element of each class; classes.count + 1 of them */
    hri_names classes;
    uint64_t largest_file;
    hri_hasher print; /* of names, sizes and times */
    uint64_t newest;  /* the file that was changed last */
    struct timespec newest_time;
    bool listed; /* the names are whole paths */
} hri_imagelist;

/* list->texts is set before: every file counts then, whatever its name.  classes: folders are classes.  Else path is a folder with all below it, one file, or @ and a list of files.  `path` must
 * outlive the list.  HR_E_NOT_FOUND when there is no image; a list that failed is closed as well. */
HR_MUST_CHECK hr_status hri_imagelist_open(hri_imagelist *list, hri_stage *s, const char *path,
                                           bool classes, hri_prose *why);
void hri_imagelist_close(hri_imagelist *list);
/* The path of a file, into HRI_IMAGELIST_PATH bytes; false when it is too long. */
bool hri_imagelist_path(const hri_imagelist *list, uint64_t i, char *path);
/* The class of a file: that of its folder. */
int32_t hri_imagelist_class(const hri_imagelist *list, uint64_t i);
/* The field "name": the path below the folder. */
HR_MUST_CHECK hr_status hri_imagelist_emit_name(const hri_imagelist *list, uint64_t i,
                                                hr_emit *emit);
/* Makes spec as large as this image; `head` has room for HRI_IMAGELIST_HEAD bytes.  A file that cannot be read is left for later. */
void hri_imagelist_measure(hri_spec *spec, const char *path, char *head);
void hri_imagelist_print_to(const hri_imagelist *list, hri_state *state);
/* See hri_stage_type. */
int64_t hri_imagelist_newest(const hri_imagelist *list, char *path, size_t size);

#endif
