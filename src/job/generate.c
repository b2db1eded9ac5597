/* A trained model that writes text; see headroom/generator.h. */
#include <headroom/generator.h>

#include <math.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/grow.h"
#include "data/tokenizer.h"
#include "device/device.h"
#include "job/trained.h"
#include "loop/generator.h"
#include "loop/sample.h"
#include "models/common/model.h"

struct hr_generator {
    hri_arena texts;
    hr_generate_options o; /* its texts are ours */
    hri_trained of;
    hri_tokenizer *tokenizer;
    hri_sampler *sampler;
    hri_generator *generator; /* NULL: it does not fit */
    hri_tokens prompt;
    int64_t context, vocab;
    hri_prose refusal;
};

/* ---- opening ---- */

static hr_status own_text(hri_arena *texts, const char **text) {
    *text = *text ? hri_arena_strdup(texts, *text) : NULL;
    return *text ? HR_OK : HR_E_NOMEM_HOST;
}

static hr_status check_options(hr_generator *g, hri_why *why) {
    hr_generate_options *o = &g->o;
    if (!o->checkpoint || !o->max_tokens) {
        return hri_why_option(why, HR_E_INVALID, o->checkpoint ? "max_tokens" : "checkpoint",
                              " is missing");
    }
    if (!(o->temperature >= 0) || isinf(o->temperature) || o->top_k < 0 || !(o->top_p >= 0) ||
        o->top_p > 1) {
        return hri_why_set(why, HR_CAUSE_USAGE, HR_E_INVALID,
                           "`temperature` and `top_k` must be 0 or more, and `top_p` from 0 to 1");
    }
    o->device = o->device ? o->device : "host";
    hr_status status = own_text(&g->texts, &o->checkpoint);
    status = status == HR_OK ? own_text(&g->texts, &o->device) : status;
    status = status == HR_OK && o->budget ? own_text(&g->texts, &o->budget) : status;
    status = status == HR_OK && o->model ? own_text(&g->texts, &o->model) : status;
    return status == HR_OK && o->tokenizer ? own_text(&g->texts, &o->tokenizer) : status;
}

/* Tokens in, a score for each token out. */
static hr_status check_model(hr_generator *g, hri_why *why) {
    const hri_model_input *want = &g->of.want;
    g->context = want->sample.shape.rank == 1 ? want->sample.shape.dim[0] : 0;
    g->vocab = want->classes;
    const hri_family *family = g->of.model->family;
    if ((family && family->both_ways) || want->sample.type != HR_TYPE_I32 || g->context < 1 ||
        g->vocab < 1 || want->other_count ||
        (want->label_name[0] && !hri_model_input_is_sequence(want))) {
        return hri_why_set(why, HR_CAUSE_USAGE, HR_E_INVALID,
                           "%s does not predict the next token, so it cannot write text",
                           g->of.checkpoint.about.model);
    }
    const int64_t known = hri_tokenizer_count(g->tokenizer);
    if (g->o.tokenizer && known > g->vocab) {
        return hri_why_option(why, HR_E_INVALID, "tokenizer",
                              ": %s has %lld tokens, but the model has %lld", g->o.tokenizer,
                              (long long)known, (long long)g->vocab);
    }
    return g->o.tokenizer || g->vocab == known
               ? HR_OK
               : hri_why_option(
                     why, HR_E_INVALID, "tokenizer",
                     " is missing: the model has %lld tokens, and text as bytes has %lld",
                     (long long)g->vocab, (long long)known);
}

static hr_status build_step(void *user, hr_graph *g, int64_t tokens) {
    return hri_model_build_decode(user, g, tokens);
}

static hr_status build_whole(void *user, hr_graph *g, int64_t tokens) {
    (void)tokens; /* its own */
    return hr_model_build(user, g, 1, 0);
}

