/* One connection's first words: who are you, and do you know the token? */
#include <stdio.h>
#include <string.h>

#include "base/crc32c.h"
#include "net/meeting.h"

enum { HELLO_BYTES = HRI_MEMBER_BYTES + HRI_NONCE_BYTES };

void hri_member_encode(const hri_member *m, unsigned char out[HRI_MEMBER_BYTES]) {
    const uint32_t numbers[3] = {m->rank, m->size, m->pid};
    memset(out, 0, HRI_MEMBER_BYTES);
    for (int i = 0; i < 12; i++) {
        out[i] = (unsigned char)(numbers[i / 4] >> (8 * (i % 4)));
    }
    memcpy(out + 12, m->host, sizeof m->host);
    memcpy(out + 76, m->device, sizeof m->device);
    memcpy(out + 100, m->wire, sizeof m->wire);
    memcpy(out + 112, m->link, sizeof m->link);
    memcpy(out + 400, m->key, sizeof m->key);
}

static bool take_text(char *out, const unsigned char *in, size_t size) {
    for (size_t i = 0; i < size; i++) {
        out[i] = (char)(in[i] == 0 || (in[i] >= 32 && in[i] < 127) ? in[i] : '?');
    }
    return memchr(in, '\0', size) != NULL;
}

hr_status hri_member_decode(const unsigned char in[HRI_MEMBER_BYTES], hri_member *out) {
    hri_member m = {0};
    uint32_t numbers[3] = {0};
    for (int i = 0; i < 12; i++) {
        numbers[i / 4] |= (uint32_t)in[i] << (8 * (i % 4));
    }
    m.rank = numbers[0];
    m.size = numbers[1];
    m.pid = numbers[2];
    if (!take_text(m.host, in + 12, sizeof m.host) ||
        !take_text(m.device, in + 76, sizeof m.device) ||
        !take_text(m.wire, in + 100, sizeof m.wire) ||
        !take_text(m.link, in + 112, sizeof m.link)) {
        return HR_E_FORMAT;
    }
    memcpy(m.key, in + 400, sizeof m.key);
    snprintf(m.name, sizeof m.name, "rank %u (%s%s%s, process %u)", m.rank, m.host,
             m.device[0] ? ", " : "", m.device, m.pid);
    *out = m;
    return HR_OK;
}

hr_status hri_frame_send(int fd, const hri_frame *f, const void *payload, uint64_t until_ns) {
    unsigned char head[HRI_FRAME_BYTES];
    hri_frame whole = *f;
    whole.total = whole.offset + whole.bytes;
    whole.payload_crc = hri_crc32c(0, payload, whole.bytes);
    hri_frame_encode(&whole, head);
    hr_status status = hri_socket_send_all(fd, head, sizeof head, until_ns);
    if (status == HR_OK && whole.bytes) {
        status = hri_socket_send_all(fd, payload, whole.bytes, until_ns);
    }
    return status;
}

hr_status hri_frame_receive(int fd, hri_frame *f, void *payload, size_t most, uint64_t until_ns) {
    unsigned char head[HRI_FRAME_BYTES];
    hri_frame got;
    hr_status status = hri_socket_receive_all(fd, head, sizeof head, until_ns);
    status = status == HR_OK ? hri_frame_decode(head, &got) : status;
    if (status == HR_OK && got.bytes > most) {
        status = HR_E_FORMAT;
    }
    status = status == HR_OK ? hri_socket_receive_all(fd, payload, got.bytes, until_ns) : status;
    if (status == HR_OK && hri_crc32c(0, payload, got.bytes) != got.payload_crc) {
        status = HR_E_FORMAT;
    }
    if (status == HR_OK) {
        *f = got;
    }
    return status;
}

/* A frame of this kind and length, or the other side's reason not to send one. */
static hr_status hear(int fd, hri_frame_kind kind, unsigned char *payload, size_t bytes,
                      uint64_t until_ns, hri_prose *why) {
    unsigned char room[HELLO_BYTES + 1] = {0};
    hri_frame f;
    hr_status status = hri_frame_receive(fd, &f, room, sizeof room - 1, until_ns);
    if (status != HR_OK) {
        return status;
    }
    if (f.kind == HRI_FRAME_END) {
        char text[256];
        take_text(text, room, sizeof text);
        text[sizeof text - 1] = '\0';
        return hri_prose_set(why, HR_E_INVALID, "%s", text);
    }
    if (f.kind != kind || f.bytes != bytes) {
        return HR_E_FORMAT;
    }
    memcpy(payload, room, bytes);
    return HR_OK;
}

static hr_status tell(int fd, hri_frame_kind kind, const hri_member *own, const void *payload,
                      size_t bytes, uint64_t until_ns) {
    const hri_frame f = {.kind = kind, .from = own->rank, .bytes = bytes};
    return hri_frame_send(fd, &f, payload, until_ns);
}

hr_status hri_greet(int fd, bool caller, const hri_meeting *m, const hri_member *own,
                    hri_member *peer, uint64_t until_ns, hri_prose *why) {
    unsigned char mine[HELLO_BYTES], theirs[HELLO_BYTES];
    unsigned char proof[HRI_SHA256_BYTES], wanted[HRI_SHA256_BYTES];
    unsigned char *const nonce = mine + HRI_MEMBER_BYTES;
    hri_member record = *own;
    memset(record.key, 0, sizeof record.key);
    hri_member_encode(&record, mine);
    hr_status status = hri_random_bytes(nonce, HRI_NONCE_BYTES);
    if (status == HR_OK && caller) {
        status = tell(fd, HRI_FRAME_HELLO, own, mine, sizeof mine, until_ns);
    }
    status =
        status == HR_OK ? hear(fd, HRI_FRAME_HELLO, theirs, sizeof theirs, until_ns, why) : status;
    hri_member other;
    status = status == HR_OK ? hri_member_decode(theirs, &other) : status;
    if (status == HR_OK && !caller) {
        status = tell(fd, HRI_FRAME_HELLO, own, mine, sizeof mine, until_ns);
    }
    if (status != HR_OK) {
        return status;
    }
    hri_proof_of of = {.caller = caller,
                       .caller_nonce = caller ? nonce : theirs + HRI_MEMBER_BYTES,
                       .called_nonce = caller ? theirs + HRI_MEMBER_BYTES : nonce,
                       .rank = caller ? own->rank : other.rank,
                       .size = caller ? own->size : other.size,
                       .run = m->run};
    hri_proof_make(m->key, &of, proof);
    of.caller = !caller;
    hri_proof_make(m->key, &of, wanted);
    if (caller) {
        status = tell(fd, HRI_FRAME_PROOF, own, proof, sizeof proof, until_ns);
    }
    unsigned char got[HRI_SHA256_BYTES];
    status = status == HR_OK ? hear(fd, HRI_FRAME_PROOF, got, sizeof got, until_ns, why) : status;
    if (status == HR_OK && !hri_proof_equal(got, wanted)) {
        const char text[] = "the token or the name of the run does not match";
        (void)!tell(fd, HRI_FRAME_END, own, text, sizeof text, until_ns);
        return hri_prose_set(why, HR_E_INVALID, "%s: %s", other.name, text);
    }
    if (status == HR_OK && !caller) {
        status = tell(fd, HRI_FRAME_PROOF, own, proof, sizeof proof, until_ns);
    }
    if (status == HR_OK) {
        *peer = other;
    }
    return status;
}
