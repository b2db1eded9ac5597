/* Every allocation, opening and read of a pipeline over files fails once, and once for ever: the status fits the fault,
 * there is a sentence, nothing is left behind (memory, ledger, open files), and a retry gives what a first try gives. */
#include <headroom/data.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/hash.h"
#include "base/crc32c.h"
#include "test.h"

static char root[] = "/tmp/headroom-faults-XXXXXX";

static void write_file(const char *name, const void *data, size_t bytes) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL);
    CHECK_EQ(fwrite(data, 1, bytes, f), bytes);
    CHECK(fclose(f) == 0);
}

static void write_files(void) {
    static unsigned char batch[2 * 3073];
    unsigned char images[16 + 3 * 4] = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3};
    const unsigned char labels[8 + 3] = {0, 0, 8, 1, 0, 0, 0, 3, 5, 6, 7};
    const uint16_t tokens[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const char csv[] = "a,b\n1,\"x\ny\"\n2,z\n", lines[] = "one\n\nthree\n";
    /* {"n": int64 [7]}, twice in frames */
    const unsigned char example[] = {0x0a, 12, 0x0a, 10, 0x0a, 1,    'n',
                                     0x12, 5,  0x1a, 3,  0x0a, 0x01, 7};
    unsigned char record[12 + sizeof example + 4], twice[2 * sizeof record];
    const uint64_t length = sizeof example;
    uint32_t crc = hri_crc32c_masked(&length, 8);
    memcpy(record, &length, 8);
    memcpy(record + 8, &crc, 4);
    memcpy(record + 12, example, sizeof example);
    crc = hri_crc32c_masked(example, sizeof example);
    memcpy(record + 12 + sizeof example, &crc, 4);
    memcpy(twice, record, sizeof record);
    memcpy(twice + sizeof record, record, sizeof record);
    char npy[128 + 3 * 8];
    memset(npy, ' ', sizeof npy);
    memcpy(npy, "\x93NUMPY\x01\x00\x76\x00", 10);
    const char d[] = "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }";
    memcpy(npy + 10, d, sizeof d - 1);
    const double numbers[3] = {1, 2, 3};
    memcpy(npy + 128, numbers, sizeof numbers);
    write_file("x.npy", npy, sizeof npy);
    write_file("train-images-idx3-ubyte", images, sizeof images);
    write_file("train-labels-idx1-ubyte", labels, sizeof labels);
    write_file("test_batch.bin", batch, sizeof batch);
    write_file("tokens", tokens, sizeof tokens);
    write_file("t.csv", csv, sizeof csv - 1);
    write_file("lines1", lines, sizeof lines - 1);
    write_file("lines2", lines, sizeof lines - 1);
    write_file("tf", twice, sizeof twice);
}

static const char *const texts[] = {
    "npy:@/x.npy | shuffle | batch(2)",
    "mnist:@ | batch(2)",
    "cifar10:@,split=test",
    "tokens:@/tokens,length=2,random=on",
    "text:@/lines1,length=3,random=on",
    "csv:@/t.csv | batch(2,pad=on)",
    "csv:@/t.csv,index=on | shuffle",
    "texts:@/lines1,classes=off,length=3",
    "csv:@/t.csv,text=b,length=2 | batch(2)",
    "lines:@/lines*",
    "lines:@/lines*,index=on",
    "lines:@/lines* | shuffle(3,seed=1) | batch(4,pad=on)",
    "tfrecord:@/tf",
    "tfrecord:@/tf,index=on | repeat(2)",
    "zip({lines:@/lines1},{tfrecord:@/tf})",
};

static int open_files(void) {
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    CHECK(dir != NULL);
    while (readdir(dir)) {
        count++;
    }
    closedir(dir);
    return count;
}

/* Everything that comes out, hashed; the first failure. */
static hr_status run(const char *text, uint64_t *out) {
    char full[512], *at = full;
    for (const char *p = text; *p; p++) {
        if (*p == '@') {
            at += sprintf(at, "%s", root);
        } else {
            *at++ = *p;
        }
    }
    *at = 0;
    const hr_pipeline_options o = {
        .size = sizeof o, .budget_bytes = 1 << 20, .workers = 1, .seed = 2};
    hr_pipeline *p = NULL;
    hr_error error = {0};
    hr_status status = hr_pipeline_open(&o, full, &error, &p);
    if (status != HR_OK) {
        CHECK(p == NULL);
        CHECK(error.message[0] != '\0');
        return status;
    }
    hri_hasher h;
    hri_hasher_init(&h, 0);
    hr_status first = HR_OK;
    for (int i = 0; i < 100; i++) {
        hr_element *e;
        status = hr_pipeline_next(p, &e);
        if (status == HR_E_EOF) {
            break;
        }
        first = first == HR_OK ? status : first;
        if (status == HR_OK) {
            for (size_t k = 0; k < hr_element_field_count(e); k++) {
                const hr_field *f = hr_element_field(e, k);
                hri_hasher_add_string(&h, f->name);
                hri_hasher_add_u64(&h, hri_hash_bytes(f->data, f->bytes, 0));
            }
            hr_element_unref(e);
        }
    }
    hr_pipeline_stats stats = {.size = sizeof stats};
    CHECK_OK(hr_pipeline_get_stats(p, &stats));
    CHECK_LE(stats.peak_bytes, stats.budget_bytes);
    hr_pipeline_destroy(p);
    *out = hri_hasher_get(&h).lo;
    return first;
}

static void sweep(const char *text, hri_fault_kind kind) {
    uint64_t want, is;
    CHECK_OK(run(text, &want));
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        for (uint64_t nth = 1;; nth++) {
            const int64_t live = hri_fault_live_allocs();
            const int files = open_files();
            hri_fault_set(kind, nth, for_ever);
            const hr_status status = run(text, &is);
            const uint64_t delivered = hri_fault_delivered();
            hri_fault_set(kind, 0, 0);
            CHECK_EQ(hri_fault_live_allocs(), live);
            CHECK_EQ(open_files(), files);
            if (!delivered) {
                CHECK_OK(status);
                CHECK_EQ(is, want);
                CHECK_LE(2, nth);
                break;
            }
            /* A look ahead that fails may do no harm; then nothing is missing. */
            if (status == HR_OK) {
                CHECK_EQ(is, want);
            } else if (kind == HRI_FAULT_ALLOC ? status != HR_E_NOMEM_HOST : status != HR_E_IO) {
                test_fail(__FILE__, __LINE__, "%s: %s %llu%s gave %s", text, hri_fault_name(kind),
                          (unsigned long long)nth, for_ever ? " for ever" : "",
                          hr_status_name(status));
            }
            CHECK_OK(run(text, &is));
            CHECK_EQ(is, want);
        }
    }
}

static void sweep_all(hri_fault_kind kind) {
    char command[64];
    CHECK(mkdtemp(root) != NULL);
    write_files();
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        sweep(texts[i], kind);
    }
    snprintf(command, sizeof command, "rm -r %s", root);
    CHECK_EQ(system(command), 0);
}

TEST_TIMEOUT(files, every_allocation_may_fail, 120) {
    sweep_all(HRI_FAULT_ALLOC);
}

TEST_TIMEOUT(files, every_opening_may_fail, 60) {
    sweep_all(HRI_FAULT_OPEN);
}

TEST_TIMEOUT(files, every_read_may_fail, 60) {
    sweep_all(HRI_FAULT_READ);
}
