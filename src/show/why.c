/* See why.h. */
#include "show/why.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <headroom/bytes.h>

#include "base/prose.h"
#include "base/visible.h"
#include "govern/holders.h"
#include "govern/link.h"
#include "govern/view.h"

enum { EVENTS = 8 };

#define MIB (UINT64_C(1) << 20)

static const char *when(uint64_t ns, char *out, size_t size) {
    const time_t seconds = (time_t)(ns / 1000000000u);
    struct tm local;
    localtime_r(&seconds, &local);
    strftime(out, size, "%Y-%m-%d %H:%M:%S", &local);
    return out;
}

/* Was it the request of the last refusal that the budget itself forbade? */
static int over_budget(const hri_story *s) {
    return s->page && s->page->refusal_count ? s->page->refusal.event.kind == HRI_PAGE_REFUSE_LIMIT
           : s->refusal                      ? s->refusal->said == HRI_SAID_LIMIT
                                             : 0;
}

/* ---- the page ---- */

static void print_sizes(hri_out *out, const hri_page_refusal *r) {
    char size[32], sum[32];
    hri_out_text(out, "what it held at the time, by size\n");
    for (int i = HRI_PAGE_SIZES - 1; i >= 0; i--) {
        if (r->sizes_count[i]) {
            hri_out_printf(out, "  %s %-10s %6llu block%s, %s in total\n", i ? "from " : "under",
                           hr_bytes_print(i ? 4096ull << (i - 1) : 4096, size, sizeof size),
                           (unsigned long long)r->sizes_count[i], hri_plural(r->sizes_count[i]),
                           hr_bytes_print(r->sizes_bytes[i], sum, sizeof sum));
        }
    }
}

static const char *verb_of(uint8_t kind) {
    return kind == HRI_PAGE_TAKE     ? "+"
           : kind == HRI_PAGE_GIVE   ? "-"
           : kind == HRI_PAGE_SPILL  ? "to the host "
           : kind == HRI_PAGE_RETURN ? "back to the GPU "
                                     : "refused ";
}

static void print_events(hri_out *out, const hri_page *p) {
    const uint64_t count = p->event_count < EVENTS ? p->event_count : EVENTS;
    char text[64], size[32], held[32];
    if (count) {
        hri_out_text(out, "the last things that happened\n");
    }
    for (uint64_t i = p->event_count - count; i < p->event_count; i++) {
        const hri_page_event *e = &p->events[i % HRI_PAGE_EVENTS];
        hri_out_printf(out, "  %s.%03u  %s%s by %s, holds %s\n",
                       when(e->at_ns, text, sizeof text) + 11,
                       (unsigned)(e->at_ns / 1000000u % 1000u), verb_of(e->kind),
                       hr_bytes_print(e->bytes, size, sizeof size), p->calls[e->call],
                       hr_bytes_print(e->held_bytes, held, sizeof held));
    }
}

