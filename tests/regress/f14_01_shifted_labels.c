/* Labels that a model shifts by itself, as transformers' do: parts of a batch were weighted by all labels that count, not by
 * those that the loss reads, so a split batch had another loss.  A border of -100 was refused. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "pictures.h"
#include "program.h"
#include "test.h"

enum { SAMPLES = 8, LENGTH = 6 };

/* The beginning of a file: scores (N, 6, 5) of tokens, then what the loss does. */
#define HEAD_OF(label)                                                                             \
    "%1 = param \"e\" f32[5,4] normal 0 0.5\n"                                                     \
    "%2 = param \"w\" f32[4,5] normal 0 0.5\n"                                                     \
    "%3 = input \"tokens\" i32[N,6]\n"                                                             \
    "%4 = input \"" label "\" i32[N,6]\n"                                                          \
    "%5 = gather(%1 %3) @\"\"\n"                                                                   \
    "%6 = matmul(%5 %2) @\"\"\n"
#define HEAD HEAD_OF("labels")
#define PADDED                                                                                     \
    HEAD "%7 = reshape(%6) {to=6Nx5} @\"\"\n"                                                      \
         "%8 = pad(%4) {before=0x0,after=0x1,value=-100} @\"\"\n"                                  \
         "%9 = slice(%8) {begin=0x1,size=Nx6} @\"\"\n"                                             \
         "%10 = reshape(%9) {to=6N} @\"\"\n"                                                       \
         "%11 %12 = cross_entropy(%7 %10) @\"\"\n"                                                 \
         "result \"loss\" %11\n"
#define CUT                                                                                        \
    HEAD "%7 = slice(%6) {begin=0x0x0,size=Nx5x5} @\"\"\n"                                         \
         "%8 = slice(%4) {begin=0x1,size=Nx5} @\"\"\n"                                             \
         "%9 %10 = cross_entropy(%7 %8) @\"\"\n"                                                   \
         "result \"loss\" %9\n"
#define AND_A_MEAN                                                                                 \
    HEAD_OF("label")                                                                               \
    "%7 %8 = cross_entropy(%6 %4) @\"\"\n"                                                         \
    "%9 = power(%6) {exponent=2} @\"\"\n"                                                          \
    "%10 = mean(%9) @\"\"\n"                                                                       \
    "%11 = add(%7 %10) @\"\"\n"                                                                    \
    "result \"loss\" %11\n"

static void write_file(const char *name, const char *form) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    fprintf(f, "headroom model 1\nname \"M\"\nclasses 0\nform train\n%sform eval\n%s", form, form);
    fclose(f);
}

static void write_npy(const char *name, const int32_t *data) {
    char path[400], head[128], text[118];
    snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL);
    snprintf(text, sizeof text, "{'descr': '<i4', 'fortran_order': False, 'shape': (8, 6), }");
    memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
    memset(head + 10, ' ', 117);
    memcpy(head + 10, text, strlen(text));
    head[127] = '\n';
    CHECK(fwrite(head, 1, 128, f) == 128);
    CHECK(fwrite(data, sizeof *data, (size_t)SAMPLES * LENGTH, f) == (size_t)SAMPLES * LENGTH);
    fclose(f);
}

/* The first of each row always counts where it is read; of the others more in each sample than in the one before. */
static void write_data(void) {
    int32_t x[SAMPLES * LENGTH], y[SAMPLES * LENGTH];
    for (uint64_t i = 0; i < (uint64_t)SAMPLES * LENGTH; i++) {
        x[i] = (int32_t)(hri_hash_u64(i) % 5);
        y[i] = i % LENGTH > i / LENGTH ? -100 : (int32_t)(hri_hash_u64(i + 99) % 5);
    }
    write_npy("x.npy", x);
    write_npy("y.npy", y);
}

static double loss_of(const char *model, int parts) {
    program_outcome r = program_run(NULL,
                                    "train %s --data npy:x.npy,y.npy --batch 8 --micro-batches %d "
                                    "--steps 3 --rate 0.5 --no-save --json",
                                    model, parts);
    program_expect(&r, 0, NULL);
    const double loss = program_number(&r, "loss");
    program_end(&r);
    return loss;
}

TEST_TIMEOUT(f14_01, a_split_batch_counts_the_labels_that_the_loss_reads, 60) {
    static const char *const forms[] = {PADDED, CUT};
    double first = 0;
    write_data();
    for (int i = 0; i < 2; i++) {
        write_file("m.hr", forms[i]);
        const double whole = loss_of("m.hr", 1);
        first = i ? first : whole;
        CHECK(isfinite(whole) && fabs(whole - first) <= 1e-5 * first);
        for (int parts = 2; parts <= 8; parts *= 2) {
            test_count_check();
            const double split = loss_of("m.hr", parts);
            if (!(fabs(split - whole) <= 1e-5 * whole)) {
                test_fail(__FILE__, __LINE__, "%d parts: %.9g, whole %.9g", parts, split, whole);
            }
        }
    }
}

TEST_TIMEOUT(f14_01, where_counting_does_not_help_the_batch_stays_whole, 60) {
    write_data();
    write_file("m.hr", AND_A_MEAN);
    (void)loss_of("m.hr", 1);
    program_outcome r =
        program_run(NULL, "train m.hr --data npy:x.npy,y.npy --batch 8 --micro-batches 2 "
                          "--steps 3 --no-save");
    program_expect(&r, 2, "cannot be split");
    program_end(&r);
}
