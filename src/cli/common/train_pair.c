/* Side by side through the steps of train_job.h; see train_pair.h. */
#include "cli/common/train_pair.h"

#include <stdio.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/alloc.h"
#include "job/print.h"
#include "run/resident.h"

static int failed(const hri_train_pair *p, hr_status status, const hri_prose *why) {
    hri_say_error(p->jobs[0].cli, "%s", why->text[0] ? why->text : hr_status_text(status));
    return hri_cli_exit_code(status);
}

/* ---- the second one's flags ---- */

/* Cuts a text into words, in place; 'single' and "double" quotes hold one together.  words: room for one in every two
 * letters.  -1: a quote is not closed. */
static int split_words(char *text, char **words) {
    int count = 0;
    char *out = text;
    for (char *at = text; *at;) {
        at += strspn(at, " \t\n");
        if (!*at) {
            break;
        }
        words[count++] = out;
        char quote = 0;
        for (; *at && (quote || !strchr(" \t\n", *at)); at++) {
            if (quote ? *at == quote : *at == '\'' || *at == '"') {
                quote = quote ? 0 : *at;
            } else {
                at += !quote && *at == '\\' && at[1];
                *out++ = *at;
            }
        }
        if (quote) {
            return -1;
        }
        at += *at != '\0';
        *out++ = '\0';
    }
    return count;
}

static void warn_of_also(void *cli, const char *sentence) {
    hri_say_warning(cli, "--also: %s", sentence);
}

static int read_also(hri_cli *cli, hri_train_pair *p, const hri_train_flags *flags,
                     const char **model) {
    char name[] = "train";
    hri_prose why = {""};
    hri_list rest = {0};
    p->also_text = hri_strdup(flags->also);
    p->also_words = hri_calloc(strlen(flags->also) / 2 + 3, sizeof *p->also_words);
    if (!p->also_text || !p->also_words) {
        return hri_cli_failed(cli, NULL, "--also", HR_E_NOMEM_HOST);
    }
    p->also_words[0] = name;
    const int count = split_words(p->also_text, p->also_words + 1);
    if (count < 0) {
        hri_say_error(cli, "--also: a quote is not closed");
        return HRI_EXIT_USAGE;
    }
    hr_status status = hri_options_init(&p->also, hri_train_flag_fields, &p->also_flags, &why);
    if (status == HR_OK) {
        status = hri_options_set_argv(&p->also, count + 1, p->also_words, &rest, &why);
    }
    p->also_words[0] = NULL;
    if (status == HR_OK) {
        status = hri_train_keys_settle(&p->also, &why);
    }
    if (status != HR_OK) {
        hri_say_error(cli, "--also: %s", why.text);
        return hri_cli_exit_code(status);
    }
    if (rest.count != 1) {
        hri_say_error(cli, "--also: \"%s\" does not name one model", flags->also);
        return HRI_EXIT_USAGE;
    }
    static const char *const shared[] = {
        "budget", "also", "json", "device", "measure", "memory-growth", "logical-devices", NULL};
    for (const char *const *n = shared; *n; n++) {
        const hri_field *field = hri_options_field(&p->also, *n);
        if (hri_options_origin(&p->also, field) != HRI_ORIGIN_DEFAULT) {
            hri_say_error(cli, "--also: --%s belongs to the first training", *n);
            return HRI_EXIT_USAGE;
        }
    }
    hri_options_ignored(&p->also, warn_of_also, cli);
    p->also_flags.budget = flags->budget;
    p->also_flags.device = flags->device;
    p->also_flags.json = flags->json;
    p->also_flags.measure = flags->measure;
    p->also_flags.resume |= flags->resume;
    p->also_flags.overwrite |= flags->overwrite;
    if (flags->resume && flags->save && p->also_flags.save && (!flags->out || !p->also_flags.out)) {
        hri_say_error(cli, "--also with --resume: say --out for both, so that each finds its own");
        return HRI_EXIT_USAGE;
    }
    *model = rest.items[0];
    return HRI_EXIT_YES;
}