static void print_page(hri_out *out, const hri_story *s) {
    const hri_page *p = s->page;
    const hri_page_refusal *r = &p->refusal;
    char a[32], b[32], c[32], text[64];
    hri_out_printf(out, "job %llu, %s, process %d (%s)\n", (unsigned long long)p->job, p->name,
                   (int)p->pid, hri_story_alive(p) ? "running" : "exited");
    for (uint32_t i = 0; i < p->devices; i++) {
        hri_text causes = {0};
        hri_view_causes(p->device[i].remainder_bytes, p->device[i].cause_bytes, &causes);
        hri_out_printf(out, "cuda:%u  holds %s, peak %s, budget %s%s%s", i,
                       hr_bytes_print(p->device[i].held_bytes, a, sizeof a),
                       hr_bytes_print(p->device[i].peak_bytes, b, sizeof b),
                       hr_bytes_print(p->device[i].limit_bytes, c, sizeof c),
                       *hri_text_get(&causes) ? "; measured: " : "", hri_text_get(&causes));
        hri_text_deinit(&causes);
        if (p->device[i].spilled_bytes) {
            hri_out_printf(out, "; %s in host memory",
                           hr_bytes_print(p->device[i].spilled_bytes, a, sizeof a));
        }
        hri_out_text(out, "\n");
    }
    if (!p->refusal_count) {
        hri_out_text(out, "no allocation was refused\n");
        return;
    }
    hri_out_printf(out, "\n%s was refused at %s: %s\n", hr_bytes_print(r->event.bytes, a, sizeof a),
                   when(r->event.at_ns, text, sizeof text), hri_story_reason(p));
    hri_out_printf(out,
                   "  requested by %s in thread %u, refused after %llu ms; %llu refusal%s in "
                   "total\n",
                   p->calls[r->event.call], r->event.thread, (unsigned long long)r->waited_ms,
                   (unsigned long long)p->refusal_count, hri_plural(p->refusal_count));
    hri_out_printf(out, "  held %s of a budget of %s; at most %s would have fitted\n",
                   hr_bytes_print(r->event.held_bytes, a, sizeof a),
                   hr_bytes_print(r->limit_bytes, b, sizeof b),
                   hr_bytes_print(hri_story_fitting(s), c, sizeof c));
    for (int i = 0; i < HRI_PAGE_FRAMES && r->frames[i][0]; i++) {
        hri_out_printf(out, "  #%-2d %s\n", i, r->frames[i]);
    }
    print_sizes(out, r);
}

/* ---- the broker's record ---- */

static const char *said(uint32_t how) {
    return how == HRI_SAID_LIMIT      ? "it would have exceeded the job's budget"
           : how == HRI_SAID_DEADLOCK ? "every program that held memory was waiting for memory"
                                      : "other programs held the memory";
}

/* At the door there is no page: nothing had started. */
static void print_door(hri_out *out, const hri_refusal *r) {
    char a[32], text[64], since[32];
    hri_out_printf(out, "job %llu, %s: %s was refused at %s: %s\n", (unsigned long long)r->job,
                   r->name, hr_bytes_print(r->wanted_bytes, a, sizeof a),
                   when(r->at_ns, text, sizeof text), said(r->said));
    hri_out_printf(out, "  it waited for %s\n",
                   hri_holders_time(r->waited_ms, since, sizeof since));
}

static void print_holders(hri_out *out, const hri_refusal *r) {
    char a[32], b[32], c[32], uuid[48], since[32];
    hri_link_uuid_text(r->uuid, uuid);
    hri_out_printf(out, "who held %.12s then: %s free of %s, programs outside %s\n", uuid,
                   hr_bytes_print(r->device.free_bytes, a, sizeof a),
                   hr_bytes_print(r->device.total_bytes, b, sizeof b),
                   hr_bytes_print(r->device.outside_bytes, c, sizeof c));
    for (uint32_t i = 0; i < r->count; i++) {
        const hri_wire *row = &r->rows[i];
        if (!(row->flags & HRI_WIRE_ROW_JOB)) {
            continue;
        }
        hri_out_printf(out, "  job %llu  %s  %s of a budget of %s, %s for %s\n",
                       (unsigned long long)row->job, row->name,
                       hr_bytes_print(row->held_bytes, a, sizeof a),
                       hr_bytes_print(row->limit_bytes, b, sizeof b),
                       row->flags & HRI_WIRE_WAITING ? "waiting" : "running",
                       hri_holders_time(row->wait_ms, since, sizeof since));
    }
}

/* ---- host memory ---- */

static void print_ram(hri_out *out, const hri_ram_record *r) {
    char limit[32], peak[32];
    hri_out_printf(out, "job %llu exceeded its %s of RAM: %llu process%s killed by %s",
                   (unsigned long long)r->job, hr_bytes_print(r->limit_bytes, limit, sizeof limit),
                   (unsigned long long)r->kills_count, r->kills_count == 1 ? " was" : "es were",
                   r->enforced ? "the kernel" : "headroom run");
    if (r->pid) {
        hri_out_printf(out, ", the last was %d (%s)", (int)r->pid, r->name);
    }
    hri_out_printf(out, "\n  peak %s\n", hr_bytes_print(r->peak_bytes, peak, sizeof peak));
}

