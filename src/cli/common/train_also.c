/* The trainings of --also, and limits of logical devices; see train_run.h. */
#include <headroom/bytes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "cli/common/train_run.h"

static void warn_of_also(void *cli, const char *sentence) {
    hri_say_warning(cli, "--also: %s", sentence);
}

int hri_train_also_read(hri_cli *cli, const hri_train_flags *flags, const char **line,
                        hri_train_also *p) {
    char name[] = "train";
    hri_prose why = {""};
    hri_list rest = {0};
    const size_t bytes = strcspn(*line, "\n");
    p->text = hri_strdup(*line);
    p->words = hri_calloc(bytes / 2 + 3, sizeof *p->words);
    if (!p->text || !p->words) {
        return hri_cli_failed(cli, NULL, "--also", HR_E_NOMEM_HOST);
    }
    p->text[bytes] = '\0';
    *line += bytes + ((*line)[bytes] == '\n');
    p->words[0] = name;
    const int count = hri_text_cut(p->text, p->words + 1);
    if (count < 0) {
        hri_say_error(cli, "--also: a quote is not closed");
        return HRI_EXIT_USAGE;
    }
    hr_status status = hri_options_init(&p->options, hri_train_flag_fields, &p->flags, &why);
    if (status == HR_OK) {
        status = hri_options_set_argv(&p->options, count + 1, p->words, &rest, &why);
    }
    p->words[0] = NULL;
    if (status == HR_OK) {
        status = hri_train_keys_settle(&p->options, &why);
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
        const hri_field *field = hri_options_field(&p->options, *n);
        if (hri_options_origin(&p->options, field) != HRI_ORIGIN_DEFAULT) {
            hri_say_error(cli, "--also: --%s can only be given for the first run", *n);
            return HRI_EXIT_USAGE;
        }
    }
    hri_options_ignored(&p->options, warn_of_also, cli);
    p->flags.budget = flags->budget;
    p->flags.device = flags->device;
    p->flags.json = flags->json;
    p->flags.measure = flags->measure;
    p->flags.resume |= flags->resume;
    p->flags.overwrite |= flags->overwrite;
    if (flags->resume && flags->save && p->flags.save && (!flags->out || !p->flags.out)) {
        hri_say_error(cli, "--also with --resume: give --out for every run");
        return HRI_EXIT_USAGE;
    }
    p->model = rest.items[0];
    return HRI_EXIT_YES;
}

void hri_train_also_deinit(hri_train_also *p) {
    hri_options_deinit(&p->options);
    hri_free(p->text);
    hri_free(p->words);
}

int hri_train_slices_read(hri_cli *cli, const char *text, uint32_t wanted, uint64_t *out) {
    uint32_t count = 0;
    for (const char *at = text; *at;) {
        char size[64];
        uint64_t bytes = 0;
        const size_t n = strcspn(at, ",");
        snprintf(size, sizeof size, "%.*s", (int)(n < sizeof size ? n : sizeof size - 1), at);
        if (hr_bytes_parse(size, 0, &bytes) != HR_OK || !bytes) {
            hri_say_error(cli, "--logical-devices: \"%s\" is not an amount of memory", size);
            return HRI_EXIT_USAGE;
        }
        if (count < wanted) {
            out[count] = bytes;
        }
        count++;
        at += n + (at[n] == ',');
    }
    if (count != wanted) {
        hri_say_error(cli, "--logical-devices: %u sizes for %u runs", count, wanted);
        return HRI_EXIT_USAGE;
    }
    return HRI_EXIT_YES;
}
