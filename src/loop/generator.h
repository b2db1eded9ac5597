/* Scores of the next token of a text, inside a budget.
 *
 *   hri_generator_open(&options, &g, &why);                plans, takes the memory, loads the weights
 *   hri_generator_add(g, prompt, count, &scores, &why);    scores of the token behind them
 *   hri_generator_add(g, &token, 1, &scores, &why);        ... and so on
 *
 * With a cache of keys and values a step computes its own tokens alone; the cache is a part of the plan like every parameter.
 * A prompt goes through in chunks.  Without one (a model that has no such step) the whole text goes through each time: any model
 * of tokens whose scores depend on the tokens before them.
 *
 * A text longer than the context loses its first tokens: when it is full, the later half stays and goes through again.
 * Threads: one at a time. */
#ifndef HRI_LOOP_GENERATOR_H
#define HRI_LOOP_GENERATOR_H

#include <headroom/run.h>
#include "loop/source.h"
#include "passes/common/pass.h"
#include "weights/checkpoint.h"

enum { HRI_GENERATOR_CHUNK = 32 }; /* tokens of a prompt at once */

typedef struct hri_generator hri_generator;

typedef struct hri_generator_options {
    hr_device *device;
    /* Adds the graph of `tokens` tokens to g: a step with a cache, or (cached 0) the model for one sample. */
    hr_status (*build)(void *user, hr_graph *g, int64_t tokens);
    void *user;
    int cached;
    const hri_passes *passes;         /* over the model; NULL: none */
    int64_t context, vocab;           /* the most tokens of a text; how many there are */
    const hri_model_input *want;      /* the names of inputs, where there is no cache */
    const hri_checkpoint *checkpoint; /* may be closed after opening */
    uint64_t budget_bytes;            /* of everything; 0: as much as it takes */
    uint32_t threads;                 /* 0: one a core */
    struct hr_budget *ledger;         /* as in hri_predictor_options */
    uint64_t wait_ms;
    const char *name;
} hri_generator_options;

/* HR_E_NO_PLAN: it does not fit, with the floor and its op in the sentence; HR_E_UNSUPPORTED for a model without a row of scores
 * for each token; whatever loading a checkpoint gives. */
HR_MUST_CHECK hr_status hri_generator_open(const hri_generator_options *o, hri_generator **out,
                                           hri_prose *why);
/* NULL is allowed. */
void hri_generator_close(hri_generator *g);
/* The text begins anew. */
void hri_generator_clear(hri_generator *g);
/* Adds tokens (at least one); *scores (vocab), valid until the next call, are those of the token behind the last.  HR_E_RANGE
 * for a token that the model does not have. */
HR_MUST_CHECK hr_status hri_generator_add(hri_generator *g, const int32_t *tokens, size_t count,
                                          const float **scores, hri_prose *why);
/* Bytes of the cache, a part of the persistent ones. */
uint64_t hri_generator_cache_bytes(const hri_generator *g);
void hri_generator_report(const hri_generator *g, hr_run_report *out);

#endif
