/* See handles.h. */
#include "handles.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int fake_memory_fd = -1;
static fake_handle_entry *handles;
static uint32_t handle_count, handle_room, handle_free = ~0u;
static uint64_t *free_units;
static size_t free_unit_count, free_unit_room;
static uint64_t unit_count;

int fake_grow(void **array, size_t count, size_t *room, size_t size) {
    if (count < *room) {
        return 1;
    }
    const size_t wanted = *room ? *room * 2 : 64;
    void *larger = realloc(*array, wanted * size);
    if (!larger) {
        return 0;
    }
    *array = larger;
    *room = wanted;
    return 1;
}

fake_handle_entry *fake_handle_of(uint64_t handle) {
    const uint64_t number = (handle & 0xffffffffu) - 1;
    if (number >= handle_count || !handles[number].live ||
        handles[number].generation != (uint32_t)(handle >> 32)) {
        return NULL;
    }
    return &handles[number];
}

static int prop_device(const CUmemAllocationProp *prop) {
    if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE || prop->win32HandleMetaData) {
        return -1;
    }
    return fake_device_of(prop->location.id);
}

CUresult fake_cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop,
                                            CUmemAllocationGranularity_flags option) {
    if (!bytes ||
        (prop_device(prop) < 0 && (!prop || (int)prop->location.type != FAKE_LOCATION_HOST_NUMA)) ||
        (unsigned)option > 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *bytes = FAKE_PAGE;
    return CUDA_SUCCESS;
}

/* Finds pages of the memfd for `count`; 0 when the host refuses. */
static int take_units(uint64_t *units, uint64_t count) {
    if (fake_memory_fd < 0) {
        fake_memory_fd = memfd_create("fakecuda", MFD_CLOEXEC);
        if (fake_memory_fd < 0) {
            return 0;
        }
    }
    for (uint64_t i = 0; i < count; i++) {
        if (free_unit_count) {
            units[i] = free_units[--free_unit_count];
        } else {
            units[i] = unit_count;
            if (ftruncate(fake_memory_fd, (off_t)((unit_count + 1) * FAKE_PAGE)) != 0) {
                return 0;
            }
            unit_count++;
        }
    }
    return 1;
}

void fake_handle_free(fake_handle_entry *h) {
    for (uint64_t i = 0; i < h->count; i++) {
        fallocate(fake_memory_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  (off_t)(h->units[i] * FAKE_PAGE), FAKE_PAGE);
        if (fake_grow((void **)&free_units, free_unit_count, &free_unit_room, sizeof *free_units)) {
            free_units[free_unit_count++] = h->units[i];
        }
    }
    if (h->imported) {
        h->imported = 0;
    } else if (h->device >= 0) {
        fake_state_give(h->device, h->count * FAKE_PAGE);
    } else {
        fake_state_host(-(int64_t)(h->count * FAKE_PAGE));
    }
    free(h->units);
    h->units = NULL;
    h->live = 0;
    h->generation++;
    h->next_free = handle_free;
    handle_free = (uint32_t)(h - handles);
    fake_live.handles--;
}

/* A free entry, or NULL. */
static fake_handle_entry *new_handle(void) {
    if (handle_free != ~0u) {
        fake_handle_entry *h = &handles[handle_free];
        handle_free = h->next_free;
        return h;
    }
    size_t room = handle_room;
    if (!fake_grow((void **)&handles, handle_count, &room, sizeof *handles)) {
        return NULL;
    }
    handle_room = (uint32_t)room;
    handles[handle_count] = (fake_handle_entry){.generation = 1};
    return &handles[handle_count++];
}

/* Memory of the host, mapped into the device: since 12.2.  Without a node nobody else may have it. */
static int is_host_numa(const CUmemAllocationProp *prop) {
    if (!prop || fake_version() < 12020 || prop->allocFlags.gpuDirectRDMACapable ||
        prop->allocFlags.compressionType) {
        return 0;
    }
    return ((int)prop->location.type == FAKE_LOCATION_HOST_NUMA && prop->location.id >= 0) ||
           ((int)prop->location.type == FAKE_LOCATION_HOST && !prop->requestedHandleTypes);
}

static int host_refused(void) {
    const char *text = getenv("FAKECUDA_HOST_NUMA");
    return text && strcmp(text, "refuse") == 0;
}

CUresult fake_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                          const CUmemAllocationProp *prop, unsigned long long flags) {
    const int on_host = is_host_numa(prop);
    const int device = on_host ? -1 : prop_device(prop);
    if (!handle || bytes == 0 || fake_unaligned(bytes) || flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (device < 0 && !on_host) {
        return prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE
                   ? CUDA_ERROR_INVALID_DEVICE
                   : CUDA_ERROR_INVALID_VALUE;
    }
    if (on_host && host_refused()) {
        return (CUresult)FAKE_ERROR_NOT_PERMITTED;
    }
    if (!on_host && fake_state_take(device, bytes) != 0) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    const CUresult result = fake_handle_make(handle, bytes, device, prop);
    if (result == CUDA_SUCCESS && on_host) {
        fake_state_host((int64_t)bytes);
    } else if (result != CUDA_SUCCESS && !on_host) {
        fake_state_give(device, bytes);
    }
    return result;
}

CUresult fake_handle_make(CUmemGenericAllocationHandle *handle, uint64_t bytes, int device,
                          const CUmemAllocationProp *prop) {
    uint64_t *units = malloc(bytes / FAKE_PAGE * sizeof *units + 1);
    pthread_mutex_lock(&fake_lock);
    fake_handle_entry *h = units && take_units(units, bytes / FAKE_PAGE) ? new_handle() : NULL;
    if (h) {
        *h = (fake_handle_entry){.generation = h->generation,
                                 .live = 1,
                                 .references = 1,
                                 .device = device,
                                 .prop = *prop,
                                 .count = bytes / FAKE_PAGE,
                                 .units = units};
        *handle = (uint64_t)h->generation << 32 | (uint64_t)(h - handles + 1);
        fake_live.handles++;
    } else {
        free(units);
    }
    pthread_mutex_unlock(&fake_lock);
    return h ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

int fake_handle_look(CUmemGenericAllocationHandle handle, fake_handle *out) {
    pthread_mutex_lock(&fake_lock);
    const fake_handle_entry *h = fake_handle_of(handle);
    if (h) {
        *out = (fake_handle){.prop = h->prop,
                             .bytes = h->count * FAKE_PAGE,
                             .device = h->device,
                             .multicast_bytes = h->multicast_bytes};
    }
    pthread_mutex_unlock(&fake_lock);
    return h != NULL;
}

void fake_handle_mark(CUmemGenericAllocationHandle handle, int imported, uint64_t multicast_bytes) {
    pthread_mutex_lock(&fake_lock);
    fake_handle_entry *h = fake_handle_of(handle);
    if (h) {
        h->imported = imported;
        h->multicast_bytes = multicast_bytes;
    }
    pthread_mutex_unlock(&fake_lock);
}

CUresult fake_cuMemRelease(CUmemGenericAllocationHandle handle) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    fake_handle_entry *h = fake_handle_of(handle);
    if (h && h->references) {
        h->references--;
        if (h->mappings == 0 && h->references == 0) {
            fake_handle_free(h);
        }
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}
