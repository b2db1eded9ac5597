/* The program: finds the command, reads settings and options in one pass, runs it, and sees to it that the result
 * was delivered.
 *
 * The one idea: a command's own options and the settings of every command are joined into one table before parsing,
 * so that flags may stand before or behind the command and an unknown one is compared with all that exist. */
#include "cli/common/program.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "cli/common/cli.h"
#include "cli/common/command.h"

/* What a parsed command line fills. */
typedef struct run_target {
    hri_settings settings;
    _Alignas(max_align_t) unsigned char options[HRI_OPTIONS_BYTES];
} run_target;

/* The row that `--name` means, when it wants the next word as its value. */
static int takes_next_word(const char *word) {
    if (strncmp(word, "--", 2) != 0 || strchr(word, '=')) {
        return 0;
    }
    for (const hri_field *f = hri_settings_fields; f->name; f++) {
        if (!strcmp(f->name, word + 2) || (f->alias && !strcmp(f->alias, word + 2))) {
            return f->type != HRI_FIELD_BOOL;
        }
    }
    return 0;
}

/* The index of the command's name in argv; argc when there is none. */
static int find_command_word(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--")) {
            return argc;
        }
        if (argv[i][0] != '-') {
            return i;
        }
        i += takes_next_word(argv[i]);
    }
    return argc;
}

static int has_row(const hri_field *fields, const char *name) {
    for (; fields && fields->name; fields++) {
        if (!strcmp(fields->name, name)) {
            return 1;
        }
    }
    return 0;
}

/* Settings first, then the command's own rows moved behind them.  An alias of a setting that the command uses for
 * something of its own (train --log FILE) is the command's.  NULL: no memory. */
static hri_field *join_fields(const hri_command *command) {
    const hri_field *own = command ? command->fields : NULL;
    const size_t shared = hri_fields_count(hri_settings_fields);
    const size_t extra = own ? hri_fields_count(own) : 0;
    hri_field *fields = hri_calloc(shared + extra + 1, sizeof *fields);
    if (!fields) {
        return NULL;
    }
    size_t kept = 0;
    for (size_t i = 0; i < shared; i++) {
        if (has_row(own, hri_settings_fields[i].name)) {
            continue;
        }
        fields[kept] = hri_settings_fields[i];
        if (fields[kept].alias && has_row(own, fields[kept].alias)) {
            fields[kept].alias = NULL;
        }
        kept++;
    }
    for (size_t i = 0; i < extra; i++) {
        fields[kept + i] = own[i];
        fields[kept + i].offset += offsetof(run_target, options);
        const bool reads = command->reads && !strcmp(command->reads, own[i].name);
        fields[kept + i].needs = reads ? NULL : own[i].needs;
    }
    return fields;
}

/* Wrong numbers of arguments are found here, so that no command has to. */
static int check_arguments(hri_cli *cli, const hri_command *command, const hri_list *rest) {
    if (rest->count > (size_t)command->arguments_max) {
        hri_say_error(cli, "%s: unexpected argument \"%s\"", command->name,
                      rest->items[command->arguments_max]);
    } else if (rest->count < (size_t)command->arguments_min) {
        hri_say_error(cli, "%s: %s is missing", command->name, command->arguments);
    } else {
        return HRI_EXIT_YES;
    }
    hri_say_hint(cli, "headroom %s --help", command->name);
    return HRI_EXIT_USAGE;
}

static int run_parsed(hri_cli *cli, const hri_command *command, const run_target *target,
                      const hri_list *rest) {
    if (target->settings.help) {
        if (command) {
            hri_help_command(&hri_program_manual, command, &cli->out, &cli->out_term);
        } else {
            hri_help_program(&hri_program_manual, &cli->out, &cli->out_term);
        }
        return HRI_EXIT_YES;
    }
    if (target->settings.version) {
        hri_out_printf(&cli->out, "headroom %s\n", hr_version());
        return HRI_EXIT_YES;
    }
    if (!command) {
        hri_out words;
        hri_out_init(&words, STDERR_FILENO);
        hri_help_short(&hri_program_manual, &words, &cli->err_term);
        hri_out_flush(&words);
        return HRI_EXIT_USAGE;
    }
    const int code = check_arguments(cli, command, rest);
    return code != HRI_EXIT_YES ? code
                                : command->run(cli, target->options, (int)rest->count, rest->items);
}

static void warn(void *cli, const char *sentence) {
    hri_say_warning(cli, "%s", sentence);
}

static int parse_and_run(hri_cli *cli, const hri_command *command, int argc, char **argv) {
    run_target target = {0};
    hri_options options = {0};
    hri_prose why = {0};
    hri_list rest = {0};
    hri_field *fields = join_fields(command);
    int code = HRI_EXIT_FAULT;
    if (!fields) {
        hri_say_error(cli, "%s", hr_status_text(HR_E_NOMEM_HOST));
        return code;
    }
    hr_status status = hri_options_init(&options, fields, &target, &why);
    if (status == HR_OK) {
        (void)hri_settings_set_env(&options, &cli->problem); /* whoever needs them reports it */
        status = hri_options_set_argv(&options, argc, argv, &rest, &why);
    }
    if (status == HR_OK && command && command->settle) {
        status = command->settle(&options, &why);
    }
    const hri_color_mode mode = (hri_color_mode)target.settings.color;
    hri_term_init(&cli->out_term, cli->out.fd, mode);
    hri_term_init(&cli->err_term, STDERR_FILENO, mode);
    cli->settings = &target.settings;
    cli->options = &options;
    if (status == HR_OK) {
        if (!target.settings.help && !target.settings.version) {
            hri_options_ignored(&options, warn, cli);
        }
        code = run_parsed(cli, command, &target, &rest);
    } else {
        hri_say_error(cli, "%s", why.text[0] ? why.text : hr_status_text(status));
        hri_say_hint(cli, "headroom %s%s--help", command ? command->name : "", command ? " " : "");
        cli->kind = "usage";
        code = hri_cli_exit_code(status);
    }
    hri_options_deinit(&options);
    hri_free(fields);
    return code;
}

/* Was one object asked for?  Looked up before anything is parsed, because wrong flags are answered in it too. */
static bool wants_json(int argc, char **argv) {
    bool json = false;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        json = !strcmp(argv[i], "--json") || !strcmp(argv[i], "--json=true") ||
               (json && strcmp(argv[i], "--no-json") != 0);
    }
    return json;
}

static int find_and_run(hri_cli *cli, int argc, char **argv) {
    const int at = find_command_word(argc, argv);
    const hri_command *command = NULL;
    if (at < argc) {
        command = hri_command_find(argv[at]);
        if (!command) {
            return hri_command_unknown(cli, argv[at]);
        }
        memmove(argv + at, argv + at + 1, (size_t)(argc - at) * sizeof *argv); /* its NULL too */
        argc--;
    }
    return parse_and_run(cli, command, argc, argv);
}

int hri_program_run(int argc, char **argv, int out_fd) {
    hri_cli cli = {.json = wants_json(argc, argv)};
    hri_startup_begin(&cli.startup);
    hri_out_init(&cli.out, out_fd);
    int code = find_and_run(&cli, argc, argv);
    if (code != HRI_EXIT_YES && cli.json && !cli.answered) {
        code = hri_cli_json_failure(&cli, code);
    }
    code = hri_out_finish(&cli.out, code);
    hri_text_deinit(&cli.failure);
    hri_text_deinit(&cli.next);
    hri_text_deinit(&cli.warnings);
    return code;
}
