/* What ranks do in tests of wires: every pair has its own bytes and its own length in every round. */
#ifndef HR_TEST_NET_ROUNDS_H
#define HR_TEST_NET_ROUNDS_H

#include <string.h>
#include "net/net.h"

enum { NET_MOST = 8, NET_SLICE = 1000 };

static inline unsigned char net_value(uint32_t from, uint32_t to, int round) {
    return (unsigned char)(from * 31 + to * 7 + (uint32_t)round * 3);
}

/* HR_E_INTERNAL: other bytes came than were sent. */
static inline hr_status net_round(hri_net *net, int round) {
    static _Thread_local unsigned char out[NET_MOST][NET_SLICE], in[NET_MOST][NET_SLICE + 1];
    const uint32_t me = hri_net_rank(net), size = hri_net_size(net);
    hri_net_range to[NET_MOST], from[NET_MOST];
    for (uint32_t i = 0; i < size; i++) {
        to[i] = (hri_net_range){out[i], NET_SLICE - 10 * me - i};
        from[i] = (hri_net_range){in[i], NET_SLICE - 10 * i - me};
        memset(out[i], net_value(me, i, round), NET_SLICE);
        memset(in[i], 0, NET_SLICE + 1);
        if (round % 5 == 4) { /* one of them sends nothing */
            to[i].bytes = me == 0 ? 0 : to[i].bytes;
            from[i].bytes = i == 0 ? 0 : from[i].bytes;
        }
    }
    uint64_t ticket = 0;
    hr_status status = hri_net_exchange(net, to, from, &ticket);
    status = status == HR_OK ? hri_net_wait(net, ticket, 0) : status;
    for (uint32_t i = 0; i < size && status == HR_OK; i++) {
        const uint64_t last = from[i].bytes;
        const unsigned char wanted = net_value(i, me, round);
        if (last && (in[i][0] != wanted || in[i][last - 1] != wanted || in[i][last] != 0)) {
            return HR_E_INTERNAL;
        }
    }
    const unsigned char mine[2] = {(unsigned char)me, (unsigned char)round};
    unsigned char all[2 * NET_MOST];
    status = status == HR_OK ? hri_net_share(net, mine, 2, all) : status;
    for (uint32_t i = 0; i < size && status == HR_OK; i++) {
        if (all[2 * i] != i || all[2 * i + 1] != (unsigned char)round) {
            return HR_E_INTERNAL;
        }
    }
    /* Rank 0's bytes to all. */
    memset(out[0], (int)me, NET_SLICE);
    memset(out[0], 7 + round, me == 0 ? NET_SLICE : 0);
    status = status == HR_OK ? hri_net_spread(net, out[0], NET_SLICE) : status;
    if (status == HR_OK && (out[0][0] != 7 + round || out[0][NET_SLICE - 1] != 7 + round)) {
        return HR_E_INTERNAL;
    }
    return status;
}

static inline hr_status net_rounds(hri_net *net, int rounds) {
    hr_status status = HR_OK;
    for (int round = 0; round < rounds && status == HR_OK; round++) {
        status = net_round(net, round);
    }
    return status;
}

#endif
