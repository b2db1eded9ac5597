/* The star: frames to and from rank 0, beats, silence, the first cause.  See mesh.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/number.h"
#include "net/mesh.h"

void hri_mesh_say(hri_mesh *mesh, uint32_t to, const hri_frame *f, const void *payload) {
    hri_mesh_talk *t = &mesh->talks[mesh->m.rank == 0 ? to : 0];
    const size_t bytes = HRI_FRAME_BYTES + f->bytes;
    if (t->fd < 0 || t->out_room - t->out_used < bytes) {
        return; /* gone, or it has not read for so long that its silence will end the run */
    }
    hri_frame whole = *f;
    whole.from = f->kind == HRI_FRAME_SHARE ? f->from : mesh->m.rank;
    whole.to = to;
    whole.epoch = mesh->m.epoch;
    whole.total = f->bytes;
    whole.payload_crc = hri_crc32c(0, payload, f->bytes);
    hri_frame_encode(&whole, t->out + t->out_used);
    if (f->bytes) {
        memcpy(t->out + t->out_used + HRI_FRAME_BYTES, payload, f->bytes);
    }
    t->out_used += bytes;
}

/* ---- ends ---- */

void hri_mesh_decide(hri_mesh *mesh, const hri_net_end *end) {
    if (mesh->ended) {
        return;
    }
    mesh->ended = true;
    mesh->end = *end;
    if (mesh->m.rank == 0) {
        unsigned char packed[HRI_END_BYTES];
        hri_end_pack(end, packed);
        for (uint32_t i = 1; i < mesh->m.size; i++) {
            hri_mesh_say(mesh, i, &(hri_frame){.kind = HRI_FRAME_END, .bytes = HRI_END_BYTES},
                         packed);
            hri_mesh_flush(mesh, i);
        }
    }
    pthread_cond_broadcast(&mesh->moved);
}

/* Rank 0: a rank seems to be gone.  Its own words may be on their way: they, or its end on the star, are waited for. */
static void suspect(hri_mesh *mesh, const hri_net_end *end) {
    if (!mesh->ended && !mesh->suspected) {
        mesh->suspected = true;
        mesh->suspect_ns = hri_clock_ns();
        mesh->suspicion = *end;
    }
}

/* Rank 0: a rank is gone and has said nothing.  Decided at the end of this turn: what the others have said before is read first. */
static void be_sure(hri_mesh *mesh, const hri_net_end *end) {
    if (!mesh->suspected || mesh->suspect_ns) {
        mesh->suspected = true;
        mesh->suspect_ns = 0;
        mesh->suspicion = *end;
    }
}

static void report(hri_mesh *mesh, const hri_net_end *end) {
    if (mesh->ended || mesh->found) {
        return;
    }
    if (mesh->m.rank == 0 && end->status == HR_E_PEER && end->rank > 0) {
        suspect(mesh, end);
        return;
    }
    if (mesh->m.rank == 0 || mesh->talks[0].fd < 0) {
        hri_mesh_decide(mesh, end);
        return;
    }
    unsigned char packed[HRI_END_BYTES];
    mesh->found = true;
    mesh->found_ns = mesh->turn_ns;
    mesh->finding = *end;
    hri_end_pack(end, packed);
    hri_mesh_say(mesh, 0, &(hri_frame){.kind = HRI_FRAME_CAUSE, .bytes = HRI_END_BYTES}, packed);
    hri_mesh_flush(mesh, 0);
}

void hri_mesh_find(hri_mesh *mesh, int32_t rank, hr_status status, const char *format, ...) {
    hri_net_end end = {.rank = rank, .status = status};
    va_list args;
    va_start(args, format);
    hri_vsnprintf(end.text, sizeof end.text, format, args);
    va_end(args);
    report(mesh, &end);
}

/* ---- small pieces ---- */

static void share_done(hri_mesh *mesh, uint64_t number) {
    hri_mesh_piece *pieces = mesh->pieces + (number & 1) * mesh->m.size;
    for (uint32_t i = 0; i < mesh->m.size; i++) {
        if (!pieces[i].here) {
            return;
        }
    }
    for (uint32_t to = 1; mesh->m.rank == 0 && to < mesh->m.size; to++) {
        for (uint32_t i = 0; i < mesh->m.size; i++) {
            const hri_frame f = {
                .kind = HRI_FRAME_SHARE, .from = i, .number = number, .bytes = pieces[i].bytes};
            hri_mesh_say(mesh, to, &f, pieces[i].data);
        }
        hri_mesh_flush(mesh, to);
    }
    mesh->shared = number;
    mesh->share_ns[number & 1] = 0;
    pthread_cond_broadcast(&mesh->moved);
}

