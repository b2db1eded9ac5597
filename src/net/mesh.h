/* The wire between processes: a star of control connections to rank 0, a stream for every pair, one thread that moves it all.
 *
 * The star carries beats (each second at most, with the number of exchanges begun), ends, and small pieces.  Whoever finds
 * that a rank is gone tells rank 0, which waits for that rank's own words (hri_meeting.grace_ns), keeps the first cause and
 * tells all; a rank that hears nothing back within two seconds ends with its own finding.  Streams carry frames of data straight into the caller's ranges.
 *
 *   mesh.c          opening, closing, the calls of wire.h
 *   mesh_turn.c     the thread: what there is to do, sleep
 *   mesh_control.c  the star
 *   mesh_links.c    the streams
 *
 * One mutex guards everything; the thread gives it up only while it sleeps. */
#ifndef HRI_NET_MESH_H
#define HRI_NET_MESH_H

#include <poll.h>
#include <pthread.h>

#include "net/meeting.h"
#include "net/stream.h"
#include "net/wire.h"

enum { HRI_MESH_FLIGHT = 8, HRI_MESH_IN = HRI_FRAME_BYTES + HRI_MEMBER_BYTES };

typedef struct hri_mesh_talk {
    int fd; /* -1: none */
    unsigned char in[HRI_MESH_IN];
    size_t in_have;
    unsigned char *out;
    size_t out_used, out_room;
    uint64_t heard_ns, position;
    bool bye;
} hri_mesh_talk;

typedef struct hri_mesh_link {
    hri_stream *stream; /* NULL: this rank itself */
    uint64_t out_number, out_offset, out_piece,
        out_sent; /* of the exchange and the frame that are being sent */
    size_t out_head_sent;
    bool out_open, blocked;
    uint64_t in_number, in_offset, in_have;
    size_t in_head_have;
    bool in_open, held; /* held: a frame of an exchange that has not begun here */
    bool over;          /* the other side has left */
    uint32_t in_crc;
    hri_frame in_frame;
    unsigned char out_head[HRI_FRAME_BYTES], in_head[HRI_FRAME_BYTES];
    uint64_t moved_ns, waited_ns;
    uint64_t late_ns; /* rank 0: behind the first in sharing, so far */
} hri_mesh_link;

typedef struct hri_mesh_flight {
    hri_net_range *to, *from; /* [size] */
    uint64_t begun_ns;
} hri_mesh_flight;

typedef struct hri_mesh_piece {
    uint32_t bytes;
    bool here;
    unsigned char data[HRI_NET_SMALL_BYTES];
} hri_mesh_piece;

typedef struct hri_mesh {
    hri_meeting m;
    hri_mpi mpi; /* library NULL: not this wire */
    uint64_t deadline_ns;
    pthread_mutex_t mutex;
    pthread_cond_t moved;
    pthread_t thread;
    bool running, closing, all_bye;
    uint64_t closing_ns;
    int bell;             /* eventfd: the thread has something new to do */
    hri_mesh_talk *talks; /* [size] at rank 0, [1] elsewhere */
    uint32_t talk_count;
    hri_mesh_link *links; /* [size] */
    hri_mesh_flight flights[HRI_MESH_FLIGHT];
    uint64_t posted, done;
    hri_mesh_piece *pieces; /* [2][size] */
    uint64_t shares, shared;
    uint64_t share_ns[2]; /* rank 0: when the first piece of it came */
    uint64_t beat_ns, turn_ns;
    uint32_t idle; /* turns in which nothing moved */
    uint32_t slowest;
    uint64_t slowest_position;
    bool ended, found; /* found: told rank 0, which has not yet answered */
    uint64_t found_ns;
    bool suspected; /* rank 0: a rank seems gone; its words are waited for (ends.c) */
    uint64_t suspect_ns;
    hri_net_end end, finding, suspicion;
    struct pollfd *polls; /* [1 + talks + links] */
} hri_mesh;

void *hri_mesh_run(void *mesh);
void hri_mesh_ring(hri_mesh *mesh);
/* Mutex held.  Rank 0 decides at once; the others ask it. */
void hri_mesh_find(hri_mesh *mesh, int32_t rank, hr_status status, const char *format, ...)
    HR_PRINTF(4, 5);
void hri_mesh_decide(hri_mesh *mesh, const hri_net_end *end);

/* The star; mutex held. */
void hri_mesh_say(hri_mesh *mesh, uint32_t to, const hri_frame *f, const void *payload);
bool hri_mesh_hear(hri_mesh *mesh, uint32_t talk); /* true: something came */
void hri_mesh_flush(hri_mesh *mesh, uint32_t talk);
void hri_mesh_beat(hri_mesh *mesh, uint64_t now);
void hri_mesh_listen(hri_mesh *mesh, uint64_t now); /* for silence */
void hri_mesh_share_piece(hri_mesh *mesh, uint64_t number, uint32_t from, const void *data,
                          uint32_t bytes);

/* The streams; mutex held.  True: something moved. */
bool hri_mesh_pump(hri_mesh *mesh, uint32_t link, uint64_t now);

#endif
