/* How long a thread may sleep while a device runs.
 *
 * Waiting by the driver keeps a core busy that those who read the next batch could use.  A run takes about as long as the ones before
 * it: most of it is slept through, and the driver has the end, so that nothing is lost where a thread wakes up late. */
#ifndef HRI_RUN_DOZE_H
#define HRI_RUN_DOZE_H

#include <stdint.h>

enum {
    HRI_DOZE_LEAST_NS = 2000000, /* what is shorter is not worth it */
    HRI_DOZE_EARLY_NS = 500000   /* before the end, and an eighth of the run */
};

/* launched_ns: when it began; took_ns: the two runs before, 0: not known.  0: not at all. */
static inline uint64_t hri_doze_ns(uint64_t launched_ns, const uint64_t took_ns[2],
                                   uint64_t now_ns) {
    const uint64_t takes = took_ns[0] < took_ns[1] ? took_ns[0] : took_ns[1];
    const uint64_t early = HRI_DOZE_EARLY_NS + takes / 8;
    const uint64_t until = takes > early ? launched_ns + takes - early : 0;
    return until >= now_ns + HRI_DOZE_LEAST_NS ? until - now_ns : 0;
}

#endif
