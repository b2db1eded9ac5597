/* Whatever stands at the path of a file that is read: it is refused at once, with a status and a sentence, in bounded
 * memory.  One row for each kind of file; docs/files.md has the table for people.
 *
 * Every case is a process of its own with a time limit, so a reader that waits for a FIFO or reads /dev/zero to its end
 * fails here. */
#include <headroom/headroom.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "data/formats/cachefile.h"
#include "device/cuda/gpu_tune.h"
#include "pictures.h"
#include "records/lines.h"
#include "see/open.h"
#include "test.h"
#include "weights/checkpoint.h"
#include "weights/safetensors.h"

static const char *at(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    return path;
}

/* ---- what may stand there ---- */

static void put(const char *path, const void *data, size_t bytes) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
    close(fd);
}

static void make_fifo(const char *path) {
    CHECK_EQ(mkfifo(path, 0600), 0);
}
static void make_folder(const char *path) {
    CHECK_EQ(mkdir(path, 0700), 0);
}
static void make_device(const char *path) {
    CHECK_EQ(symlink("/dev/zero", path), 0);
}
static void make_loop(const char *path) {
    CHECK_EQ(symlink(path, path), 0);
}
static void make_empty(const char *path) {
    put(path, "", 0);
}
static void make_junk(const char *path) {
    char junk[300];
    for (size_t i = 0; i < sizeof junk; i++) {
        junk[i] = (char)(i * 197 + 13);
    }
    put(path, junk, sizeof junk);
}
/* A length that lies: no byte of it is on the disk. */
static void make_huge(const char *path) {
    put(path, "", 0);
    CHECK_EQ(truncate(path, (off_t)1 << 40), 0);
}

enum { FIFO = 1, FOLDER = 2, DEVICE = 4, LOOP = 8, EMPTY = 16, JUNK = 32, HUGE = 64 };
enum { NO_FILE = FIFO | FOLDER | DEVICE | LOOP, NOTHING_IN_IT = EMPTY | JUNK | HUGE };

static const struct {
    const char *name;
    void (*make)(const char *path);
} kinds[] = {{"a FIFO", make_fifo},        {"a folder", make_folder},     {"a device", make_device},
             {"a loop", make_loop},        {"an empty file", make_empty}, {"junk", make_junk},
             {"1 TiB of zeros", make_huge}};

/* ---- who reads it ---- */

static hr_status read_pipeline(const char *text) {
    hr_pipeline *p = NULL;
    hr_element *e = NULL;
    hr_error why;
    const hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 32 << 20, .workers = 1};
    hr_status status = hr_pipeline_open(&o, text, &why, &p);
    if (status == HR_OK) {
        status = hr_pipeline_next(p, &e);
        hr_element_unref(e);
    }
    hr_pipeline_destroy(p);
    return status;
}

static hr_status read_stage(const char *format, const char *path) {
    char text[600];
    snprintf(text, sizeof text, format, path);
    return read_pipeline(text);
}

static hr_status read_npy(const char *path) {
    return read_stage("npy:\"%s\"", path);
}
static hr_status read_csv(const char *path) {
    return read_stage("csv:\"%s\"", path);
}
static hr_status read_lines(const char *path) {
    return read_stage("lines:\"%s\"", path);
}
static hr_status read_tfrecord(const char *path) {
    return read_stage("tfrecord:\"%s\"", path);
}
static hr_status read_tokens(const char *path) {
    return read_stage("tokens(\"%s\",length=64)", path);
}
static hr_status read_image(const char *path) {
    return read_stage("images(\"%s\",classes=off) | decode(8)", path);
}

static hr_status read_cache(const char *path) {
    hri_cachefile c;
    hri_prose why = {0};
    const hr_status status = hri_cachefile_open(&c, path, 1, &why);
    if (status == HR_OK) {
        hri_cachefile_close(&c);
    }
    return status;
}

static hr_status read_model(const char *path) {
    hr_model *m;
    hr_error why;
    const hr_status status = hr_model_open(path, &m, &why);
    if (status == HR_OK) {
        hr_model_close(m);
    } else {
        CHECK(why.message[0]);
    }
    return status;
}

static hr_status read_tensors(const char *path) {
    hri_tensors t;
    hri_prose why = {0};
    const hr_status status = hri_tensors_open(path, &t, &why);
    if (status == HR_OK) {
        hri_tensors_close(&t);
    } else {
        CHECK(why.text[0]);
    }
    return status;
}

static hr_status read_checkpoint(const char *path) {
    hri_checkpoint c;
    hri_prose why = {0};
    const hr_status status = hri_checkpoint_open(path, &c, &why);
    if (status == HR_OK) {
        hri_checkpoint_close(&c);
    } else {
        CHECK(why.text[0]);
    }
    return status;
}

