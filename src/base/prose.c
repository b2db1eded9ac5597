/* One formatted sentence. */
#include "base/prose.h"

#include <stdarg.h>
#include <stdio.h>

hr_status hri_prose_set(hri_prose *why, hr_status status, const char *format, ...) {
    if (why) {
        va_list args;
        va_start(args, format);
        vsnprintf(why->text, sizeof why->text, format, args);
        va_end(args);
    }
    return status;
}
