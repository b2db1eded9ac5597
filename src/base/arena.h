/* A host arena: many small records that die together (the nodes of a graph, the lines of a plan).
 *
 *   hri_arena arena;
 *   hri_arena_init(&arena, 0);
 *   node *n = HRI_ARENA_NEW(&arena, node);
 *   if (!n) return HR_E_NOMEM_HOST;
 *   hri_arena_deinit(&arena);
 *
 * Allocation moves a pointer through chunks; nothing is freed alone.  As in alloc.h, NULL means no
 * memory and nothing else: the caller returns HR_E_NOMEM_HOST.  Memory from an arena never moves.
 * Not to be confused with a plan's arena on a device.
 * Threads: one at a time. */
#ifndef HRI_BASE_ARENA_H
#define HRI_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>
#include <headroom/status.h>

typedef struct hri_arena_chunk hri_arena_chunk;

typedef struct hri_arena {
    hri_arena_chunk *chunk; /* the one in use; it points to the older ones */
    size_t chunk_bytes;     /* of the next ordinary chunk */
} hri_arena;

/* A place to go back to. */
typedef struct hri_arena_mark {
    hri_arena_chunk *chunk;
    size_t used_bytes;
} hri_arena_mark;

/* Takes no memory yet.  chunk_bytes == 0: 16 KiB.  A zeroed hri_arena is a valid one too. */
void hri_arena_init(hri_arena *arena, size_t chunk_bytes);
/* Frees everything.  The arena is as after init. */
void hri_arena_deinit(hri_arena *arena);

/* Zeroed memory for count items of `size` bytes; `align` is a power of two up to 4096.  count * size is
 * checked for overflow; zero bytes give a pointer that must not be read. */
void *hri_arena_alloc(hri_arena *arena, size_t count, size_t size, size_t align);
#define HRI_ARENA_NEW(ARENA, T)      ((T *)hri_arena_alloc((ARENA), 1, sizeof(T), _Alignof(T)))
#define HRI_ARENA_ARRAY(ARENA, T, N) ((T *)hri_arena_alloc((ARENA), (N), sizeof(T), _Alignof(T)))

/* Copies: of bytes (with `align`), of a text, of the first `length` characters of a text. */
void *hri_arena_copy(hri_arena *arena, const void *from, size_t bytes, size_t align);
char *hri_arena_strdup(hri_arena *arena, const char *text);
char *hri_arena_strndup(hri_arena *arena, const char *text, size_t length);
/* A formatted text of any length. */
char *hri_arena_printf(hri_arena *arena, const char *format, ...) HR_PRINTF(2, 3);
char *hri_arena_vprintf(hri_arena *arena, const char *format, va_list args) HR_PRINTF(2, 0);

/* hri_arena_release frees all that was allocated after the mark was taken; marks taken later die with
 * it. */
hri_arena_mark hri_arena_get_mark(const hri_arena *arena);
void hri_arena_release(hri_arena *arena, hri_arena_mark mark);
/* Forgets everything but keeps the newest chunk for the next use. */
void hri_arena_reset(hri_arena *arena);

/* Bytes taken from the host, chunk heads and unused rests included. */
size_t hri_arena_held_bytes(const hri_arena *arena);

#endif
