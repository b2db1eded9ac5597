/* How frameworks use the driver, and work in any order; see steps.h. */
#include "steps.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

uint64_t caller_chance(void) {
    uint64_t z = (me.seed += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* PyTorch's caching allocator: what the program frees is kept; a refusal empties the cache, and the same is asked again. */
CUresult caller_torch(uint64_t bytes) {
    CUresult result = caller_alloc(bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        while (me.cached_count) {
            (void)me.cu.cuMemFree(me.cached[--me.cached_count]);
        }
        result = caller_alloc(bytes);
    }
    if (result == CUDA_SUCCESS) {
        me.cached[me.cached_count++] = me.plain[--me.plain_count];
    }
    return result;
}

/* TensorFlow's: regions that double until refused, then shrink until one fits or the request does not. */
CUresult caller_bfc(uint64_t bytes) {
    uint64_t region = bytes;
    CUresult result = CUDA_SUCCESS;
    while (result == CUDA_SUCCESS && me.plain_count < 64) {
        result = caller_alloc(region);
        region *= 2;
    }
    for (region /= 2; result == CUDA_ERROR_OUT_OF_MEMORY && region > bytes;
         region = region * 9 / 10) {
        result = caller_alloc(region);
    }
    return result;
}

/* ---- contents ---- */

enum { PIECE = 1 << 20 };

static void pattern(uint64_t *words, uint64_t from) {
    for (uint64_t i = 0; i < PIECE / 8; i++) {
        words[i] = (from + i * 8) * 0x9e3779b97f4a7c15u;
    }
}

/* Writes, or compares, the bytes of a range by their own addresses: 1 MiB in every 8, and the last. */
static CUresult contents(CUdeviceptr at, uint64_t bytes, int writes) {
    static uint64_t words[PIECE / 8], got[PIECE / 8];
    CUresult result = CUDA_SUCCESS;
    for (uint64_t from = 0; from < bytes && result == CUDA_SUCCESS; from += 8 * (uint64_t)PIECE) {
        const uint64_t last = bytes - from < 8 * (uint64_t)PIECE && bytes > PIECE;
        const uint64_t place = last ? bytes - PIECE : from;
        const uint64_t size = bytes < PIECE ? bytes : PIECE;
        pattern(words, at + place);
        if (writes) {
            result = me.cu.cuMemcpyHtoD(at + place, words, size);
        } else {
            result = me.cu.cuMemcpyDtoH(got, at + place, size);
            result = result == CUDA_SUCCESS && memcmp(got, words, size) ? (CUresult)999 : result;
        }
    }
    return result;
}

CUresult caller_contents(int writes) {
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < me.plain_count && result == CUDA_SUCCESS; i++) {
        result = contents(me.plain[i], me.plain_bytes[i], writes);
    }
    for (int i = 0; i < me.mapped_count && result == CUDA_SUCCESS; i++) {
        result = contents(me.mapped[i].at, me.mapped[i].bytes, writes);
    }
    return result;
}

/* Copies within the newest plain memory, from a thread and a stream of its own. */
static volatile int churning;
static void *churn_main(void *unused) {
    CUstream stream;
    const CUdeviceptr at = me.plain[me.plain_count - 1];
    CUresult result = me.cu.cuCtxSetCurrent(me.context);
    (void)unused;
    result =
        result == CUDA_SUCCESS ? me.cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) : result;
    for (unsigned i = 0; churning && result == CUDA_SUCCESS; i++) {
        result = me.cu.cuMemcpyAsync(at, at, 4096, stream);
        result = result == CUDA_SUCCESS && i % 8 == 7 ? me.cu.cuStreamSynchronize(stream) : result;
    }
    result = result == CUDA_SUCCESS ? me.cu.cuStreamSynchronize(stream) : result;
    return (void *)(uintptr_t)result;
}

