/* make N FILE: a made-up recording of N buffers that do not overlap, shaped like a training step: parameters, a stack of
 * activations, short lives above.  For tests of the page and of files that are large. */
#include <stdio.h>
#include <stdlib.h>

#include "see/hrp.h"

enum { LANES = 48, NAMES = 997 };

typedef struct making {
    hri_recording r;
    uint32_t names[NAMES];
    uint32_t ops;
    uint64_t top, seed;
    size_t count;
    hr_status status;
} making;

static uint64_t draw(making *m, uint64_t below) {
    m->seed = m->seed * 6364136223846793005u + 1442695040888963407u;
    return (m->seed >> 33) % below;
}

static void put(making *m, uint8_t category, uint64_t offset, uint64_t bytes, uint32_t birth,
                uint32_t death, uint8_t flags) {
    const hri_see_buffer b = {.name = m->names[m->count++ % NAMES],
                              .category = category,
                              .flags = flags,
                              .offset = offset,
                              .bytes = bytes,
                              .asked_bytes = bytes,
                              .birth = birth,
                              .death = death};
    m->top = offset + bytes > m->top ? offset + bytes : m->top;
    m->status = m->status == HR_OK ? hri_recording_add(&m->r, HRI_SEE_BUFFERS, &b) : m->status;
}

static void put_ops(making *m) {
    double at = 0;
    for (uint32_t i = 0; i < m->ops && m->status == HR_OK; i++) {
        const double ns = 500 + (double)draw(m, 50000);
        const hri_see_op op = {.name = m->names[i % NAMES],
                               .kind = m->names[i % 13],
                               .layer = m->names[i % NAMES],
                               .phase = i < m->ops / 2         ? 0
                                        : i < m->ops / 20 * 19 ? 1
                                                               : 2,
                               .begin_ns = at,
                               .end_ns = at + ns};
        at += ns;
        m->status = hri_recording_add(&m->r, HRI_SEE_OPS, &op);
    }
    m->r.head.step_ns = at;
}

static void put_buffers(making *m, size_t count) {
    const size_t kept = count / 50, stacked = count * 3 / 10, rest = count - kept - stacked;
    uint32_t free_at[LANES] = {0}, lane = 0;
    for (size_t i = 0; i < kept; i++) {
        put(m, 1 + (i & 1), m->top, 64 * (1 + draw(m, 400)), 0, m->ops, 0);
    }
    for (size_t i = 0; i < stacked; i++) {
        const uint32_t birth = (uint32_t)(i * (m->ops / 2) / stacked);
        const uint32_t death =
            (uint32_t)(m->ops * .95 - .45 * m->ops * (double)i / (double)stacked);
        put(m, HRI_SEE_ACTIVATIONS, m->top, 64 * (1 + draw(m, 4000)), birth,
            death > birth ? death : birth + 1, 0);
    }
    const uint64_t base = m->top, room = base / 200 / 64 * 64;
    for (size_t i = 0; i < rest; i++) {
        const uint32_t birth = (uint32_t)(i * m->ops / rest);
        for (int t = 0; t < LANES && free_at[lane] > birth; t++) {
            lane = (lane + 1) % LANES;
        }
        uint32_t from = birth > free_at[lane] ? birth : free_at[lane];
        from = from < m->ops ? from : m->ops - 1;
        const uint32_t to = from + 1 + (uint32_t)draw(m, 26);
        const bool back = birth > m->ops / 2;
        const uint8_t category = lane % 3 == 0           ? HRI_SEE_WORKSPACES
                                 : back && lane % 3 == 1 ? HRI_SEE_GRADIENTS
                                                         : HRI_SEE_ACTIVATIONS;
        free_at[lane] = to < m->ops ? to : m->ops;
        put(m, category, base + lane * room, 64 + draw(m, room / 64) * 64, from, free_at[lane],
            category == HRI_SEE_ACTIVATIONS && back ? HRI_SEE_RECOMPUTED : 0);
        lane = (lane + 1) % LANES;
    }
}

int main(int argc, char **argv) {
    making m = {.seed = 1};
    hri_prose why = {0};
    const size_t count = argc == 3 ? strtoul(argv[1], NULL, 10) : 0;
    if (count < 100) {
        fprintf(stderr, "make N FILE, N at least 100\n");
        return 2;
    }
    for (size_t i = 0; i < NAMES && m.status == HR_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "layer%zu.value", i);
        m.status = hri_recording_text(&m.r, name, &m.names[i]);
    }
    m.ops = (uint32_t)(count / 4);
    put_ops(&m);
    put_buffers(&m, count);
    m.r.head = (hri_see_head){.source = "plan",
                              .model = "made up",
                              .device = "none",
                              .fits = 1,
                              .batch = 1,
                              .micro_batches = 1,
                              .budget_bytes = m.top + m.top / 25,
                              .peak_bytes = m.top + (1 << 20),
                              .runtime_bytes = 1 << 20,
                              .arena_bytes = m.top,
                              .step_ns = m.r.head.step_ns,
                              .time_ratio = 1};
    if (m.status == HR_OK) {
        m.status = hri_recording_finish(&m.r);
    }
    if (m.status == HR_OK) {
        m.status = hri_hrp_write(&m.r, argv[2], &why);
    }
    if (m.status != HR_OK) {
        fprintf(stderr, "%s %s\n", hr_status_text(m.status), why.text);
    }
    hri_recording_deinit(&m.r);
    return m.status != HR_OK;
}
