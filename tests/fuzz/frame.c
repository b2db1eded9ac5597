/* Fuzz target: what another rank sends.  Heads, members' records and streams of control frames: whatever comes is taken or refused,
 * nothing is read beyond it, and a head that was accepted comes out of the encoder unchanged. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc32c.h"
#include "net/meeting.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds) {
    if (!holds) {
        abort();
    }
}

static void head(const uint8_t *data) {
    unsigned char bytes[HRI_FRAME_BYTES], again[HRI_FRAME_BYTES];
    hri_frame f = {.number = 77};
    memcpy(bytes, data, sizeof bytes);
    if (hri_frame_decode(bytes, &f) != HR_OK) {
        must(f.number == 77);
    }
    /* The same with a checksum that is right, so that what stands behind it is reached. */
    const uint32_t crc = hri_crc32c(0, bytes, 60);
    for (int i = 0; i < 4; i++) {
        bytes[60 + i] = (unsigned char)(crc >> (8 * i));
    }
    if (hri_frame_decode(bytes, &f) == HR_OK) {
        hri_frame_encode(&f, again);
        must(memcmp(again, bytes, sizeof bytes) == 0);
        must(f.bytes <= HRI_FRAME_MOST && f.offset <= f.total && f.bytes <= f.total - f.offset);
        hri_frame expected = f;
        must(hri_frame_expect(&f, &expected) == (f.bytes || !f.total ? HR_OK : HR_E_FORMAT));
        expected.number++;
        must(hri_frame_expect(&f, &expected) == HR_E_FORMAT);
    }
}

/* A stranger at the door: it knows no token, so whatever it says it is not let in. */
static void stranger(const uint8_t *data, size_t size) {
    int ends[2];
    const hri_meeting m = {.size = 2, .run = "fuzz", .key = {1, 2, 3}};
    const hri_member own = {.size = 2};
    hri_member peer;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return;
    }
    must(size < 8192 && write(ends[1], data, size) == (ssize_t)size);
    shutdown(ends[1], SHUT_WR);
    must(hri_greet(ends[0], false, &m, &own, &peer, hri_clock_ns() + 1000000000u, NULL) != HR_OK);
    close(ends[0]);
    close(ends[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size >= HRI_FRAME_BYTES) {
        head(data);
    }
    if (size >= HRI_MEMBER_BYTES) {
        unsigned char record[HRI_MEMBER_BYTES];
        hri_member m;
        memcpy(record, data, sizeof record);
        if (hri_member_decode(record, &m) == HR_OK) {
            must(memchr(m.name, '\0', sizeof m.name) && memchr(m.link, '\0', sizeof m.link));
        }
    }
    if (size < 8192) {
        stranger(data, size);
    }
    return 0;
}
