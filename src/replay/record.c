/* What a step requested.  Time is counted in requests: something lives from its own until before another one, so that the
 * order in which things are freed between two requests does not matter. */
#include "replay/replay_int.h"

void hri_tape_clear(hri_tape *recording) {
    hri_requests_clear(&recording->requests);
    recording->broken = false;
}

uint32_t hri_tape_add(hri_tape *recording, uint64_t bytes, uint64_t stream) {
    const hri_request request = {
        .bytes = bytes, .stream = stream, .offset = HRI_REPLAY_NOWHERE, .end = HRI_REPLAY_CARRIED};
    const size_t index = recording->requests.count;
    if (recording->broken || index >= HRI_REPLAY_REQUESTS ||
        hri_requests_push(&recording->requests, request) != HR_OK) {
        recording->broken = true;
        return HRI_REPLAY_CARRIED;
    }
    return (uint32_t)index;
}

bool hri_tape_same(const hri_tape *a, const hri_tape *b) {
    bool same =
        !a->broken && !b->broken && a->requests.count == b->requests.count && a->requests.count > 0;
    for (size_t i = 0; same && i < a->requests.count; i++) {
        same = a->requests.items[i].bytes == b->requests.items[i].bytes &&
               a->requests.items[i].stream == b->requests.items[i].stream;
    }
    return same;
}
