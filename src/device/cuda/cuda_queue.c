/* Queues, events, copies and fills of a CUDA device.
 *
 * A queue is a non-blocking stream: it never waits for the legacy default stream of other code in the process.
 *
 * Failures: a call that is refused at once has put nothing into the stream, so the queue stays good and the call may
 * be repeated.  A failure that comes out of the device (at sync, or a lost device at any call) stays: the queue keeps
 * the first such status and refuses everything afterwards.
 *
 * queue_sync has no fault point: a sync that "failed" while work still runs would make callers free memory in use. */
#include "base/alloc.h"
#include "device/cuda/cuda_state.h"

typedef struct cuda_queue {
    hri_dev_queue base;
    CUstream stream;
    hr_status failed; /* HR_OK, or the first failure that came out of the device */
} cuda_queue;

typedef struct cuda_event {
    hri_dev_event base;
    CUevent event;
} cuda_event;

static hri_cuda_dev *queue_dev(cuda_queue *queue) {
    return (hri_cuda_dev *)queue->base.dev;
}

/* Checks the answer of a call that puts something into the queue. */
static hr_status queue_check(cuda_queue *queue, const char *call, CUresult result) {
    const hr_status status = hri_cuda_check(queue_dev(queue), call, result);
    if (status == HR_E_LOST) {
        queue->failed = status;
    }
    return status;
}

CUstream hri_cuda_stream(hri_dev_queue *queue) {
    return ((cuda_queue *)queue)->stream;
}

hr_status hri_cuda_queue_failed(hri_dev_queue *queue) {
    return ((cuda_queue *)queue)->failed;
}

hr_status hri_cuda_queue_check(hri_dev_queue *queue, const char *call, CUresult result) {
    return queue_check((cuda_queue *)queue, call, result);
}

hr_status hri_cuda_queue_open(hri_dev *base, hri_dev_queue **out) {
    hri_cuda_dev *dev = (hri_cuda_dev *)base;
    cuda_queue *queue = hri_calloc(1, sizeof *queue);
    if (!queue) {
        return HR_E_NOMEM_HOST;
    }
    queue->base.dev = base;
    int pushed;
    hr_status status = hri_cuda_enter(dev, &pushed);
    if (status == HR_OK) {
        const CUresult result =
            HRI_FAULT(QUEUE) ? CUDA_ERROR_OUT_OF_MEMORY
                             : dev->cu->cuStreamCreate(&queue->stream, CU_STREAM_NON_BLOCKING);
        status = hri_cuda_check(dev, "cuStreamCreate", result);
        hri_cuda_leave(dev, pushed);
    }
    if (status != HR_OK) {
        hri_free(queue);
        return status;
    }
    *out = &queue->base;
    return HR_OK;
}

hr_status hri_cuda_queue_sync(hri_dev_queue *base) {
    cuda_queue *queue = (cuda_queue *)base;
    hri_cuda_dev *dev = queue_dev(queue);
    if (queue->failed != HR_OK) {
        return queue->failed;
    }
    int pushed;
    hr_status status = hri_cuda_enter(dev, &pushed);
    if (status == HR_OK) {
        status =
            hri_cuda_check(dev, "cuStreamSynchronize", dev->cu->cuStreamSynchronize(queue->stream));
        hri_cuda_leave(dev, pushed);
    }
    queue->failed = status;
    return status;
}

void hri_cuda_queue_close(hri_dev_queue *base) {
    if (!base) {
        return;
    }
    cuda_queue *queue = (cuda_queue *)base;
    hri_cuda_dev *dev = queue_dev(queue);
    int pushed;
    if (hri_cuda_enter(dev, &pushed) == HR_OK) {
        /* Destroying a stream does not wait for it, and callers free memory after this. */
        (void)dev->cu->cuStreamSynchronize(queue->stream);
        (void)dev->cu->cuStreamDestroy_v2(queue->stream);
        hri_cuda_leave(dev, pushed);
    }
    hri_free(queue);
}

hr_status hri_cuda_event_open(hri_dev *base, hri_dev_event **out) {
    hri_cuda_dev *dev = (hri_cuda_dev *)base;
    cuda_event *event = hri_calloc(1, sizeof *event);
    if (!event) {
        return HR_E_NOMEM_HOST;
    }
    event->base.dev = base;
    int pushed;
    hr_status status = hri_cuda_enter(dev, &pushed);
    if (status == HR_OK) {
        const CUresult result = HRI_FAULT(QUEUE)
                                    ? CUDA_ERROR_OUT_OF_MEMORY
                                    : dev->cu->cuEventCreate(&event->event, CU_EVENT_DEFAULT);
        status = hri_cuda_check(dev, "cuEventCreate", result);
        hri_cuda_leave(dev, pushed);
    }
    if (status != HR_OK) {
        hri_free(event);
        return status;
    }
    *out = &event->base;
    return HR_OK;
}

