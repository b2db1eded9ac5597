/* Text from outside, made fit to be shown: names of classes, files, tensors, ops, devices, fields.
 *
 *   char buf[256];
 *   printf("%s\n", hri_visible(name, buf, sizeof buf));        "rose\x1b[2J" for a name with an escape in it
 *
 * What stays is valid UTF-8 that prints.  Every byte of anything else becomes \xNN: control characters (C0, DEL, C1),
 * the marks that turn the direction of a line or break it, invisible tags, and bytes that are no UTF-8 (surrogates and
 * overlong forms too).  Doing it twice changes nothing.  A backslash stays as it is: this is for eyes, not for reading
 * back; JSON has its own escapes and stays exact.  Any thread. */
#ifndef HRI_BASE_VISIBLE_H
#define HRI_BASE_VISIBLE_H

#include <stddef.h>

/* Bytes of the UTF-8 character at p (1 to 4), or 0 when there is none.  p ends with a NUL. */
size_t hri_utf8_length(const char *p);
/* How many of `bytes` come before the first that is not UTF-8; `bytes`: all of them.  Nothing need lie behind them. */
size_t hri_utf8_valid(const char *text, size_t bytes);
/* At most `bytes`, so that a text is cut between characters there: it may go on behind them. */
size_t hri_utf8_cut(const char *text, size_t bytes);
/* Writes `text` into buf, cut between characters where `size` ends; returns buf. */
const char *hri_visible(const char *text, char *buf, size_t size);
/* The same with newlines left in, for text of several lines. */
const char *hri_visible_lines(const char *text, char *buf, size_t size);
/* The character at p as it is shown, without a NUL; *taken gets its bytes.  Returns how many were put. */
size_t hri_visible_next(const char *p, char to[17], size_t *taken);
/* Bytes that hri_visible_lines needs for it, the NUL included; 0 when the text is fit as it is. */
size_t hri_visible_lines_need(const char *text);

#endif
