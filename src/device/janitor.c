/* The janitor: one thread a context that gives idle pages back by itself.  It runs only once a slice has an idle time.
 *
 * Each slice's idle clock ticks every half idle time; a run of pages that nobody used for two ticks goes.  So a page
 * is given back between one and one and a half idle times after its last use, and no clock is read on the fast path. */
#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "base/fault.h"
#include "device/device.h"

/* Ticks what is due; returns when the next one is, UINT64_MAX for never. */
static uint64_t sweep(hr_ctx *ctx) {
    uint64_t next = UINT64_MAX;
    for (size_t i = 0; i < ctx->device_count; i++) {
        hr_device *device = ctx->devices[i];
        pthread_mutex_lock(&device->mutex);
        for (hr_logical *l = device->logicals; l; l = l->next) {
            if (l->idle_trim_ms == 0) {
                continue;
            }
            const uint64_t half_ns = (uint64_t)l->idle_trim_ms * 500000u;
            const uint64_t now = hri_clock_ns();
            if (l->next_tick_ns == 0) {
                l->next_tick_ns = now + half_ns;
            } else if (l->next_tick_ns <= now) {
                l->next_tick_ns = now + half_ns;
                hri_heap_tick(&l->heap);
                uint64_t freed = 0;
                const hr_status status = hri_heap_trim(&l->heap, 2, &freed);
                if (status != HR_OK || freed > 0) {
                    hri_log_write(&ctx->log, status == HR_OK ? HR_LOG_DEBUG : HR_LOG_WARN,
                                  "%s: releasing %llu idle bytes: %s", l->name,
                                  (unsigned long long)freed, hr_status_text(status));
                }
            }
            next = l->next_tick_ns < next ? l->next_tick_ns : next;
        }
        pthread_mutex_unlock(&device->mutex);
    }
    return next;
}

static void *work(void *arg) {
    hr_ctx *ctx = arg;
    hri_janitor *janitor = &ctx->janitor;
    pthread_mutex_lock(&janitor->mutex);
    while (!janitor->stop) {
        janitor->changed = 0;
        pthread_mutex_unlock(&janitor->mutex);
        const uint64_t next = sweep(ctx);
        pthread_mutex_lock(&janitor->mutex);
        const struct timespec until = {.tv_sec = (time_t)(next / 1000000000u),
                                       .tv_nsec = (long)(next % 1000000000u)};
        while (!janitor->stop && !janitor->changed) {
            if (next == UINT64_MAX) {
                pthread_cond_wait(&janitor->cond, &janitor->mutex);
            } else if (pthread_cond_timedwait(&janitor->cond, &janitor->mutex, &until) ==
                       ETIMEDOUT) {
                break;
            }
        }
    }
    pthread_mutex_unlock(&janitor->mutex);
    return NULL;
}

hr_status hri_janitor_wake(hr_ctx *ctx) {
    hri_janitor *janitor = &ctx->janitor;
    hr_status status = HR_OK;
    pthread_mutex_lock(&janitor->mutex);
    janitor->changed = 1;
    if (!janitor->running) {
        if (HRI_FAULT(ALLOC) || pthread_create(&janitor->thread, NULL, work, ctx) != 0) {
            status = HR_E_NOMEM_HOST;
        } else {
            janitor->running = 1;
        }
    }
    pthread_cond_signal(&janitor->cond);
    pthread_mutex_unlock(&janitor->mutex);
    return status == HR_OK ? HR_OK
                           : hri_fail(ctx, status,
                                      "could not start the thread that releases "
                                      "idle pages");
}

void hri_janitor_stop(hr_ctx *ctx) {
    hri_janitor *janitor = &ctx->janitor;
    pthread_mutex_lock(&janitor->mutex);
    janitor->stop = 1;
    const int running = janitor->running;
    pthread_cond_signal(&janitor->cond);
    pthread_mutex_unlock(&janitor->mutex);
    if (running) {
        pthread_join(janitor->thread, NULL);
    }
}