CUresult caller_churn(uint64_t rounds) {
    pthread_t thread;
    void *wrong;
    CUresult result = CUDA_SUCCESS;
    churning = 1;
    pthread_create(&thread, NULL, churn_main, NULL);
    while (rounds-- && result == CUDA_SUCCESS) {
        usleep(50000);
        result = me.cu.cuCtxSynchronize();
    }
    churning = 0;
    pthread_join(thread, &wrong);
    return wrong ? (CUresult)(uintptr_t)wrong : result;
}

/* The model of random steps: what is taken is written to, and must be there when it goes. */
static CUresult mark(CUdeviceptr at) {
    uint64_t words[64];
    for (uint64_t i = 0; i < 64; i++) {
        words[i] = (at + i) * 0x9e3779b97f4a7c15u;
    }
    return me.cu.cuMemcpyHtoD(at, words, sizeof words);
}

static CUresult marked(CUdeviceptr at) {
    uint64_t words[64] = {0};
    CUresult result = me.cu.cuMemcpyDtoH(words, at, sizeof words);
    for (uint64_t i = 0; i < 64 && result == CUDA_SUCCESS; i++) {
        result = words[i] == (at + i) * 0x9e3779b97f4a7c15u ? result : (CUresult)999;
    }
    return result;
}

static CUresult alloc_marked(uint64_t bytes) {
    const CUresult result = caller_alloc(bytes);
    return result == CUDA_SUCCESS ? mark(me.plain[me.plain_count - 1]) : result;
}

static CUresult free_marked(void) {
    const CUresult result = marked(me.plain[--me.plain_count]);
    return result == CUDA_SUCCESS ? me.cu.cuMemFree(me.plain[me.plain_count]) : result;
}

static CUresult map_marked(uint64_t bytes) {
    const CUresult result = caller_map(bytes, (int)(caller_chance() % 2));
    return result == CUDA_SUCCESS ? mark(me.mapped[me.mapped_count - 1].at) : result;
}

static CUresult unmap_marked(int retained) {
    const CUresult result = marked(me.mapped[me.mapped_count - 1].at);
    return result == CUDA_SUCCESS ? caller_unmap(retained) : result;
}

static CUresult random_step(void) {
    static const uint64_t sizes[] = {512, 100 << 10, 3 << 20, 17 << 20, 64 << 20, 200 << 20};
    const uint64_t bytes = sizes[caller_chance() % 6] + caller_chance() % 1000;
    size_t a, b;
    switch (caller_chance() % 12) {
    case 0:
    case 1:
    case 2:
        return me.plain_count < CALLER_MOST ? alloc_marked(bytes) : CUDA_SUCCESS;
    case 3:
    case 4:
        return me.plain_count ? free_marked() : CUDA_SUCCESS;
    case 5:
        return me.pooled_count < CALLER_MOST ? caller_async(bytes) : CUDA_SUCCESS;
    case 6:
        return me.pooled_count ? me.cu.cuMemFreeAsync(me.pooled[--me.pooled_count], NULL)
                               : CUDA_SUCCESS;
    case 7:
        return me.mapped_count < CALLER_MOST ? map_marked(bytes) : CUDA_SUCCESS;
    case 8:
        return me.mapped_count ? unmap_marked((int)(caller_chance() % 2)) : CUDA_SUCCESS;
    case 9:
        return me.cu.cuCtxSynchronize();
    case 10:
        return me.cu.cuMemGetInfo(&a, &b);
    default: {
        const CUDA_ARRAY3D_DESCRIPTOR d = {
            .Width = 256, .Height = 1 + caller_chance() % 4096, .Format = 0x20, .NumChannels = 4};
        if (me.array_count && caller_chance() % 2) {
            return me.cu.cuArrayDestroy(me.arrays[--me.array_count]);
        }
        CUarray made;
        const CUresult result =
            me.array_count < CALLER_MOST ? me.cu.cuArray3DCreate(&made, &d) : CUDA_SUCCESS;
        if (result == CUDA_SUCCESS && me.array_count < CALLER_MOST) {
            me.arrays[me.array_count++] = made;
        }
        return result;
    }
    }
}

