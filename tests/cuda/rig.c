/* See rig.h. */
#include "rig.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void rig_isolate(void) {
    static int done;
    if (done) {
        return;
    }
    done = 1;
    /* A memfd has a path as long as this process lives, so nothing is left behind. */
    char path[64];
    const int fd = memfd_create("fakecuda-state", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), fd);
    CHECK(fd >= 0);
    setenv("FAKECUDA_STATE", path, 1);
}

void knob(const char *name, const char *value) {
    rig_isolate();
    setenv(name, value, 1);
}

const fake_driver *fake(void) {
    static fake_driver driver;
    rig_isolate();
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library && !driver.used_bytes) {
        *(void **)&driver.used_bytes = dlsym(library, "fakecuda_used_bytes");
        *(void **)&driver.peak_bytes = dlsym(library, "fakecuda_peak_bytes");
        *(void **)&driver.report = dlsym(library, "fakecuda_report");
        *(void **)&driver.calls = dlsym(library, "fakecuda_calls");
        *(void **)&driver.schedule = dlsym(library, "fakecuda_schedule");
    }
    return &driver;
}

int is_fake(void) {
    return fake()->used_bytes != NULL;
}

void need_fake(void) {
    if (!is_fake()) {
        test_skip("needs the fake driver (LD_LIBRARY_PATH=<build>/fakecuda)");
    }
}

typedef struct reason {
    char text[512];
} reason;

static void keep_reason(void *user, const char *component, hri_found found, const char *version,
                        const char *detail) {
    reason *r = user;
    (void)version;
    if (found != HRI_FOUND_OK && !r->text[0]) {
        snprintf(r->text, sizeof r->text, "%s: %s", component, detail);
    }
}

static void show_log(void *user, hr_log_level level, const char *line) {
    (void)user;
    (void)level;
    fprintf(stderr, "    log: %s\n", line);
}

void rig_open(rig *r, int index) {
    rig_isolate();
    memset(r, 0, sizeof *r);
    hri_log_init(&r->log, show_log, NULL, HR_LOG_WARN);
    CHECK_OK(cuda.probe(NULL, &r->log, &r->lib));
    if (r->lib->device_count <= index) {
        reason why = {""};
        cuda.report(r->lib, keep_reason, &why);
        test_skip("no device cuda:%d (%s)", index, why.text);
    }
    CHECK_OK(cuda.open(r->lib, index, &r->dev));
    r->source = &r->dev->source;
    r->page = r->source->page_bytes;
}

void rig_close(rig *r) {
    cuda.close(r->dev);
    cuda.unprobe(r->lib);
    hri_log_deinit(&r->log);
    if (is_fake()) {
        char text[256] = "";
        fake()->report(text, sizeof text);
        CHECK_STR(text, "");
    }
}

void rig_check_idle(rig *r) {
    hr_device_info info = {.size = sizeof info};
    CHECK_OK(cuda.info(r->dev, &info));
    if (is_fake()) {
        CHECK_EQ(info.process_bytes, info.runtime_bytes);
    } else if (info.process_bytes) {
        CHECK_LE(info.process_bytes, info.runtime_bytes + (8 << 20));
    }
}

void run_open(rig *r, size_t count, run *out) {
    CHECK(count <= sizeof out->pages / sizeof out->pages[0]);
    out->count = count;
    CHECK_OK(r->source->ops->reserve(r->source->self, count * r->page, &out->at));
    for (size_t i = 0; i < count; i++) {
        CHECK_OK(r->source->ops->create(r->source->self, &out->pages[i]));
    }
    CHECK_OK(r->source->ops->map(r->source->self, out->at, out->pages, count));
}

void run_close(rig *r, run *mem) {
    CHECK_OK(r->source->ops->unmap(r->source->self, mem->at, mem->count));
    for (size_t i = 0; i < mem->count; i++) {
        r->source->ops->destroy(r->source->self, mem->pages[i]);
    }
    r->source->ops->unreserve(r->source->self, mem->at, mem->count * r->page);
}

hr_addr host_addr(const void *memory) {
    return (hr_addr)(uintptr_t)memory;
}

static void move(rig *r, hr_addr to, hr_addr from, size_t bytes) {
    hri_dev_queue *queue;
    CHECK_OK(cuda.queue_open(r->dev, &queue));
    CHECK_OK(cuda.copy(queue, to, from, bytes));
    CHECK_OK(cuda.queue_sync(queue));
    cuda.queue_close(queue);
}

void put_bytes(rig *r, hr_addr to, const void *from, size_t bytes) {
    move(r, to, host_addr(from), bytes);
}

void get_bytes(rig *r, void *to, hr_addr from, size_t bytes) {
    move(r, host_addr(to), from, bytes);
}
