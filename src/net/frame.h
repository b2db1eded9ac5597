/* The head of everything that travels between ranks: 64 bytes, little-endian, with a checksum of its own and one of its payload.
 *
 *   at 0   magic 4, version 1, kind 1, flags 2
 *   at 8   from 4, to 4              ranks
 *   at 16  number 8                  of the exchange or of the control message
 *   at 24  epoch 4, zeros 4          which run
 *   at 32  offset 8, bytes 8         of this piece, at most HRI_FRAME_MOST
 *   at 48  total 8                   of the whole message
 *   at 56  payload CRC 4, head CRC 4 CRC-32C; the head's covers the 60 bytes before it
 *
 * A receiver knows what comes next from each peer (hri_frame_expect): no length is believed, nothing is allocated for one. */
#ifndef HRI_NET_FRAME_H
#define HRI_NET_FRAME_H

#include <stdint.h>
#include <headroom/status.h>

#define HRI_FRAME_MAGIC 0x4852464du

enum { HRI_FRAME_BYTES = 64, HRI_FRAME_MOST = 1 << 20, HRI_FRAME_VERSION = 1 };

typedef enum hri_frame_kind {
    HRI_FRAME_HELLO = 1, /* who connects: a member's record and a nonce */
    HRI_FRAME_PROOF,     /* that it knows the token */
    HRI_FRAME_TABLE,     /* rank 0: the record of one member */
    HRI_FRAME_DATA,
    HRI_FRAME_BEAT,  /* I am alive; number: exchanges begun */
    HRI_FRAME_SHARE, /* a small piece of one rank: to rank 0, and from it to all */
    HRI_FRAME_CAUSE, /* to rank 0: why I end */
    HRI_FRAME_END,   /* rank 0: why all end */
    HRI_FRAME_BYE,   /* I am done; from rank 0: all are */
    HRI_FRAME_KIND_END
} hri_frame_kind;

typedef struct hri_frame {
    hri_frame_kind kind;
    uint32_t from, to, epoch;
    uint64_t number, offset, bytes, total;
    uint32_t payload_crc;
} hri_frame;

void hri_frame_encode(const hri_frame *f, unsigned char out[HRI_FRAME_BYTES]);
/* HR_E_FORMAT: not one of ours, of another version, or damaged; *out untouched. */
HR_MUST_CHECK hr_status hri_frame_decode(const unsigned char in[HRI_FRAME_BYTES], hri_frame *out);
/* HR_OK when `f` is the next piece of what is expected: the same kind, ranks, epoch, number, offset and total.  HR_E_SHAPE: the
 * sender's total differs; HR_E_FORMAT: anything else does. */
HR_MUST_CHECK hr_status hri_frame_expect(const hri_frame *f, const hri_frame *expected);

#endif
