/* Prints what the CUDA back end finds: "count N", the lines of report(), and for each device its numbers, after it was
 * opened.  Arguments: "off" sets no_cuda.  Exit code 0 when probe succeeded. */
#include <stdio.h>
#include <string.h>
#include "device/backend.h"

extern const hri_backend hri_backend_cuda;

static void show_line(void *user, const char *component, hri_found found, const char *version,
                      const char *detail) {
    static const char *const words[] = {"ok", "missing", "broken"};
    (void)user;
    printf("%s | %s | %s | %s\n", component, words[found], version, detail);
}

static void show_log(void *user, hr_log_level level, const char *line) {
    (void)user;
    printf("log %d: %s\n", (int)level, line);
}

/* What may be switched off. */
static void show_features(hri_dev *dev) {
    void *pinned = NULL;
    hri_dev_event *event = NULL;
    uint64_t ns;
    char text[256] = "";
    hr_status status = hri_backend_cuda.pinned_create(dev, 4096, &pinned);
    hri_backend_cuda.detail(dev, text, sizeof text);
    printf("pinned: %s (%s)\n", hr_status_name(status), text);
    hri_backend_cuda.pinned_destroy(dev, pinned);
    if (hri_backend_cuda.event_open(dev, &event) == HR_OK) {
        status = hri_backend_cuda.event_elapsed(event, event, &ns);
        printf("elapsed: %s\n", hr_status_name(status));
        hri_backend_cuda.event_close(event);
    }
}

static void show_device(hri_lib *lib, int index) {
    hri_dev *dev;
    const hr_status status = hri_backend_cuda.open(lib, index, &dev);
    if (status != HR_OK) {
        printf("open %d: %s\n", index, hr_status_name(status));
        return;
    }
    hr_device_info info = {.size = sizeof info};
    if (hri_backend_cuda.info(dev, &info) == HR_OK) {
        printf("%s \"%s\" %u.%u total %llu free %llu page %llu runtime %llu process %llu\n",
               info.name, info.description, info.compute_major, info.compute_minor,
               (unsigned long long)info.total_bytes, (unsigned long long)info.free_bytes,
               (unsigned long long)info.page_bytes, (unsigned long long)info.runtime_bytes,
               (unsigned long long)info.process_bytes);
    }
    show_features(dev);
    hri_backend_cuda.close(dev);
}

int main(int argc, char **argv) {
    hr_ctx_options options = {.size = sizeof options};
    options.no_cuda = argc > 1 && strcmp(argv[1], "off") == 0;
    hri_log log;
    hri_log_init(&log, show_log, NULL, HR_LOG_DEBUG);
    hri_lib *lib;
    const hr_status status = hri_backend_cuda.probe(&options, &log, &lib);
    if (status != HR_OK) {
        printf("probe: %s\n", hr_status_name(status));
        return 1;
    }
    printf("count %d\n", lib->device_count);
    for (int i = 0; i < lib->device_count; i++) {
        show_device(lib, i);
    }
    hri_backend_cuda.report(lib, show_line, NULL);
    hri_backend_cuda.unprobe(lib);
    hri_log_deinit(&log);
    return 0;
}
