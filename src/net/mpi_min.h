/* The functions of MPI that we use, and the three sets of constants under which libraries answer to them.
 *
 * Handles are pointers in Open MPI, ints in MPICH and its kin, small pointer-sized numbers in the MPI 5.0 standard ABI.  Prototypes
 * that take uintptr_t for each serve all three where pointers have 64 bits; requests lie in slots of 8 bytes, tested one by one;
 * statuses are ignored, so the length of a message is in the message. */
#ifndef HRI_NET_MPI_MIN_H
#define HRI_NET_MPI_MIN_H

#include <stdbool.h>
#include <stdint.h>
#include <headroom/status.h>
#include "base/prose.h"

typedef struct hri_mpi {
    void *library;
    const char *name, *abi; /* "libmpi.so.40", "Open MPI" */
    uintptr_t world, byte, request_null, status_ignore;
    int thread_serialized;
    int (*init_thread)(int *argc, char ***argv, int required, int *provided);
    int (*initialized)(int *flag);
    int (*finalized)(int *flag);
    int (*finalize)(void);
    int (*cancel)(void *request);
    int (*comm_rank)(uintptr_t comm, int *rank);
    int (*comm_size)(uintptr_t comm, int *size);
    int (*isend)(const void *data, int count, uintptr_t type, int to, int tag, uintptr_t comm,
                 void *request);
    int (*irecv)(void *data, int count, uintptr_t type, int from, int tag, uintptr_t comm,
                 void *request);
    int (*test)(void *request, int *flag, uintptr_t status);
    int (*version)(char *text, int *length);
} hri_mpi;

/* Opens the library of this launcher ("Open MPI", "MPICH", otherwise the first that is there); nothing is initialised.
 * HR_E_UNSUPPORTED: it is not there. */
HR_MUST_CHECK hr_status hri_mpi_load(const char *launcher, hri_mpi *out, hri_prose *why);
/* Only of a library that was not started. */
void hri_mpi_unload(hri_mpi *mpi);
/* MPI_Init_thread, and does the library agree with the launcher?  Once a process: a library that was ended cannot begin again. */
HR_MUST_CHECK hr_status hri_mpi_start(const hri_mpi *mpi, uint32_t rank, uint32_t size,
                                      hri_prose *why);

#endif
