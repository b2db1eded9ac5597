/* Processes by number and start time, which together name one for ever. */
#ifndef HRI_BROKER_PROCESS_H
#define HRI_BROKER_PROCESS_H

#include <stdint.h>

/* When the process started, in ticks since boot, plus one; 0: there is none, or it is a zombie. */
uint64_t hri_process_started(int64_t pid);
/* Is the process that started then still there?  One whose start was never seen is not. */
int hri_process_is(int64_t pid, uint64_t started);

#endif