/* "2GiB,1GiB": a limit for each training. */
static int read_slices(hri_cli *cli, hri_train_pair *p, const char *text) {
    uint32_t count = 0;
    for (const char *at = text; *at;) {
        char size[64];
        uint64_t bytes = 0;
        const size_t n = strcspn(at, ",");
        snprintf(size, sizeof size, "%.*s", (int)(n < sizeof size ? n : sizeof size - 1), at);
        if (hr_bytes_parse(size, 0, &bytes) != HR_OK || !bytes) {
            hri_say_error(cli, "--logical-devices: \"%s\" is no amount of memory", size);
            return HRI_EXIT_USAGE;
        }
        if (count < p->count) {
            p->slices[count] = bytes;
        }
        count++;
        at += n + (at[n] == ',');
    }
    if (count != p->count) {
        hri_say_error(cli, "--logical-devices: %u sizes for %u trainings", count, p->count);
        return HRI_EXIT_USAGE;
    }
    return HRI_EXIT_YES;
}

int hri_train_pair_look(hri_cli *cli, const hri_train_flags *flags, const char *model,
                        hri_train_pair *p) {
    const char *other = NULL;
    int code = HRI_EXIT_YES;
    p->count = 1;
    if (flags->also) {
        code = read_also(cli, p, flags, &other);
        p->count = 2;
    }
    if (code == HRI_EXIT_YES && flags->logical_devices) {
        code = read_slices(cli, p, flags->logical_devices);
    }
    p->jobs[0].name = p->count > 1 ? "first" : "";
    p->jobs[1].name = "second";
    if (code == HRI_EXIT_YES) {
        code = hri_train_job_look(cli, flags, model, &p->jobs[0]);
    }
    if (code == HRI_EXIT_YES && p->count > 1) {
        code = hri_train_job_look(cli, &p->also_flags, other, &p->jobs[1]);
    }
    for (uint32_t i = 0; i < p->count && code == HRI_EXIT_YES; i++) {
        p->jobs[i].beside = i ? p->jobs[0].folder : NULL;
        code = hri_train_job_size(&p->jobs[i]);
    }
    return code;
}

/* ---- planning ---- */

/* The second one uses the device and the threads of the first. */
static void share_device(hri_train_pair *p) {
    hri_plan_job *a = &p->jobs[0].plan, *b = &p->jobs[1].plan;
    hri_threads_destroy(b->threads);
    hri_timing_close(b->timing);
    hri_engine_close(b->engine);
    hr_ctx_destroy(p->jobs[1].ctx);
    p->jobs[1].ctx = NULL;
    b->ctx = a->ctx;
    b->timing = NULL;
    b->engine = b->job.engine = a->engine;
    b->job.machine.gpu = a->job.machine.gpu;
    b->job.time_ns = a->job.time_ns;
    b->job.time_user = a->job.time_user;
    b->device = a->device;
    b->threads = a->threads;
}

static int fit(hri_train_job *j) {
    const hr_status status = hri_plan_job_fit(&j->plan);
    return status == HR_OK ? HRI_EXIT_YES : hri_cli_why(j->cli, &j->plan.why, status);
}

/* Plans a job anew with what is now known of the other. */
static int plan_again(hri_train_pair *p, uint32_t i, uint64_t below, uint64_t above,
                      uint64_t runtime) {
    hri_train_job *j = &p->jobs[i];
    const uint64_t parts = j->plans.c->parts;
    hri_fit_plans_deinit(&j->plans);
    hri_fit_close(&j->plan.fit);
    j->plan.job.below_bytes = below;
    j->plan.job.above_bytes = above;
    j->plan.job.runtime_bytes = runtime;
    j->plan.job.parts = (int64_t)parts;
    hri_prose why = {""};
    hr_status status = hri_fit_open(&j->plan.job, &j->plan.fit, &why);
    const hri_fit_fact *floor = NULL;
    if (status == HR_OK) {
        status = hri_fit_floor(&j->plan.fit, &floor, &why);
    }
    if (status != HR_OK) {
        return failed(p, status, &why);
    }
    j->plan.floor_bytes = floor->floor_bytes;
    p->taken_bytes[i] = 0; /* the other one is in the job now */
    return hri_train_job_plan(j);
}

