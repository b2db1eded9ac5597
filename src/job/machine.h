/* Between the files of hr_machine_get_info (headroom/doctor.h). */
#ifndef HRI_JOB_MACHINE_H
#define HRI_JOB_MACHINE_H

#include <headroom/doctor.h>

/* Processor and features alone; `root` is put in front of every path. */
void hri_machine_read_processor(hr_machine_info *machine, const char *root);
/* The two cgroup fields alone; `root` is put in front of every path. */
void hri_machine_read_cgroup(hr_machine_info *machine, const char *root);

#endif
