/* Why the driver holds more for a process than the process asked for: the remainder (govern.h), by cause.
 *
 * Contexts, modules and executable graphs cost memory that no call names.  NVML has the sum; what it grew by between two
 * measurements is put down to what the program did in between: it made a context, loaded code, or instantiated a graph.
 *
 *  - The calls that may cost so are hooked only to be noted; with lazy loading the memory is taken later, at a first launch, which
 *    is not hooked.  So a measurement is made before the *next* call of another kind, and else now and then.
 *  - A difference counts only when no other thread was in a hook and nothing was taken or given between the question and the
 *    answer; else it waits for the next measurement.
 *  - What nothing explains, or two causes at once, is put down to none: it is shown as other.
 *
 * The first that is measured is the context. */
#ifndef HRI_INTERPOSE_CAUSES_H
#define HRI_INTERPOSE_CAUSES_H

#include "interpose/govern.h"

/* The program is about to do something that may cost so; called inside a hook. */
void hri_cause(int device, hri_cause_kind kind);
/* The same from outside of a hook, for the current device. */
void hri_cause_noted(hri_cause_kind kind);
/* It did, just now: the next measurement has it. */
void hri_cause_now(hri_run_device *device, hri_cause_kind kind);
/* After an exchange with the broker: puts the difference down; 1 when anything changed.  Under lock. */
int hri_causes_learn(hri_run_device *device, const hri_wire *answer);
/* Measures where there is something to put down and enough time has passed.  Not under any lock. */
void hri_causes_look(int device);
/* The context has gone, and all with it.  Under lock. */
void hri_causes_forget(hri_run_device *device);

#endif