/* What a case takes of the runtime for its records. */
static uint64_t records_of(const hri_train_job *j, uint64_t runtime_bytes) {
    return runtime_bytes > j->plan.job.runtime_bytes ? runtime_bytes - j->plan.job.runtime_bytes
                                                     : 0;
}

static int plan_two(hri_train_pair *p, uint32_t *which) {
    hri_train_job *a = &p->jobs[0], *b = &p->jobs[1];
    uint64_t own[2] = {0}, records[2] = {0}, alone[2] = {0};
    /* The runtime was measured for each; the process is one, its pipelines are two. */
    const uint64_t extra = b->plan.job.runtime_bytes > a->plan.job.runtime_bytes
                               ? b->plan.job.runtime_bytes
                               : a->plan.job.runtime_bytes;
    const hri_train_job *other_one = extra == b->plan.job.runtime_bytes ? a : b;
    const uint64_t runtime = extra + other_one->plan.data_bytes + other_one->own_bytes;
    const uint64_t budget = a->plan.budget_bytes;
    int code = HRI_EXIT_YES;
    for (uint32_t i = 0; i < 2 && code == HRI_EXIT_YES; i++) {
        code = fit(&p->jobs[i]);
    }
    if (code != HRI_EXIT_YES) {
        return code;
    }
    /* First how each is cut, with the other's weights in the way; then exactly.  When one does not fit, the other is asked
     * all the same: the budget that is named must do for both. */
    uint64_t most = 0;
    for (uint32_t i = 0; i < 2 && code == HRI_EXIT_YES; i++) {
        const hri_fit_fact *other = &p->jobs[1 - i].plan.fit.facts[0];
        const uint64_t taken = other->own_bytes + (runtime - p->jobs[i].plan.job.runtime_bytes) +
                               records_of(&p->jobs[1 - i], other->runtime_bytes);
        p->taken_bytes[i] = taken;
        p->jobs[i].plan.budget_bytes = budget > taken ? budget - taken : 1;
        code = hri_train_job_plan(&p->jobs[i]);
        p->jobs[i].plan.budget_bytes = budget;
        if (code == HRI_EXIT_NO && p->jobs[i].plan.floor_bytes) {
            const uint64_t least = p->jobs[i].row.peak_bytes + taken;
            *which = least > most ? i : *which;
            most = least > most ? least : most;
            code = HRI_EXIT_YES;
        } else if (code != HRI_EXIT_YES) {
            *which = i;
        } else {
            own[i] = p->jobs[i].plans.c->own_bytes;
            records[i] = records_of(&p->jobs[i], p->jobs[i].plans.c->runtime_bytes);
            alone[i] = p->jobs[i].row.peak_bytes;
        }
    }
    if (code != HRI_EXIT_YES || most) {
        return code != HRI_EXIT_YES ? code : HRI_EXIT_NO;
    }
    p->separate_bytes = alone[0] + alone[1];
    for (uint32_t i = 0; i < 2 && code == HRI_EXIT_YES; i++) {
        *which = i;
        p->jobs[i].plan.data_bytes = !p->jobs[i].plan.threads
                                         ? 0
                                         : p->jobs[0].train_bytes + p->jobs[0].val_bytes +
                                               p->jobs[1].train_bytes + p->jobs[1].val_bytes;
        code = plan_again(p, i, i == 0 ? 0 : own[0], i == 0 ? own[1] : 0, runtime + records[1 - i]);
    }
    if (code == HRI_EXIT_YES) {
        const uint64_t peaks[2] = {a->row.peak_bytes, b->row.peak_bytes};
        const uint64_t peak = peaks[0] > peaks[1] ? peaks[0] : peaks[1];
        p->left_bytes = budget > peak ? budget - peak : 0;
    }
    return code;
}

enum { PAGE_BYTES = 256 << 10 };

