/* What a wire between processes of this machine costs: wire shm|tcp [RANKS].
 *
 * Starts RANKS (2) of itself, which send one another messages, all at once and from a queue as in training.  Prints, as JSON, what tools/simulate
 * takes: alpha and beta, so that a message of s bytes takes alpha + s/beta seconds, and core_alpha and core_beta, the core
 * seconds that either end spends on it.  Large messages walk through more memory than a cache holds, as gradients do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "net/launch.h"
#include "net/net.h"
#include "run/net_queue.h"

enum { MOST = 64, AREA = 32 << 20, SMALL = 64, LARGE = 1 << 20, SMALL_RUNS = 400, LARGE_RUNS = 24 };
enum { REPEATS = 5 };

typedef struct cost {
    double seconds, core_seconds; /* of one exchange, on this rank */
} cost;

static void must(hr_status status, const char *why) {
    if (status != HR_OK) {
        fprintf(stderr, "wire: %s: %s\n", hr_status_text(status), why);
        exit(3);
    }
}

static double core_seconds(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

typedef struct turn {
    hri_net_range to[MOST], from[MOST];
} turn;

/* As the ops that exchange do it: in the thread of the queue. */
static hr_status make_turn(const hri_call *call) {
    const turn *t = call->in[0];
    uint64_t ticket = 0;
    const hr_status status = hri_net_exchange(call->net, t->to, t->from, &ticket);
    return status == HR_OK ? hri_net_wait(call->net, ticket, 0) : status;
}

/* One exchange of `bytes` with every other rank, mean over `runs` of them. */
static cost measure(hri_net *net, hri_net_queue *queue, unsigned char *out, unsigned char *in,
                    uint64_t bytes, int runs) {
    const uint32_t size = hri_net_size(net);
    turn t;
    const void *in_list[] = {&t};
    const hri_call call = {.in = in_list, .net = net};
    uint64_t at = 0;
    must(hri_net_barrier(net), "a barrier");
    const uint64_t begun = hri_clock_ns();
    const double cores = core_seconds();
    for (int run = 0; run < runs; run++) {
        for (uint32_t i = 0; i<size; i++, at = at + 2 * bytes> AREA ? 0 : at + bytes) {
            t.to[i] = (hri_net_range){out + at, i == hri_net_rank(net) ? 0 : bytes};
            t.from[i] = (hri_net_range){in + at, i == hri_net_rank(net) ? 0 : bytes};
        }
        hri_net_queue_begin(queue);
        hri_net_queue_start(queue, &call, make_turn);
        must(hri_net_queue_wait(queue, 1), "an exchange");
    }
    return (cost){(double)(hri_clock_ns() - begun) / 1e9 / runs, (core_seconds() - cores) / runs};
}

static void show(hri_net *net) {
    unsigned char *out = calloc(1, AREA), *in = calloc(1, AREA);
    hri_net_queue *queue = NULL;
    must(out && in ? HR_OK : HR_E_NOMEM_HOST, "two buffers");
    must(hri_net_queue_open(1, &queue), "a queue");
    memset(out, 1, AREA);
    memset(in, 1, AREA);
    cost small = {1e9, 1e9},
         large = small; /* the least that anything else on the machine left room for */
    for (int i = 0; i < REPEATS; i++) {
        const cost s = measure(net, queue, out, in, SMALL, SMALL_RUNS);
        const cost l = measure(net, queue, out, in, LARGE, LARGE_RUNS);
        small.seconds = s.seconds < small.seconds ? s.seconds : small.seconds;
        small.core_seconds =
            s.core_seconds < small.core_seconds ? s.core_seconds : small.core_seconds;
        large.seconds = l.seconds < large.seconds ? l.seconds : large.seconds;
        large.core_seconds =
            l.core_seconds < large.core_seconds ? l.core_seconds : large.core_seconds;
    }
    const double peers = hri_net_size(net) - 1;
    if (hri_net_rank(net) == 0) {
        printf("{\"wire\": \"%s\", \"ranks\": %u, \"alpha\": %.3e, \"beta\": %.4e, \"core_alpha\": "
               "%.3e, "
               "\"core_beta\": %.4e}\n",
               hri_net_wire(net), hri_net_size(net), small.seconds / peers,
               peers * LARGE / (large.seconds - small.seconds), small.core_seconds / peers,
               peers * LARGE / (large.core_seconds - small.core_seconds));
    }
    hri_net_queue_close(queue);
    free(out);
    free(in);
}

int main(int argc, char **argv) {
    const int ranks = argc > 2 ? atoi(argv[2]) : 2;
    hri_net_options o = {.wire = argc > 1 ? argv[1] : "shm"};
    hri_prose why = {""};
    hri_net *net = NULL;
    if (ranks < 2 || ranks > MOST) {
        fprintf(stderr, "wire: 2 to %d ranks\n", MOST);
        return 2;
    }
    if (!getenv("HEADROOM_RANK")) {
        hri_launch_end end = {.rank = -1};
        must(hri_launch_self((uint32_t)ranks, UINT64_C(10000000000), &end, &why), why.text);
        return end.rank < 0 ? 0 : 3;
    }
    must(hri_who_am_i(&o.who, &why), why.text);
    must(hri_net_open(&o, &net, &why), why.text);
    show(net);
    hri_net_close(net);
    return 0;
}
