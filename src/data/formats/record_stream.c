/* See record_stream.h. */
#include "data/formats/record_stream.h"

#include "data/read.h"

hr_status hri_record_stream_open(hri_stage *s, const hri_list *paths, bool quotes, hri_prose *why) {
    hri_record_stream *w = s->own;
    hr_status status = hri_filelist_open(&w->records.files, paths, why);
    if (status != HR_OK) {
        return status;
    }
    w->records.quotes = quotes;
    w->records.chunk_file = SIZE_MAX;
    status = hri_buffer_create(hri_pipeline_pool(s->pipeline), s->account, HRI_RECORDS_CHUNK,
                               &w->records.memory);
    return status == HR_OK
               ? HR_OK
               : hri_prose_set(why, status, "no room in the budget for a buffer of %d bytes",
                               HRI_RECORDS_CHUNK);
}

void hri_record_stream_close(hri_stage *s) {
    hri_record_stream *w = s->own;
    hri_index_deinit(&w->index);
    hri_buffer_unref(w->records.memory);
    hri_filelist_close(&w->records.files);
}

hr_status hri_record_stream_start(hri_stage *s, uint64_t epoch) {
    (void)epoch;
    ((hri_record_stream *)s->own)->at = (hri_cursor){0};
    return HR_OK;
}

/* place counts records, for the random identity. */
hr_status hri_record_stream_next(hri_stage *s, bool empty, bool header, hri_item *out) {
    hri_record_stream *w = s->own;
    hri_cursor from;
    uint64_t length = 0;
    hr_status status;
    do {
        hri_prose why = {{0}};
        status = hri_records_next(&w->records, &w->at, &from, &length, &why);
        if (status == HR_E_EOF) {
            return status;
        }
        if (status != HR_OK) {
            const hri_item item = {.index = s->place};
            w->at = (hri_cursor){.file = w->at.file + 1}; /* the rest of this file is lost */
            status = hri_pipeline_bad_item(s->pipeline, status, s, &item, why.text);
            if (status != HR_E_AGAIN) {
                return status;
            }
        }
    } while (status == HR_E_AGAIN || (length == 0 && !empty) || (header && from.offset == 0));
    *out = (hri_item){.source = s,
                      .a = from.offset,
                      .b = hri_packed_of(from.file, length),
                      .epoch = s->epoch,
                      .index = s->place++};
    return HR_OK;
}

hr_status hri_record_stream_at(hri_stage *s, uint64_t i, hri_item *out) {
    *out = (hri_item){.source = s, .epoch = s->epoch, .index = i};
    hri_index_get(&((hri_record_stream *)s->own)->index, i, out);
    return HR_OK;
}

void hri_record_stream_save(hri_stage *s, hri_state *state) {
    const hri_record_stream *w = s->own;
    hri_state_put(state, w->at.file);
    hri_state_put(state, w->at.offset);
}

hr_status hri_record_stream_restore(hri_stage *s, hri_state *r) {
    hri_record_stream *w = s->own;
    w->at.file = (size_t)hri_state_get(r);
    w->at.offset = hri_state_get(r);
    return hri_state_status(r);
}

void hri_record_stream_fingerprint(hri_stage *s, hri_state *state) {
    hri_filelist_fingerprint(&((hri_record_stream *)s->own)->records.files, state);
}

int64_t hri_record_stream_newest(hri_stage *s, char *path, size_t size) {
    return hri_filelist_newest(&((hri_record_stream *)s->own)->records.files, path, size);
}
