/* The log: lines handed to the user's callback.  The library itself never prints.
 * Any thread; the callback is never entered twice at once for one log. */
#ifndef HRI_BASE_LOG_H
#define HRI_BASE_LOG_H

#include <pthread.h>
#include <headroom/context.h>

typedef struct hri_log {
    hr_log_fn *fn; /* NULL: silent */
    void *user;
    hr_log_level level;
    pthread_mutex_t mutex;
} hri_log;

void hri_log_init(hri_log *log, hr_log_fn *fn, void *user, hr_log_level level);
void hri_log_deinit(hri_log *log);
/* Lines longer than 1 KiB are cut.  log may be NULL. */
void hri_log_write(hri_log *log, hr_log_level level, const char *format, ...) HR_PRINTF(3, 4);

#endif