/* The peak and a half, in steps of 256 MiB: a killed program would have gone on. */
static uint64_t enough_ram(const hri_ram_record *r) {
    const uint64_t most = r->peak_bytes > r->limit_bytes ? r->peak_bytes : r->limit_bytes;
    return (most + most / 2 + 256 * MIB - 1) / (256 * MIB) * 256;
}

/* ---- all of it ---- */

void hri_why_text(const hri_story *s, hri_out *out) {
    char text[64];
    if (s->ram.kills_count) {
        print_ram(out, &s->ram);
    }
    if (s->page) {
        print_page(out, s);
    } else if (s->refusal) {
        print_door(out, s->refusal);
    } else {
        hri_out_printf(out, "job %llu used no GPU\n", (unsigned long long)s->job);
    }
    if (s->refusal) {
        print_holders(out, s->refusal);
    }
    if (s->page) {
        print_events(out, s->page);
        if (s->page->unknown_count) {
            hri_out_printf(out, "%llu lookup%s of functions whose memory is not counted (%s)\n",
                           (unsigned long long)s->page->unknown_count,
                           hri_plural(s->page->unknown_count), s->page->unknown[0]);
        }
    }
    if (s->ended && WIFSIGNALED(s->status)) {
        hri_out_printf(out, "killed by signal %d (%s) at %s\n", WTERMSIG(s->status),
                       strsignal(WTERMSIG(s->status)), when(s->ended_ns, text, sizeof text));
    } else if (s->ended) {
        hri_out_printf(out, "ended with exit code %d at %s\n", WEXITSTATUS(s->status),
                       when(s->ended_ns, text, sizeof text));
    }
}

/* Is it a job of Headroom itself? */
static int own(const hri_story *s) {
    for (uint32_t i = 0; i < s->refusal->count; i++) {
        if (s->refusal->rows[i].job == s->job && (s->refusal->rows[i].flags & HRI_WIRE_OWN)) {
            return 1;
        }
    }
    return 0;
}

void hri_why_next(const hri_story *s, hri_text *out) {
    const char *command = *hri_text_get(&s->command) ? hri_text_get(&s->command) : "...";
    if (s->ram.kills_count) {
        hri_text_add(out, "headroom run --ram %lluMiB ... -- %s",
                     (unsigned long long)enough_ram(&s->ram), command);
    } else if (over_budget(s) && s->page) {
        hri_text_add(out, "headroom run --budget %lluMiB -- %s",
                     (unsigned long long)(hri_story_enough(s->page) / MIB), command);
    } else if (s->refusal && own(s)) { /* a training: the same, and it waits */
        hri_text_add(out, "%s --wait 10m", command);
    } else if (s->refusal) {
        hri_text_add(out, "headroom run --budget %lluMiB --wait 10m -- %s",
                     (unsigned long long)(s->refusal->limit_bytes / MIB), command);
    } else if (s->page && s->page->refusal_count) {
        hri_text_add(out, "headroom run --wait 10m ... -- %s", command);
    }
}

static void device_json(const hri_page *p, uint32_t d, hri_json *json) {
    hri_json_object(json, NULL);
    hri_json_u64(json, "held_bytes", p->device[d].held_bytes);
    hri_json_u64(json, "peak_bytes", p->device[d].peak_bytes);
    hri_json_u64(json, "budget_bytes", p->device[d].limit_bytes);
    hri_json_u64(json, "context_bytes", p->device[d].remainder_bytes);
    hri_view_causes_json(p->device[d].remainder_bytes, p->device[d].cause_bytes, json);
    hri_json_u64(json, "spilled_bytes", p->device[d].spilled_bytes);
    hri_json_end(json);
}

