/* What the outside sees of the devices: how the broker learns of memory that no lease covers.  The daemon's owner brings
 * one (NVML in the program, numbers in tests); without one there are no devices. */
#ifndef HRI_BROKER_OBSERVER_H
#define HRI_BROKER_OBSERVER_H

#include <stdint.h>

typedef struct hri_observed {
    unsigned char uuid[16];
    uint64_t total_bytes, used_bytes;
    char name[64]; /* "NVIDIA H200"; "": not known */
} hri_observed;

typedef struct hri_observed_process {
    int64_t pid;
    uint64_t bytes;
} hri_observed_process;

enum { HRI_OBSERVED_DEVICES = 16, HRI_OBSERVED_PROCESSES = 1024 };

typedef struct hri_observer {
    void *user;
    /* Fills out[0..HRI_OBSERVED_DEVICES); returns how many there are. */
    int (*devices)(void *user, hri_observed *out);
    /* The processes on a device: fills out[0..HRI_OBSERVED_PROCESSES), returns how many; -1: they cannot be known. */
    int (*processes)(void *user, const unsigned char uuid[16], hri_observed_process *out);
} hri_observer;

#endif
