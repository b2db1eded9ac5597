/* The page: one HTML file with recordings in it, that needs no network, no server and no other file.
 *
 * Its sources are src/see/page/.  A recording stands in it as gzip of its .hrp file (zero columns left out) in base64; scripts that are not ours do
 * not run in it (their hashes are in its content security policy). */
#ifndef HRI_SEE_PAGE_H
#define HRI_SEE_PAGE_H

#include "see/recording.h"

/* The file is replaced as a whole.  names[i] is what the menu calls recordings[i]; with one recording there is no menu. */
HR_MUST_CHECK hr_status hri_see_page_write(const char *path, const hri_recording *const *recordings,
                                           const char *const *names, size_t count, hri_prose *why);

#endif
