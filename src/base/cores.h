/* How many cores this process may use: what a pool of threads should be sized by.
 *
 * A container is often given less time than the machine has cores; a thread too many there is not a
 * little waste but a stall until the next period.  Any thread; reads files, so ask once. */
#ifndef HRI_BASE_CORES_H
#define HRI_BASE_CORES_H

#include <stdint.h>

/* The smaller of the affinity mask and the cgroup's share of time, 1 at least. */
uint32_t hri_cores_usable(void);

/* The share of time of a cgroup in whole cores, rounded up; 0: no bound.  `membership` is the text of
 * /proc/self/cgroup, `root` the folder of the hierarchy ("/sys/fs/cgroup").  Version 2 (cpu.max, every
 * level up to the root counts) and version 1 (cpu.cfs_quota_us). */
uint32_t hri_cores_of_cgroup(const char *membership, const char *root);

#endif
