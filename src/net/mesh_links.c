/* The streams: frames of data straight from and into the caller's ranges.  See mesh.h. */
#include "base/crc32c.h"
#include "net/mesh.h"

enum { TURN_FRAMES = 8 }; /* so that one busy pair does not keep the thread from the star */

static hri_mesh_flight *flight_of(hri_mesh *mesh, uint64_t number) {
    return &mesh->flights[number % HRI_MESH_FLIGHT];
}

static void gone(hri_mesh *mesh, uint32_t peer) {
    mesh->links[peer].over = true;
    hri_mesh_find(mesh, (int32_t)peer, HR_E_PEER, "%s ended in exchange %llu",
                  mesh->m.members[peer].name, (unsigned long long)mesh->posted);
}

/* The next piece of what goes to `peer`: an exchange without bytes is a frame too, so that lengths that differ are noticed. */
static bool open_out(hri_mesh *mesh, uint32_t peer) {
    hri_mesh_link *l = &mesh->links[peer];
    if (l->out_number > mesh->posted) {
        return false;
    }
    const hri_net_range r = flight_of(mesh, l->out_number)->to[peer];
    const uint64_t left = r.bytes - l->out_offset;
    l->out_piece = left < HRI_FRAME_MOST ? left : HRI_FRAME_MOST;
    l->out_sent = l->out_head_sent = 0;
    l->out_open = true;
    const hri_frame f = {
        .kind = HRI_FRAME_DATA,
        .from = mesh->m.rank,
        .to = peer,
        .epoch = mesh->m.epoch,
        .number = l->out_number,
        .offset = l->out_offset,
        .bytes = l->out_piece,
        .total = r.bytes,
        .payload_crc = hri_crc32c(0, (const unsigned char *)r.at + l->out_offset, l->out_piece)};
    hri_frame_encode(&f, l->out_head);
    return true;
}

static void close_out(hri_mesh *mesh, uint32_t peer) {
    hri_mesh_link *l = &mesh->links[peer];
    l->out_open = false;
    l->out_offset += l->out_piece;
    if (l->out_offset == flight_of(mesh, l->out_number)->to[peer].bytes) {
        l->out_number++;
        l->out_offset = 0;
    }
}

/* True: something went. */
static bool push(hri_mesh *mesh, uint32_t peer) {
    hri_mesh_link *l = &mesh->links[peer];
    bool moved = false;
    l->blocked = false;
    for (int frames = 0; frames < TURN_FRAMES;) {
        if (!l->out_open && !open_out(mesh, peer)) {
            return moved;
        }
        const unsigned char *const at =
            (const unsigned char *)flight_of(mesh, l->out_number)->to[peer].at + l->out_offset;
        const bool head = l->out_head_sent < HRI_FRAME_BYTES;
        const int64_t n =
            head ? l->stream->ops->send(l->stream, l->out_head + l->out_head_sent,
                                        HRI_FRAME_BYTES - l->out_head_sent)
            : l->out_sent == l->out_piece
                ? 0
                : l->stream->ops->send(l->stream, at + l->out_sent, l->out_piece - l->out_sent);
        if (n < 0) {
            gone(mesh, peer);
            return true;
        }
        l->out_head_sent += head ? (size_t)n : 0;
        l->out_sent += head ? 0 : (uint64_t)n;
        if (l->out_head_sent == HRI_FRAME_BYTES && l->out_sent == l->out_piece) {
            close_out(mesh, peer);
            frames++;
        } else if (n == 0) {
            l->blocked = true;
            return moved;
        }
        moved = true;
    }
    return moved;
}