void hri_cuda_event_close(hri_dev_event *base) {
    if (!base) {
        return;
    }
    cuda_event *event = (cuda_event *)base;
    hri_cuda_dev *dev = (hri_cuda_dev *)base->dev;
    int pushed;
    if (hri_cuda_enter(dev, &pushed) == HR_OK) {
        /* Queues that wait for it keep what they need of it. */
        (void)dev->cu->cuEventDestroy_v2(event->event);
        hri_cuda_leave(dev, pushed);
    }
    hri_free(event);
}

hr_status hri_cuda_event_mark(hri_dev_event *event_base, hri_dev_queue *queue_base) {
    cuda_event *event = (cuda_event *)event_base;
    cuda_queue *queue = (cuda_queue *)queue_base;
    hri_cuda_dev *dev = queue_dev(queue);
    if (queue->failed != HR_OK) {
        return queue->failed;
    }
    int pushed;
    hr_status status = hri_cuda_enter(dev, &pushed);
    if (status == HR_OK) {
        const CUresult result = HRI_FAULT(QUEUE)
                                    ? CUDA_ERROR_UNKNOWN
                                    : dev->cu->cuEventRecord(event->event, queue->stream);
        status = queue_check(queue, "cuEventRecord", result);
        hri_cuda_leave(dev, pushed);
    }
    return status;
}

hr_status hri_cuda_event_wait(hri_dev_event *event_base, hri_dev_queue *queue_base) {
    cuda_event *event = (cuda_event *)event_base;
    cuda_queue *queue = (cuda_queue *)queue_base;
    hri_cuda_dev *dev = queue_dev(queue);
    if (queue->failed != HR_OK) {
        return queue->failed;
    }
    int pushed;
    hr_status status = hri_cuda_enter(dev, &pushed);
    if (status == HR_OK) {
        const CUresult result = HRI_FAULT(QUEUE)
                                    ? CUDA_ERROR_UNKNOWN
                                    : dev->cu->cuStreamWaitEvent(queue->stream, event->event, 0);
        status = queue_check(queue, "cuStreamWaitEvent", result);
        hri_cuda_leave(dev, pushed);
    }
    return status;
}

hr_status hri_cuda_event_elapsed(hri_dev_event *from, hri_dev_event *to, uint64_t *out_ns) {
    hri_cuda_dev *dev = (hri_cuda_dev *)from->dev;
    if (!dev->cu->cuEventElapsedTime) {
        return hri_cuda_check(dev, "cuEventElapsedTime", CUDA_ERROR_NOT_SUPPORTED);
    }
    int pushed;
    hr_status status = hri_cuda_enter(dev, &pushed);
    if (status != HR_OK) {
        return status;
    }
    float ms = 0;
    const CUresult result =
        dev->cu->cuEventElapsedTime(&ms, ((cuda_event *)from)->event, ((cuda_event *)to)->event);
    /* INVALID_HANDLE is the driver's word for an event that was never marked. */
    status = result == CUDA_ERROR_NOT_READY || result == CUDA_ERROR_INVALID_HANDLE
                 ? HR_E_AGAIN
                 : hri_cuda_check(dev, "cuEventElapsedTime", result);
    hri_cuda_leave(dev, pushed);
    if (status == HR_OK) {
        *out_ns = ms > 0 ? (uint64_t)((double)ms * 1e6 + 0.5) : 0;
    }
    return status;
}

hr_status hri_cuda_copy(hri_dev_queue *base, hr_addr to, hr_addr from, uint64_t bytes) {
    cuda_queue *queue = (cuda_queue *)base;
    hri_cuda_dev *dev = queue_dev(queue);
    if (queue->failed != HR_OK || bytes == 0) {
        return queue->failed;
    }
    int pushed;
    hr_status status = hri_cuda_enter(dev, &pushed);
    if (status == HR_OK) {
        /* Addresses are unified: the driver sees by itself which side is the host's. */
        const CUresult result = HRI_FAULT(COPY)
                                    ? CUDA_ERROR_UNKNOWN
                                    : dev->cu->cuMemcpyAsync(to, from, bytes, queue->stream);
        status = queue_check(queue, "cuMemcpyAsync", result);
        hri_cuda_leave(dev, pushed);
    }
    return status;
}

hr_status hri_cuda_fill(hri_dev_queue *base, hr_addr to, uint8_t value, uint64_t bytes) {
    cuda_queue *queue = (cuda_queue *)base;
    hri_cuda_dev *dev = queue_dev(queue);
    if (queue->failed != HR_OK || bytes == 0) {
        return queue->failed;
    }
    int pushed;
    hr_status status = hri_cuda_enter(dev, &pushed);
    if (status == HR_OK) {
        const CUresult result = HRI_FAULT(COPY)
                                    ? CUDA_ERROR_UNKNOWN
                                    : dev->cu->cuMemsetD8Async(to, value, bytes, queue->stream);
        status = queue_check(queue, "cuMemsetD8Async", result);
        hri_cuda_leave(dev, pushed);
    }
    return status;
}