void hri_mesh_share_piece(hri_mesh *mesh, uint64_t number, uint32_t from, const void *data,
                          uint32_t bytes) {
    if (from >= mesh->m.size || bytes > HRI_NET_SMALL_BYTES || number != mesh->shared + 1) {
        hri_mesh_find(mesh, (int32_t)(from < mesh->m.size ? from : 0), HR_E_FORMAT,
                      "%s shares piece %llu while %llu is expected",
                      mesh->m.members[from < mesh->m.size ? from : 0].name,
                      (unsigned long long)number, (unsigned long long)mesh->shared + 1);
        return;
    }
    hri_mesh_piece *p = &mesh->pieces[(number & 1) * mesh->m.size + from];
    if (mesh->m.rank == 0) {
        const uint64_t now = hri_clock_ns();
        uint64_t *first = &mesh->share_ns[number & 1];
        *first = *first ? *first : now;
        mesh->links[from].late_ns += now - *first;
    }
    p->here = true;
    p->bytes = bytes;
    memcpy(p->data, data, bytes);
    share_done(mesh, number);
}

/* ---- what comes ---- */

static void take_beat(hri_mesh *mesh, hri_mesh_talk *t, const hri_frame *f,
                      const unsigned char *payload) {
    uint32_t slowest = 0;
    t->position = f->number;
    if (mesh->m.rank != 0 && f->bytes == 4) {
        memcpy(&slowest, payload, 4);
        mesh->slowest = slowest < mesh->m.size ? slowest : 0;
        mesh->slowest_position = f->number;
    }
}

static void take_bye(hri_mesh *mesh, hri_mesh_talk *t) {
    t->bye = true;
    if (mesh->m.rank != 0) {
        mesh->all_bye = true;
        pthread_cond_broadcast(&mesh->moved);
    }
}

static void take(hri_mesh *mesh, uint32_t who, const hri_frame *f, const unsigned char *payload) {
    hri_mesh_talk *t = &mesh->talks[who];
    hri_net_end end;
    switch (f->kind) {
    case HRI_FRAME_BEAT:
        take_beat(mesh, t, f, payload);
        break;
    case HRI_FRAME_SHARE:
        hri_mesh_share_piece(mesh, f->number, mesh->m.rank == 0 ? who : f->from, payload,
                             (uint32_t)f->bytes);
        break;
    case HRI_FRAME_BYE:
        take_bye(mesh, t);
        break;
    case HRI_FRAME_CAUSE:
    case HRI_FRAME_END:
        if (hri_end_of(f, payload, &end)) {
            if (mesh->m.rank == 0 && end.status == HR_E_PEER && end.rank != (int32_t)who) {
                suspect(mesh, &end);
            } else {
                hri_mesh_decide(mesh, &end);
            }
            break;
        } /* fallthrough */
    default:
        hri_mesh_find(mesh, (int32_t)who, HR_E_FORMAT, "%s sent an unexpected message",
                      mesh->m.members[who].name);
    }
}

/* One frame out of the buffer.  0: there is none yet; -1: what is there is none. */
static int take_frame(hri_mesh *mesh, uint32_t who) {
    hri_mesh_talk *t = &mesh->talks[who];
    hri_frame f;
    if (t->in_have < HRI_FRAME_BYTES) {
        return 0;
    }
    if (hri_frame_decode(t->in, &f) != HR_OK || f.epoch != mesh->m.epoch ||
        f.bytes > sizeof t->in - HRI_FRAME_BYTES) {
        return -1;
    }
    const size_t bytes = HRI_FRAME_BYTES + (size_t)f.bytes;
    if (t->in_have < bytes) {
        return 0;
    }
    if (hri_crc32c(0, t->in + HRI_FRAME_BYTES, (size_t)f.bytes) != f.payload_crc) {
        return -1;
    }
    take(mesh, who, &f, t->in + HRI_FRAME_BYTES);
    memmove(t->in, t->in + bytes, t->in_have - bytes);
    t->in_have -= bytes;
    return 1;
}

