/* See story.h. */
#include "govern/story.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "broker/grants.h"
#include "broker/process.h"
#include "broker/wire.h"

enum { JOB_BYTES = 1 << 17 };

/* ---- files ---- */

/* A whole file of the folder; hri_free() it.  NULL: it is not there, or longer than `most`. */
static char *load(const char *folder, const char *name, size_t most, size_t *bytes) {
    char path[HRI_WIRE_PATH + 300];
    char *data = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return hri_file_read(path, most, &data, bytes, NULL) == HR_OK ? data : NULL;
}

static hri_page *load_page(const char *folder, const char *name) {
    size_t bytes = 0;
    hri_page *page = (hri_page *)(void *)load(folder, name, sizeof(hri_page), &bytes);
    if (page && !hri_page_check(page, bytes)) {
        hri_free(page);
        return NULL;
    }
    return page;
}

static hri_refusal *load_refusal(const char *folder, uint64_t job) {
    char name[64];
    size_t bytes = 0;
    snprintf(name, sizeof name, "refused-%llu", (unsigned long long)job);
    hri_refusal *r = (hri_refusal *)(void *)load(folder, name, sizeof(hri_refusal), &bytes);
    if (r && !hri_refusal_check(r, bytes)) {
        hri_free(r);
        return NULL;
    }
    return r;
}

/* "ended STATUS NANOSECONDS\n" or nothing, then the command. */
static void load_job(const char *folder, uint64_t job, hri_story *out) {
    char name[64];
    size_t bytes = 0;
    int status = 0, read = 0;
    unsigned long long ns = 0;
    snprintf(name, sizeof name, "job-%llu", (unsigned long long)job);
    char *text = load(folder, name, JOB_BYTES, &bytes);
    if (!text) {
        return;
    }
    if (sscanf(text, "ended %d %llu\n%n", &status, &ns, &read) == 2 && read) {
        out->ended = 1;
        out->status = status;
        out->ended_ns = ns;
    }
    hri_text_add(&out->command, "%s", text + read);
    hri_free(text);
}

static void write_job(const char *folder, uint64_t job, const char *head, char *const *argv) {
    char path[HRI_WIRE_PATH + 64];
    hri_text text = {0};
    hri_text_add(&text, "%s", head);
    for (size_t i = 0; argv[i]; i++) {
        hri_text_add(&text, "%s", i ? " " : "");
        hri_text_word(&text, argv[i]);
    }
    snprintf(path, sizeof path, "%s/job-%llu", folder, (unsigned long long)job);
    if (hri_text_status(&text) == HR_OK && strlen(hri_text_get(&text)) < JOB_BYTES) {
        (void)!hri_file_write(path, hri_text_get(&text), strlen(hri_text_get(&text)), NULL);
    }
    hri_text_deinit(&text);
}

void hri_story_begin(const char *folder, uint64_t job, char *const *argv) {
    write_job(folder, job, "", argv);
}

void hri_story_begin_self(const char *folder, uint64_t job) {
    size_t bytes = 0, count = 0;
    char *text = NULL;
    if (hri_file_read("/proc/self/cmdline", JOB_BYTES, &text, &bytes, NULL) != HR_OK) {
        return;
    }
    for (size_t i = 0; i < bytes; i++) {
        count += text[i] == '\0';
    }
    char **argv = hri_calloc(count + 2, sizeof *argv);
    count = 0;
    for (size_t i = 0; argv && i < bytes; i += strlen(text + i) + 1) {
        argv[count++] = text + i;
    }
    if (argv) {
        write_job(folder, job, "", argv);
    }
    hri_free(argv);
    hri_free(text);
}

void hri_story_end(const char *folder, uint64_t job, char *const *argv, int status) {
    char head[96];
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    snprintf(head, sizeof head, "ended %d %llu\n", status,
             (unsigned long long)t.tv_sec * 1000000000ull + (unsigned long long)t.tv_nsec);
    write_job(folder, job, head, argv);
}

/* ---- pages ---- */

uint64_t hri_story_moment(const hri_page *p) {
    return p->refusal_count ? p->refusal.event.at_ns : p->started_at;
}

/* Is `a` the better page to tell of: one with a refusal before one without, then the later one. */
static int better(const hri_page *a, const hri_page *b) {
    const int refused_a = a->refusal_count != 0, refused_b = b && b->refusal_count != 0;
    return !b || refused_a > refused_b ||
           (refused_a == refused_b && hri_story_moment(a) > hri_story_moment(b));
}

