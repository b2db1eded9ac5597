/* Convolutions of 3 x 3 taps with stride 1 by matrix units (gemm_tiles.h), in the scratch of conv_winograd.h.
 *
 * A band of the image, with the pixels around it, is split into parts once for each block of channels.  Its pixels lie side by side, line
 * after line, so that 16 outputs side by side are a tile of rows for each tap where they lie: nothing is unfolded.  Where a line ends,
 * two outputs are computed that nobody reads.  Forward and the gradient of the input are the same but for the order of the weights. */
#ifndef HRI_OPS_COMMON_CONV_TILES_H
#define HRI_OPS_COMMON_CONV_TILES_H

#include "ops/common/conv.h"
#include "ops/common/conv_bands.h"

/* A convolution as forward has it: of the gradient of the input, dy is read and dx is written. */
typedef struct hri_bands_plan {
    int64_t n, h, w, c; /* what is read */
    int64_t oh, ow, o;  /* what is written */
    int64_t ph, pw;     /* zeros above and to the left */
    int turned;         /* weights are read as the gradient of the input needs them */
    hri_bands bands;
    int64_t columns, parts;             /* outputs of a task, tasks for all of them */
    const struct hri_gemm_tiles *tiles; /* as of hri_conv */
} hri_bands_plan;

/* What a task computes with. */
typedef struct hri_bands_job {
    const hri_bands_plan *p;
    const float *x,
        *w; /* w (TAPS, TAPS, C, O), or (TAPS, TAPS, O, C) turned: O is what is written */
    float *y;
    const void *bias;
    hr_type bias_type;
    float *workspace;
} hri_bands_job;

/* Numbers of 4 bytes that a worker needs. */
int64_t hri_conv_tiles_floats(const hri_bands_plan *p);
/* Runs all tasks, each worker in `floats` numbers of the workspace.  0: the processor has no such unit. */
int hri_conv_tiles_run(const hri_bands_job *j, int64_t floats, hri_threads *threads);

#endif
