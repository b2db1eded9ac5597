/* The host arena: a list of chunks, newest first, and a pointer that moves through the newest.
 *
 * A request that does not fit the rest of the chunk starts a new one, of its own size when it is larger
 * than an ordinary chunk; the rest of the old chunk is given up (at most one record's worth for small
 * records).  Chunks double up to 256 KiB, so that a large graph takes few.  Going back to a mark frees the
 * chunks that are newer than it: the order of the list is the order of time.
 *
 * Under AddressSanitizer the unused part of a chunk is poisoned, so that a record read past its end or
 * after a release is caught as it would be with malloc. */
#include "base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(P, N)   ASAN_POISON_MEMORY_REGION((P), (N))
#define UNPOISON(P, N) ASAN_UNPOISON_MEMORY_REGION((P), (N))
#else
#define POISON(P, N)   ((void)(P), (void)(N))
#define UNPOISON(P, N) ((void)(P), (void)(N))
#endif

enum { FIRST_CHUNK_BYTES = 16 * 1024, MOST_CHUNK_BYTES = 256 * 1024, MOST_ALIGN = 4096 };

struct hri_arena_chunk {
    hri_arena_chunk *older;
    size_t bytes; /* of data */
    size_t used;
    _Alignas(16) unsigned char data[];
};

void hri_arena_init(hri_arena *arena, size_t chunk_bytes) {
    arena->chunk = NULL;
    arena->chunk_bytes = chunk_bytes ? chunk_bytes : FIRST_CHUNK_BYTES;
}

static void free_newest(hri_arena *arena) {
    hri_arena_chunk *chunk = arena->chunk;
    arena->chunk = chunk->older;
    UNPOISON(chunk->data, chunk->bytes);
    hri_free(chunk);
}

void hri_arena_deinit(hri_arena *arena) {
    while (arena->chunk) {
        free_newest(arena);
    }
}

/* The aligned place for `bytes` in a chunk, or NULL. */
static void *take(hri_arena_chunk *chunk, size_t bytes, size_t align) {
    const uintptr_t base = (uintptr_t)chunk->data;
    const uintptr_t at = (base + chunk->used + align - 1) & ~(uintptr_t)(align - 1);
    const size_t start = (size_t)(at - base);
    if (start > chunk->bytes || bytes > chunk->bytes - start) {
        return NULL;
    }
    chunk->used = start + bytes;
    UNPOISON(chunk->data + start, bytes);
    return chunk->data + start;
}

static hri_arena_chunk *add_chunk(hri_arena *arena, size_t bytes, size_t align) {
    if (!arena->chunk_bytes) {
        arena->chunk_bytes = FIRST_CHUNK_BYTES;
    }
    const size_t wanted = bytes + align;
    const size_t data_bytes = wanted > arena->chunk_bytes ? wanted : arena->chunk_bytes;
    hri_arena_chunk *chunk = hri_malloc(sizeof *chunk + data_bytes);
    if (!chunk) {
        return NULL;
    }
    *chunk = (hri_arena_chunk){.older = arena->chunk, .bytes = data_bytes};
    POISON(chunk->data, chunk->bytes);
    arena->chunk = chunk;
    if (arena->chunk_bytes < MOST_CHUNK_BYTES) {
        arena->chunk_bytes *= 2;
    }
    return chunk;
}

/* As hri_arena_alloc, not zeroed. */
static void *alloc(hri_arena *arena, size_t bytes, size_t align) {
    if (align == 0 || (align & (align - 1)) || align > MOST_ALIGN ||
        bytes > PTRDIFF_MAX - 2 * (size_t)MOST_ALIGN) {
        return NULL;
    }
    void *at = arena->chunk ? take(arena->chunk, bytes, align) : NULL;
    if (!at) {
        hri_arena_chunk *chunk = add_chunk(arena, bytes, align);
        at = chunk ? take(chunk, bytes, align) : NULL;
    }
    return at;
}

void *hri_arena_alloc(hri_arena *arena, size_t count, size_t size, size_t align) {
    if (size && count > PTRDIFF_MAX / size) {
        return NULL;
    }
    void *at = alloc(arena, count * size, align);
    return at ? memset(at, 0, count * size) : NULL;
}

void *hri_arena_copy(hri_arena *arena, const void *from, size_t bytes, size_t align) {
    void *at = alloc(arena, bytes, align);
    if (at && bytes) {
        memcpy(at, from, bytes);
    }
    return at;
}

char *hri_arena_strndup(hri_arena *arena, const char *text, size_t length) {
    const size_t bytes = strnlen(text, length);
    char *copy = alloc(arena, bytes + 1, 1);
    if (copy) {
        memcpy(copy, text, bytes);
        copy[bytes] = '\0';
    }
    return copy;
}

char *hri_arena_strdup(hri_arena *arena, const char *text) {
    return hri_arena_copy(arena, text, strlen(text) + 1, 1);
}

char *hri_arena_vprintf(hri_arena *arena, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    const int length = hri_vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = length >= 0 ? alloc(arena, (size_t)length + 1, 1) : NULL;
    if (text) {
        hri_vsnprintf(text, (size_t)length + 1, format, args);
    }
    return text;
}

char *hri_arena_printf(hri_arena *arena, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = hri_arena_vprintf(arena, format, args);
    va_end(args);
    return text;
}

hri_arena_mark hri_arena_get_mark(const hri_arena *arena) {
    return (hri_arena_mark){arena->chunk, arena->chunk ? arena->chunk->used : 0};
}

void hri_arena_release(hri_arena *arena, hri_arena_mark mark) {
    while (arena->chunk && arena->chunk != mark.chunk) {
        free_newest(arena);
    }
    if (arena->chunk) {
        arena->chunk->used = mark.used_bytes;
        POISON(arena->chunk->data + mark.used_bytes, arena->chunk->bytes - mark.used_bytes);
    }
}

void hri_arena_reset(hri_arena *arena) {
    hri_arena_chunk *newest = arena->chunk;
    if (!newest) {
        return;
    }
    arena->chunk = newest->older;
    hri_arena_deinit(arena);
    newest->older = NULL;
    newest->used = 0;
    POISON(newest->data, newest->bytes);
    arena->chunk = newest;
}

size_t hri_arena_held_bytes(const hri_arena *arena) {
    size_t bytes = 0;
    for (const hri_arena_chunk *chunk = arena->chunk; chunk; chunk = chunk->older) {
        bytes += sizeof *chunk + chunk->bytes;
    }
    return bytes;
}
