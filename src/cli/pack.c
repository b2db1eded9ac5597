/* headroom pack: the packer alone, for its developers and for benchmarks. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/threads.h"
#include "cli/common/command.h"
#include "show/pack.h"
#include "show/help_texts.h"

typedef struct pack_options {
    bool json;
    uint64_t capacity;
    uint64_t align;
    int64_t effort;
} pack_options;

static const hri_field fields[] = {
    {"capacity", "capacity to fit into; without it, the lowest height found",
     offsetof(pack_options, capacity), HRI_FIELD_BYTES, .metavar = "SIZE"},
    {"align", "alignment of offsets", offsetof(pack_options, align), HRI_FIELD_BYTES, "1", .min = 1,
     .max = 1e12, .metavar = "SIZE"},
    {"effort", "search steps; 0: 20000, or 300000 for a capacity and up to 1000 buffers",
     offsetof(pack_options, effort), HRI_FIELD_INT, "0", .min = 0, .max = 1e9, .metavar = "N"},
    {"json", "print one JSON object instead of CSV", offsetof(pack_options, json), HRI_FIELD_BOOL,
     .value = NULL},
    {0},
};

enum { MOST_BYTES = 64 << 20, SEARCH_BYTES = 32 << 20 };

static int print_json(hri_cli *cli, const hri_pack_file *file, const uint64_t *offsets,
                      const hri_pack_result *r, int code) {
    hri_json json;
    hri_cli_json_start(&json);
    hri_json_bool(&json, "fits", code == HRI_EXIT_YES);
    hri_pack_json(file, offsets, r, &json);
    return hri_cli_json_end(cli, &json, code);
}

/* Packs, checks with code that the packer does not share, prints. */
static int pack(hri_cli *cli, const pack_options *o, const hri_pack_file *file) {
    uint64_t *offsets = hri_calloc(file->count, sizeof *offsets);
    if (!offsets) {
        return hri_cli_failed(cli, NULL, "the offsets", HR_E_NOMEM_HOST);
    }
    hri_threads *threads = NULL; /* without them it takes longer, and that is all */
    (void)!hri_threads_create(0, &threads);
    const uint64_t usual = o->capacity && file->count <= 1000 ? 300000 : 20000;
    const hri_pack_options options = {.align = o->align,
                                      .capacity = o->capacity,
                                      .effort = o->effort ? (uint64_t)o->effort : usual,
                                      .search_bytes = SEARCH_BYTES,
                                      .threads = threads};
    hri_pack_result result;
    size_t bad[2];
    int code;
    const hr_status status = hri_pack(file->buffers, file->count, &options, offsets, &result);
    hri_threads_destroy(threads);
    if (status != HR_OK) {
        code = hri_cli_failed(cli, NULL, "packing", status);
    } else if (!hri_pack_check(file->buffers, file->count, o->align, offsets, result.height, bad)) {
        code = hri_cli_failed(cli, NULL, "the check of the packing", HR_E_INTERNAL);
    } else {
        code = o->capacity && result.height > o->capacity ? HRI_EXIT_NO : HRI_EXIT_YES;
        hri_pack_show_summary(&result, stderr);
        if (code == HRI_EXIT_NO) {
            hri_refuse(cli, "does_not_fit", "the height of %llu is above the capacity of %llu",
                       (unsigned long long)result.height, (unsigned long long)o->capacity);
        }
        if (o->json) {
            code = print_json(cli, file, offsets, &result, code);
        } else {
            hri_pack_show_csv(file, offsets, &cli->out);
        }
    }
    hri_free(offsets);
    return code;
}

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    (void)count;
    char *text = NULL;
    size_t bytes;
    hri_prose why = {0};
    hri_pack_file file = {0};
    hr_status status = hri_file_read(arguments[0], MOST_BYTES, &text, &bytes, &why);
    if (status != HR_OK) {
        hri_say_error(cli, "%s", why.text);
        return hri_cli_exit_code_of_input(status);
    }
    status = hri_pack_file_parse(text, bytes, &file, &why);
    hri_free(text);
    if (status != HR_OK) {
        hri_say_error(cli, "%s: %s", arguments[0], why.text);
        return hri_cli_exit_code(status);
    }
    const int code = pack(cli, options, &file);
    hri_pack_file_deinit(&file);
    return code;
}

const hri_command hri_command_pack = {
    .name = "pack",
    .summary = "pack buffers with lifetimes into the smallest arena",
    .arguments = "FILE.csv",
    .choices = "",
    .arguments_min = 1,
    .arguments_max = 1,
    .help = hri_help_pack,
    .examples = {{"headroom pack buffers.csv", "the lowest packing found"},
                 {"headroom pack buffers.csv --capacity 1MiB", "does it fit? exit code 0 or 1"}},
    .fields = fields,
    .options_bytes = sizeof(pack_options),
    .run = run,
};
