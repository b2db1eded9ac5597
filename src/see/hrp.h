/* Recordings as files: .hrp, docs/hrp-format.md.
 *
 * The one idea: chunks with a checksum each, tables in blocks of columns that name themselves.  A file that ends too early
 * gives every whole chunk before the end; columns that a reader does not know are skipped; nothing is ever patched.
 *
 *   file    "\x89HRP\r\n\x1a\n", u32 version, u32 0, then chunks up to one of kind "end "
 *   chunk   kind (4 bytes), u32 count, u64 bytes, u32 CRC-32 of the payload, u32 0; the payload; zeros up to a multiple of 8
 *   head    a JSON object
 *   text    count times u32 length; then the texts, UTF-8, without ends.  Numbered on from the chunk before
 *   tables  u32 columns, u32 0; for each: name (16 bytes), u32 type, u32 offset in the payload; then the columns
 *
 * All numbers are little-endian. */
#ifndef HRI_SEE_HRP_H
#define HRI_SEE_HRP_H

#include <stddef.h>
#include "see/recording.h"

enum { HRI_HRP_VERSION = 1, HRI_HRP_BLOCK_ROWS = 4096 };
#define HRI_HRP_FILE_BYTES (UINT64_C(2) << 30) /* the most that is read */

/* Gets the file in pieces.  Any status but HR_OK ends it. */
typedef hr_status hri_hrp_sink(void *user, const void *bytes, size_t count, hri_prose *why);

/* Of a recording that was finished. */
HR_MUST_CHECK hr_status hri_hrp_encode(const hri_recording *r, hri_hrp_sink *sink, void *user,
                                       hri_prose *why);
/* For the page, which must open fast: blocks leave out columns that are zero throughout.  No file: decoding needs all columns. */
HR_MUST_CHECK hr_status hri_hrp_encode_lean(const hri_recording *r, hri_hrp_sink *sink, void *user,
                                            hri_prose *why);
/* Written beside its place and renamed. */
HR_MUST_CHECK hr_status hri_hrp_write(const hri_recording *r, const char *path, hri_prose *why);

/* 1 when the bytes begin like such a file. */
bool hri_hrp_is(const void *bytes, size_t count);
/* Finished, or *out untouched.  out->truncated when something is missing.  HR_E_FORMAT when nothing can be read, HR_E_UNSUPPORTED
 * for a later version. */
HR_MUST_CHECK hr_status hri_hrp_decode(const void *bytes, size_t count, hri_recording *out,
                                       hri_prose *why);

#endif
