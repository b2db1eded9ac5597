/* The choices that are known: a map in memory, a file of lines in the cache folder; see gpu_tune.h.
 *
 * A file that the user names has the same lines, and comes before the cache and the rule.  What was used is noted, and
 * its digest stands for what the run computes: two machines with the same digest give the same bits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/cache_dir.h"
#include "base/file.h"
#include "device/cuda/gpu_tune.h"

enum { CHOICES_BYTES = 8 << 20, DIGITS = 32, TAG = 256 };
#define HEAD    "# headroom choices 2"
#define BY_TIME "fastest "

typedef struct choice {
    hri_hash128 digest; /* of the bits that it gives; 0: untried */
    uint8_t used, untried;
    char tag[]; /* NUL behind it */
} choice;

typedef struct choices {
    hri_strmap all; /* key -> choice * */
} choices;

static choice *find(const choices *c, const char *key) {
    uint64_t at = 0;
    return hri_strmap_get(&c->all, key, &at) ? (choice *)(uintptr_t)at : NULL;
}

static void keep(choices *c, const char *key, const char *tag, hri_hash128 digest) {
    choice *old = find(c, key);
    choice *made = hri_calloc(1, sizeof *made + strlen(tag) + 1);
    if (!made) {
        return;
    }
    made->digest = digest;
    made->used = old && old->used;
    memcpy(made->tag, tag, strlen(tag) + 1);
    if (hri_strmap_put(&c->all, key, (uint64_t)(uintptr_t)made) != HR_OK) {
        hri_free(made);
        return;
    }
    hri_free(old);
}

static void close_choices(void *part) {
    choices *c = part;
    uint64_t at_choice;
    for (size_t at = 0; hri_strmap_next(&c->all, &at, NULL, &at_choice);) {
        hri_free((void *)(uintptr_t)at_choice);
    }
    hri_strmap_deinit(&c->all);
    hri_free(c);
}

/* ---- lines ---- */

static int digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int read_digest(const char *text, hri_hash128 *out) {
    uint64_t word[2] = {0};
    for (int i = 0; i < DIGITS; i++) {
        const int d = digit(text[i]);
        if (d < 0) {
            return 0;
        }
        word[i / 16] = word[i / 16] << 4 | (uint64_t)d;
    }
    *out = (hri_hash128){.lo = word[1], .hi = word[0]};
    return text[DIGITS] == 0;
}

static const char *without(const char *key) {
    while (strncmp(key, BY_TIME, sizeof BY_TIME - 1) == 0) {
        key += sizeof BY_TIME - 1;
    }
    return key;
}

/* What was chosen by time alone is none of the rule's business. */
static const char *full_key(const hri_gpu *gpu, const char *key, char *buf, size_t size) {
    snprintf(buf, size, "%s%s", gpu->options.fastest ? BY_TIME : "", key);
    return buf;
}

/* KEY tab TAG tab DIGEST; 0 when it is none, or longer than any that is written.  With a gpu it counts however that one
 * chooses. */
static int read_line(choices *c, char *line, const hri_gpu *gpu) {
    char full[HRI_GPU_KEY + 16];
    hri_hash128 digest;
    char *tag = strchr(line, '\t');
    char *text = tag ? strchr(tag + 1, '\t') : NULL;
    if (!text || tag == line || !read_digest(text + 1, &digest)) {
        return 0;
    }
    *tag = *text = 0;
    if (strlen(without(line)) >= HRI_GPU_KEY || text - tag > TAG) {
        return 0;
    }
    keep(c, gpu ? full_key(gpu, without(line), full, sizeof full) : line, tag + 1, digest);
    return 1;
}

/* 0 when a line that is no comment is none, and `strict`. */
static int read_lines(choices *c, char *text, const hri_gpu *strict) {
    for (char *line = text, *next; line; line = next) {
        char *end = strchr(line, '\n');
        next = end ? end + 1 : NULL;
        if (end) {
            *end = 0;
        }
        if ((end || strict) && !read_line(c, line, strict) && strict && *line && *line != '#') {
            return 0;
        }
    }
    return 1;
}

