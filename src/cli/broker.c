/* headroom broker: the process that `headroom run` starts by itself; one for each user. */
#include "broker/daemon.h"
#include "broker/wire.h"
#include "cli/common/command.h"
#include "govern/nvml.h"

typedef struct broker_options {
    int64_t linger;
    bool detach;
} broker_options;

static const hri_field fields[] = {
    {"linger", "milliseconds without jobs or connections until it exits",
     offsetof(broker_options, linger), HRI_FIELD_INT, "10000", .min = 0, .max = 1e9,
     .env = "HEADROOM_BROKER_LINGER_MS", .metavar = "MS"},
    {"detach", "return when it answers, and continue in the background",
     offsetof(broker_options, detach), HRI_FIELD_BOOL, .value = NULL},
    {0},
};

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    (void)count, (void)arguments;
    const broker_options *o = options;
    hri_nvml_observer *nvml = NULL;
    hri_prose why = {0};
    char folder[HRI_WIRE_PATH];
    int ready = -1, code = 0, lock = -1;
    if (o->detach && !hri_daemon_detach(&ready, &code)) {
        return code;
    }
    if (hri_wire_folder(folder, sizeof folder) != 0) {
        hri_say_error(cli, "the path of the runtime directory is too long for a socket");
        return HRI_EXIT_USAGE;
    }
    hr_status status = hri_daemon_lock(folder, &lock, &why);
    status = status == HR_OK ? hri_nvml_observer_open(&nvml, &why) : status;
    if (status == HR_OK) {
        const hri_observer observer = hri_nvml_observer_of(nvml);
        hri_observed devices[HRI_OBSERVED_DEVICES];
        status = observer.devices(observer.user, devices) > 0
                     ? hri_daemon_run(lock, folder, &observer, (uint64_t)o->linger, ready, &why)
                     : hri_prose_set(&why, HR_E_UNSUPPORTED, "no NVIDIA GPU was found");
    }
    hri_nvml_observer_close(nvml);
    if (status != HR_OK) {
        hri_say_error(cli, "%s", *why.text ? why.text : hr_status_text(status));
        return status == HR_E_UNSUPPORTED ? HRI_EXIT_USAGE
               : status == HR_E_EXISTS    ? HRI_EXIT_NO
                                          : HRI_EXIT_FAULT;
    }
    return HRI_EXIT_YES;
}

const hri_command hri_command_broker = {
    .name = "broker",
    .summary = "keep the memory ledger of your jobs; started automatically",
    .arguments = "",
    .choices = "",
    .help = "Listens in your runtime directory, keeps the ledger of your jobs on this machine's "
            "GPUs, and exits when there are none. You do not need to start it.",
    .examples = {{"headroom broker", "what headroom run starts"}},
    .fields = fields,
    .options_bytes = sizeof(broker_options),
    .hidden = 1,
    .run = run,
};
