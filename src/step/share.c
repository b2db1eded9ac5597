/* Weights of parts; see share.h. */
#include "step/share.h"

hri_share_part hri_share_add(hri_share *s, uint64_t batch, uint64_t samples, uint64_t counted) {
    const hri_share before = *s, now = {before.samples + samples, before.counted + counted};
    hri_share_part p = {.share = (double)samples / (double)batch,
                        .keep = 1.0,
                        .weight = (float)samples / (float)batch,
                        .first = before.samples ? 0.0f : 1.0f,
                        .even = 1};
    *s = now;
    if (counted * now.samples != now.counted * samples) {
        p.share = (double)counted / (double)now.counted * (double)now.samples / (double)batch;
        p.weight = (float)p.share;
        p.even = 0;
    }
    /* Where nothing counted before, the sums are zeros. */
    if (before.counted && before.counted * now.samples != now.counted * before.samples) {
        p.keep = (double)before.counted / (double)before.samples * (double)now.samples /
                 (double)now.counted;
        p.first = (float)(1.0 - p.keep);
        p.even = 0;
    }
    return p;
}
