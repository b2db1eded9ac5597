/* Recordings for other programs: Perfetto and Chrome, spreadsheets, TensorBoard.  JSON is report.h's. */
#ifndef HRI_SEE_EXPORT_H
#define HRI_SEE_EXPORT_H

#include "see/recording.h"

/* Trace Event Format (JSON; ui.perfetto.dev and chrome://tracing open it): a process for what was planned and one for what was
 * measured, each with a slice per op and counters of memory by category.  Events without a time are a microsecond apart. */
HR_MUST_CHECK hr_status hri_see_export_trace(const hri_recording *r, const char *path,
                                             hri_prose *why);
/* FOLDER/ops.csv, buffers.csv, parts.csv, choices.csv, steps.csv: RFC 4180, a heading first.  The folder is made. */
HR_MUST_CHECK hr_status hri_see_export_csv(const hri_recording *r, const char *folder,
                                           hri_prose *why);
/* An event file in FOLDER: steps by number, then memory by category and times by op. */
HR_MUST_CHECK hr_status hri_see_export_tensorboard(const hri_recording *r, const char *folder,
                                                   hri_prose *why);

#endif
