/* A source of the records of text files (records.h): tickets in the order of the files, or at any place with an index.
 *
 * Finding where records end and reading them are apart, so a shuffle holds places and no text.  A stage's own struct begins with
 * an hri_record_stream; then functions of the same name as in hri_stage_type are its functions. */
#ifndef HRI_DATA_RECORD_STREAM_H
#define HRI_DATA_RECORD_STREAM_H

#include "data/formats/index.h"
#include "data/formats/records.h"

typedef struct hri_record_stream {
    hri_records records;
    hri_index index;
    hri_cursor at;
} hri_record_stream;

/* Opens the files.  quotes: a line end inside "..." ends no record. */
HR_MUST_CHECK hr_status hri_record_stream_open(hri_stage *s, const hri_list *paths, bool quotes,
                                               hri_prose *why);
void hri_record_stream_close(hri_stage *s);
hr_status hri_record_stream_start(hri_stage *s, uint64_t epoch);
/* The next ticket.  empty: records of no bytes count; header: the first of each file does not. */
HR_MUST_CHECK hr_status hri_record_stream_next(hri_stage *s, bool empty, bool header,
                                               hri_item *out);
/* With an index only. */
hr_status hri_record_stream_at(hri_stage *s, uint64_t i, hri_item *out);
void hri_record_stream_save(hri_stage *s, hri_state *state);
hr_status hri_record_stream_restore(hri_stage *s, hri_state *r);
void hri_record_stream_fingerprint(hri_stage *s, hri_state *state);
int64_t hri_record_stream_newest(hri_stage *s, char *path, size_t size);

#endif
