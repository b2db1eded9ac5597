/* Pages of host memory: places in a memfd, so that one page can lie at any address, or at two.
 *
 * A page is filled when it is made (fallocate) and present when it is mapped (MAP_POPULATE): what is held is what the
 * resident set shows, at once, and memory that is not there is a status at `create`, never a signal at the first
 * touch.  Before the machine runs so low that the kernel would kill somebody, `create` refuses: it keeps some memory free,
 * because nobody knows what else the process will take.  A plan does know, so what was expected (hri_host_expect) is
 * given to the last byte.
 *
 * Page numbers count from 1; runs of neighbouring numbers are mapped by one call. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "device/host/host.h"

enum { ALLOWANCE_PAGES = 64 };

static hr_status failed(hri_host_dev *dev, const char *call, int error, hr_status status) {
    pthread_mutex_lock(&dev->mutex);
    dev->last_errno = error;
    dev->last_call = call;
    pthread_mutex_unlock(&dev->mutex);
    return status;
}

hr_status hri_host_pages_init(hri_host_dev *dev) {
    dev->fd = HRI_FAULT(OPEN) ? -1 : memfd_create("headroom", MFD_CLOEXEC);
    return dev->fd >= 0 ? HR_OK : HR_E_DEVICE;
}

void hri_host_pages_deinit(hri_host_dev *dev) {
    if (dev->fd >= 0) {
        close(dev->fd);
    }
    hri_free(dev->free_slots);
}

static hr_status host_reserve(void *self, uint64_t bytes, hr_addr *out) {
    hri_host_dev *dev = self;
    const uint64_t page = dev->dev.source.page_bytes;
    if (HRI_FAULT(RESERVE) || bytes + page < bytes) {
        return failed(dev, "addresses", ENOMEM, HR_E_NOMEM_DEVICE);
    }
    /* mmap aligns to small pages only: take one page more and give the ends back */
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *raw = mmap(NULL, bytes + page, PROT_NONE, flags, -1, 0);
    if (raw == MAP_FAILED) {
        return failed(dev, "mmap", errno, HR_E_NOMEM_DEVICE);
    }
    const uint64_t lead = (page - (uint64_t)(uintptr_t)raw % page) % page;
    if (lead > 0) {
        munmap(raw, lead);
    }
    munmap(raw + lead + bytes, page - lead);
    *out = (hr_addr)(uintptr_t)(raw + lead);
    return HR_OK;
}

static void host_unreserve(void *self, hr_addr at, uint64_t bytes) {
    (void)self;
    munmap((void *)(uintptr_t)at, bytes);
}

/* Asks the machine now and then, not for every page: reading /proc costs as much as filling a page. */
static int machine_allows(hri_host_dev *dev, uint64_t page) {
    if (dev->allowance_bytes < page) {
        const uint64_t spare = hri_host_spare();
        if (spare < page) {
            return 0;
        }
        const uint64_t some = spare / 4, most = ALLOWANCE_PAGES * page;
        dev->allowance_bytes = some > most ? most : some > page ? some : page;
    }
    dev->allowance_bytes -= page;
    return 1;
}

hr_status hri_host_expect(hri_dev *base, uint64_t bytes, uint64_t *out_left) {
    hri_host_dev *dev = (hri_host_dev *)base;
    *out_left = hri_host_pages_left();
    if (bytes > *out_left) {
        return failed(dev, "pages", ENOMEM, HR_E_NOMEM_DEVICE);
    }
    pthread_mutex_lock(&dev->mutex);
    dev->allowance_bytes = bytes;
    pthread_mutex_unlock(&dev->mutex);
    return HR_OK;
}

/* The pages that the file may have: a limit on the size of files (ulimit -f) holds for a memfd too, and passing it is a
 * signal where nobody ignores that. */
static uint64_t most_pages(uint64_t page) {
    struct rlimit files;
    return getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur != RLIM_INFINITY
               ? (uint64_t)files.rlim_cur / page
               : UINT64_MAX;
}

