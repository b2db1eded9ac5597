/* Events as protobuf, by hand: a field is a key (number * 8 + wire type) and a value.  Of event.proto, summary.proto
 * and tensor.proto these numbers are used:
 *
 *   Event         1 wall_time (double)  2 step (int64)  3 file_version (string)  5 summary  7 session_log
 *   SessionLog    1 status (1: start)
 *   Summary       1 value, repeated:    1 tag  2 simple_value (float)  8 tensor  9 metadata
 *   metadata      1 plugin_data:        1 plugin_name
 *   TensorProto   1 dtype (7: string)   2 tensor_shape: 2 dim: 1 size   8 string_val
 *
 * Messages hold their lengths in front, so each is made from the inside out in small buffers.  Texts are cut to what
 * a record may hold here: the buffers are fixed, and nothing is allocated after opening. */
#include "records/events.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/crc32c.h"

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
enum { TEXT_MOST = 8192, MESSAGE_MOST = TEXT_MOST + 512, TAG_MOST = 128 };
static const uint64_t flush_ns = 2000000000u;

typedef struct message {
    size_t bytes;
    unsigned char at[MESSAGE_MOST];
} message;

static void put_bytes(message *m, const void *data, size_t bytes) {
    if (bytes <= sizeof m->at - m->bytes) {
        memcpy(m->at + m->bytes, data, bytes);
        m->bytes += bytes;
    }
}

static void put_varint(message *m, uint64_t x) {
    unsigned char text[10];
    size_t n = 0;
    do {
        text[n++] = (unsigned char)((x & 127) | (x > 127 ? 128 : 0));
    } while ((x >>= 7) > 0);
    put_bytes(m, text, n);
}

static void put_key(message *m, unsigned field, unsigned wire) {
    put_varint(m, field * 8 + wire);
}

static void put_number(message *m, unsigned field, uint64_t x) {
    put_key(m, field, WIRE_VARINT);
    put_varint(m, x);
}

static void put_block(message *m, unsigned field, const void *data, size_t bytes) {
    put_key(m, field, WIRE_BYTES);
    put_varint(m, bytes);
    put_bytes(m, data, bytes);
}

/* The `bytes` low bytes of x, lowest first, on every machine. */
static void put_fixed(message *m, uint64_t x, size_t bytes) {
    unsigned char text[8];
    for (size_t i = 0; i < bytes; i++) {
        text[i] = (unsigned char)(x >> (8 * i));
    }
    put_bytes(m, text, bytes);
}

static void put_time(message *m) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const double seconds = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    uint64_t bits;
    memcpy(&bits, &seconds, 8);
    put_key(m, 1, WIRE_64);
    put_fixed(m, bits, 8);
}

/* One record: the frame and the event in one piece, so that a file never holds half of it. */
static void put_event(hri_events *e, const message *event) {
    message frame = {0};
    put_fixed(&frame, event->bytes, 8);
    put_fixed(&frame, hri_crc32c_masked(frame.at, 8), 4);
    put_bytes(&frame, event->at, event->bytes);
    put_fixed(&frame, hri_crc32c_masked(event->at, event->bytes), 4);
    hri_sink_put(&e->sink, frame.at, frame.bytes);
    if (hri_clock_ns() - e->sink.flushed_ns > flush_ns) {
        hri_sink_flush(&e->sink);
    }
}

static void put_version(hri_events *e) {
    message event = {0};
    put_time(&event);
    put_block(&event, 3, "brain.Event:2", 13);
    put_event(e, &event);
}

static void put_session_start(hri_events *e, uint64_t step) {
    message event = {0};
    put_time(&event);
    put_number(&event, 2, step);
    put_block(&event, 7, "\x08\x01", 2);
    put_event(e, &event);
}

/* `value` as the only value of the summary of a step. */
static void put_summary(hri_events *e, uint64_t step, const message *value) {
    message event = {0}, summary = {0};
    put_block(&summary, 1, value->at, value->bytes);
    put_time(&event);
    put_number(&event, 2, step);
    put_block(&event, 5, summary.at, summary.bytes);
    put_event(e, &event);
}

/* Cut where a character begins: half of one is not UTF-8, and protobuf's readers refuse it. */
static size_t cut(const char *text, size_t most) {
    size_t n = strnlen(text, most + 1);
    if (n > most) {
        for (n = most; n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80; n--) {
        }
    }
    return n;
}

void hri_events_scalar(hri_events *e, const char *tag, uint64_t step, double value) {
    if (e->sink.fd < 0) {
        return;
    }
    message m = {0};
    const float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, 4);
    put_block(&m, 1, tag, cut(tag, TAG_MOST));
    put_key(&m, 2, WIRE_32);
    put_fixed(&m, bits, 4);
    put_summary(e, step, &m);
}

void hri_events_text(hri_events *e, const char *tag, uint64_t step, const char *text) {
    if (e->sink.fd < 0) {
        return;
    }
    message m = {0}, tensor = {0};
    put_block(&m, 1, tag, cut(tag, TAG_MOST));
    put_number(&tensor, 1, 7);
    put_block(&tensor, 2, "\x12\x02\x08\x01", 4); /* one dimension, of size 1 */
    put_block(&tensor, 8, text, cut(text, TEXT_MOST));
    put_block(&m, 8, tensor.at, tensor.bytes);
    put_block(&m, 9, "\x0a\x06\x0a\x04text", 8);
    put_summary(e, step, &m);
}

void hri_events_flush(hri_events *e) {
    hri_sink_flush(&e->sink);
}

void hri_events_close(hri_events *e) {
    hri_sink_close(&e->sink);
}

/* A name that no other file of the folder has: two runs may start in the same second. */
static hr_status make_path(const char *folder, char **out) {
    char host[65] = "", name[192];
    if (gethostname(host, sizeof host - 1) != 0 || !host[0]) {
        strcpy(host, "host");
    }
    for (char *p = host; *p; p++) {
        *p = *p == '/' ? '-' : *p;
    }
    for (unsigned n = 0;; n++) {
        snprintf(name, sizeof name, "events.out.tfevents.%010lld.%s.%d.%u", (long long)time(NULL),
                 host, (int)getpid(), n);
        char *path;
        const hr_status status = hri_path_join(folder, name, &path);
        if (status != HR_OK || !hri_file_exists(path)) {
            *out = status == HR_OK ? path : *out;
            return status;
        }
        hri_free(path);
    }
}

hr_status hri_events_open(const char *folder, uint64_t first_step, hr_log_fn *log, void *log_user,
                          hri_events *out, hri_prose *why) {
    char *path = NULL;
    hr_status status = hri_path_make_folders(folder, why);
    if (status == HR_OK) {
        status = make_path(folder, &path);
        if (status != HR_OK) {
            hri_prose_set(why, status, "%s: out of memory for a path in it", folder);
        }
    }
    hri_events made;
    if (status == HR_OK) {
        status = hri_sink_open(path, 0, log, log_user, &made.sink, why);
    }
    hri_free(path);
    if (status != HR_OK) {
        return status;
    }
    put_version(&made);
    if (first_step > 0) {
        put_session_start(&made, first_step);
    }
    hri_sink_flush(&made.sink);
    *out = made;
    return HR_OK;
}
