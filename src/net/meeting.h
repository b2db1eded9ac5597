/* How ranks find one another: all connect to rank 0, each proves the run's token, rank 0 hands out the table of members.  The
 * connections stay: they are the star on which ends, beats and small pieces travel (mesh.h).
 *
 * On one machine the meeting is a UNIX socket without a file, the user is compared, and rank 0 makes the key that later
 * connections prove; between machines it is the address that the user gave, with a token file, and nothing listens at any other
 * address.  Ranks that do not come, come twice, or think that there are more of us are named. */
#ifndef HRI_NET_MEETING_H
#define HRI_NET_MEETING_H

#include "net/frame.h"
#include "net/net.h"
#include "net/proof.h"
#include "net/socket.h"

enum {
    HRI_MEMBER_BYTES = 512,
    HRI_MEETING_RANKS = 256,
    HRI_END_BYTES = 8 + sizeof((hri_net_end *)0)->text,
};

/* How every sentence of a rank begins that has lost rank 0 while they met. */
#define HRI_FIRST_GONE "rank 0 could not be reached: "

typedef struct hri_member {
    uint32_t rank, size, pid;
    char host[64], device[24], wire[12];
    char link[HRI_PLACE_BYTES]; /* where it accepts the others */
    unsigned char key[HRI_TOKEN_BYTES];
    char name[160]; /* "rank 3 (node7, cuda:1, process 812)" */
} hri_member;

typedef struct hri_meeting {
    uint32_t rank, size, epoch;
    bool local; /* one machine */
    /* How long the words of a rank that is gone are waited for: a second, or half of the deadline of silence.  Less than a rank
     * waits for rank 0's answer (mesh.h). */
    uint64_t grace_ns;
    char run[64];
    unsigned char key[HRI_TOKEN_BYTES];
    hri_member *members; /* [size] */
    int *control;        /* [size]; rank 0: of each other; the others: [0] alone.  -1: none */
    int *links;          /* [size], of each other rank; -1: none */
    int listener;
} hri_meeting;

void hri_member_encode(const hri_member *m, unsigned char out[HRI_MEMBER_BYTES]);
/* HR_E_FORMAT: a text does not end.  What does not print is replaced. */
HR_MUST_CHECK hr_status hri_member_decode(const unsigned char in[HRI_MEMBER_BYTES],
                                          hri_member *out);

/* Both sides of one connection: HELLO and PROOF both ways.  The caller's record is checked by `accept` fields of the called:
 * HR_E_INVALID: the proof is wrong, or it was refused (the sentence says why). */
HR_MUST_CHECK hr_status hri_greet(int fd, bool caller, const hri_meeting *m, const hri_member *own,
                                  hri_member *peer, uint64_t until_ns, hri_prose *why);
HR_MUST_CHECK hr_status hri_frame_send(int fd, const hri_frame *f, const void *payload,
                                       uint64_t until_ns);
/* A frame with at most `most` bytes of payload.  HR_E_FORMAT: not one, or longer. */
HR_MUST_CHECK hr_status hri_frame_receive(int fd, hri_frame *f, void *payload, size_t most,
                                          uint64_t until_ns);

/* Meets, and connects every pair when `links`. */
HR_MUST_CHECK hr_status hri_meeting_open(const hri_net_options *o, const char *wire, bool links,
                                         hri_meeting *out, hri_prose *why);
/* Before it: who this rank is, and where rank 0 listens. */
HR_MUST_CHECK hr_status hri_meeting_prepare(const hri_net_options *o, const char *wire,
                                            hri_meeting *out, hri_member *own,
                                            char place[HRI_PLACE_BYTES], hri_prose *why);
/* ---- ends: ends.c ---- */

/* Rank 0, before the run: HR_E_PEER with the reason of the rank that is gone, or its name. */
HR_MUST_CHECK hr_status hri_meeting_still_here(const hri_meeting *m, const int *control,
                                               hri_prose *why);
/* Rank 0 has lost this rank (a write failed, a connection ended): HR_E_PEER, in its own words if it says any within the grace
 * time, or in those of the rank that was gone first. */
HR_MUST_CHECK hr_status hri_meeting_lost(const hri_meeting *m, const int *control, uint32_t rank,
                                         hri_prose *why);
/* Rank 0: one frame of this rank, which has all its connections.  HR_E_PEER: as above. */
HR_MUST_CHECK hr_status hri_meeting_ready(const hri_meeting *m, uint32_t rank, uint64_t until_ns,
                                          hri_prose *why);
/* The others have lost rank 0: HR_E_PEER, in its words if it said any. */
HR_MUST_CHECK hr_status hri_meeting_first_lost(const hri_meeting *m, int fd, uint64_t until_ns,
                                               hri_prose *why);

void hri_end_pack(const hri_net_end *end, unsigned char out[HRI_END_BYTES]);
/* Is the frame an end? */
bool hri_end_of(const hri_frame *f, const unsigned char *payload, hri_net_end *end);
/* The other side learns why there will be no run; best effort.  text "": the status's.  A status of HR_E_PEER says what was seen
 * of another rank. */
void hri_end_send(int fd, uint32_t epoch, uint32_t from, hr_status status, const char *text);
/* Closes, so that what was sent is not lost: reads until the others close too, for half of the grace time at most.  -1: none. */
void hri_end_leave(const hri_meeting *m, int *fds, uint32_t count);

/* Closes what is still its own: descriptors that were taken are -1. */
void hri_meeting_deinit(hri_meeting *m);

#endif