/* What a file says of its job: how late something happened that is worth telling. */
static uint64_t moment_of(const char *folder, const char *name, uint64_t *job) {
    unsigned long long number = 0, process = 0;
    uint64_t at = 0;
    if (sscanf(name, "page-%llu-%llu", &number, &process) == 2) {
        hri_page *page = load_page(folder, name);
        at = page ? (page->refusal_count ? hri_story_moment(page) : 1) : 0;
        hri_free(page);
    } else if (sscanf(name, "refused-%llu", &number) == 1) {
        hri_refusal *r = load_refusal(folder, number);
        at = r ? r->at_ns : 0;
        hri_free(r);
    } else if (sscanf(name, "ram-%llu", &number) == 1) {
        hri_ram_record r;
        at = hri_ram_record_load(folder, number, &r) && r.kills_count ? r.at_ns : 0;
    } else if (sscanf(name, "job-%llu", &number) == 1) {
        hri_story s = {0};
        load_job(folder, number, &s);
        at = s.ended && WIFSIGNALED(s.status) ? s.ended_ns : 0;
        hri_story_deinit(&s);
    }
    *job = number;
    return at;
}

static uint64_t latest_job(const char *folder) {
    DIR *dir = opendir(folder);
    uint64_t latest = 0, found = 0, job = 0;
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        const uint64_t at = moment_of(folder, entry->d_name, &job);
        if (at > latest || (at == latest && at && job > found)) {
            latest = at;
            found = job;
        }
    }
    if (dir) {
        closedir(dir);
    }
    return found;
}

hr_status hri_story_read(const char *folder, uint64_t job, hri_story *out) {
    hri_story s = {.job = job ? job : latest_job(folder)};
    DIR *dir = s.job ? opendir(folder) : NULL;
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        hri_page *page =
            strncmp(entry->d_name, "page-", 5) ? NULL : load_page(folder, entry->d_name);
        if (page && page->job == s.job && better(page, s.page)) {
            hri_free(s.page);
            s.page = page;
        } else {
            hri_free(page);
        }
    }
    if (dir) {
        closedir(dir);
    }
    if (s.job) {
        s.refusal = load_refusal(folder, s.job);
        load_job(folder, s.job, &s);
        (void)hri_ram_record_load(folder, s.job, &s.ram);
    }
    if (!s.page && !s.refusal && !s.ended) {
        hri_story_deinit(&s);
        return HR_E_NOT_FOUND;
    }
    *out = s;
    return HR_OK;
}

uint64_t hri_story_fitting(const hri_story *s) {
    const hri_refusal *r = s->refusal;
    if (!r) {
        return s->page ? s->page->refusal.free_bytes : 0;
    }
    uint64_t room = r->device.free_bytes;
    for (uint32_t i = 0; i < r->count; i++) {
        const hri_wire *row = &r->rows[i];
        if (row->job != s->job || !(row->flags & HRI_WIRE_ROW_JOB) ||
            (row->flags & HRI_WIRE_WAITING)) {
            continue;
        }
        hri_grants_job job = {.limit_bytes = {row->limit_bytes}};
        const uint64_t used = row->held_bytes + hri_grants_job_slack(&job, 0);
        const uint64_t left = row->limit_bytes > used ? row->limit_bytes - used : 0;
        room = !(row->flags & HRI_WIRE_OVERCOMMIT) || left < room ? left : room;
    }
    return room;
}

void hri_story_deinit(hri_story *s) {
    hri_free(s->page);
    hri_free(s->refusal);
    hri_text_deinit(&s->command);
    *s = (hri_story){0};
}

const char *hri_story_reason(const hri_page *p) {
    switch (p->refusal.event.kind) {
    case HRI_PAGE_REFUSE_LIMIT:
        return "it would have exceeded the job's budget";
    case HRI_PAGE_REFUSE_FULL:
        return "the GPU was full: other programs held the memory";
    case HRI_PAGE_REFUSE_AWAY:
        return "the broker was not running, and the memory it had granted was used up";
    case HRI_PAGE_REFUSE_DEADLOCK:
        return "every program that held memory was waiting for memory";
    case HRI_PAGE_REFUSE_DRIVER:
        return "the budget allowed it, but the driver refused";
    default:
        return "unknown";
    }
}

uint64_t hri_story_enough(const hri_page *p) {
    const hri_page_refusal *r = &p->refusal;
    const uint64_t held = r->event.held_bytes, part = (held + r->event.bytes) / 30;
    const uint64_t need = held + r->event.bytes + (part > (64 << 20) ? part : 64 << 20);
    return (need + (256 << 20) - 1) / (256 << 20) * (256 << 20);
}

int hri_story_alive(const hri_page *p) {
    return hri_process_started(p->pid) != 0;
}

void hri_story_forget(const char *folder, uint64_t job) {
    enum { KEPT = 32 };
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        unsigned long long of = 0;
        if ((sscanf(entry->d_name, "page-%llu-", &of) == 1 ||
             sscanf(entry->d_name, "refused-%llu", &of) == 1 ||
             sscanf(entry->d_name, "ram-%llu", &of) == 1 ||
             sscanf(entry->d_name, "job-%llu", &of) == 1) &&
            of + KEPT <= job) {
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
        }
    }
    if (dir) {
        closedir(dir);
    }
}
