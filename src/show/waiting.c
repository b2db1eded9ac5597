/* The thread of waiting.h. */
#include "show/waiting.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/visible.h"

#define SECOND_NS UINT64_C(1000000000)
enum { PER_SECOND = 4, STACK_BYTES = 64 << 10 };

static void put(const char *text) {
    if (write(STDERR_FILENO, text, strlen(text)) < 0) {
        return; /* nobody looks */
    }
}

static void draw(hri_waiting *w) {
    char line[160], clean[160];
    const uint64_t seconds = (hri_clock_ns() - w->begun_ns) / SECOND_NS;
    snprintf(line, sizeof line, "planning %.100s ... %llu s", w->what, (unsigned long long)seconds);
    hri_visible(line, clean, sizeof clean);
    const size_t width = w->term->width;
    if (width < sizeof clean) { /* the last column stays free */
        clean[width ? width - 1 : 0] = '\0';
    }
    put("\r\033[K");
    put(clean);
    w->drawn = true;
}

static void erase(hri_waiting *w) {
    if (w->drawn) {
        put("\r\033[K");
        w->drawn = false;
    }
}

static void *run(void *waiting) {
    hri_waiting *w = waiting;
    pthread_mutex_lock(&w->mutex);
    while (!w->over) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += (long)(SECOND_NS / PER_SECOND);
        until.tv_sec += until.tv_nsec / (long)SECOND_NS;
        until.tv_nsec %= (long)SECOND_NS;
        (void)pthread_cond_timedwait(&w->stop, &w->mutex, &until);
        if (!w->over && hri_clock_ns() - w->begun_ns >= SECOND_NS) {
            draw(w);
        }
    }
    erase(w);
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

void hri_waiting_start(hri_waiting *w, const hri_term *term, const char *what) {
    pthread_attr_t attributes;
    *w = (hri_waiting){.term = term, .what = what, .begun_ns = hri_clock_ns()};
    if (!term->tty || pthread_attr_init(&attributes) != 0) {
        return;
    }
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->stop, NULL);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    w->runs = pthread_create(&w->thread, &attributes, run, w) == 0;
    pthread_attr_destroy(&attributes);
}

void hri_waiting_hide(hri_waiting *w) {
    if (w->runs) {
        pthread_mutex_lock(&w->mutex);
        erase(w);
        pthread_mutex_unlock(&w->mutex);
    }
}

void hri_waiting_stop(hri_waiting *w) {
    if (!w->runs) {
        return;
    }
    pthread_mutex_lock(&w->mutex);
    w->over = true;
    pthread_cond_signal(&w->stop);
    pthread_mutex_unlock(&w->mutex);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->stop);
    pthread_mutex_destroy(&w->mutex);
    *w = (hri_waiting){0};
}
