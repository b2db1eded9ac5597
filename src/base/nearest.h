/* "Did you mean": the nearest of a list of names.  Any thread. */
#ifndef HRI_BASE_NEAREST_H
#define HRI_BASE_NEAREST_H

#include <stddef.h>

/* Inserted, deleted, replaced and swapped neighbouring letters between two words, upper and lower case
 * alike.  Words are read up to their 63rd byte. */
size_t hri_edit_distance(const char *a, const char *b);

/* The name nearest to `word`, or NULL when none is near enough to be meant (about one change in three
 * letters; a name that starts with the word is near).  Among equals the first wins.  `first` points to
 * the first name pointer and the next lies stride_bytes further, so a column of a table will do:
 *   hri_nearest(word, &fields[0].name, count, sizeof fields[0]) */
const char *hri_nearest(const char *word, const char *const *first, size_t count,
                        size_t stride_bytes);

#endif