/* Two that do not fit together: what both need at least, and a budget that a plan was found for. */
static int refuse_two(hri_train_pair *p, uint32_t which) {
    const hri_train_job *j = &p->jobs[which];
    const uint64_t floor = j->plan.floor_bytes + p->taken_bytes[which];
    /* What each needs was found with an estimate of the other: a little more is sure to do. */
    const uint64_t found = j->row.peak_bytes + p->taken_bytes[which];
    const uint64_t least = (found + found / 10 + PAGE_BYTES) / PAGE_BYTES * PAGE_BYTES;
    const uint64_t budget = j->plan.budget_bytes;
    char texts[3][32], size[32];
    hri_text command = {0};
    hri_refuse(j->cli, "does_not_fit", "the minimum of both is %llu bytes, the budget %llu",
               (unsigned long long)floor, (unsigned long long)budget);
    if (j->flags.json) {
        hri_json json;
        hri_cli_json_start(&json);
        hri_json_bool(&json, "fits", false);
        hri_json_string(&json, "model", hr_model_text(j->plan.model));
        hri_json_u64(&json, "budget_bytes", budget);
        hri_json_u64(&json, "floor_bytes", floor);
        hri_json_u64(&json, "smallest_bytes", least);
        return hri_cli_json_end(j->cli, &json, HRI_EXIT_NO);
    }
    hri_say_title(j->cli, "does not fit: the floor of both is %s, and the budget %s",
                  hr_bytes_print(floor, texts[0], sizeof texts[0]),
                  hr_bytes_print(budget, texts[1], sizeof texts[1]));
    hri_out_printf(
        &j->cli->out,
        "the %s run needs %s in addition to parameters, optimizer state and input of the "
        "other one; %s is enough for both\n",
        j->name, hr_bytes_print(j->plan.floor_bytes, texts[0], sizeof texts[0]),
        hr_bytes_print(least, texts[2], sizeof texts[2]));
    snprintf(size, sizeof size, "%lluMiB", (unsigned long long)((least + (1 << 20) - 1) >> 20));
    const hri_change change = {"budget", size};
    if (hri_train_job_command(&p->jobs[0], &change, 1, &command) == HR_OK) {
        hri_say_next(j->cli, hri_text_get(&command));
    }
    hri_text_deinit(&command);
    return HRI_EXIT_NO;
}

int hri_train_pair_refuse(hri_train_pair *p, uint32_t which) {
    hri_train_job *j = &p->jobs[which];
    if (!j->plan.floor_bytes) { /* it came to no plan, and why was said */
        return HRI_EXIT_NO;
    }
    if (p->count > 1 && !p->slices[0]) {
        return refuse_two(p, which);
    }
    const hri_plan_sheet sheet = {.job = &j->plan, .answer = &j->answer, .speller = &j->speller};
    const int code = hri_cli_answer(j->cli, &sheet, j->flags.json);
    if (code == HRI_EXIT_NO && !j->flags.json) {
        hri_cli_next_way(j->cli, &sheet);
    }
    return code;
}

/* Each in its slice: the arena must fit there, and all of it the budget. */
static int plan_slices(hri_train_pair *p, uint32_t *which) {
    const uint64_t budget = p->jobs[0].plan.budget_bytes;
    uint64_t data = 0, sum = 0;
    int code = HRI_EXIT_YES;
    for (uint32_t i = 0; i < p->count; i++) {
        data += p->jobs[i].plan.data_bytes;
        sum += p->slices[i];
        p->jobs[i].plan.comfort_bytes = 0; /* a slice is no budget of the process */
    }
    for (uint32_t i = 0; i < p->count && code == HRI_EXIT_YES; i++) {
        hri_train_job *j = &p->jobs[i];
        j->plan.job.runtime_bytes += data - j->plan.data_bytes;
        j->plan.data_bytes = data;
        code = fit(j);
        if (code != HRI_EXIT_YES) {
            break;
        }
        const uint64_t runtime = j->plan.fit.facts[0].runtime_bytes;
        if (budget && runtime + sum > budget) {
            hri_say_error(
                p->jobs[0].cli,
                "--logical-devices: %llu bytes of slices and %llu of the process are more "
                "than the budget of %llu",
                (unsigned long long)sum, (unsigned long long)runtime, (unsigned long long)budget);
            return HRI_EXIT_USAGE;
        }
        p->left_bytes = budget ? budget - runtime - sum : 0;
        j->plan.budget_bytes = runtime + p->slices[i];
        *which = i;
        code = hri_train_job_plan(j);
        p->separate_bytes += j->row.peak_bytes;
    }
    return code;
}

