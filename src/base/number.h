/* Numbers in text have a decimal point, whatever the locale of the program around the library: a program that has called
 * setlocale() writes and reads "0,5" with the C library's own functions, and a model, a table or a log is none of its text.
 *
 * Everything that turns a real number into text or back uses these.  tools/check-symbols refuses the others where it can
 * see them.  They are those of the C library in every other way.  Any thread; the locale is as it was afterwards. */
#ifndef HRI_BASE_NUMBER_H
#define HRI_BASE_NUMBER_H

#include <stdarg.h>
#include <stddef.h>

#include <headroom/status.h>

double hri_strtod(const char *text, char **end);
int hri_snprintf(char *buf, size_t size, const char *format, ...) HR_PRINTF(3, 4);
int hri_vsnprintf(char *buf, size_t size, const char *format, va_list args) HR_PRINTF(3, 0);

#endif
