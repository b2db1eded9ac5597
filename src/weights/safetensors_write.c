/* Writing safetensors: the header is known before the first byte of data, so the file is written in one go. */
#include "weights/safetensors.h"

#include <string.h>

#include "base/alloc.h"
#include "weights/tensor_types.h"

/* The header as text, padded with spaces so that the data begins at a multiple of 8. */
static hr_status print_header(const hri_tensor_plan *plan, size_t count,
                              const char *const *metadata, char **out, uint64_t *data_bytes) {
    uint64_t at = 0;
    hri_json j;
    hri_json_init(&j);
    if (metadata) {
        hri_json_object(&j, "__metadata__");
        for (; metadata[0]; metadata += 2) {
            hri_json_string(&j, metadata[0], metadata[1]);
        }
        hri_json_end(&j);
    }
    for (size_t i = 0; i < count; i++) {
        const hr_meta *meta = &plan[i].meta;
        hri_json_object(&j, plan[i].name);
        hri_json_string(&j, "dtype", hri_dtypes[hri_dtype_of(meta->type)].name);
        hri_json_array(&j, "shape");
        for (int d = 0; d < meta->shape.rank; d++) {
            hri_json_i64(&j, NULL, meta->shape.dim[d]);
        }
        hri_json_end(&j);
        hri_json_array(&j, "data_offsets");
        hri_json_u64(&j, NULL, at);
        at += hr_meta_bytes(meta);
        hri_json_u64(&j, NULL, at);
        hri_json_end(&j);
        hri_json_end(&j);
    }
    char *text = NULL;
    hr_status status = hri_json_print(&j, 0, &text);
    hri_json_deinit(&j);
    if (status != HR_OK) {
        return status;
    }
    const size_t length = strlen(text), padded = (length + 7) & ~(size_t)7;
    char *whole = hri_malloc(padded + 9);
    if (whole) {
        const uint64_t bytes = padded;
        memcpy(whole, &bytes, 8);
        memcpy(whole + 8, text, length);
        memset(whole + 8 + length, ' ', padded - length);
        whole[8 + padded] = '\0';
        *out = whole;
        *data_bytes = at;
    }
    hri_free(text);
    return whole ? HR_OK : HR_E_NOMEM_HOST;
}

hr_status hri_tensors_create(hri_tensors_writer *w, const char *path, const hri_tensor_plan *plan,
                             size_t count, const char *const *metadata, hri_prose *why) {
    hri_tensors_writer made = {.file = {.fd = -1}};
    char *header = NULL;
    hr_status status = print_header(plan, count, metadata, &header, &made.promised);
    if (status != HR_OK) {
        return hri_prose_set(why, status, "%s: the header: %s", path, hr_status_text(status));
    }
    uint64_t bytes;
    memcpy(&bytes, header, sizeof bytes);
    status = hri_writer_open(&made.file, path, why);
    if (status == HR_OK) {
        status = hri_writer_write(&made.file, header, (size_t)bytes + 8, why);
    }
    hri_free(header);
    if (status != HR_OK) {
        hri_writer_abandon(&made.file);
        return status;
    }
    made.begin = bytes + 8;
    *w = made;
    return HR_OK;
}

hr_status hri_tensors_write(hri_tensors_writer *w, const void *data, uint64_t count, hr_type from,
                            hr_type to, hri_prose *why) {
    const uint32_t kind = hri_dtype_of(from);
    if (from == to) {
        return hri_writer_write(&w->file, data, (size_t)(count * hr_type_bytes(from)), why);
    }
    if (!hri_dtype_converts(kind, to)) {
        return hri_prose_set(why, HR_E_UNSUPPORTED, "%s: %s cannot be written as %s", w->file.path,
                             hr_type_name(from), hr_type_name(to));
    }
    unsigned char piece[8192];
    const uint64_t room = sizeof piece / hr_type_bytes(to);
    for (uint64_t done = 0; done < count;) {
        const uint64_t n = count - done < room ? count - done : room;
        hri_dtype_convert(kind, (const char *)data + done * hr_type_bytes(from), to, piece, n);
        const hr_status status =
            hri_writer_write(&w->file, piece, (size_t)(n * hr_type_bytes(to)), why);
        if (status != HR_OK) {
            return status;
        }
        done += n;
    }
    return HR_OK;
}

hr_status hri_tensors_commit(hri_tensors_writer *w, hri_prose *why) {
    if (w->file.bytes != w->begin + w->promised) {
        const hr_status status = hri_prose_set(
            why, HR_E_INTERNAL, "%s: %llu bytes of data announced, %llu written", w->file.path,
            (unsigned long long)w->promised, (unsigned long long)(w->file.bytes - w->begin));
        hri_tensors_abandon(w);
        return status;
    }
    return hri_writer_commit(&w->file, why);
}

void hri_tensors_abandon(hri_tensors_writer *w) {
    hri_writer_abandon(&w->file);
}