static void show_pair(hri_train_pair *p) {
    hri_train_job *a = &p->jobs[0], *b = &p->jobs[1];
    const hri_train_job *larger = a->row.peak_bytes > b->row.peak_bytes ? a : b;
    char both[32], separate[32], weights[2][32], rest[32];
    a->row.peak_bytes = b->row.peak_bytes = larger->row.peak_bytes;
    if (a->flags.json) {
        return;
    }
    hri_out_printf(&a->cli->out,
                   "two trainings by turns: %s in one process (persistent %s and %s, one arena of "
                   "%s for the steps of both); two processes would take %s\n",
                   hr_bytes_print(larger->row.peak_bytes, both, sizeof both),
                   hr_bytes_print(a->plans.c->own_bytes, weights[0], sizeof weights[0]),
                   hr_bytes_print(b->plans.c->own_bytes, weights[1], sizeof weights[1]),
                   hr_bytes_print(larger->row.arena_bytes, rest, sizeof rest),
                   hr_bytes_print(p->separate_bytes, separate, sizeof separate));
}

/* What the plan leaves goes to the input pipelines; the process is one, so both count what both got. */
static void share_out(hri_train_pair *p) {
    uint64_t given = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        given += hri_train_job_share_out(&p->jobs[i], p->left_bytes - given);
    }
    for (uint32_t i = 0; i < p->count; i++) {
        hri_train_job_count_input(&p->jobs[i], given);
    }
}

static void mark_planned(hri_train_pair *p) {
    hri_startup *startup = &p->jobs[0].cli->startup;
    uint64_t kernels = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const hri_timing *timing = p->jobs[i].plan.engine ? p->jobs[i].plan.timing : NULL;
        kernels += timing ? hri_timing_trial_ns(timing) : 0;
    }
    hri_startup_mark(startup, "plan", kernels);
    hri_startup_add(startup, "kernels", kernels);
}

int hri_train_pair_plan(hri_train_pair *p, uint32_t *which) {
    int code;
    *which = 0;
    if (p->count > 1) {
        share_device(p);
    }
    if (p->slices[0]) {
        code = plan_slices(p, which);
    } else if (p->count == 1) {
        code = fit(&p->jobs[0]);
        code = code == HRI_EXIT_YES ? hri_train_job_plan(&p->jobs[0]) : code;
        const uint64_t budget = p->jobs[0].plan.budget_bytes, peak = p->jobs[0].row.peak_bytes;
        p->left_bytes = budget > peak ? budget - peak : 0;
    } else {
        code = plan_two(p, which);
    }
    if (p->jobs[0].cli->waiting) {
        hri_waiting_stop(p->jobs[0].cli->waiting); /* the answer comes */
    }
    if (code == HRI_EXIT_YES) {
        share_out(p);
        mark_planned(p);
    }
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < p->count && code == HRI_EXIT_YES && status == HR_OK; i++) {
        hri_train_show_init(&p->shows[i], &p->jobs[i], p->count > 1);
        status = hri_train_show_plan(&p->shows[i]);
    }
    if (status != HR_OK) {
        return hri_cli_failed(p->jobs[0].cli, NULL, "train", status);
    }
    if (code == HRI_EXIT_YES && p->count > 1 && !p->slices[0]) {
        show_pair(p);
    }
    if (code == HRI_EXIT_YES) {
        hri_out_flush(&p->jobs[0].cli->out);
    }
    return code;
}

/* ---- starting ---- */

static hr_status open_runner(hri_train_pair *p, hri_prose *why) {
    const hri_train_job *a = &p->jobs[0];
    hri_runner_options o = {.device = a->plan.device,
                            .threads = a->plan.threads,
                            .engine = a->plan.job.engine,
                            .grow = a->flags.memory_growth,
                            .runtime_bytes = a->row.runtime_bytes};
    for (uint32_t i = 0; i < p->count; i++) {
        hri_runner_options one = {0};
        hri_fit_runner(&p->jobs[i].plans, &one);
        for (uint32_t k = 0; k < one.count; k++) {
            one.pieces[k].seed = (uint64_t)p->jobs[i].flags.seed;
            o.pieces[o.count++] = one.pieces[k];
        }
    }
    return hri_runner_open(&o, &p->runner, why);
}

