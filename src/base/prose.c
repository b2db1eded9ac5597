/* One formatted sentence.  Texts of users and files go into it, so control characters become '?': a sentence may be
 * printed to a terminal as it is. */
#include "base/prose.h"

#include <stdarg.h>
#include <stdio.h>

hr_status hri_prose_set(hri_prose *why, hr_status status, const char *format, ...) {
    if (why) {
        va_list args;
        va_start(args, format);
        vsnprintf(why->text, sizeof why->text, format, args);
        va_end(args);
        for (char *p = why->text; *p; p++) {
            *p = (unsigned char)*p < ' ' || *p == 0x7f ? '?' : *p;
        }
    }
    return status;
}
