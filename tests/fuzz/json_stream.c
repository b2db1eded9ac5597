/* JSON from outside, as a stream: whatever the bytes, it ends with a status and a sentence; tokens keep to their limits; and how
 * the bytes are cut into pieces makes no difference. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/json_stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds) {
    if (!holds) {
        abort();
    }
}

typedef struct pieces {
    hri_json_memory memory;
    size_t step;
} pieces;

static hr_status read_piece(void *user, void *to, size_t room, size_t *got, hri_prose *why) {
    pieces *p = user;
    return hri_json_read_memory(&p->memory, to, room < p->step ? room : p->step, got, why);
}

/* All tokens, hashed; *status how it ended. */
static uint64_t read_all(const uint8_t *data, size_t size, size_t step, hr_status *status) {
    pieces p = {.memory = {.text = (const char *)data, .bytes = size}, .step = step};
    const hri_json_stream_options o = {
        .read = read_piece, .user = &p, .max_depth = 8, .max_key = 16, .max_text = 32};
    hri_json_stream *s;
    hri_prose why = {""};
    hri_hasher h;
    hri_json_token t = {.kind = HRI_JSON_NULL};
    hri_hasher_init(&h, 0);
    must(hri_json_stream_open(&o, &s, &why) == HR_OK);
    while ((*status = hri_json_stream_next(s, &t, &why)) == HR_OK && t.kind != HRI_JSON_OVER) {
        must(t.depth < 8 && strlen(t.key) <= 16 && t.bytes <= 32 && !t.text[t.bytes]);
        hri_hasher_add_u64(&h, (uint64_t)t.kind);
        hri_hasher_add_string(&h, t.key);
        hri_hasher_add(&h, t.text, t.bytes);
        hri_hasher_add_u64(&h, (uint64_t)t.integer);
    }
    must(*status == HR_OK ||
         ((*status == HR_E_FORMAT || *status == HR_E_RANGE) && why.text[0] != '\0'));
    hri_json_stream_close(s);
    return hri_hasher_get(&h).lo;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hr_status whole, single;
    const uint64_t a = read_all(data, size, 4096, &whole), b = read_all(data, size, 1, &single);
    must(a == b && whole == single);
    return 0;
}
