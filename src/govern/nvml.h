/* NVML as the broker's eyes. */
#ifndef HRI_GOVERN_NVML_H
#define HRI_GOVERN_NVML_H

#include "base/prose.h"
#include "broker/observer.h"

typedef struct hri_nvml_observer hri_nvml_observer;

/* HR_E_UNSUPPORTED with the reason when NVML is missing or refuses to start. */
HR_MUST_CHECK hr_status hri_nvml_observer_open(hri_nvml_observer **out, hri_prose *why);
/* NULL is allowed. */
void hri_nvml_observer_close(hri_nvml_observer *observer);
hri_observer hri_nvml_observer_of(hri_nvml_observer *observer);

#endif