static hr_status open_planned(hri_train_pair *p, hri_prose *why) {
    static const char *const names[] = {"slice 0", "slice 1"};
    hr_status status = p->count > 1 && !p->slices[0] ? open_runner(p, why) : HR_OK;
    uint32_t first = 0;
    for (uint32_t i = 0; i < p->count && status == HR_OK; i++) {
        hri_train_job *j = &p->jobs[i];
        const hri_planned_options o = {.device = j->plan.device,
                                       .plans = &j->plans,
                                       .runner = p->runner,
                                       .first_piece = p->runner ? first : 0,
                                       .name = p->slices[i] ? names[i] : NULL,
                                       .limit_bytes = p->slices[i],
                                       .grow = p->jobs[0].flags.memory_growth,
                                       .job = &j->plan.job,
                                       .threads = j->plan.threads,
                                       .seed = (uint64_t)j->flags.seed,
                                       .feed = hri_feeds_feed,
                                       .feed_user = &j->feeds,
                                       .log = j->trainer_options.log,
                                       .log_user = j->trainer_options.log_user};
        first += j->plans.c->count;
        status = hri_planned_open(&o, &j->planned, why);
    }
    return status;
}

/* The last look before memory is taken: a plan that would break the promise does not run. */
static int check_promise(const hri_train_pair *p) {
    const hri_train_job *j = &p->jobs[0];
    hri_measured m;
    uint64_t now;
    hri_planned_measure(j->planned, &m);
    if (j->plan.engine) {
        hri_engine_scratch_drop(j->plan.engine);
        now = hri_engine_runtime(j->plan.engine);
    } else {
        hri_resident_read(&now, NULL);
    }
    uint64_t needed = now + m.planned_bytes + j->plan.data_bytes;
    if (!p->runner && p->count > 1) {
        hri_planned_measure(p->jobs[1].planned, &m);
        needed += m.planned_bytes;
    }
    if (j->plan.budget_bytes && !p->slices[0] && needed > j->plan.budget_bytes) {
        hri_say_error(p->jobs[0].cli,
                      "this process has %llu bytes before the arena of %llu and the input's %llu: "
                      "over the budget of %llu, so nothing was run",
                      (unsigned long long)now, (unsigned long long)m.planned_bytes,
                      (unsigned long long)j->plan.data_bytes,
                      (unsigned long long)j->plan.budget_bytes);
        return HRI_EXIT_FAULT;
    }
    return HRI_EXIT_YES;
}

/* Beside a GPU: what was taken of the host is inside its budget. */
static int check_host(const hri_train_job *j) {
    uint64_t now;
    hri_resident_read(&now, NULL);
    if (!j->plan.engine || !j->plan.host_budget_bytes || now <= j->plan.host_budget_bytes) {
        return HRI_EXIT_YES;
    }
    char has[32], budget[32];
    hri_say_error(j->cli,
                  "this process takes %s of the host, over the host budget of %s; nothing was run",
                  hr_bytes_print(now, has, sizeof has),
                  hr_bytes_print(j->plan.host_budget_bytes, budget, sizeof budget));
    return HRI_EXIT_FAULT;
}

/* A budget may be larger than the machine; a plan that runs may not. */
static int check_there(const hri_train_pair *p) {
    const hri_train_job *j = &p->jobs[0];
    const uint64_t there = hri_plan_job_there(&j->plan);
    uint64_t peak = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const uint64_t own = p->jobs[i].row.peak_bytes;
        peak = p->slices[0] ? peak + own : own > peak ? own : peak;
    }
    if (!j->plan.threads || peak / 4096 <= there / 4096) { /* limits are in whole pages */
        return HRI_EXIT_YES;
    }
    char takes[32], has[32];
    hri_say_error(j->cli,
                  "the plan for this budget takes %s, and this machine has %s left for it; "
                  "--budget %lluMiB asks for what is there",
                  hr_bytes_print(peak, takes, sizeof takes), hr_bytes_print(there, has, sizeof has),
                  (unsigned long long)(there >> 20));
    return HRI_EXIT_NO;
}

