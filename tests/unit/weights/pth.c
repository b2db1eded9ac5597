/* Files that torch.save wrote: every type, windows into shared storages, and refusals that execute nothing.
 *
 * The files were written by torch 2.15 (those that torch does not write, by Python's zipfile from them); tests/fuzz/pth.c
 * begins with them too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"
#include "test.h"
#include "weights/safetensors.h"

static const char *in(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/tests/fuzz/corpus/pth/%s", HEADROOM_SOURCE_DIR, name);
    return path;
}

static const hri_tensor *has(const hri_tensors *t, const char *name, const char *dtype, int rank,
                             int64_t first, int64_t second) {
    const hri_tensor *x = hri_tensors_find(t, name);
    CHECK(x != NULL);
    CHECK_STR(x->dtype, dtype);
    CHECK_EQ(x->shape.rank, rank);
    CHECK(rank < 1 || x->shape.dim[0] == first);
    CHECK(rank < 2 || x->shape.dim[1] == second);
    return x;
}

static void reads(const hri_tensors *t, const hri_tensor *x, size_t count, const float *wanted) {
    float whole[32], piece[32];
    CHECK_OK(hri_tensors_read(t, x, 0, count, HR_TYPE_F32, whole, NULL));
    for (size_t i = 0; i < count; i++) { /* and each alone */
        CHECK_OK(hri_tensors_read(t, x, i, 1, HR_TYPE_F32, &piece[i], NULL));
        CHECK(whole[i] == wanted[i] && piece[i] == wanted[i]);
    }
    CHECK_STATUS(hri_tensors_read(t, x, count, 1, HR_TYPE_F32, piece, NULL), HR_E_RANGE);
}

TEST(pth, every_type_and_every_window_that_torch_wrote) {
    hri_tensors t;
    int64_t wide = 0;
    int32_t narrow[2];
    unsigned char bytes[2];
    CHECK_OK(hri_tensors_open(in("kinds.pth"), &t, NULL));
    CHECK_EQ(t.count, 14);
    reads(&t, has(&t, "f32", "F32", 2, 2, 3), 6, (float[]){0, .25F, .5F, .75F, 1, 1.25F});
    reads(&t, has(&t, "f64", "F64", 1, 4, 0), 4, (float[]){-1.5F, -.5F, .5F, 1.5F});
    reads(&t, has(&t, "f16", "F16", 1, 5, 0), 5, (float[]){0, .125F, .25F, .375F, .5F});
    reads(&t, has(&t, "bf16", "BF16", 1, 5, 0), 5, (float[]){0, 2, 4, 6, 8});
    reads(&t, has(&t, "window", "F32", 1, 6, 0), 6, (float[]){5, 6, 7, 8, 9, 10});
    reads(&t, has(&t, "turned", "F32", 2, 6, 4), 24,
          (float[]){0, 6, 12, 18, 1, 7,  13, 19, 2, 8,  14, 20,
                    3, 9, 15, 21, 4, 10, 16, 22, 5, 11, 17, 23});
    reads(&t, has(&t, "wide", "F32", 2, 2, 3), 6, (float[]){2, 2, 2, 3, 3, 3});
    reads(&t, has(&t, "last", "F32", 4, 1, 4), 24,
          (float[]){0, 4, 8,  12, 16, 20, 1, 5, 9,  13, 17, 21,
                    2, 6, 10, 14, 18, 22, 3, 7, 11, 15, 19, 23});
    reads(&t, has(&t, "parameter", "F32", 1, 2, 0), 2, (float[]){0, 1});
    reads(&t, has(&t, "empty", "F32", 2, 0, 3), 0, NULL);
    CHECK_OK(hri_tensors_read(&t, has(&t, "i64", "I64", 0, 0, 0), 0, 1, HR_TYPE_I64, &wide, NULL));
    CHECK_EQ(wide, (INT64_C(1) << 40) + 1);
    CHECK_OK(hri_tensors_read(&t, has(&t, "i32", "I32", 1, 2, 0), 0, 2, HR_TYPE_I32, narrow, NULL));
    CHECK(narrow[0] == -7 && narrow[1] == 7);
    CHECK_OK(hri_tensors_read(&t, has(&t, "u8", "U8", 1, 2, 0), 0, 2, HR_TYPE_U8, bytes, NULL));
    CHECK(bytes[0] == 1 && bytes[1] == 255);
    CHECK_STATUS(
        hri_tensors_read(&t, has(&t, "bool", "BOOL", 1, 2, 0), 0, 2, HR_TYPE_F32, narrow, NULL),
        HR_E_UNSUPPORTED);
    CHECK(hri_tensors_held_bytes(&t) > 1024);
    hri_tensors_close(&t);
}