/* A page number without memory; the file grows by doubling, since its size costs nothing. */
static hr_status take_slot(hri_host_dev *dev, uint64_t *out) {
    if (dev->free_count > 0) {
        *out = dev->free_slots[--dev->free_count];
        return HR_OK;
    }
    if (dev->slot_count == dev->slot_capacity) {
        const uint64_t most = most_pages(dev->dev.source.page_bytes);
        uint64_t capacity = dev->slot_capacity ? dev->slot_capacity * 2 : 64;
        capacity = capacity < most ? capacity : most;
        if (capacity <= dev->slot_capacity) {
            return HR_E_NOMEM_DEVICE;
        }
        uint64_t *slots = hri_realloc(dev->free_slots, capacity * sizeof *slots);
        if (!slots) {
            return HR_E_NOMEM_HOST;
        }
        dev->free_slots = slots;
        if (ftruncate(dev->fd, (off_t)(capacity * dev->dev.source.page_bytes)) != 0) {
            return HR_E_NOMEM_DEVICE;
        }
        dev->slot_capacity = capacity;
    }
    *out = ++dev->slot_count;
    return HR_OK;
}

static void give_slot(hri_host_dev *dev, uint64_t slot) {
    pthread_mutex_lock(&dev->mutex);
    dev->free_slots[dev->free_count++] = slot;
    pthread_mutex_unlock(&dev->mutex);
}

static hr_status host_create(void *self, uint64_t *out_page) {
    hri_host_dev *dev = self;
    const uint64_t page = dev->dev.source.page_bytes;
    uint64_t slot = 0;
    pthread_mutex_lock(&dev->mutex);
    hr_status status = HR_E_NOMEM_DEVICE;
    if (!HRI_FAULT(CREATE) && machine_allows(dev, page)) {
        status = take_slot(dev, &slot);
    }
    pthread_mutex_unlock(&dev->mutex);
    if (status != HR_OK) {
        return failed(dev, "a page", ENOMEM, status);
    }
    if (fallocate(dev->fd, 0, (off_t)((slot - 1) * page), (off_t)page) != 0) {
        status = failed(dev, "fallocate", errno, HR_E_NOMEM_DEVICE);
        give_slot(dev, slot);
        return status;
    }
    *out_page = slot;
    return HR_OK;
}

static void host_destroy(void *self, uint64_t slot) {
    hri_host_dev *dev = self;
    const uint64_t page = dev->dev.source.page_bytes;
    fallocate(dev->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)((slot - 1) * page),
              (off_t)page);
    give_slot(dev, slot);
}

/* Back to reserved addresses without memory. */
static int blank(hr_addr at, uint64_t bytes) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    return mmap((void *)(uintptr_t)at, bytes, PROT_NONE, flags, -1, 0) != MAP_FAILED;
}

static hr_status host_map(void *self, hr_addr at, const uint64_t *pages, size_t count) {
    hri_host_dev *dev = self;
    const uint64_t page = dev->dev.source.page_bytes;
    for (size_t i = 0; i < count;) {
        size_t end = i + 1;
        while (end < count && pages[end] == pages[end - 1] + 1) {
            end++;
        }
        void *got = MAP_FAILED;
        errno = ENOMEM;
        if (!HRI_FAULT(MAP)) {
            got = mmap((void *)(uintptr_t)(at + i * page), (end - i) * page, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_FIXED | MAP_POPULATE, dev->fd,
                       (off_t)((pages[i] - 1) * page));
        }
        if (got == MAP_FAILED) {
            const hr_status status = failed(dev, "mmap", errno, HR_E_NOMEM_DEVICE);
            if (i > 0) {
                blank(at, i * page);
            }
            return status;
        }
        i = end;
    }
    return HR_OK;
}

static hr_status host_unmap(void *self, hr_addr at, size_t count) {
    hri_host_dev *dev = self;
    /* The kernel may refuse to cut a mapping in two (too many of them): then all stays as it was. */
    if (!blank(at, count * dev->dev.source.page_bytes)) {
        return failed(dev, "mmap", errno, HR_E_DEVICE);
    }
    return HR_OK;
}

const hri_source_ops hri_host_source_ops = {
    .reserve = host_reserve,
    .unreserve = host_unreserve,
    .create = host_create,
    .destroy = host_destroy,
    .map = host_map,
    .unmap = host_unmap,
};