CUresult caller_random(uint64_t count) {
    while (count--) {
        const CUresult result = random_step();
        if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY) {
            return result;
        }
        if (result ==
            CUDA_ERROR_OUT_OF_MEMORY) { /* as an allocator would: half of what there is goes */
            for (int keep = me.plain_count / 2; me.plain_count > keep;) {
                if (free_marked() != CUDA_SUCCESS) {
                    return (CUresult)999;
                }
            }
            for (int keep = me.mapped_count / 2; me.mapped_count > keep;) {
                if (unmap_marked(0) != CUDA_SUCCESS) {
                    return (CUresult)999;
                }
            }
        }
    }
    return CUDA_SUCCESS;
}

/* A pool that lies in pieces: what is taken goes back in any order.  On refusal half of it goes, as an allocator would do it. */
CUresult caller_pooled(uint64_t count) {
    static const uint64_t sizes[] = {512, 60000, 1 << 20, 5 << 20, 17 << 20, 60 << 20};
    CUresult result = CUDA_SUCCESS;
    while (count-- && result == CUDA_SUCCESS) {
        if (me.pooled_count && (caller_chance() % 5 < 2 || me.pooled_count == CALLER_MOST)) {
            const int at = (int)(caller_chance() % (uint64_t)me.pooled_count);
            result = me.cu.cuMemFreeAsync(me.pooled[at], NULL);
            me.pooled[at] = me.pooled[--me.pooled_count];
            continue;
        }
        result = caller_async(sizes[caller_chance() % 6] + caller_chance() % 5000);
        if (result == CUDA_ERROR_OUT_OF_MEMORY) {
            result = CUDA_SUCCESS;
            for (int keep = me.pooled_count / 2;
                 me.pooled_count > keep && result == CUDA_SUCCESS;) {
                result = me.cu.cuMemFreeAsync(me.pooled[--me.pooled_count], NULL);
            }
        }
        if (caller_chance() % 100 == 0) {
            result = result == CUDA_SUCCESS ? me.cu.cuCtxSynchronize() : result;
        }
    }
    return result;
}

/* One of several threads: takes and gives in its own order; what it gets must be memory or a refusal. */
static void *thread_main(void *argument) {
    uint64_t mine = (uint64_t)(uintptr_t)argument * 7919;
    CUdeviceptr own[8] = {0};
    CUresult wrong = me.cu.cuCtxSetCurrent(me.context);
    for (int i = 0; i < 150 && wrong == CUDA_SUCCESS; i++) {
        mine = mine * 6364136223846793005u + 1442695040888963407u;
        const unsigned at = (unsigned)(mine >> 60) & 7;
        const uint64_t bytes = (1 + (mine >> 40) % 48) << 20;
        CUresult result = CUDA_SUCCESS;
        if (own[at]) {
            result = at & 1 ? me.cu.cuMemFreeAsync(own[at], NULL) : me.cu.cuMemFree(own[at]);
            own[at] = 0;
        } else {
            result = at & 1 ? me.cu.cuMemAllocAsync(&own[at], bytes, NULL)
                            : me.cu.cuMemAlloc(&own[at], bytes);
        }
        wrong = result == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_SUCCESS : result;
    }
    return (void *)(uintptr_t)wrong;
}

CUresult caller_threads(uint64_t count) {
    pthread_t started[16];
    CUresult result = CUDA_SUCCESS;
    for (uint64_t i = 0; i < count && i < 16; i++) {
        pthread_create(&started[i], NULL, thread_main, (void *)(uintptr_t)(i + me.seed));
    }
    for (uint64_t i = 0; i < count && i < 16; i++) {
        void *wrong;
        pthread_join(started[i], &wrong);
        result = wrong ? (CUresult)(uintptr_t)wrong : result;
    }
    return result;
}
