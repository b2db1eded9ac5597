/* Tells whether a training run fits and why, and takes the cheapest way out of a refusal:
 *
 *   plan_explain resnet50 32 900MiB
 *
 * Without arguments it asks for a small model in a budget that is too small.  Changes that would alter the result are shown
 * but not made.  Exits 0 if there is a plan in the end, 1 if not, 2 or 3 on failure. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <headroom/headroom.h>

static const char *size(uint64_t bytes) {
    static char texts[4][32];
    static int next;
    return hr_bytes_print(bytes, texts[next++ % 4], sizeof texts[0]);
}

static int failed(const hr_error *why) {
    fprintf(stderr, "plan_explain: %s\n", why->message);
    return why->cause == HR_CAUSE_USAGE || why->cause == HR_CAUSE_DATA ? 2 : 3;
}

static hr_status to_stdout(void *user, const char *text, size_t bytes) {
    (void)user;
    return fwrite(text, 1, bytes, stdout) == bytes ? HR_OK : HR_E_IO;
}

/* The largest buffers that are alive at the peak. */
static void show_peak(hr_plan *plan) {
    hr_plan_graph g = {.size = sizeof g};
    hr_plan_action at = {.size = sizeof at};
    if (hr_plan_get_graph(plan, 0, &g) != HR_OK ||
        hr_plan_get_action(plan, 0, g.peak_action, &at) != HR_OK) {
        return;
    }
    printf("\nat the peak: %s, %s alive, %.3f ms into the step\n", at.name, size(at.live_bytes),
           at.begin_ns / 1e6);
    uint64_t last_bytes = UINT64_MAX;
    uint32_t last = 0;
    for (int row = 0; row < 8; row++) {
        hr_plan_buffer best = {.size = sizeof best}, b = {.size = sizeof b};
        hr_plan_value v = {.size = sizeof v, .name = "(workspace)"};
        uint32_t at_best = 0;
        for (uint32_t i = 0; hr_plan_get_buffer(plan, 0, i, &b) == HR_OK; i++) {
            const int alive = b.memory == 0 && b.first <= g.peak_action && g.peak_action <= b.last;
            const int next = b.bytes < last_bytes || (b.bytes == last_bytes && i > last);
            if (alive && next && b.bytes > best.bytes) {
                best = b;
                at_best = i;
            }
        }
        if (!best.bytes ||
            (best.value != HR_PLAN_NONE && hr_plan_get_value(plan, 0, best.value, &v) != HR_OK)) {
            break;
        }
        printf("  %-36s %10s at %10s%s\n", v.name, size(best.bytes), size(best.offset),
               v.made > 1 ? ", recomputed" : "");
        last_bytes = best.bytes;
        last = at_best;
    }
}

/* The fastest way that keeps the result, within the budget if possible; -1: none. */
static int cheapest(const hr_plan *plan) {
    hr_plan_way w = {.size = sizeof w};
    double best_cost = INFINITY;
    int best = -1;
    for (size_t i = 0; hr_plan_get_way(plan, i, &w) == HR_OK; i++) {
        const char *key, *value;
        printf("way %zu: %s:", i, w.effect);
        for (size_t k = 0; hr_plan_get_way_change(plan, i, k, &key, &value) == HR_OK; k++) {
            printf(" %s=%s", key, value);
        }
        printf("\n");
        const double cost = w.time_ratio + (w.needs_more ? 1e6 : 0);
        if (!w.changes_result && cost < best_cost) {
            best = (int)i;
            best_cost = cost;
        }
    }
    return best;
}

int main(int argc, char **argv) {
    hr_ctx *ctx;
    hr_plan *plan, *other;
    hr_error why = {.code = HR_OK};
    hr_plan_summary s = {.size = sizeof s};
    if ((argc != 1 && argc != 4) || hr_ctx_create(NULL, &ctx) != HR_OK) {
        fprintf(stderr, "usage: plan_explain [MODEL BATCH BUDGET]\n");
        return 2;
    }
    const hr_job_options o = {.size = sizeof o,
                              .model = argc > 1 ? argv[1] : "mlp:size=16,width=256",
                              .batch = argc > 1 ? atoll(argv[2]) : 256,
                              .budget = argc > 1 ? argv[3] : "1MiB",
                              .no_measure = 1};
    if (hr_job_plan(ctx, &o, &plan, &why) != HR_OK) {
        return failed(&why);
    }
    if (hr_plan_get_summary(plan, &s) != HR_OK ||
        hr_plan_print(plan, HR_PLAN_TEXT, 100, to_stdout, NULL) != HR_OK) {
        return 3;
    }
    const int way = s.fits ? -1 : cheapest(plan);
    if (way >= 0) {
        if (hr_job_plan_way(plan, (size_t)way, &other, &why) != HR_OK) {
            return failed(&why);
        }
        printf("taken: way %d\n", way);
        hr_plan_destroy(plan);
        plan = other;
        if (hr_plan_get_summary(plan, &s) != HR_OK) {
            return 3;
        }
    }
    show_peak(plan);
    hr_plan_destroy(plan);
    hr_ctx_destroy(ctx);
    return s.fits ? 0 : 1;
}