static const char file_name[] = "choices-2"; /* in the cache's folder; see base/cache_dir.h */

static void read_cache(hri_gpu *gpu, choices *c) {
    hri_cache cache = {.fd = -1};
    char *text = NULL;
    size_t bytes;
    if (gpu->cache && hri_cache_open(gpu->cache, NULL, 0, &cache, NULL) == HR_OK &&
        hri_cache_read(&cache, file_name, CHOICES_BYTES, &text, &bytes) == HR_OK) {
        (void)!read_lines(c, text, NULL);
    }
    hri_free(text);
    hri_cache_close(&cache);
}

static hr_status read_given(const hri_gpu *gpu, choices *c, const char *path, hri_prose *why) {
    char *text = NULL;
    size_t bytes = 0;
    hr_status status = hri_file_read(path, CHOICES_BYTES, &text, &bytes, why);
    if (status == HR_OK && (strncmp(text, HEAD, sizeof HEAD - 1) != 0 || memchr(text, 0, bytes) ||
                            !read_lines(c, text, gpu))) {
        status = hri_prose_set(why, HR_E_FORMAT, "%s is not a choices file", path);
    }
    hri_free(text);
    return status;
}

static int write_line(const char *key, const char *tag, hri_hash128 digest, char *buf,
                      size_t size) {
    return snprintf(buf, size, "%s\t%s\t%016llx%016llx\n", key, tag, (unsigned long long)digest.hi,
                    (unsigned long long)digest.lo);
}

/* What is not kept is chosen again next time; half a line is passed over by who reads it. */
static void append(hri_gpu *gpu, const char *key, const char *tag, hri_hash128 digest) {
    hri_cache cache = {.fd = -1};
    char line[HRI_GPU_KEY + 512];
    const int bytes = write_line(key, tag, digest, line, sizeof line);
    if (gpu->cache && bytes > 0 && (size_t)bytes < sizeof line &&
        hri_cache_open(gpu->cache, NULL, 1, &cache, NULL) == HR_OK) {
        (void)!hri_cache_append(&cache, file_name, line, (size_t)bytes);
    }
    hri_cache_close(&cache);
}

/* ---- asked and told ---- */

hr_status hri_gpu_choices_open(hri_gpu *gpu, const char *given, hri_prose *why) {
    choices *c = hri_calloc(1, sizeof *c);
    if (!c) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of host memory for GPU algorithm choices");
    }
    read_cache(gpu, c);
    const hr_status status = given ? read_given(gpu, c, given, why) : HR_OK;
    if (status != HR_OK) {
        close_choices(c);
        return status;
    }
    gpu->libs->part[HRI_GPU_PART_CHOICES] = c;
    gpu->libs->close[HRI_GPU_PART_CHOICES] = close_choices;
    return HR_OK;
}

static choices *choices_of(const hri_gpu *gpu) {
    return gpu->libs->part[HRI_GPU_PART_CHOICES];
}

const char *hri_gpu_choice_get(hri_gpu *gpu, const char *key) {
    char full[HRI_GPU_KEY + 16];
    const choice *found = find(choices_of(gpu), full_key(gpu, key, full, sizeof full));
    return found && !found->untried ? found->tag : NULL;
}

void hri_gpu_choice_put(hri_gpu *gpu, const char *key, const char *tag, hri_hash128 digest) {
    char full[HRI_GPU_KEY + 16];
    keep(choices_of(gpu), full_key(gpu, key, full, sizeof full), tag, digest);
    append(gpu, full, tag, digest);
}

void hri_gpu_choice_used(hri_gpu *gpu, const char *key) {
    char full[HRI_GPU_KEY + 16];
    choices *c = choices_of(gpu);
    if (gpu->options.report) {
        gpu->options.report(gpu->options.report_user, key, NULL, 0, 0);
    }
    if (gpu->trial_at || !gpu->noting) {
        return;
    }
    choice *found = find(c, full_key(gpu, key, full, sizeof full));
    if (!found) {
        keep(c, full, "untried", (hri_hash128){0});
        found = find(c, full);
        if (found) {
            found->untried = 1;
        }
    }
    if (found) {
        found->used = 1;
    }
}

