/* Files of tokens cut into windows: "tokens" i32[length] and "targets" i32[length], the same one further on.
 *
 * Windows begin every `stride` tokens (0: every `length`), or at random: then there are as many, but each begins anywhere:
 * window i of an epoch is a draw by (seed, epoch, i), every start in all files as likely as any other.  No window reaches
 * over the end of a file.
 *
 * With `mask` a masked language model learns from them: every token is chosen with that probability, and `targets` is the token itself
 * where it was chosen and -1, which does not count, elsewhere.  Of those chosen, by draws of (seed, epoch, i), 8 of 10 become the mask
 * token, 1 becomes another token of the window, 1 stays.
 *
 * The functions are those of a stage whose options begin with hri_windows_options and whose own memory is an hri_windows. */
#ifndef HRI_DATA_WINDOWS_H
#define HRI_DATA_WINDOWS_H

#include "data/formats/filelist.h"

typedef struct hri_windows_options {
    hri_list path;
    int64_t length, stride;
    bool random;
    int64_t seed;
    double mask;
    int64_t mask_token;
} hri_windows_options;

/* Rows of the table of options, but for `path`: how files are cut, and how windows are drawn. */
#define HRI_WINDOWS_CUT                                                                            \
    {"length",                                                                                     \
     "tokens per element",                                                                         \
     offsetof(hri_windows_options, length),                                                        \
     HRI_FIELD_INT,                                                                                \
     "1024",                                                                                       \
     .min = 1,                                                                                     \
     .max = 1e8,                                                                                   \
     .metavar = "N"},                                                                              \
    {                                                                                              \
        "stride", "tokens between the starts of two elements; 0: length",                          \
            offsetof(hri_windows_options, stride), HRI_FIELD_INT, "0", .min = 0, .max = 1e12       \
    }
#define HRI_WINDOWS_DRAW                                                                           \
    {"random", "start windows at random positions", offsetof(hri_windows_options, random),         \
     HRI_FIELD_BOOL, "off"},                                                                       \
        {"seed", "random seed", offsetof(hri_windows_options, seed), HRI_FIELD_INT},               \
        {"mask",                                                                                   \
         "predict tokens that are hidden, this part of them, instead of the next ones; 0: off",    \
         offsetof(hri_windows_options, mask),                                                      \
         HRI_FIELD_DOUBLE,                                                                         \
         "0",                                                                                      \
         .min = 0,                                                                                 \
         .max = 0.9},                                                                              \
    {                                                                                              \
        "mask_token", "the token that hides others; -1: the tokenizer's, or 1 of bytes",           \
            offsetof(hri_windows_options, mask_token), HRI_FIELD_INT, "-1", .min = -1, .max = 1e7  \
    }

/* What is in one file. */
typedef struct hri_windows_part {
    uint64_t head;    /* bytes before the first token */
    uint64_t windows; /* at every stride */
    uint64_t starts;  /* places at which a window can begin */
} hri_windows_part;

typedef struct hri_windows {
    hri_filelist files;
    hri_windows_part *parts; /* of each file */
    uint64_t starts;
    unsigned unit; /* bytes of a token: 1, 2 or 4, little-endian */
    int32_t mask_token;
} hri_windows;

/* Bytes of a file before its first token. */
typedef hr_status hri_windows_head_fn(const void *options, const hri_file *f, uint64_t *out,
                                      hri_prose *why);

/* Cuts the files in w->files, which the stage has opened; head NULL: there are none.  `what` is what is counted, "tokens", and `name` a
 * file, for sentences.  mask_token: that of the tokenizer; -1: it has none. */
HR_MUST_CHECK hr_status hri_windows_open(hri_stage *s, unsigned unit, hri_windows_head_fn *head,
                                         const char *what, const char *name, int32_t mask_token,
                                         hri_prose *why);
void hri_windows_close(hri_stage *s);
HR_MUST_CHECK hr_status hri_windows_at(hri_stage *s, uint64_t i, hri_item *out);
HR_MUST_CHECK hr_status hri_windows_load(hri_stage *s, const hri_item *item, hr_emit *emit);
void hri_windows_fingerprint(hri_stage *s, hri_state *w);
int64_t hri_windows_newest(hri_stage *s, char *path, size_t size);

#endif
