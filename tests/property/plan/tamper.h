/* Ways to spoil a plan that more than one file of tests uses. */
#ifndef TAMPER_H
#define TAMPER_H

#include "plan/plan.h"

/* A wait for a copy disappears.  0: there is none. */
int tamper_lose_wait(hri_plan *plan, uint64_t *random);

#endif