/* A whole head has come: is it what must come next?  False: not yet, or never. */
static bool open_in(hri_mesh *mesh, uint32_t peer) {
    hri_mesh_link *l = &mesh->links[peer];
    const char *name = mesh->m.members[peer].name;
    if (!l->held && hri_frame_decode(l->in_head, &l->in_frame) != HR_OK) {
        hri_mesh_find(mesh, (int32_t)peer, HR_E_FORMAT, "%s sent damaged data in exchange %llu",
                      name, (unsigned long long)l->in_number);
        return false;
    }
    l->held = l->in_number > mesh->posted;
    if (l->held) {
        if (mesh->closing) {
            hri_mesh_find(mesh, (int32_t)mesh->m.rank, HR_E_PEER,
                          "%s has ended its run, and %s continues with exchange %llu",
                          mesh->m.members[mesh->m.rank].name, name,
                          (unsigned long long)l->in_number);
        }
        return false;
    }
    const hri_frame expected = {.kind = HRI_FRAME_DATA,
                                .from = peer,
                                .to = mesh->m.rank,
                                .epoch = mesh->m.epoch,
                                .number = l->in_number,
                                .offset = l->in_offset,
                                .total = flight_of(mesh, l->in_number)->from[peer].bytes};
    const hr_status status = hri_frame_expect(&l->in_frame, &expected);
    if (status == HR_E_SHAPE) {
        hri_mesh_find(mesh, (int32_t)peer, HR_E_SHAPE,
                      "%s sends %llu bytes where rank %u expects %llu in exchange %llu", name,
                      (unsigned long long)l->in_frame.total, mesh->m.rank,
                      (unsigned long long)expected.total, (unsigned long long)l->in_number);
    } else if (status != HR_OK) {
        hri_mesh_find(mesh, (int32_t)peer, HR_E_FORMAT, "%s sent the wrong piece in exchange %llu",
                      name, (unsigned long long)l->in_number);
    }
    l->in_open = status == HR_OK;
    l->in_have = 0;
    l->in_crc = 0;
    return l->in_open;
}

static void close_in(hri_mesh *mesh, uint32_t peer, uint64_t now) {
    hri_mesh_link *l = &mesh->links[peer];
    if (l->in_crc != l->in_frame.payload_crc) {
        hri_mesh_find(mesh, (int32_t)peer, HR_E_FORMAT, "%s sent damaged data in exchange %llu",
                      mesh->m.members[peer].name, (unsigned long long)l->in_number);
        return;
    }
    l->in_open = false;
    l->in_head_have = 0;
    l->in_offset += l->in_frame.bytes;
    if (l->in_offset == l->in_frame.total) {
        l->waited_ns += now - flight_of(mesh, l->in_number)->begun_ns;
        l->in_number++;
        l->in_offset = 0;
    }
}

static bool pull(hri_mesh *mesh, uint32_t peer, uint64_t now) {
    hri_mesh_link *l = &mesh->links[peer];
    bool moved = false;
    for (int frames = 0; frames < TURN_FRAMES && !mesh->ended && !mesh->found;) {
        int64_t n;
        if (l->in_head_have < HRI_FRAME_BYTES) {
            n = l->stream->ops->receive(l->stream, l->in_head + l->in_head_have,
                                        HRI_FRAME_BYTES - l->in_head_have);
            l->in_head_have += n > 0 ? (size_t)n : 0;
        } else if (!l->in_open) {
            if (!open_in(mesh, peer)) {
                return moved;
            }
            n = 1;
        } else {
            unsigned char *const at =
                (unsigned char *)flight_of(mesh, l->in_number)->from[peer].at + l->in_offset +
                l->in_have;
            const uint64_t left = l->in_frame.bytes - l->in_have;
            n = left ? l->stream->ops->receive(l->stream, at, left) : 0;
            if (n > 0) {
                l->in_crc = hri_crc32c(l->in_crc, at, (size_t)n);
                l->in_have += (uint64_t)n;
            }
        }
        if (n < 0) {
            l->over = mesh->closing && mesh->done == mesh->posted && l->in_head_have == 0;
            if (!l->over) {
                gone(mesh, peer);
            }
            return true;
        }
        if (l->in_open && l->in_have == l->in_frame.bytes) {
            close_in(mesh, peer, now);
            frames++;
            n = 1;
        }
        if (n == 0) {
            return moved;
        }
        moved = true;
    }
    return moved;
}

bool hri_mesh_pump(hri_mesh *mesh, uint32_t peer, uint64_t now) {
    hri_mesh_link *l = &mesh->links[peer];
    if (!l->stream || l->over) {
        return false;
    }
    const bool sent = push(mesh, peer), received = pull(mesh, peer, now);
    if (sent || received) {
        l->moved_ns = now;
    }
    return sent || received;
}
