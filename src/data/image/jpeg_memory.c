/* libjpeg's memory manager over ours: see jpeg_memory.h.  libjpeg-turbo's vector code wants rows that start at
 * multiples of 32 bytes and may read to the end of such a block, hence the rounding to 64. */
#include "data/image/jpeg_memory.h"

#include <jerror.h>
#include <string.h>

enum { ALIGN = 64, CHUNK_BYTES = 60 << 10 };

struct jvirt_barray_control {
    JBLOCKARRAY rows;
    JDIMENSION row_count, blocks;
    boolean zero;
    struct jvirt_barray_control *next;
};

static hri_jpeg_memory *of(j_common_ptr cinfo) {
    return (hri_jpeg_memory *)(void *)cinfo->mem;
}

static void fail(j_common_ptr cinfo, hr_status status) {
    of(cinfo)->status = status;
    cinfo->err->msg_code = JERR_OUT_OF_MEMORY;
    cinfo->err->msg_parm.i[0] = 0;
    cinfo->err->error_exit(cinfo);
}

static void *take(j_common_ptr cinfo, size_t bytes) {
    hri_jpeg_memory *m = of(cinfo);
    if (bytes > (size_t)1 << 46) {
        fail(cinfo, HR_E_RANGE);
    }
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (m->at && (size_t)(m->end - m->at) >= bytes) {
        void *memory = m->at;
        m->at += bytes;
        return memory;
    }
    hri_buffer *b;
    const size_t wanted = bytes > CHUNK_BYTES / 2 ? bytes : CHUNK_BYTES;
    const hr_status status = hri_memory_buffer(m->memory, wanted, &b);
    if (status != HR_OK) {
        fail(cinfo, status);
    }
    b->next = m->chunks;
    m->chunks = b;
    if (wanted > bytes) {
        m->at = (char *)b->data + bytes;
        m->end = (char *)b->data + wanted;
    }
    return b->data;
}

static void *alloc_any(j_common_ptr cinfo, int pool, size_t bytes) {
    (void)pool;
    return take(cinfo, bytes);
}

static JSAMPARRAY alloc_sarray(j_common_ptr cinfo, int pool, JDIMENSION samples, JDIMENSION count) {
    (void)pool;
    const size_t row = ((size_t)samples * sizeof(JSAMPLE) + ALIGN - 1) / ALIGN * ALIGN;
    JSAMPARRAY rows = take(cinfo, count * sizeof(JSAMPROW));
    char *data = take(cinfo, row * count);
    for (JDIMENSION i = 0; i < count; i++) {
        rows[i] = (JSAMPROW)(void *)(data + i * row);
    }
    return rows;
}

static JBLOCKARRAY alloc_barray(j_common_ptr cinfo, int pool, JDIMENSION blocks, JDIMENSION count) {
    (void)pool;
    JBLOCKARRAY rows = take(cinfo, count * sizeof(JBLOCKROW));
    const size_t row = (size_t)blocks * sizeof(JBLOCK);
    char *data = take(cinfo, row * count);
    for (JDIMENSION i = 0; i < count; i++) {
        rows[i] = (JBLOCKROW)(void *)(data + i * row);
    }
    return rows;
}

/* Only colour quantisation, which is never asked for, keeps whole arrays of samples. */
static jvirt_sarray_ptr request_virt_sarray(j_common_ptr cinfo, int pool, boolean zero,
                                            JDIMENSION samples, JDIMENSION rows,
                                            JDIMENSION access) {
    (void)pool, (void)zero, (void)samples, (void)rows, (void)access;
    fail(cinfo, HR_E_UNSUPPORTED);
    return NULL;
}

static JSAMPARRAY access_virt_sarray(j_common_ptr cinfo, jvirt_sarray_ptr p, JDIMENSION start,
                                     JDIMENSION rows, boolean writable) {
    (void)p, (void)start, (void)rows, (void)writable;
    fail(cinfo, HR_E_UNSUPPORTED);
    return NULL;
}

static jvirt_barray_ptr request_virt_barray(j_common_ptr cinfo, int pool, boolean zero,
                                            JDIMENSION blocks, JDIMENSION rows, JDIMENSION access) {
    (void)pool, (void)access;
    struct jvirt_barray_control *v = take(cinfo, sizeof *v);
    *v = (struct jvirt_barray_control){
        .row_count = rows, .blocks = blocks, .zero = zero, .next = of(cinfo)->virtuals};
    of(cinfo)->virtuals = v;
    return v;
}

static void realize_virt_arrays(j_common_ptr cinfo) {
    for (struct jvirt_barray_control *v = of(cinfo)->virtuals; v; v = v->next) {
        if (v->rows) {
            continue;
        }
        v->rows = alloc_barray(cinfo, JPOOL_IMAGE, v->blocks, v->row_count);
        if (v->zero) {
            memset(v->rows[0], 0, (size_t)v->blocks * v->row_count * sizeof(JBLOCK));
        }
    }
}

static JBLOCKARRAY access_virt_barray(j_common_ptr cinfo, jvirt_barray_ptr p, JDIMENSION start,
                                      JDIMENSION rows, boolean writable) {
    (void)writable;
    if (!p->rows || rows > p->row_count || start > p->row_count - rows) {
        fail(cinfo, HR_E_FORMAT);
    }
    return p->rows + start;
}

static void free_pool(j_common_ptr cinfo, int pool) {
    (void)cinfo, (void)pool; /* everything goes together, in detach */
}

static void self_destruct(j_common_ptr cinfo) {
    (void)cinfo;
}

void hri_jpeg_memory_attach(hri_jpeg_memory *m, hri_memory *memory, j_decompress_ptr cinfo) {
    *m = (hri_jpeg_memory){.table = {.alloc_small = alloc_any,
                                     .alloc_large = alloc_any,
                                     .alloc_sarray = alloc_sarray,
                                     .alloc_barray = alloc_barray,
                                     .request_virt_sarray = request_virt_sarray,
                                     .request_virt_barray = request_virt_barray,
                                     .realize_virt_arrays = realize_virt_arrays,
                                     .access_virt_sarray = access_virt_sarray,
                                     .access_virt_barray = access_virt_barray,
                                     .free_pool = free_pool,
                                     .self_destruct = self_destruct,
                                     .max_memory_to_use = 0,
                                     .max_alloc_chunk = 1000000000L},
                           .before = cinfo->mem,
                           .memory = memory};
    cinfo->mem = &m->table;
}

void hri_jpeg_memory_detach(hri_jpeg_memory *m, j_decompress_ptr cinfo) {
    cinfo->mem = m->before;
    while (m->chunks) {
        hri_buffer *b = m->chunks;
        m->chunks = b->next;
        hri_buffer_unref(b);
    }
}
