/* Random problems for the planner: forward parts with skips, backward parts, updates, odd ops of every kind. */
#ifndef RANDOM_PROBLEM_H
#define RANDOM_PROBLEM_H

#include "plan/problem.h"

typedef enum problem_shape {
    SHAPE_CHAIN,    /* layers one after the other */
    SHAPE_RESIDUAL, /* with sums over a few layers */
    SHAPE_UNET,     /* early layers are read again by late ones, last in first out */
    SHAPE_ANY,      /* any earlier value may be read */
    SHAPE_COUNT
} problem_shape;

/* A training step of `layers` layers.  Finished; hri_problem_deinit() it. */
void random_problem(uint64_t *random, problem_shape shape, uint32_t layers, hri_problem *out);

#endif
