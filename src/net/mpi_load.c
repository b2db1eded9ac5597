/* Finding an MPI at run time; see mpi_min.h. */
#include <dlfcn.h>
#include <string.h>

#include "base/fault.h"
#include "net/mpi_min.h"

typedef struct known_abi {
    const char *library, *abi;
    const char *world, *byte,
        *request_null; /* symbols whose addresses are the handles; NULL: the numbers below */
    uintptr_t numbers[3];
    uintptr_t status_ignore;
    int thread_serialized;
} known_abi;

static const known_abi known[] = {
    {"libmpi.so.40",
     "Open MPI",
     "ompi_mpi_comm_world",
     "ompi_mpi_byte",
     "ompi_request_null",
     {0, 0, 0},
     0,
     2},
    {"libmpi.so.12", "MPICH", NULL, NULL, NULL, {0x44000000u, 0x4c00010du, 0x2c000000u}, 1, 2},
    {"libmpich.so.12", "MPICH", NULL, NULL, NULL, {0x44000000u, 0x4c00010du, 0x2c000000u}, 1, 2},
    {"libmpi_abi.so.1", "MPI 5 ABI", NULL, NULL, NULL, {0x101, 0x247, 0x180}, 0, 2048},
};

static bool find(void *library, const char *name, void *out) {
    void *symbol = dlsym(library, name);
    memcpy(out, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool fill(const known_abi *k, hri_mpi *m) {
    void *at[3] = {NULL, NULL, NULL};
    m->name = k->library;
    m->abi = k->abi;
    m->status_ignore = k->status_ignore;
    m->thread_serialized = k->thread_serialized;
    bool good = true;
    if (k->world) {
        good = find(m->library, k->world, &at[0]) && find(m->library, k->byte, &at[1]) &&
               find(m->library, k->request_null, &at[2]);
    }
    m->world = k->world ? (uintptr_t)at[0] : k->numbers[0];
    m->byte = k->world ? (uintptr_t)at[1] : k->numbers[1];
    m->request_null = k->world ? (uintptr_t)at[2] : k->numbers[2];
    void *const l = m->library;
    return good && find(l, "MPI_Init_thread", &m->init_thread) &&
           find(l, "MPI_Initialized", &m->initialized) && find(l, "MPI_Finalize", &m->finalize) &&
           find(l, "MPI_Finalized", &m->finalized) && find(l, "MPI_Cancel", &m->cancel) &&
           find(l, "MPI_Comm_rank", &m->comm_rank) && find(l, "MPI_Comm_size", &m->comm_size) &&
           find(l, "MPI_Isend", &m->isend) && find(l, "MPI_Irecv", &m->irecv) &&
           find(l, "MPI_Test", &m->test) && find(l, "MPI_Get_library_version", &m->version);
}

hr_status hri_mpi_load(const char *launcher, hri_mpi *out, hri_prose *why) {
    const bool open_mpi = strcmp(launcher, "Open MPI") == 0, mpich = strcmp(launcher, "MPICH") == 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const bool kin = strcmp(known[i].abi, "Open MPI") == 0;
        if ((open_mpi && !kin) || (mpich && kin)) {
            continue; /* another library than the launcher's would come up as a world of one */
        }
        hri_mpi m = {0};
        m.library = HRI_FAULT(OPEN) ? NULL : dlopen(known[i].library, RTLD_NOW | RTLD_GLOBAL);
        if (m.library && fill(&known[i], &m)) {
            *out = m;
            return HR_OK;
        }
        if (m.library) {
            dlclose(m.library);
        }
    }
    return hri_prose_set(
        why, HR_E_UNSUPPORTED,
        "no MPI library was found (libmpi.so.40, libmpi.so.12, libmpich.so.12, libmpi_abi.so.1)");
}

void hri_mpi_unload(hri_mpi *mpi) {
    dlclose(mpi->library);
    *mpi = (hri_mpi){0};
}