TEST(pth, the_weights_of_a_checkpoint_are_taken_out_of_it) {
    static const char *const files[] = {"nested.pth", "training.pth"};
    for (size_t i = 0; i < 2; i++) {
        hri_tensors t;
        CHECK_OK(hri_tensors_open(in(files[i]), &t, NULL));
        CHECK_EQ(t.count, 7);
        reads(&t, has(&t, "0.weight", "F32", 2, 2, 3), 6, (float[]){0, 1, 2, 3, 4, 5});
        reads(&t, has(&t, "0.bias", "F32", 1, 2, 0), 2, (float[]){.5F, -.5F});
        has(&t, "1.num_batches_tracked", "I64", 0, 0, 0);
        hri_tensors_close(&t);
    }
}

TEST(pth, a_later_protocol_is_read_too) {
    hri_tensors t;
    CHECK_OK(hri_tensors_open(in("plain.pth"), &t, NULL));
    reads(&t, has(&t, "w", "F32", 1, 2, 0), 2, (float[]){1, 1});
    hri_tensors_close(&t);
}

TEST(pth, what_is_no_file_of_tensors_is_refused_by_name_and_nothing_is_executed) {
    static const struct {
        const char *name, *part;
        hr_status status;
    } all[] = {
        {"system.pth", "posix.system", HR_E_UNSUPPORTED},
        {"namespace.pth", "argparse.Namespace", HR_E_UNSUPPORTED},
        {"module.pth", "torch.nn.modules.container.Sequential", HR_E_UNSUPPORTED},
        {"nothing.pth", "no dictionary of tensors", HR_E_FORMAT},
        {"old.pth", "before 1.6", HR_E_UNSUPPORTED},
        {"compressed.pth", "compressed", HR_E_UNSUPPORTED},
        {"big.pth", "big-endian", HR_E_UNSUPPORTED},
        {"short.pth", "data/0 has 4 bytes, fewer than its 2 elements of F32", HR_E_FORMAT},
        {"missing.pth", "tensor w: data/0 is missing", HR_E_FORMAT},
        {"nopickle.pth", "without data.pkl", HR_E_FORMAT},
        {"cut.pth", "data.pkl: byte ", HR_E_FORMAT},
    };
    unlink("/tmp/headroom-executed");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        hri_tensors t = {.fd = -7};
        hri_prose why = {""};
        CHECK_STATUS(hri_tensors_open(in(all[i].name), &t, &why), all[i].status);
        CHECK_EQ(t.fd, -7);
        if (!strstr(why.text, all[i].part) || !strstr(why.text, in(all[i].name))) {
            test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", why.text, all[i].part);
        }
    }
    CHECK(access("/tmp/headroom-executed", F_OK) != 0);
}

/* Whatever is cut off or changed, opening ends with a status. */
TEST(pth, a_file_cut_anywhere_is_refused) {
    char path[] = "/tmp/headroom-pth-XXXXXX", *bytes = NULL;
    size_t count = 0;
    CHECK_OK(hri_file_read(in("plain.pth"), 1 << 20, &bytes, &count, NULL));
    const int fd = mkstemp(path);
    CHECK(fd >= 0);
    for (size_t n = count - 1; n > 0; n -= n > 64 ? 61 : 1) {
        hri_tensors t;
        CHECK_EQ(pwrite(fd, bytes, n, 0), (ssize_t)n);
        CHECK_EQ(ftruncate(fd, (off_t)n), 0);
        CHECK(hri_tensors_open(path, &t, NULL) != HR_OK);
    }
    close(fd);
    unlink(path);
    hri_free(bytes);
}

#ifdef HEADROOM_FAULTS
static hr_status open_and_read(void) {
    hri_tensors t;
    float x[24];
    hr_status status = hri_tensors_open(in("kinds.pth"), &t, NULL);
    if (status == HR_OK) {
        status = hri_tensors_read(&t, hri_tensors_find(&t, "turned"), 0, 24, HR_TYPE_F32, x, NULL);
        hri_tensors_close(&t);
    }
    return status;
}

TEST(pth, whatever_is_refused_on_the_way_is_a_status_and_a_retry_works) {
    for (uint64_t nth = 1;; nth++) {
        CHECK(nth < 2000);
        const int64_t before = hri_fault_live_allocs();
        hri_fault_set(HRI_FAULT_ANY, nth, 0);
        const hr_status status = open_and_read();
        const uint64_t delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ANY, 0, 0);
        CHECK_EQ(hri_fault_live_allocs(), before);
        if (!delivered) {
            CHECK_OK(status);
            break;
        }
        CHECK(status == HR_E_NOMEM_HOST || status == HR_E_IO);
    }
}
#endif
