/* A map from signatures to medians; see timing.h. */
#include "fit/timing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cache_dir.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/json_stream.h"
#include "base/map.h"
#include "graph/graph.h"
#include "run/drag.h"
#include "run/node_bytes.h"

/* Of the file: bytes, times that are kept, bytes of a key. */
enum { RUNS = 5, ALIGN = 64, CACHE_MOST = 4 << 20, ENTRIES = 8192, KEY = 1024 };
/* A kernel that takes longer than this is run once, and all of a run's measuring stops after that long. */
static const uint64_t long_ns = 50000000;
static const uint64_t all_ns = 20000000000;

struct hri_timing {
    hri_timing_options o;
    uint32_t threads; /* of the host when it was opened */
    char file[128];   /* in the folder; "": none is kept */
    hri_strmap seen;  /* key -> bits of the time */
    hri_strmap tried; /* GPU: by this process */
    uint64_t measured, spent_ns, trial_ns;
    uint64_t saved;           /* of `measured`: those that the file has */
    uint8_t machine_measured; /* something besides kernels, which the file has not */
    double log_sum;           /* of measured over analytic, logarithms */
    double pace;              /* of what is given */
};

static double as_double(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint64_t as_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* ---- the cache ---- */

/* Times out of the file as it is read: the object "times_ns", at most ENTRIES of it. */
static hr_status read_times(hri_timing *t, hri_json_stream *stream) {
    hri_json_token token;
    hr_status status = hri_json_stream_next(stream, &token, NULL);
    int inside = 0;
    while (status == HR_OK && token.kind != HRI_JSON_OVER) {
        status = hri_json_stream_next(stream, &token, NULL);
        if (status == HR_OK && token.depth == 1 && !inside) {
            inside = token.kind == HRI_JSON_OBJECT && !strcmp(token.key, "times_ns");
            status = inside ? HR_OK : hri_json_stream_skip(stream, &token, NULL);
        } else if (status == HR_OK && token.depth == 2 && inside &&
                   (token.kind == HRI_JSON_REAL || token.kind == HRI_JSON_INTEGER)) {
            if (token.real > 0 && hri_strmap_count(&t->seen) < ENTRIES) {
                status = hri_strmap_put(&t->seen, token.key, as_bits(token.real));
            }
        }
        inside =
            inside && !(status == HR_OK && token.kind == HRI_JSON_OBJECT_END && token.depth == 1);
    }
    return status;
}

/* A file that is too long, damaged or not this user's own is the same as none, from the place on where that shows. */
static void load(hri_timing *t) {
    hri_cache cache = {.fd = -1};
    hri_json_file file = {.fd = -1, .end = CACHE_MOST + 1};
    hri_json_stream *stream = NULL;
    const hri_json_stream_options o = {.read = hri_json_read_file,
                                       .user = &file,
                                       .max_bytes = CACHE_MOST,
                                       .max_depth = 3,
                                       .max_key = KEY};
    if (t->file[0] && hri_cache_open(t->o.folder, NULL, 0, &cache, NULL) == HR_OK &&
        hri_cache_open_file(&cache, t->file, &file.fd) == HR_OK &&
        hri_json_stream_open(&o, &stream, NULL) == HR_OK) {
        (void)!read_times(t, stream);
    }
    hri_json_stream_close(stream);
    if (file.fd >= 0) {
        close(file.fd);
    }
    hri_cache_close(&cache);
}

/* What another process has added meanwhile stays, and what both have measured is as the file has it. */
static void save(hri_timing *t) {
    hri_cache cache = {.fd = -1};
    hri_json json;
    const char *key;
    uint64_t bits;
    char *text;
    load(t);
    const size_t count = hri_strmap_count(&t->seen);
    size_t skipped = count > ENTRIES ? count - ENTRIES : 0; /* the oldest */
    hri_json_init(&json);
    hri_json_u64(&json, "version", 1);
    hri_json_object(&json, "times_ns");
    for (size_t at = 0; hri_strmap_next(&t->seen, &at, &key, &bits);) {
        if (skipped) {
            skipped--;
        } else {
            hri_json_double(&json, key, as_double(bits));
        }
    }
    hri_json_end(&json);
    if (hri_json_print(&json, 1, &text) == HR_OK) {
        if (hri_cache_open(t->o.folder, NULL, 1, &cache, NULL) == HR_OK) {
            (void)!hri_cache_write(&cache, t->file, text, strlen(text));
        }
        hri_free(text);
    }
    hri_cache_close(&cache);
    hri_json_deinit(&json);
}

/* The processor is part of the name: a cache in a shared home serves several machines. */
static uint64_t machine_hash(void) {
    char *text;
    size_t bytes;
    uint64_t hash = 0;
    if (hri_file_read("/proc/cpuinfo", 1 << 22, &text, &bytes, NULL) == HR_OK) {
        const char *model = strstr(text, "model name");
        model = model ? model : strstr(text, "CPU part");
        hash = model ? hri_hash_bytes(model, strcspn(model, "\n"), 0) : 0;
        hri_free(text);
    }
    return hash;
}

hr_status hri_timing_open(const hri_timing_options *options, hri_timing **out) {
    hri_timing *t = hri_calloc(1, sizeof *t);
    if (!t) {
        return HR_E_NOMEM_HOST;
    }
    t->o = *options;
    t->pace = 1;
    t->threads = hri_threads_count(options->threads);
    t->o.most_bytes = options->most_bytes ? options->most_bytes : UINT64_C(256) << 20;
    t->o.folder = NULL;
    if (options->folder && options->folder[0]) {
        if (options->engine) { /* as they are in a captured step */
            snprintf(t->file, sizeof t->file, "timings-%.32s-captured-6.json", options->device);
        } else {
            snprintf(t->file, sizeof t->file, "timings-%.32s-%u-%016llx.json", options->device,
                     hri_threads_count(options->threads), (unsigned long long)machine_hash());
        }
        for (char *c = t->file; *c; c++) {
            *c = *c == ' ' || *c == '/' || *c == ':' ? '-' : *c;
        }
        t->o.folder = hri_strdup(options->folder);
        if (!t->o.folder) {
            hri_free(t);
            return HR_E_NOMEM_HOST;
        }
    }
    load(t);
    *out = t;
    return HR_OK;
}

void hri_timing_share(hri_timing *t) {
    if (t->file[0] && (t->measured > t->saved || t->machine_measured)) {
        save(t);
        t->saved = t->measured;
        t->machine_measured = 0;
    } else {
        load(t);
    }
}

void hri_timing_close(hri_timing *t) {
    if (t) {
        if (t->measured > t->saved || t->machine_measured) {
            hri_timing_share(t);
        }
        hri_strmap_deinit(&t->seen);
        hri_strmap_deinit(&t->tried);
        hri_free((void *)(uintptr_t)t->o.folder);
        hri_free(t);
    }
}

/* ---- measuring ---- */

/* "conv2d/1 f32[8,32,32,64] f32[3,3,64,64] -> f32[8,32,32,64] stride=2"; 0 when it does not fit. */
static int make_key(const hri_sig *s, uint32_t variant, char *buf, size_t size) {
    char part[320];
    int used = snprintf(buf, size, "%s/%u", s->op->name, variant);
    for (uint32_t i = 0; i < s->in_count + s->out_count && used > 0 && (size_t)used < size; i++) {
        const hr_meta *meta = i < s->in_count ? &s->in[i] : &s->out[i - s->in_count];
        hr_meta_print(meta, part, sizeof part);
        used += snprintf(buf + used, size - (size_t)used, "%s%s", i == s->in_count ? " -> " : " ",
                         part);
    }
    if (used > 0 && (size_t)used < size && s->op->fields) {
        hri_attr_print(s->op, s->attr, part, sizeof part);
        used += snprintf(buf + used, size - (size_t)used, " %s", part);
    }
    return used > 0 && (size_t)used < size;
}

static uint64_t room(uint64_t bytes) {
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Small numbers that no kernel minds: reals near one, ids zero. */
static void fill(const hr_meta *meta, void *out) {
    const uint64_t bytes = hr_meta_bytes(meta);
    if (meta->type == HR_TYPE_F32) {
        float *x = out;
        for (uint64_t i = 0; i < bytes / sizeof *x; i++) {
            x[i] = 0.5f + (float)(i % 61) / 61.0f;
        }
    } else if (meta->type == HR_TYPE_BF16 || meta->type == HR_TYPE_F16) {
        uint16_t *x = out;
        for (uint64_t i = 0; i < bytes / sizeof *x; i++) {
            x[i] = meta->type == HR_TYPE_BF16 ? 0x3f80 : 0x3c00;
        }
    } else {
        memset(out, 0, bytes);
    }
}

static int by_value(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static const hri_kernel *kernel_of(const hri_timing *t, const hri_sig *s) {
    return hri_kernel_for(t->o.kernels ? t->o.kernels : &hri_kernels_host, s);
}

static uint64_t workspace_of(const hri_timing *t, const hri_sig *s, uint32_t variant) {
    const hri_kernel *kernel = kernel_of(t, s);
    return kernel ? hri_kernel_workspace(kernel, s, variant, hri_threads_count(t->o.threads)) : 0;
}

/* The median of a few runs in the memory at `at`; negative: the kernel refused. */
static double run(const hri_timing *t, const hri_sig *s, uint32_t variant, char *at) {
    const void *in[HRI_IN_MAX];
    void *out[HRI_OUT_MAX];
    uint64_t times[RUNS];
    size_t count = 0;
    for (uint32_t i = 0; i < s->in_count; i++) {
        in[i] = at;
        fill(&s->in[i], at);
        at += room(hr_meta_bytes(&s->in[i]));
    }
    for (uint32_t k = 0; k < s->out_count; k++) {
        if (s->op->updates[k]) { /* it is that input's memory */
            out[k] = (void *)(uintptr_t)in[s->op->updates[k] - 1];
            continue;
        }
        out[k] = at;
        at += room(hr_meta_bytes(&s->out[k]));
    }
    const hri_kernel *kernel = kernel_of(t, s);
    hri_run_fn *run_once = kernel ? hri_kernel_run(kernel, variant) : NULL;
    if (!run_once) {
        return -1;
    }
    const hri_call c = {.sig = s,
                        .in = in,
                        .out = out,
                        .workspace = workspace_of(t, s, variant) ? at : NULL,
                        .threads = t->o.threads,
                        .variant = variant};
    while (count < RUNS) {
        const uint64_t begin = hri_clock_ns();
        if (run_once(&c) != HR_OK) {
            return -1;
        }
        times[count++] = hri_clock_ns() - begin;
        if (times[count - 1] > long_ns) {
            break;
        }
    }
    qsort(times, count, sizeof times[0], by_value);
    return (double)times[count / 2];
}

static uint64_t begin_trial(const hri_timing *t) {
    if (t->o.before) {
        t->o.before(t->o.before_user);
    }
    return hri_clock_ns();
}

static double try_kernel(hri_timing *t, const hri_sig *s, uint32_t variant, int once) {
    const uint64_t begin = begin_trial(t);
    const double time = hri_trial_time(t->o.engine, s, variant, t->o.most_bytes, once);
    t->trial_ns += hri_clock_ns() - begin;
    return time;
}

static double measure(hri_timing *t, const hri_sig *s, uint32_t variant) {
    if (t->o.engine) {
        return try_kernel(t, s, variant, t->o.try_only);
    }
    uint64_t bytes = workspace_of(t, s, variant) + ALIGN;
    for (uint32_t i = 0; i < s->in_count; i++) {
        bytes += room(hr_meta_bytes(&s->in[i]));
    }
    for (uint32_t k = 0; k < s->out_count; k++) {
        bytes += room(hr_meta_bytes(&s->out[k]));
    }
    if (bytes > t->o.most_bytes || t->spent_ns > all_ns ||
        hri_threads_count(t->o.threads) != t->threads) { /* the file is of so many threads */
        return -1;
    }
    char *memory = hri_malloc(bytes + ALIGN);
    if (!memory) {
        return -1;
    }
    const uint64_t begin = hri_clock_ns();
    char *at = (char *)(((uintptr_t)memory + ALIGN - 1) / ALIGN * ALIGN);
    const double time = run(t, s, variant, at);
    hri_free(memory);
    t->spent_ns += hri_clock_ns() - begin;
    return time;
}

static double analytic(const hri_timing *t, const hri_sig *s) {
    const hri_cost cost = hri_op_cost(s);
    const double compute = cost.flops / t->o.flops_per_ns, memory = cost.bytes / t->o.bytes_per_ns;
    return (compute > memory ? compute : memory) + 1;
}

static double time_of(hri_timing *t, const hri_sig *sig, uint32_t variant) {
    char key[KEY];
    uint64_t bits;
    if (!make_key(sig, variant, key, sizeof key)) {
        return -1;
    }
    const int known = hri_strmap_get(&t->seen, key, &bits);
    const double before = known ? as_double(bits) : -1;
    const int tried = t->o.engine && hri_strmap_get(&t->tried, key, &bits);
    if (t->o.engine && !tried) {
        (void)!hri_strmap_put(&t->tried, key, 1);
        if (known) {
            (void)!(try_kernel(t, sig, variant, 1) < 0);
        }
    }
    if (known) {
        return before;
    }
    const double time = tried ? -1 : measure(t, sig, variant); /* it would not go better again */
    if (time <= 0) {
        return t->measured ? analytic(t, sig) * exp(t->log_sum / (double)t->measured) : -1;
    }
    t->measured++;
    t->log_sum += log(time / analytic(t, sig));
    (void)!hri_strmap_put(&t->seen, key, as_bits(time));
    return time;
}

double hri_timing_time(void *timing, const hri_sig *sig, uint32_t variant) {
    hri_timing *t = timing;
    return t->pace * time_of(t, sig, variant); /* negative stays so */
}

/* Which of all operands, in order, has the number of operand k of op i first: the same for all layers of a model. */
static uint64_t first_place(const hri_trial_op *ops, uint32_t i, uint32_t k) {
    uint64_t place = 0;
    for (uint32_t j = 0; j <= i; j++) {
        const uint32_t count = ops[j].sig->in_count + ops[j].sig->out_count;
        for (uint32_t m = 0; m < count; m++, place++) {
            if (hri_trial_number(&ops[j], m) == hri_trial_number(&ops[i], k)) {
                return place;
            }
        }
    }
    return place;
}

/* "together 148 adamw 0123456789abcdef"; 0 when some signature is too long. */
static int make_together_key(const hri_trial_op *ops, uint32_t count, char *buf, size_t size) {
    char part[KEY];
    hri_hasher h;
    hri_hasher_init(&h, 1);
    for (uint32_t i = 0; i < count; i++) {
        const hri_sig *s = ops[i].sig;
        if (!make_key(s, 0, part, sizeof part)) {
            return 0;
        }
        hri_hasher_add(&h, part, strlen(part) + 1);
        for (uint32_t k = 0; k < s->in_count + s->out_count; k++) {
            hri_hasher_add_u64(&h, first_place(ops, i, k));
        }
    }
    const char *last = ops[count - 1].sig->op->name;
    snprintf(buf, size, "together %u %s%s%s %016llx", count, ops[0].sig->op->name,
             count == 2 ? " + " : "", count == 2 ? last : "",
             (unsigned long long)hri_hasher_get(&h).lo);
    return 1;
}

static double time_together(hri_timing *t, const hri_trial_op *ops, uint32_t count) {
    char key[KEY];
    uint64_t bits;
    if (!t->o.engine || t->o.try_only || !make_together_key(ops, count, key, sizeof key)) {
        return -1;
    }
    const int known = hri_strmap_get(&t->seen, key, &bits);
    const double before = known ? as_double(bits) : -1;
    if (hri_strmap_get(&t->tried, key, &bits)) {
        return before; /* it would not go better again */
    }
    (void)!hri_strmap_put(&t->tried, key, 1);
    const uint64_t begin = begin_trial(t);
    const double time = hri_trial_together(t->o.engine, ops, count, t->o.most_bytes, known);
    t->trial_ns += hri_clock_ns() - begin;
    if (known || time <= 0) {
        return before;
    }
    t->machine_measured |= hri_strmap_put(&t->seen, key, as_bits(time)) == HR_OK;
    return time;
}

double hri_timing_together(void *timing, const hri_trial_op *ops, uint32_t count) {
    hri_timing *t = timing;
    return t->pace * time_together(t, ops, count);
}

double hri_timing_many(void *timing, const hri_trial_op *ops, uint32_t count, uint32_t *used) {
    const hri_timing *t = timing;
    *used = count;
    while (t->o.engine && !t->o.try_only && *used > 1 &&
           hri_trial_bytes(t->o.engine, ops, *used) > t->o.most_bytes) {
        *used /= 2;
    }
    return *used > 1 ? hri_timing_together(timing, ops, *used) : -1;
}

double hri_timing_copy_drag(hri_timing *t) {
    static const char key[] = "copy drag";
    uint64_t bits;
    hri_drag d;
    if (hri_strmap_get(&t->seen, key, &bits) && as_double(bits) <= 1) {
        return as_double(bits);
    }
    if (!t->o.engine || t->o.try_only || hri_drag_measure(t->o.engine, 0, &d) != HR_OK) {
        return HRI_ENGINE_COPY_DRAG;
    }
    const double share = hri_drag_share(&d);
    t->machine_measured |= hri_strmap_put(&t->seen, key, as_bits(share)) == HR_OK;
    return share;
}

double hri_timing_keep(hri_timing *t, const char *key, double measured) {
    uint64_t bits;
    if (!t->o.engine || t->o.try_only || !(measured > 0)) {
        return measured;
    }
    if (hri_strmap_get(&t->seen, key, &bits) && as_double(bits) > 0) {
        return as_double(bits);
    }
    t->machine_measured |= hri_strmap_put(&t->seen, key, as_bits(measured)) == HR_OK;
    return measured;
}

/* ---- pace ---- */

static const double least_pace = 0.8, most_pace = 1.25;

/* Of all its ops, in order; 0 when some signature is too long. */
static int make_pace_key(const hr_graph *g, char *buf, size_t size) {
    char part[KEY];
    hri_hasher h;
    hri_hasher_init(&h, 1);
    for (uint32_t n = 0; n < g->node_count; n++) {
        if (!g->nodes[n].live) {
            continue;
        }
        if (!make_key(&g->nodes[n].sig, 0, part, sizeof part)) {
            return 0;
        }
        hri_hasher_add(&h, part, strlen(part) + 1);
    }
    snprintf(buf, size, "pace %016llx", (unsigned long long)hri_hasher_get(&h).lo);
    return 1;
}

double hri_timing_take_pace(void *timing, const hr_graph *g) {
    hri_timing *t = timing;
    char key[32];
    uint64_t bits;
    const int known = t->o.engine && !t->o.try_only && make_pace_key(g, key, sizeof key) &&
                      hri_strmap_get(&t->seen, key, &bits);
    const double pace = known ? as_double(bits) : 1;
    t->pace = pace >= least_pace && pace <= most_pace ? pace : 1;
    return t->pace;
}

void hri_timing_pace_of(const hri_timing *t, const hr_graph *g, double predicted_ns,
                        hri_pace *out) {
    *out = (hri_pace){.predicted_ns = predicted_ns / t->pace};
    if (!t->o.engine || t->o.try_only || !t->file[0] ||
        !make_pace_key(g, out->key, sizeof out->key) ||
        snprintf(out->folder, sizeof out->folder, "%s", t->o.folder) >= (int)sizeof out->folder) {
        out->predicted_ns = 0;
    }
    snprintf(out->file, sizeof out->file, "%s", t->file);
}

void hri_pace_keep(const hri_pace *p, uint64_t step_ns) {
    const double pace = p->predicted_ns > 0 ? (double)step_ns / p->predicted_ns : 0;
    uint64_t bits;
    if (!(pace >= least_pace && pace <= most_pace)) {
        return;
    }
    hri_timing *t = hri_calloc(1, sizeof *t);
    if (!t) {
        return; /* the next training measures it */
    }
    t->o.folder = p->folder;
    snprintf(t->file, sizeof t->file, "%s", p->file);
    load(t);
    if (!hri_strmap_get(&t->seen, p->key, &bits) &&
        hri_strmap_put(&t->seen, p->key, as_bits(pace)) == HR_OK) {
        save(t);
    }
    hri_strmap_deinit(&t->seen);
    hri_free(t);
}

/* One more than it is: times that are not positive are not kept. */
void hri_timing_measure_graphs(hri_timing *t) {
    static const char key[] = "graph node bytes, and 1";
    uint64_t bits, bytes;
    if (!t->o.engine || t->o.try_only) {
        return;
    }
    if (hri_strmap_get(&t->seen, key, &bits) && as_double(bits) >= 1 && as_double(bits) < 1e9) {
        hri_engine_set_node_bytes(t->o.engine, (uint64_t)as_double(bits) - 1);
    } else if (hri_node_bytes_measure(t->o.engine, &bytes) == HR_OK) {
        hri_engine_set_node_bytes(t->o.engine, bytes);
        t->machine_measured |= hri_strmap_put(&t->seen, key, as_bits((double)bytes + 1)) == HR_OK;
    }
}

uint64_t hri_timing_trial_ns(const hri_timing *t) {
    return t->trial_ns;
}

void hri_timing_counts(const hri_timing *t, uint64_t *known, uint64_t *measured) {
    *known = hri_strmap_count(&t->seen);
    *measured = t->measured;
}