bool hri_mesh_hear(hri_mesh *mesh, uint32_t who) {
    hri_mesh_talk *t = &mesh->talks[who];
    if (t->fd < 0) {
        return false;
    }
    const int64_t n = hri_socket_receive(t->fd, t->in + t->in_have, sizeof t->in - t->in_have);
    if (n > 0) {
        t->in_have += (size_t)n;
        t->heard_ns = mesh->turn_ns;
        int taken;
        do {
            taken = take_frame(mesh, who);
        } while (taken > 0);
        if (taken < 0) {
            hri_mesh_find(mesh, (int32_t)who, HR_E_FORMAT, "%s sent a damaged message",
                          mesh->m.members[who].name);
        }
        return true;
    }
    if (n < 0) {
        close(t->fd);
        t->fd = -1;
        if (!t->bye && !mesh->ended) {
            /* Others that left because rank 0 is gone may have been seen first: then it is still the cause. */
            const bool own = mesh->found && mesh->finding.status != HR_E_PEER;
            hri_net_end named = {.rank = (int32_t)who, .status = HR_E_PEER};
            snprintf(named.text, sizeof named.text, "%s ended in exchange %llu",
                     mesh->m.members[who].name, (unsigned long long)mesh->posted);
            named = own ? mesh->finding : named;
            if (mesh->m.rank == 0) {
                be_sure(mesh, &named);
            } else {
                hri_mesh_decide(mesh, &named);
            }
        }
    }
    return n != 0;
}

void hri_mesh_flush(hri_mesh *mesh, uint32_t who) {
    hri_mesh_talk *t = &mesh->talks[who];
    while (t->fd >= 0 && t->out_used) {
        const int64_t n = hri_socket_send(t->fd, t->out, t->out_used);
        if (n <= 0) {
            return; /* a side that is gone is noticed by receiving */
        }
        memmove(t->out, t->out + n, t->out_used - (size_t)n);
        t->out_used -= (size_t)n;
    }
}

/* ---- time ---- */

static void find_slowest(hri_mesh *mesh) {
    mesh->slowest = 0;
    mesh->slowest_position = mesh->posted;
    for (uint32_t i = 1; i < mesh->m.size; i++) {
        if (mesh->talks[i].position < mesh->slowest_position) {
            mesh->slowest = i;
            mesh->slowest_position = mesh->talks[i].position;
        }
    }
}

void hri_mesh_beat(hri_mesh *mesh, uint64_t now) {
    const uint64_t every =
        mesh->deadline_ns / 5 < 1000000000u ? mesh->deadline_ns / 5 : 1000000000u;
    if (now < mesh->beat_ns) {
        return;
    }
    mesh->beat_ns = now + every;
    if (mesh->m.rank != 0) {
        hri_mesh_say(mesh, 0, &(hri_frame){.kind = HRI_FRAME_BEAT, .number = mesh->posted}, NULL);
        hri_mesh_flush(mesh, 0);
        return;
    }
    find_slowest(mesh);
    for (uint32_t i = 1; i < mesh->m.size; i++) {
        const hri_frame f = {.kind = HRI_FRAME_BEAT, .number = mesh->slowest_position, .bytes = 4};
        hri_mesh_say(mesh, i, &f, &mesh->slowest);
        hri_mesh_flush(mesh, i);
    }
}

void hri_mesh_listen(hri_mesh *mesh, uint64_t now) {
    for (uint32_t i = 0; i < mesh->talk_count && !mesh->ended; i++) {
        hri_mesh_talk *t = &mesh->talks[i];
        if (t->fd >= 0 && now > t->heard_ns + mesh->deadline_ns) {
            const hri_net_end end = {.rank = (int32_t)i, .status = HR_E_PEER};
            hri_net_end named = end;
            hri_snprintf(
                named.text, sizeof named.text,
                "%s has not answered for %.1f s (exchange %llu); it is stopped, or its machine is",
                mesh->m.members[i].name, (double)(now - t->heard_ns) / 1e9,
                (unsigned long long)mesh->posted);
            hri_mesh_decide(mesh, &named);
        }
    }
    if (mesh->found && !mesh->ended && now > mesh->found_ns + 2000000000u) {
        const hri_net_end own = mesh->finding;
        hri_mesh_decide(mesh, &own);
    }
    if (mesh->suspected && !mesh->ended && now > mesh->suspect_ns + mesh->m.grace_ns) {
        const hri_net_end seen = mesh->suspicion;
        hri_mesh_decide(mesh, &seen);
    }
}