/* Plan files. */
static hr_status read_json(const char *path) {
    const hri_json_limits limits = {.max_bytes = 1 << 20};
    json_t *root;
    hri_prose why = {0};
    const hr_status status = hri_json_load(path, &limits, &root, &why);
    if (status == HR_OK) {
        json_decref(root);
    }
    return status;
}

static hr_status read_choices(const char *path) {
    hri_gpu_libs libs = {{NULL}};
    hri_gpu gpu = {.libs = &libs};
    hri_prose why = {0};
    const hr_status status = hri_gpu_choices_open(&gpu, path, &why);
    if (status == HR_OK) {
        libs.close[HRI_GPU_PART_CHOICES](libs.part[HRI_GPU_PART_CHOICES]);
    } else {
        CHECK(why.text[0]);
    }
    return status;
}

static hr_status read_recording(const char *path) {
    hri_recording r;
    hri_prose why = {0};
    const hr_status status = hri_see_open(path, &r, &why);
    if (status == HR_OK) {
        hri_recording_deinit(&r);
    } else {
        CHECK(strstr(why.text, path));
    }
    return status;
}

/* The log of a run that is resumed.  It may be a pipe or a terminal: that is written, not read. */
static hr_status read_log(const char *path) {
    const hri_record_start start = {.step = 1};
    hri_lines lines = {.sink = {.fd = -1}};
    hri_prose why = {0};
    const hr_status status = hri_lines_open(path, &start, NULL, NULL, NULL, NULL, &lines, &why);
    hri_lines_close(&lines);
    CHECK(status == HR_OK || why.text[0]);
    return status;
}

/* Problem files, `pack`: the whole file in memory, up to a bound. */
static hr_status read_whole(const char *path) {
    char *text;
    const hr_status status = hri_file_read(path, 1 << 20, &text, NULL, NULL);
    if (status == HR_OK) {
        hri_free(text);
    }
    return status;
}

static const struct {
    const char *name; /* of the file: some say what they are by it */
    hr_status (*read)(const char *path);
    int refused; /* which of the kinds */
} readers[] = {
    {"x.npy", read_npy, NO_FILE | NOTHING_IN_IT},
    {"t.csv", read_csv, NO_FILE | EMPTY},
    {"t.txt", read_lines, NO_FILE},
    {"t.tfrecord", read_tfrecord, NO_FILE | JUNK | HUGE},
    {"t.bin", read_tokens, NO_FILE | EMPTY},
    {"1.jpg", read_image, FIFO | DEVICE | LOOP | NOTHING_IN_IT},
    {"data.cache", read_cache, NO_FILE},
    {"m.hr", read_model, NO_FILE | NOTHING_IN_IT},
    {"w.safetensors", read_tensors, NO_FILE | NOTHING_IN_IT},
    {"c.safetensors", read_checkpoint, NO_FILE | NOTHING_IN_IT},
    {"plan.json", read_json, NO_FILE | NOTHING_IN_IT},
    {"problem.json", read_whole, NO_FILE | HUGE},
    {"choices.txt", read_choices, NO_FILE | NOTHING_IN_IT},
    {"run.jsonl", read_log, FOLDER | LOOP | JUNK | HUGE},
    {"a.hrp", read_recording, NO_FILE | NOTHING_IN_IT},
};

static void refuse(size_t kind) {
    for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++) {
        if (!(readers[i].refused >> kind & 1)) {
            continue;
        }
        const char *path = at(readers[i].name);
        kinds[kind].make(path);
        const hr_status status = readers[i].read(path);
        printf("    %s at %s: %s\n", kinds[kind].name, readers[i].name, hr_status_name(status));
        CHECK(status < 0);
        CHECK(status != HR_E_INTERNAL && status != HR_E_NOMEM_HOST);
    }
}

TEST_TIMEOUT(trust, a_fifo_is_not_waited_for, 30) {
    refuse(0);
}
TEST_TIMEOUT(trust, a_folder_is_no_file, 30) {
    refuse(1);
}
TEST_TIMEOUT(trust, a_device_is_not_read, 200) {
    refuse(2);
}
TEST_TIMEOUT(trust, a_link_to_itself_is_refused, 30) {
    refuse(3);
}
TEST_TIMEOUT(trust, an_empty_file_is_refused, 30) {
    refuse(4);
}
TEST_TIMEOUT(trust, junk_is_refused, 30) {
    refuse(5);
}
TEST_TIMEOUT(trust, a_length_that_lies_takes_no_memory, 300) {
    refuse(6);
}

/* The cache of a pipeline is written: through a link it would be somebody else's file. */
TEST(trust, a_cache_is_not_written_through_a_link) {
    char target[512];
    struct stat info;
    snprintf(target, sizeof target, "%s", at("precious"));
    put(target, "0123456789", 10);
    CHECK_EQ(symlink(target, at("data.cache")), 0);
    CHECK(read_cache(at("data.cache")) < 0);
    CHECK(stat(target, &info) == 0 && info.st_size == 10);
}
