/* `headroom run --record FILE`: every allocation of the program in a file that stands, line by line, whatever ends the program.
 *
 *   headroom allocations 1 <tab> pid <tab> program
 *   A <tab> ns <tab> thread <tab> device <tab> address <tab> bytes <tab> call <tab> Python lines <tab> native frames
 *   F <tab> ns <tab> thread <tab> device <tab> address <tab> 0 <tab> call
 *
 * Numbers are decimal, addresses hexadecimal; lines and frames have ';' between.  The first process that uses CUDA writes
 * FILE, others FILE.PID.  One write() a line; nothing is kept in memory, and a file that cannot be written is given up. */
#ifndef HRI_INTERPOSE_RECORD_H
#define HRI_INTERPOSE_RECORD_H

#include <stdint.h>
#include "interpose/doors.h"

/* When HEADROOM_RUN_RECORD names a file. */
void hri_record_open(void);
void hri_record_close_in_child(void);
/* Not under a lock. */
void hri_record_alloc(int device, uint64_t at, uint64_t bytes, hri_hook call);
void hri_record_free(int device, uint64_t at, hri_hook call);

#endif