/* What does not fit is an answer, not a failure. */
static hr_status open_generator(hr_generator *g, hri_why *why) {
    const int cached = !g->o.no_cache && hri_model_context(g->of.model) == g->context;
    const hri_generator_options options = {.device = g->of.device,
                                           .build = cached ? build_step : build_whole,
                                           .user = g->of.model,
                                           .cached = cached,
                                           .passes = &g->of.passes,
                                           .context = g->context,
                                           .vocab = g->vocab,
                                           .want = &g->of.want,
                                           .checkpoint = &g->of.checkpoint,
                                           .budget_bytes =
                                               g->o.ledger && !g->o.budget ? 0 : g->of.budget_bytes,
                                           .threads = (uint32_t)g->o.threads,
                                           .ledger = g->o.ledger,
                                           .wait_ms = g->o.wait_ms,
                                           .name = hr_model_name(g->of.model)};
    hri_prose prose = {0};
    const hr_status status = hri_generator_open(&options, &g->generator, &prose);
    if (status == HR_E_NO_PLAN) {
        g->refusal = prose;
        return HR_OK;
    }
    if (status != HR_OK) {
        return hri_why_prose(why, hri_cause_of_input(status), status, g->of.checkpoint.path,
                             &prose);
    }
    hr_run_report r = {.size = sizeof r};
    hri_generator_report(g->generator, &r);
    const hr_status reserved = hri_admission_resize(g->of.admission, r.peak_bytes, &prose);
    return reserved == HR_OK ? HR_OK : hri_why_prose(why, HR_CAUSE_NO_FIT, reserved, NULL, &prose);
}

static hr_status open_all(hr_generator *g, hr_ctx *ctx, hri_why *why) {
    const hr_generate_options *o = &g->o;
    hri_prose prose = {0};
    hr_status status = check_options(g, why);
    if (status == HR_OK) {
        status = hri_tokenizer_open(o->tokenizer, &g->tokenizer, &prose);
        status = status == HR_OK
                     ? HR_OK
                     : hri_why_prose(why, hri_cause_of_input(status), status, NULL, &prose);
    }
    const hri_trained_options of = {.checkpoint = o->checkpoint,
                                    .model = o->model,
                                    .device = o->device,
                                    .budget = o->budget,
                                    .ledger = o->ledger,
                                    .wait_ms = o->wait_ms};
    status = status == HR_OK ? hri_trained_open(&g->of, ctx, &of, why) : status;
    status = status == HR_OK ? check_model(g, why) : status;
    if (status == HR_OK) { /* before memory is measured */
        const hri_sampling how = {o->temperature, o->top_k, o->top_p, o->seed};
        status = hri_sampler_open(&how, g->vocab, &g->sampler);
    }
    return status == HR_OK ? open_generator(g, why) : status;
}

hr_status hr_generator_open(hr_ctx *ctx, const hr_generate_options *options, hr_generator **out,
                            hr_error *error) {
    hri_why why = {0};
    hr_generate_options own;
    hr_generator *g = NULL;
    hr_status status = hri_take(&own, sizeof own, options);
    if (status == HR_OK) {
        g = hri_calloc(1, sizeof *g);
        status = g ? HR_OK : HR_E_NOMEM_HOST;
    }
    if (status == HR_OK) {
        g->o = own;
        hri_trained_init(&g->of, (hri_listener){own.on_event, own.user});
        status = open_all(g, ctx, &why);
    }
    if (status == HR_OK) {
        *out = g;
        return HR_OK;
    }
    hri_why_give(&why, status, error);
    hr_generator_close(g);
    return status;
}

void hr_generator_close(hr_generator *g) {
    if (g) {
        hri_generator_close(g->generator);
        hri_sampler_close(g->sampler);
        hri_tokenizer_close(g->tokenizer);
        hri_trained_close(&g->of);
        hri_tokens_deinit(&g->prompt);
        hri_arena_deinit(&g->texts);
        hri_free(g);
    }
}

hr_status hr_generator_get_info(const hr_generator *g, hr_generate_info *out) {
    hr_run_report r = {.size = sizeof r};
    if (g->generator) {
        hri_generator_report(g->generator, &r);
    }
    const hr_generate_info info = {
        .size = sizeof info,
        .fits = g->generator != NULL,
        .context = g->context,
        .vocab = g->vocab,
        .budget_bytes = g->o.budget || !g->generator ? g->of.budget_bytes : 0,
        .peak_bytes = r.peak_bytes,
        .minimum_bytes = r.floor_bytes,
        .runtime_bytes = r.runtime_bytes,
        .persistent_bytes = r.persistent_bytes,
        .arena_bytes = r.arena_bytes,
        .cache_bytes = g->generator ? hri_generator_cache_bytes(g->generator) : 0,
        .model = g->of.checkpoint.about.model,
        .checkpoint = g->of.checkpoint.path,
        .device = g->o.device,
        .refusal = g->refusal.text};
    return hri_give(out, &info, sizeof info);
}

