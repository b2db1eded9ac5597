/* A ring of calls, a thread, and two conditions; see net_queue.h. */
#include "run/net_queue.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/fault.h"

enum { STACK_BYTES = 128 << 10 };

typedef struct item {
    hri_call call;
    hri_run_fn *run;
} item;

struct hri_net_queue {
    pthread_mutex_t mutex;
    pthread_cond_t more, over; /* for the thread; for whoever waits */
    pthread_t thread;
    int running, ends;
    uint64_t started, done, base; /* calls since it was opened; at begin */
    hr_status status;             /* of the first that failed since begin */
    uint32_t most;
    item items[];
};

static void *make_calls(void *arg) {
    hri_net_queue *q = arg;
    pthread_mutex_lock(&q->mutex);
    for (;;) {
        while (q->done == q->started && !q->ends) {
            pthread_cond_wait(&q->more, &q->mutex);
        }
        if (q->done == q->started) {
            break;
        }
        const item *x = &q->items[q->done % q->most];
        hr_status status = q->status;
        if (status == HR_OK) {
            pthread_mutex_unlock(&q->mutex);
            status = x->run(&x->call);
            pthread_mutex_lock(&q->mutex);
        }
        q->status = q->status == HR_OK ? status : q->status;
        q->done++;
        pthread_cond_broadcast(&q->over);
    }
    pthread_mutex_unlock(&q->mutex);
    return NULL;
}

hr_status hri_net_queue_open(uint32_t most, hri_net_queue **out) {
    const uint32_t room = most ? most : 1;
    hri_net_queue *q = hri_calloc(1, sizeof *q + room * sizeof *q->items);
    if (!q) {
        return HR_E_NOMEM_HOST;
    }
    pthread_attr_t attributes;
    q->most = room;
    pthread_mutex_init(&q->mutex, NULL);
    pthread_cond_init(&q->more, NULL);
    pthread_cond_init(&q->over, NULL);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    q->running = !HRI_FAULT(THREAD) && pthread_create(&q->thread, &attributes, make_calls, q) == 0;
    pthread_attr_destroy(&attributes);
    if (!q->running) {
        hri_net_queue_close(q);
        return HR_E_NOMEM_HOST;
    }
    *out = q;
    return HR_OK;
}

void hri_net_queue_close(hri_net_queue *q) {
    if (!q) {
        return;
    }
    if (q->running) {
        pthread_mutex_lock(&q->mutex);
        q->ends = 1;
        pthread_cond_signal(&q->more);
        pthread_mutex_unlock(&q->mutex);
        pthread_join(q->thread, NULL);
    }
    pthread_cond_destroy(&q->more);
    pthread_cond_destroy(&q->over);
    pthread_mutex_destroy(&q->mutex);
    hri_free(q);
}

void hri_net_queue_begin(hri_net_queue *q) {
    pthread_mutex_lock(&q->mutex);
    q->base = q->started;
    q->status = HR_OK;
    pthread_mutex_unlock(&q->mutex);
}

void hri_net_queue_start(hri_net_queue *q, const hri_call *call, hri_run_fn *run) {
    pthread_mutex_lock(&q->mutex);
    while (q->started - q->done == q->most) {
        pthread_cond_wait(&q->over, &q->mutex);
    }
    q->items[q->started++ % q->most] = (item){*call, run};
    pthread_cond_signal(&q->more);
    pthread_mutex_unlock(&q->mutex);
}

hr_status hri_net_queue_wait(hri_net_queue *q, uint64_t count) {
    pthread_mutex_lock(&q->mutex);
    while (q->done < q->base + count && q->done < q->started) {
        pthread_cond_wait(&q->over, &q->mutex);
    }
    const hr_status status = q->status;
    pthread_mutex_unlock(&q->mutex);
    return status;
}

void hri_net_queue_drain(hri_net_queue *q) {
    (void)!hri_net_queue_wait(q, UINT64_MAX / 2);
}
