/* Formats a line and passes it on, one at a time. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include "base/number.h"

void hri_log_init(hri_log *log, hr_log_fn *fn, void *user, hr_log_level level) {
    log->fn = fn;
    log->user = user;
    log->level = level;
    pthread_mutex_init(&log->mutex, NULL);
}

void hri_log_deinit(hri_log *log) {
    pthread_mutex_destroy(&log->mutex);
}

void hri_log_write(hri_log *log, hr_log_level level, const char *format, ...) {
    if (!log || !log->fn || level > log->level) {
        return;
    }
    char line[1024];
    va_list args;
    va_start(args, format);
    hri_vsnprintf(line, sizeof line, format, args);
    va_end(args);
    pthread_mutex_lock(&log->mutex);
    log->fn(log->user, level, line);
    pthread_mutex_unlock(&log->mutex);
}
