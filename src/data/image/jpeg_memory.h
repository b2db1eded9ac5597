/* libjpeg's memory manager over ours.
 *
 * libjpeg takes all its working memory through a table of functions in the decompressor.  This one serves it from
 * buffers that are charged to the ledger and freed together when the picture is done, so a decoder can neither
 * outgrow the budget nor leave anything behind in malloc.  Arrays that libjpeg would like to keep in a file (the
 * coefficients of a progressive picture) lie in memory like the rest; they are charged, so they are refused when the
 * budget has no room for them. */
#ifndef HRI_DATA_JPEG_MEMORY_H
#define HRI_DATA_JPEG_MEMORY_H

#include <stdio.h>
#include <jpeglib.h>
#include "data/element.h"

typedef struct hri_jpeg_memory {
    struct jpeg_memory_mgr table; /* first: libjpeg sees only this */
    struct jpeg_memory_mgr *before;
    hri_memory *memory;
    hri_buffer *chunks; /* linked by `next` */
    char *at, *end;     /* the rest of the newest chunk */
    struct jvirt_barray_control *virtuals;
    hr_status status; /* why an allocation failed */
} hri_jpeg_memory;

/* Puts the table into a decompressor that was just created. */
void hri_jpeg_memory_attach(hri_jpeg_memory *m, hri_memory *memory, j_decompress_ptr cinfo);
/* Takes it out again and frees everything; then the decompressor may be destroyed. */
void hri_jpeg_memory_detach(hri_jpeg_memory *m, j_decompress_ptr cinfo);

#endif