hr_status hri_gpu_follow(hri_gpu *gpu, const hri_gpu *like) {
    choices *c = choices_of(gpu);
    const char *key;
    uint64_t value;
    if (gpu == like) {
        return HR_OK;
    }
    for (size_t at = 0; hri_strmap_next(&choices_of(like)->all, &at, &key, &value);) {
        const choice *is = (const choice *)(uintptr_t)value;
        if (is->untried) {
            continue;
        }
        keep(c, key, is->tag, is->digest);
        const choice *kept = find(c, key);
        if (!kept || strcmp(kept->tag, is->tag) != 0) {
            return HR_E_NOMEM_HOST;
        }
    }
    return HR_OK;
}

/* ---- what a run stands on ---- */

typedef struct used {
    const char *key;
    const choice *is;
} used;
HRI_VECTOR(used_list, used)

static int by_key(const void *a, const void *b) {
    return strcmp(((const used *)a)->key, ((const used *)b)->key);
}

/* Those that were noted, by key. */
static hr_status list_used(const choices *c, used_list *out) {
    hr_status status = HR_OK;
    const char *key;
    uint64_t value;
    for (size_t at = 0; status == HR_OK && hri_strmap_next(&c->all, &at, &key, &value);) {
        const choice *is = (const choice *)(uintptr_t)value;
        if (is->used) {
            status = used_list_push(out, (used){key, is});
        }
    }
    if (status == HR_OK && out->count) {
        qsort(out->items, out->count, sizeof out->items[0], by_key);
    }
    return status;
}

void hri_gpu_note(hri_gpu *gpu, int on) {
    gpu->noting = on;
}

void hri_gpu_environment_get(hri_gpu *gpu, hri_gpu_environment *out) {
    used_list list = {0};
    hri_hasher h;
    *out = (hri_gpu_environment){.choices = "unknown"};
    hri_gpu_blas_version(gpu, out->cublaslt, sizeof out->cublaslt);
    hri_gpu_dnn_version(gpu, out->cudnn, sizeof out->cudnn);
    hri_hasher_init(&h, 0);
    if (list_used(choices_of(gpu), &list) == HR_OK) {
        for (size_t i = 0; i < list.count; i++) {
            const used *u = &list.items[i];
            /* By what is computed: how it was chosen makes no difference. */
            hri_hasher_add_string(&h, without(u->key));
            hri_hasher_add_u64(&h, u->is->digest.lo);
            hri_hasher_add_u64(&h, u->is->digest.hi);
            out->untried += u->is->untried;
        }
        out->noted = (uint32_t)list.count;
        const hri_hash128 all = hri_hasher_get(&h);
        snprintf(out->choices, sizeof out->choices, "%016llx%016llx", (unsigned long long)all.hi,
                 (unsigned long long)all.lo);
    }
    used_list_deinit(&list);
}

hr_status hri_gpu_choices_write(hri_gpu *gpu, const char *path, hri_prose *why) {
    used_list list = {0};
    hri_writer w = {.fd = -1};
    char line[HRI_GPU_KEY + 512] = HEAD ": job, algorithm, digest of its bits\n";
    hr_status status = list_used(choices_of(gpu), &list);
    status = status == HR_OK ? hri_writer_open(&w, path, why) : status;
    status = status == HR_OK ? hri_writer_write(&w, line, strlen(line), why) : status;
    for (size_t i = 0; i < list.count && status == HR_OK; i++) {
        const used *u = &list.items[i];
        const int bytes = write_line(without(u->key), u->is->tag, u->is->digest, line, sizeof line);
        status = u->is->untried ? HR_OK : hri_writer_write(&w, line, (size_t)bytes, why);
    }
    status = status == HR_OK ? hri_writer_commit(&w, why) : status;
    hri_writer_abandon(&w);
    used_list_deinit(&list);
    return status;
}
