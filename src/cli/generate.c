/* headroom generate: text from a trained model, inside a budget, as it is written. */
#include <string.h>

#include "cli/common/command.h"
#include "cli/common/plan_flags.h"
#include "cli/common/spell.h"
#include "show/generate.h"
#include "show/infer.h"
#include "show/help_texts.h"

typedef struct generate_options {
    const char *prompt, *tokenizer, *budget, *device, *wait, *model, *weights;
    double temperature, top_p;
    int64_t top_k, seed, max;
    bool cache, json;
} generate_options;

#define AT(MEMBER) offsetof(generate_options, MEMBER)
static const hri_field fields[] = {
    {"prompt", "text to continue", AT(prompt), HRI_FIELD_STRING, "", .metavar = "TEXT"},
    {"max", "number of tokens to generate", AT(max), HRI_FIELD_INT, "200", .min = 1, .max = 1e12,
     .metavar = "N"},
    {"temperature", "randomness of the choice; 0: always the most likely token", AT(temperature),
     HRI_FIELD_DOUBLE, "0.8", .min = 0, .max = 1000, .metavar = "T"},
    {"top-k", "choose among the K most likely tokens; 0: among all", AT(top_k), HRI_FIELD_INT, "0",
     .min = 0, .max = 1e9, .metavar = "K"},
    {"top-p", "choose among the most likely tokens that make up P of the probability", AT(top_p),
     HRI_FIELD_DOUBLE, "1", .min = 0, .max = 1, .metavar = "P"},
    {"seed", "random seed of the choice", AT(seed), HRI_FIELD_INT, "0", .min = 0, .max = 1e15,
     .metavar = "N"},
    {"tokenizer", "tokenizer.json, merges.txt, vocab.txt or a folder; default: tokens are bytes",
     AT(tokenizer), HRI_FIELD_STRING, NULL, .metavar = "FILE"},
    {"model", "model that --weights belong to, instead of a checkpoint", AT(model),
     HRI_FIELD_STRING, NULL, .metavar = "MODEL"},
    {"weights", "plain parameters: safetensors, its index or .pth", AT(weights), HRI_FIELD_STRING,
     NULL, .metavar = "FILE"},
    {"cache", "keep keys and values of earlier tokens", AT(cache), HRI_FIELD_BOOL, "on"},
    {"budget", "memory limit, or a share of the device; default: all that is free", AT(budget),
     HRI_FIELD_SIZE, NULL, .metavar = "SIZE"},
    {"device", "host or cuda:0", AT(device), HRI_FIELD_STRING, "host", .metavar = "DEVICE"},
    {"wait", "on a GPU: how long to wait for the --budget when other programs hold it", AT(wait),
     HRI_FIELD_STRING, "0", .metavar = "TIME", .needs = "device=cuda*"},
    {"json", "print one JSON object", AT(json), HRI_FIELD_BOOL, .value = NULL},
    {0},
};

static int refuse(hri_cli *cli, const hr_generate_info *n, bool json) {
    hri_say_error(cli, "does not fit: %s", n->refusal);
    hri_say_hint(cli, "a larger --budget");
    if (!json) {
        return HRI_EXIT_NO;
    }
    hri_json j;
    hri_cli_json_start(&j);
    hri_infer_refusal_json(n->model, n->checkpoint, n->budget_bytes, n->refusal, 0, &j);
    return hri_cli_json_end(cli, &j, HRI_EXIT_NO);
}

static int write_text(hri_cli *cli, const generate_options *o, hr_generator *g,
                      const hr_generate_info *n) {
    hri_generate_stream s = {.out = &cli->out, .tty = cli->out_term.tty, .keep = o->json};
    hr_generate_result r = {.size = sizeof r};
    hr_error error = {0};
    char sum[256];
    if (!o->json) {
        (void)!hri_generate_token(&s, 0, o->prompt, strlen(o->prompt)); /* nothing is kept */
    }
    const hr_status status =
        hr_generator_run(g, o->prompt, strlen(o->prompt), hri_generate_token, &s, &r, &error);
    hri_generate_end(&s);
    int code = status == HR_OK ? HRI_EXIT_YES : hri_cli_error(cli, &error);
    if (r.over_budget) {
        hri_say_error(cli, "the process used more than the budget: this is a bug in Headroom");
        code = HRI_EXIT_FAULT;
    }
    if (o->json) {
        hri_json j;
        hri_cli_json_start(&j);
        hri_generate_json(&s, o->prompt, n, &r, &j);
        code = hri_cli_json_end(cli, &j, code);
    } else if (cli->err_term.tty || o->budget) {
        hri_generate_sum(n, &r, sum, sizeof sum);
        hri_say_note("%s", sum);
    }
    hri_generate_deinit(&s);
    return code;
}

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    const generate_options *o = options;
    hr_generate_options go = {.size = sizeof go,
                              .checkpoint = count ? arguments[0] : o->weights,
                              .model = count ? NULL : o->model,
                              .tokenizer = o->tokenizer,
                              .device = o->device,
                              .budget = o->budget,
                              .temperature = o->temperature,
                              .top_k = o->top_k,
                              .top_p = o->top_p,
                              .seed = (uint64_t)o->seed,
                              .max_tokens = (uint64_t)o->max,
                              .no_cache = !o->cache,
                              .on_event = hri_cli_on_event,
                              .user = cli};
    hr_ctx *ctx = NULL;
    hr_generator *g = NULL;
    hr_generate_info n = {.size = sizeof n};
    hr_error error = {0};
    if (count ? o->model || o->weights : !o->model || !o->weights) {
        hri_say_error(cli, "generate: give a CHECKPOINT, or --model MODEL with --weights FILE");
        return HRI_EXIT_USAGE;
    }
    go.threads = cli->settings->threads > 0 ? (uint64_t)cli->settings->threads : 0;
    int code = hri_plan_read_wait(cli, o->wait, &go.wait_ms);
    code = code == HRI_EXIT_YES ? hri_cli_open_for(cli, o->device, &ctx) : code;
    if (code == HRI_EXIT_YES && hr_generator_open(ctx, &go, &g, &error) != HR_OK) {
        code = hri_cli_error(cli, &error);
    }
    if (code == HRI_EXIT_YES && hr_generator_get_info(g, &n) == HR_OK) {
        code = n.fits ? write_text(cli, o, g, &n) : refuse(cli, &n, o->json);
    }
    hr_generator_close(g);
    hr_ctx_destroy(ctx);
    return code;
}

const hri_command hri_command_generate = {
    .name = "generate",
    .summary = "write text with a trained model",
    .arguments = "[CHECKPOINT]",
    .choices = "",
    .arguments_min = 0,
    .arguments_max = 1,
    .help = hri_help_generate,
    .examples = {{"headroom generate runs/book --prompt 'Once upon a time' --max 300",
                  "continue a sentence"},
                 {"headroom generate --model gpt2 --weights model.safetensors --tokenizer gpt2",
                  "with the parameters of a Hugging Face model"},
                 {"headroom generate runs/book --temperature 0 --budget 64MiB --json",
                  "the most likely text, within 64 MiB, for a script"}},
    .fields = fields,
    .options_bytes = sizeof(generate_options),
    .run = run,
};
