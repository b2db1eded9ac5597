/* Planning the steps of a text, and running them; see generator.h. */
#include "loop/generator.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "fit/run_int.h"
#include "graph/graph.h"

enum {
    TOKEN,
    CHUNK,
    GRAPHS
}; /* one token; a chunk of a prompt, where the context has room for one */

struct hri_generator {
    hr_run *run;
    hr_graph *graphs[GRAPHS];
    int cached;
    int64_t context, vocab;
    hri_model_input want;
    int32_t *tokens;  /* context: the text, as far as it is remembered */
    int32_t *numbers; /* context: positions of a step, or labels that do not count */
    float *mask;      /* (CHUNK, context) */
    float *scores;    /* vocab */
    int64_t used;     /* tokens of the text */
    int64_t done;     /* of them, those whose keys and values are in the cache */
};

/* ---- opening ---- */

static hr_status explain(hri_prose *why, hr_status status, const hr_error *error) {
    return hri_prose_set(why, status, "%s",
                         error->message[0] ? error->message : hr_status_text(status));
}

static hr_status build(const hri_generator_options *o, int64_t tokens, hr_graph **out,
                       hri_prose *why) {
    hr_graph *g;
    hr_error error = {0};
    hr_status status = hr_graph_create(&g);
    if (status != HR_OK) {
        return status;
    }
    status = o->build(o->user, g, tokens);
    if (status == HR_OK && o->passes) {
        status = hri_passes_apply(o->passes, 0, &g);
    }
    if (status == HR_OK) {
        status = hr_graph_freeze(g);
    }
    if (status != HR_OK) {
        hr_graph_error(g, &error);
        hr_graph_destroy(g);
        return explain(why, status, &error);
    }
    *out = g;
    return HR_OK;
}

static hr_status build_all(hri_generator *g, const hri_generator_options *o, hri_prose *why) {
    const int64_t one = o->cached ? 1 : o->context;
    hr_status status = build(o, one, &g->graphs[TOKEN], why);
    if (status == HR_OK && o->cached && o->context >= HRI_GENERATOR_CHUNK) {
        status = build(o, HRI_GENERATOR_CHUNK, &g->graphs[CHUNK], why);
    }
    if (status != HR_OK) {
        return status;
    }
    const hr_value logits = hr_graph_find(g->graphs[TOKEN], "logits");
    const hr_meta meta = logits == HR_NONE ? (hr_meta){0} : hr_graph_meta(g->graphs[TOKEN], logits);
    return logits != HR_NONE && meta.type == HR_TYPE_F32 &&
                   hr_shape_count(&meta.shape) == o->vocab * one
               ? HR_OK
               : hri_prose_set(
                     why, HR_E_UNSUPPORTED,
                     "%s has no row of %lld scores for each token, so it cannot write text",
                     o->name, (long long)o->vocab);
}

static hr_status make_room(hri_generator *g, hri_prose *why) {
    const size_t n = (size_t)g->context;
    g->tokens = hri_calloc(n, sizeof *g->tokens);
    g->numbers = hri_calloc(n, sizeof *g->numbers);
    g->mask = hri_calloc(n * (g->graphs[CHUNK] ? HRI_GENERATOR_CHUNK : 1), sizeof *g->mask);
    g->scores = hri_calloc((size_t)g->vocab, sizeof *g->scores);
    if (!g->tokens || !g->numbers || !g->mask || !g->scores) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for the text");
    }
    /* resident before the run measures what is */
    memset(g->mask, 1, n * (g->graphs[CHUNK] ? HRI_GENERATOR_CHUNK : 1) * sizeof *g->mask);
    memset(g->scores, 1, (size_t)g->vocab * sizeof *g->scores);
    return HR_OK;
}

static hr_status put(void *generator, hr_value v, uint64_t at, const void *from, uint64_t bytes) {
    return hri_exec_put(hri_run_exec(((hri_generator *)generator)->run, TOKEN), v, at, from, bytes);
}

static hr_status open_run(hri_generator *g, const hri_generator_options *o, hri_prose *why) {
    const hr_graph *graphs[] = {g->graphs[TOKEN], g->graphs[CHUNK]};
    hr_error error = {0};
    const hr_run_options options = {.size = sizeof options,
                                    .device = o->device,
                                    .graphs = graphs,
                                    .graph_count = g->graphs[CHUNK] ? 2 : 1,
                                    .budget_bytes = o->budget_bytes,
                                    .threads = o->threads,
                                    .budget = o->ledger,
                                    .wait_ms = o->wait_ms,
                                    .name = o->name};
    const hr_status status = hr_run_open(&options, &g->run, &error);
    return status == HR_OK ? HR_OK : explain(why, status, &error);
}

static hr_status open_all(hri_generator *g, const hri_generator_options *o, hri_prose *why) {
    g->cached = o->cached;
    g->context = o->context;
    g->vocab = o->vocab;
    g->want = *o->want;
    hr_status status = build_all(g, o, why);
    status = status == HR_OK ? make_room(g, why) : status;
    status = status == HR_OK ? open_run(g, o, why) : status;
    if (status == HR_OK) {
        const hri_values to = {.put = put, .user = g};
        status =
            hri_checkpoint_load(o->checkpoint, g->graphs[TOKEN], &to, HRI_CHECKPOINT_WEIGHTS, why);
    }
    return status;
}

hr_status hri_generator_open(const hri_generator_options *o, hri_generator **out, hri_prose *why) {
    hri_generator *g = hri_calloc(1, sizeof *g);
    if (!g) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for generation");
    }
    const hr_status status = open_all(g, o, why);
    if (status != HR_OK) {
        hri_generator_close(g);
        return status;
    }
    *out = g;
    return HR_OK;
}