/* ---- writing ---- */

typedef struct writing {
    hr_token_fn *fn;
    void *user;
    hr_generate_result *r;
    hri_why *why;
} writing;

static hr_status failed(const writing *w, hr_status status, const hri_prose *prose) {
    return hri_why_prose(w->why, hri_cause_of(status), status, NULL, prose);
}

static hr_status read_prompt(hr_generator *g, const char *prompt, size_t bytes, const writing *w,
                             const float **scores) {
    hri_prose prose = {0};
    const uint64_t begin = hri_clock_ns();
    hri_tokens_clear(&g->prompt);
    hri_generator_clear(g->generator);
    hr_status status = hri_tokenizer_encode(g->tokenizer, bytes ? prompt : "\n", bytes ? bytes : 1,
                                            &g->prompt, &prose);
    if (status == HR_OK) {
        w->r->prompt_tokens = g->prompt.count;
        status = hri_generator_add(g->generator, g->prompt.items, g->prompt.count, scores, &prose);
    }
    w->r->prompt_seconds = (double)(hri_clock_ns() - begin) / 1e9;
    return status == HR_OK ? HR_OK : failed(w, status, &prose);
}

static hr_status write_token(hr_generator *g, const writing *w, const float **scores) {
    hri_prose prose = {0};
    size_t bytes = 0;
    const int32_t token = hri_sampler_pick(g->sampler, *scores, w->r->tokens);
    if (token < 0) {
        return hri_why_set(w->why, HR_CAUSE_DATA, HR_E_INVALID,
                           "%s: the scores of the next token are not numbers; the run may have "
                           "diverged",
                           g->of.checkpoint.path);
    }
    if (token == hri_tokenizer_end(g->tokenizer)) {
        w->r->ended = 1;
        return HR_OK;
    }
    const char *text = hri_tokenizer_text(g->tokenizer, token, &bytes);
    w->r->tokens++;
    hr_status status = w->fn(w->user, token, text ? text : "", bytes);
    if (status != HR_OK || w->r->tokens == g->o.max_tokens) {
        return status;
    }
    status = hri_generator_add(g->generator, &token, 1, scores, &prose);
    return status == HR_OK ? hri_listener_tick(&g->of.listener, "generation", w->r->tokens,
                                               g->o.max_tokens, w->why)
                           : failed(w, status, &prose);
}

static void finish(const hr_generator *g, uint64_t begun_ns, hr_generate_result *r) {
    hr_run_report report = {.size = sizeof report};
    hri_generator_report(g->generator, &report);
    r->seconds = (double)(hri_clock_ns() - begun_ns) / 1e9;
    r->tokens_per_second = (double)r->tokens / (r->seconds > 0 ? r->seconds : 1);
    r->measured_peak_bytes = report.resident_bytes;
    r->over_budget = g->o.budget && report.resident_bytes > g->of.budget_bytes &&
                     (hri_device_can(g->of.device) & HRI_CAN_POINT);
}

hr_status hr_generator_run(hr_generator *g, const char *prompt, size_t bytes, hr_token_fn *fn,
                           void *user, hr_generate_result *result, hr_error *error) {
    hri_why why = {0};
    hr_generate_result r = {.size = sizeof r};
    const writing w = {fn, user, &r, &why};
    const float *scores = NULL;
    hr_status status = g->generator ? read_prompt(g, prompt, bytes, &w, &scores)
                                    : hri_why_set(&why, HR_CAUSE_NO_FIT, HR_E_NO_PLAN,
                                                  "does not fit: %s", g->refusal.text);
    const uint64_t begin = hri_clock_ns();
    while (status == HR_OK && r.tokens < g->o.max_tokens && !r.ended) {
        status = write_token(g, &w, &scores);
    }
    if (g->generator) {
        finish(g, begin, &r);
    }
    const hr_status given = result ? hri_give(result, &r, sizeof r) : HR_OK;
    status = status == HR_OK ? given : status;
    if (status != HR_OK) {
        hri_why_give(&why, status, error);
    }
    return status;
}
