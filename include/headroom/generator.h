/* Writing text with a trained model, token by token, inside a budget.
 *
 *   hr_generate_options o = {.size = sizeof o, .checkpoint = "runs/book", .temperature = 0.8, .max_tokens = 200};
 *   hr_generator *g;
 *   hr_generator_open(ctx, &o, &g, &why);                 plans, takes the memory, loads the parameters
 *   hr_generator_run(g, "Once", 4, on_token, user, &result, &why);
 *   hr_generator_close(g);
 *
 * What does not fit can be opened but not run: hr_generate_info.fits is 0, and the refusal has the minimum and the op that
 * sets it.  Keys and values of the tokens so far are kept in a cache, which is part of the plan; a model without such a step (a
 * model file, a recurrent network) computes the whole text for each token.
 *
 * The text is a function of the model, the prompt and the options: the same seed gives the same text.  When a text is longer
 * than the model's context, its later half is kept and the rest is forgotten.
 *
 * Failures have a cause, as in job.h.  Threads: one at a time. */
#ifndef HEADROOM_GENERATOR_H
#define HEADROOM_GENERATOR_H

#include <headroom/job.h>

HR_BEGIN_DECLS

typedef struct hr_generator hr_generator;

/* Set size to sizeof(hr_generate_options).  Zero is the default in every field except checkpoint and max_tokens. */
typedef struct hr_generate_options {
    size_t size;
    const char *checkpoint; /* a file, or the folder of a run */
    const char
        *tokenizer; /* tokenizer.json, merges.txt, vocab.txt or a folder; NULL: tokens are bytes */
    const char *device; /* NULL: "host" */
    const char *budget; /* as in hr_job_options */
    hr_budget *ledger;
    uint64_t wait_ms;
    uint64_t threads;   /* 0: one per core */
    double temperature; /* 0: always the most likely token */
    int64_t top_k;      /* draw from the K most likely tokens; 0: from all */
    double top_p;  /* draw from the most likely tokens whose probabilities reach P; 0: from all */
    uint64_t seed; /* of the draws */
    uint64_t max_tokens; /* generated tokens */
    int32_t no_cache;    /* 1: compute the whole text for each token */
    int32_t reserved;
    hr_job_event_fn *on_event;
    void *user;
    const char *model; /* of plain parameters as the checkpoint, "gpt2"; NULL: it says so itself */
} hr_generate_options;

/* HR_OK whether it fits or not.  HR_E_NOT_FOUND, HR_E_FORMAT: checkpoint or tokenizer.  HR_E_INVALID: an option, or a model that
 * does not predict tokens.  HR_E_UNSUPPORTED: the device runs no kernels.  *why may be NULL.  The context must outlive it. */
HR_API HR_MUST_CHECK hr_status hr_generator_open(hr_ctx *ctx, const hr_generate_options *options,
                                                 hr_generator **out, hr_error *why);
/* NULL is allowed. */
HR_API void hr_generator_close(hr_generator *g);

/* Set size to sizeof(hr_generate_info). */
typedef struct hr_generate_info {
    size_t size;
    int64_t fits;          /* 0: all bytes below are 0, and nothing can be run */
    int64_t context;       /* the most tokens that the model sees */
    int64_t vocab;         /* tokens there are */
    uint64_t budget_bytes; /* 0: none was given */
    uint64_t peak_bytes, minimum_bytes, runtime_bytes, persistent_bytes, arena_bytes;
    uint64_t cache_bytes; /* keys and values, part of persistent_bytes; 0: there is no cache */
    const char *model, *checkpoint, *device; /* valid as long as the generator */
    const char *refusal;                     /* one sentence if it does not fit, else "" */
} hr_generate_info;

HR_API HR_MUST_CHECK hr_status hr_generator_get_info(const hr_generator *g, hr_generate_info *out);

/* One generated token with its bytes, which may be part of a character; valid until the callback returns, whose return value
 * works as in event.h. */
typedef hr_status hr_token_fn(void *user, int32_t token, const char *text, size_t bytes);

/* Set size to sizeof(hr_generate_result). */
typedef struct hr_generate_result {
    size_t size;
    uint64_t prompt_tokens, tokens;
    int64_t ended;                  /* 1: by the tokenizer's end of text, before max_tokens */
    double prompt_seconds, seconds; /* of the prompt; of the generated tokens */
    double tokens_per_second;
    uint64_t measured_peak_bytes;
    int64_t over_budget; /* 1: measured above the budget, which is a bug in Headroom */
} hr_generate_result;

/* Continues `prompt`; every call begins a new text.  An empty prompt begins with a newline.  HR_E_NO_PLAN: does not fit.  After a
 * failure *result (may be NULL) covers the tokens before it. */
HR_API HR_MUST_CHECK hr_status hr_generator_run(hr_generator *g, const char *prompt, size_t bytes,
                                                hr_token_fn *fn, void *user,
                                                hr_generate_result *result, hr_error *why);

HR_END_DECLS
#endif