void hri_generator_close(hri_generator *g) {
    if (g) {
        hr_run_close(g->run);
        hr_graph_destroy(g->graphs[TOKEN]);
        hr_graph_destroy(g->graphs[CHUNK]);
        hri_free(g->tokens);
        hri_free(g->numbers);
        hri_free(g->mask);
        hri_free(g->scores);
        hri_free(g);
    }
}

/* ---- running ---- */

void hri_generator_clear(hri_generator *g) {
    g->used = g->done = 0;
}

static hr_status run_failed(const hri_generator *g, hr_status status, hri_prose *why) {
    hr_error error = {0};
    hr_run_error(g->run, &error);
    return explain(why, status, &error);
}

/* Token i sees the keys up to its own. */
static void fill_step(hri_generator *g, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        g->numbers[i] = (int32_t)(g->done + i);
        for (int64_t k = 0; k < g->context; k++) {
            g->mask[i * g->context + k] = k <= g->done + i ? 0.0f : -INFINITY;
        }
    }
}

/* The next `count` tokens of the text, 1 or a chunk. */
static hr_status step_cached(hri_generator *g, int64_t count, hri_prose *why) {
    const size_t which = count == 1 ? TOKEN : CHUNK;
    const uint64_t n = (uint64_t)count * sizeof *g->tokens;
    fill_step(g, count);
    hr_status status = hr_run_put(g->run, which, "tokens", g->tokens + g->done, n);
    if (status == HR_OK) {
        status = hr_run_put(g->run, which, "positions", g->numbers, n);
    }
    if (status == HR_OK) {
        status = hr_run_put(g->run, which, "mask", g->mask,
                            (uint64_t)(count * g->context) * sizeof *g->mask);
    }
    if (status == HR_OK) {
        status = hr_run_step(g->run, which);
    }
    if (status == HR_OK && g->done + count == g->used) {
        status =
            hr_run_get(g->run, which, "logits", g->scores, (uint64_t)g->vocab * sizeof *g->scores);
    }
    if (status != HR_OK) {
        return run_failed(g, status, why);
    }
    g->done += count;
    return HR_OK;
}

/* The whole text; what stands behind its end is seen by nobody before. */
static hr_status step_whole(hri_generator *g, hri_prose *why) {
    const uint64_t n = (uint64_t)g->context * sizeof *g->tokens;
    const uint64_t row = (uint64_t)g->vocab * sizeof *g->scores;
    memset(g->tokens + g->used, 0, (size_t)(g->context - g->used) * sizeof *g->tokens);
    memset(g->numbers, 0, n);
    hr_status status = hr_run_put(g->run, TOKEN, g->want.name, g->tokens, n);
    if (status == HR_OK && g->want.label_name[0]) {
        status = hr_run_put(g->run, TOKEN, g->want.label_name, g->numbers, n);
    }
    if (status == HR_OK) {
        status = hr_run_step(g->run, TOKEN);
    }
    if (status == HR_OK) {
        status =
            hri_exec_get(hri_run_exec(g->run, TOKEN), hr_graph_find(g->graphs[TOKEN], "logits"),
                         (uint64_t)(g->used - 1) * row, g->scores, row);
    }
    g->done = status == HR_OK ? g->used : g->done;
    return status == HR_OK ? HR_OK : run_failed(g, status, why);
}

/* Everything that was added goes through. */
static hr_status catch_up(hri_generator *g, hri_prose *why) {
    hr_status status = g->cached ? HR_OK : step_whole(g, why);
    while (status == HR_OK && g->done < g->used) {
        const int chunk = g->graphs[CHUNK] && g->used - g->done >= HRI_GENERATOR_CHUNK;
        status = step_cached(g, chunk ? HRI_GENERATOR_CHUNK : 1, why);
    }
    return status;
}

hr_status hri_generator_add(hri_generator *g, const int32_t *tokens, size_t count,
                            const float **scores, hri_prose *why) {
    for (size_t i = 0; i < count; i++) {
        if (tokens[i] < 0 || tokens[i] >= g->vocab) {
            return hri_prose_set(why, HR_E_RANGE,
                                 "token %d is out of range: the model has %lld tokens (0-%lld)",
                                 tokens[i], (long long)g->vocab, (long long)g->vocab - 1);
        }
        if (g->used == g->context) { /* the later half stays */
            g->used = g->context / 2;
            g->done = 0;
            memmove(g->tokens, g->tokens + (g->context - g->used),
                    (size_t)g->used * sizeof *g->tokens);
        }
        g->tokens[g->used++] = tokens[i];
    }
    const hr_status status = count ? catch_up(g, why) : HR_E_INVALID;
    if (status == HR_OK) {
        *scores = g->scores;
    }
    return status;
}

uint64_t hri_generator_cache_bytes(const hri_generator *g) {
    uint64_t bytes = 0;
    for (hr_value v = 1; g->cached && v <= hr_graph_value_count(g->graphs[TOKEN]); v++) {
        if (hr_graph_kind(g->graphs[TOKEN], v) == HR_VALUE_STATE &&
            hri_keep_of(g->graphs[TOKEN], v) == HR_KEEP_NOT) {
            const hr_meta meta = hr_graph_meta(g->graphs[TOKEN], v);
            bytes += hr_meta_bytes(&meta);
        }
    }
    return bytes;
}

void hri_generator_report(const hri_generator *g, hr_run_report *out) {
    hr_run_get_report(g->run, out);
}