static void refusal_json(const hri_story *s, hri_json *json) {
    const hri_page *p = s->page;
    const hri_page_refusal *r = &p->refusal;
    hri_json_object(json, "refusal");
    hri_json_u64(json, "wanted_bytes", r->event.bytes);
    hri_json_u64(json, "held_bytes", r->event.held_bytes);
    hri_json_u64(json, "budget_bytes", r->limit_bytes);
    hri_json_u64(json, "fitting_bytes", hri_story_fitting(s));
    hri_json_u64(json, "enough_bytes", hri_story_enough(p));
    hri_json_u64(json, "waited_ms", r->waited_ms);
    hri_json_string(json, "call", p->calls[r->event.call]);
    hri_json_u64(json, "thread", r->event.thread);
    hri_json_string(json, "reason", hri_story_reason(p));
    hri_json_array(json, "stack");
    for (int i = 0; i < HRI_PAGE_FRAMES && r->frames[i][0]; i++) {
        hri_json_string(json, NULL, r->frames[i]);
    }
    hri_json_end(json);
    hri_json_end(json);
}

static void holders_json(const hri_refusal *r, hri_json *json) {
    hri_json_object(json, "then");
    hri_json_u64(json, "wanted_bytes", r->wanted_bytes);
    hri_json_string(json, "reason", said(r->said));
    hri_json_u64(json, "total_bytes", r->device.total_bytes);
    hri_json_u64(json, "free_bytes", r->device.free_bytes);
    hri_json_u64(json, "outside_bytes", r->device.outside_bytes);
    hri_json_array(json, "jobs");
    for (uint32_t i = 0; i < r->count; i++) {
        if (r->rows[i].flags & HRI_WIRE_ROW_JOB) {
            hri_json_object(json, NULL);
            hri_json_u64(json, "job", r->rows[i].job);
            hri_json_string(json, "name", r->rows[i].name);
            hri_json_u64(json, "held_bytes", r->rows[i].held_bytes);
            hri_json_u64(json, "budget_bytes", r->rows[i].limit_bytes);
            hri_json_bool(json, "waiting", (r->rows[i].flags & HRI_WIRE_WAITING) != 0);
            hri_json_end(json);
        }
    }
    hri_json_end(json);
    hri_json_end(json);
}

void hri_why_json(const hri_story *s, hri_json *json) {
    const hri_page *p = s->page;
    hri_json_u64(json, "job", s->job);
    hri_json_string(json, "name", p ? p->name : s->refusal ? s->refusal->name : "");
    if (p) {
        hri_json_i64(json, "pid", p->pid);
        hri_json_bool(json, "runs", hri_story_alive(p));
        hri_json_u64(json, "refusals", p->refusal_count);
        hri_json_u64(json, "not_counted", p->unknown_count);
        hri_json_array(json, "devices");
        for (uint32_t d = 0; d < p->devices; d++) {
            device_json(p, d, json);
        }
        hri_json_end(json);
    }
    if (p && p->refusal_count) {
        refusal_json(s, json);
    }
    if (s->refusal) {
        holders_json(s->refusal, json);
    }
    if (s->ram.limit_bytes) {
        hri_json_object(json, "ram");
        hri_json_u64(json, "limit_bytes", s->ram.limit_bytes);
        hri_json_u64(json, "peak_bytes", s->ram.peak_bytes);
        hri_json_u64(json, "killed", s->ram.kills_count);
        hri_json_bool(json, "enforced", s->ram.enforced != 0);
        hri_json_end(json);
    }
    if (s->ended && WIFSIGNALED(s->status)) {
        hri_json_i64(json, "signal", WTERMSIG(s->status));
    } else if (s->ended) {
        hri_json_i64(json, "exit_code", WEXITSTATUS(s->status));
    }
}
