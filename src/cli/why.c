/* headroom why: what the last refusal, or the end, of a program under headroom run was about. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "broker/wire.h"
#include "cli/common/command.h"
#include "govern/record.h"

typedef struct why_options {
    bool json;
} why_options;

static const hri_field fields[] = {
    {"json", "print one JSON object, sizes in bytes", offsetof(why_options, json), HRI_FIELD_BOOL,
     .value = NULL},
    {0},
};

static void print_sizes(hri_cli *cli, const hri_page_refusal *r) {
    char size[32], sum[32];
    hri_out_text(&cli->out, "what it held at the time, by size\n");
    for (int i = HRI_PAGE_SIZES - 1; i >= 0; i--) {
        if (r->sizes_count[i]) {
            hri_out_printf(&cli->out, "  %s %-10s %6llu block%s, %s in total\n",
                           i ? "from " : "under",
                           hr_bytes_print(i ? 4096ull << (i - 1) : 4096, size, sizeof size),
                           (unsigned long long)r->sizes_count[i], r->sizes_count[i] == 1 ? "" : "s",
                           hr_bytes_print(r->sizes_bytes[i], sum, sizeof sum));
        }
    }
}

static void print(hri_cli *cli, const hri_page *p) {
    const hri_page_refusal *r = &p->refusal;
    char a[32], b[32], c[32], when[64];
    const time_t seconds = (time_t)(hri_record_moment(p) / 1000000000u);
    struct tm local;
    localtime_r(&seconds, &local);
    strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
    hri_out_printf(&cli->out, "job %llu, %s, process %d (%s)\n", (unsigned long long)p->job,
                   p->name, (int)p->pid, hri_record_alive(p) ? "running" : "exited");
    for (uint32_t d = 0; d < p->devices; d++) {
        hri_out_printf(&cli->out, "cuda:%u  holds %s, peak %s, budget %s; context and modules %s\n",
                       d, hr_bytes_print(p->device[d].held_bytes, a, sizeof a),
                       hr_bytes_print(p->device[d].peak_bytes, b, sizeof b),
                       hr_bytes_print(p->device[d].limit_bytes, c, sizeof c),
                       hr_bytes_print(p->device[d].remainder_bytes, when + 32, sizeof when - 32));
    }
    if (!p->refusal_count) {
        hri_out_text(&cli->out, "no allocation was refused\n");
        return;
    }
    strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
    hri_out_printf(&cli->out, "\n%s was refused at %s: %s\n",
                   hr_bytes_print(r->event.bytes, a, sizeof a), when, hri_record_reason(p));
    hri_out_printf(
        &cli->out,
        "  requested by %s in thread %u, refused after %llu ms; %llu refusal%s in total\n",
        p->calls[r->event.call], r->event.thread, (unsigned long long)r->waited_ms,
        (unsigned long long)p->refusal_count, p->refusal_count == 1 ? "" : "s");
    hri_out_printf(&cli->out, "  held %s of a budget of %s\n",
                   hr_bytes_print(r->event.held_bytes, a, sizeof a),
                   hr_bytes_print(r->limit_bytes, b, sizeof b));
    for (int i = 0; i < HRI_PAGE_FRAMES && r->frames[i][0]; i++) {
        hri_out_printf(&cli->out, "  #%-2d %s\n", i, r->frames[i]);
    }
    print_sizes(cli, r);
    if (p->unknown_count) {
        hri_out_printf(&cli->out, "%llu lookup%s of functions whose memory is not counted (%s)\n",
                       (unsigned long long)p->unknown_count, p->unknown_count == 1 ? "" : "s",
                       p->unknown[0]);
    }
    char next[96];
    if (r->event.kind == HRI_PAGE_REFUSE_LIMIT) {
        snprintf(next, sizeof next, "headroom run --budget %lluMiB -- ...",
                 (unsigned long long)(hri_record_enough(p) >> 20));
    } else {
        snprintf(next, sizeof next, "headroom run --wait 10m ... -- ...");
    }
    hri_say_next(cli, next);
}

static int print_json(hri_cli *cli, const hri_page *p) {
    const hri_page_refusal *r = &p->refusal;
    hri_json json;
    hri_cli_json_start(&json);
    hri_json_u64(&json, "job", p->job);
    hri_json_string(&json, "name", p->name);
    hri_json_i64(&json, "pid", p->pid);
    hri_json_bool(&json, "runs", hri_record_alive(p));
    hri_json_u64(&json, "refusals", p->refusal_count);
    hri_json_u64(&json, "not_counted", p->unknown_count);
    hri_json_array(&json, "devices");
    for (uint32_t d = 0; d < p->devices; d++) {
        hri_json_object(&json, NULL);
        hri_json_u64(&json, "held_bytes", p->device[d].held_bytes);
        hri_json_u64(&json, "peak_bytes", p->device[d].peak_bytes);
        hri_json_u64(&json, "budget_bytes", p->device[d].limit_bytes);
        hri_json_u64(&json, "context_bytes", p->device[d].remainder_bytes);
        hri_json_end(&json);
    }
    hri_json_end(&json);
    if (p->refusal_count) {
        hri_json_object(&json, "refusal");
        hri_json_u64(&json, "wanted_bytes", r->event.bytes);
        hri_json_u64(&json, "held_bytes", r->event.held_bytes);
        hri_json_u64(&json, "budget_bytes", r->limit_bytes);
        hri_json_u64(&json, "enough_bytes", hri_record_enough(p));
        hri_json_u64(&json, "waited_ms", r->waited_ms);
        hri_json_string(&json, "call", p->calls[r->event.call]);
        hri_json_u64(&json, "thread", r->event.thread);
        hri_json_string(&json, "reason", hri_record_reason(p));
        hri_json_array(&json, "stack");
        for (int i = 0; i < HRI_PAGE_FRAMES && r->frames[i][0]; i++) {
            hri_json_string(&json, NULL, r->frames[i]);
        }
        hri_json_end(&json);
        hri_json_end(&json);
    }
    return hri_cli_json_end(cli, &json, HRI_EXIT_YES);
}

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    const why_options *o = options;
    char folder[HRI_WIRE_PATH];
    char *end = NULL;
    const uint64_t job = count ? strtoull(arguments[0], &end, 10) : 0;
    if (count && (*end || !job)) {
        hri_say_error(cli, "'%s' is not a job number", arguments[0]);
        return HRI_EXIT_USAGE;
    }
    hri_page *page =
        hri_wire_folder(folder, sizeof folder) == 0 ? hri_record_find(folder, job) : NULL;
    if (!page) {
        hri_say_error(cli, "there is no record of %s",
                      count ? arguments[0] : "a program under headroom run");
        return HRI_EXIT_USAGE;
    }
    int code = HRI_EXIT_YES;
    if (o->json) {
        code = print_json(cli, page);
    } else {
        print(cli, page);
    }
    hri_free(page);
    return code;
}

const hri_command hri_command_why = {
    .name = "why",
    .summary = "explain the last refused allocation of a program",
    .arguments = "[JOB]",
    .choices = "",
    .arguments_max = 1,
    .help = "Shows what the program tried to allocate, through which function and from where, what "
            "it held at the time by size, why the allocation was refused, and a budget that would "
            "have been enough. Without JOB, shows the latest refusal of any program. The program "
            "keeps this record while it runs; it survives even if the program is killed. Records "
            "of the last jobs are kept.",
    .examples = {{"headroom why", "the latest refusal"}, {"headroom why 3", "job 3"}},
    .fields = fields,
    .options_bytes = sizeof(why_options),
    .run = run,
};
