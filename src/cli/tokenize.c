/* headroom tokenize: text files to a file of tokens, and back. */
#include "cli/common/command.h"
#include "cli/common/outputs.h"
#include "cli/common/spell.h"
#include "job/tokenize.h"
#include "job/tokenizer_train.h"
#include "show/help_texts.h"

typedef struct tokenize_options {
    const char *tokenizer, *out;
    int64_t train;
    bool decode, json;
} tokenize_options;

#define AT(MEMBER) offsetof(tokenize_options, MEMBER)
static const hri_field fields[] = {
    {"out", "file to write", AT(out), HRI_FIELD_STRING, NULL, .metavar = "FILE"},
    {"tokenizer", "tokenizer.json, merges.txt, vocab.txt or a folder; default: tokens are bytes",
     AT(tokenizer), HRI_FIELD_STRING, NULL, .metavar = "FILE"},
    {"decode", "turn tokens back into text", AT(decode), HRI_FIELD_BOOL, .value = NULL},
    {"train", "make a tokenizer of this many tokens from the texts instead", AT(train),
     HRI_FIELD_INT, "0", .min = 0, .max = 1e7, .metavar = "SIZE"},
    {"json", "print one JSON object", AT(json), HRI_FIELD_BOOL, .value = NULL},
    {0},
};

static int train(hri_cli *cli, const tokenize_options *o, int count, const char *const *arguments) {
    const hri_tokenizer_train_options to = {.paths = arguments,
                                            .count = (size_t)count,
                                            .tokens = o->train,
                                            .out = o->out,
                                            .listener = {hri_cli_on_event, cli}};
    hri_tokenizer_trained r;
    hri_why why = {0};
    const hr_status status = hri_tokenizer_train(&to, &r, &why);
    if (status != HR_OK) {
        return hri_cli_why(cli, &why, status);
    }
    if (o->json) {
        hri_json j;
        hri_cli_json_start(&j);
        hri_json_u64(&j, "text_bytes", r.bytes);
        hri_json_u64(&j, "words", r.words);
        hri_json_u64(&j, "forgotten", r.forgotten);
        hri_json_i64(&j, "vocab", r.tokens);
        hri_json_double(&j, "seconds", r.seconds);
        return hri_cli_json_end(cli, &j, HRI_EXIT_YES);
    }
    hri_out_printf(&cli->out, "%llu bytes of text, %llu different words, %lld tokens, in %s\n",
                   (unsigned long long)r.bytes, (unsigned long long)r.words, (long long)r.tokens,
                   o->out);
    if (r.tokens < o->train) {
        hri_say_hint(cli, "a longer text: no more pairs were found");
    }
    return HRI_EXIT_YES;
}

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    const tokenize_options *o = options;
    const hri_tokenize_options to = {.paths = arguments,
                                     .count = (size_t)count,
                                     .tokenizer = o->tokenizer,
                                     .out = o->out,
                                     .decode = o->decode,
                                     .threads = (uint32_t)cli->settings->threads,
                                     .listener = {hri_cli_on_event, cli}};
    hri_tokenize_result r;
    hri_why why = {0};
    if (!o->out) {
        hri_say_error(cli, "tokenize: --out is required, for example --out tokens.bin");
        return HRI_EXIT_USAGE;
    }
    const int code = hri_cli_output_check(cli, "--out", o->out, HRI_OUTPUT_FILE);
    if (code != HRI_EXIT_YES || o->train) {
        return code == HRI_EXIT_YES ? train(cli, o, count, arguments) : code;
    }
    const hr_status status = hri_tokenize(&to, &r, &why);
    if (status != HR_OK) {
        return hri_cli_why(cli, &why, status);
    }
    if (o->json) {
        hri_json j;
        hri_cli_json_start(&j);
        hri_json_u64(&j, "text_bytes", r.bytes);
        hri_json_u64(&j, "tokens", r.tokens);
        hri_json_i64(&j, "vocab", r.vocab);
        hri_json_string(&j, "type", r.width == 2 ? "u16" : "u32");
        hri_json_u64(&j, "resumed_bytes", r.resumed_bytes);
        hri_json_double(&j, "seconds", r.seconds);
        return hri_cli_json_end(cli, &j, HRI_EXIT_YES);
    }
    if (r.resumed_bytes) {
        hri_out_printf(&cli->out, "resumed after %llu bytes\n",
                       (unsigned long long)r.resumed_bytes);
    }
    hri_out_printf(&cli->out, "%llu bytes of text, %llu tokens of %lld (%s), in %s\n",
                   (unsigned long long)r.bytes, (unsigned long long)r.tokens, (long long)r.vocab,
                   r.width == 2 ? "u16" : "u32", o->out);
    return HRI_EXIT_YES;
}

const hri_command hri_command_tokenize = {
    .name = "tokenize",
    .summary = "turn text files into a file of tokens, and back",
    .arguments = "PATH...",
    .choices = "",
    .arguments_min = 1,
    .arguments_max = HRI_ARGUMENTS_MAX,
    .help = hri_help_tokenize,
    .examples = {{"headroom tokenize book.txt --tokenizer gpt2/tokenizer.json --out book.bin",
                  "with the tokenizer of a Hugging Face model"},
                 {"headroom tokenize book.txt --train 8000 --out tokenizer.json",
                  "a tokenizer of your own"},
                 {"headroom tokenize book.bin --decode --tokenizer gpt2 --out book.txt",
                  "back to text"}},
    .fields = fields,
    .options_bytes = sizeof(tokenize_options),
    .run = run,
};