static void say_begin(const hri_train_job *j) {
    hri_out *out = &j->cli->out;
    if (j->flags.json) {
        return;
    }
    if (j->init.replaced) {
        hri_out_printf(out,
                       "%s: %zu weights loaded; %s has %lld classes there and %lld here, so the "
                       "classifier begins anew\n",
                       j->flags.init, j->init.loaded, j->init.head, (long long)j->init.file_classes,
                       (long long)j->want.classes);
    } else if (j->init.loaded) {
        hri_out_printf(out, "%s: %zu weights loaded\n", j->flags.init, j->init.loaded);
    }
    if (j->resumes) {
        const hri_progress_state *at = hri_trainer_progress(j->trainer);
        hri_out_printf(out, "goes on from step %llu, epoch %llu of %s\n",
                       (unsigned long long)at->state.step, (unsigned long long)at->epoch + 1,
                       j->folder);
    }
    hri_out_flush(out);
}

int hri_train_pair_start(hri_train_pair *p) {
    hri_prose why = {""};
    int code = check_there(p);
    if (code != HRI_EXIT_YES) {
        return code;
    }
    hr_status status = open_planned(p, &why);
    if (status != HR_OK) {
        return failed(p, status, &why);
    }
    for (uint32_t i = 0; i < p->count; i++) {
        hri_train_job_release(&p->jobs[i]);
    }
#ifdef __GLIBC__
    malloc_trim(0);
#endif
    code = check_promise(p);
    for (uint32_t i = 0; i < p->count && code == HRI_EXIT_YES; i++) {
        code = hri_train_job_open_input(&p->jobs[i]);
    }
    hri_startup *startup = &p->jobs[0].cli->startup;
    hri_startup_mark(startup, "input", 0);
    if (code == HRI_EXIT_YES) {
        status = hri_planned_take(p->jobs[0].planned, &why); /* of both, when they share it */
        if (status == HR_OK && p->count > 1 && !p->runner) {
            status = hri_planned_take(p->jobs[1].planned, &why);
        }
        code = status == HR_OK ? HRI_EXIT_YES : failed(p, status, &why);
    }
    if (code == HRI_EXIT_YES) {
        hri_measured m;
        hri_planned_measure(p->jobs[0].planned, &m);
        hri_startup_mark(startup, "start", m.memory_ns + m.prepare_ns + m.begin_ns);
        hri_startup_add(startup, "memory", m.memory_ns);
        hri_startup_add(startup, "graphs", m.prepare_ns);
        hri_startup_add(startup, "weights", m.begin_ns);
    }
    code = code == HRI_EXIT_YES ? check_host(&p->jobs[0]) : code;
    for (uint32_t i = 0; i < p->count && code == HRI_EXIT_YES; i++) {
        code = hri_train_job_start(&p->jobs[i]);
        if (code == HRI_EXIT_YES) {
            say_begin(&p->jobs[i]);
        }
    }
    return code;
}

void hri_train_pair_close(hri_train_pair *p) {
    if (p->count > 1 && p->jobs[1].plan.threads == p->jobs[0].plan.threads) {
        p->jobs[1].plan.threads = NULL; /* the first one's */
    }
    if (p->count > 1 && p->jobs[1].plan.engine == p->jobs[0].plan.engine) {
        p->jobs[1].plan.engine = NULL;
    }
    hri_train_job_close(&p->jobs[1]); /* before the device goes */
    hri_trainer_close(p->jobs[0].trainer);
    p->jobs[0].trainer = NULL;
    hri_planned_close(p->jobs[0].planned);
    p->jobs[0].planned = NULL;
    hri_runner_close(p->runner);
    hri_train_job_close(&p->jobs[0]);
    hri_options_deinit(&p->also);
    hri_free(p->also_text);
    hri_free(p->also_words);
}
