/* The gates of gates.def: the driver's own calls, held back while spilled memory comes back. */
#include "interpose/spill.h"

#define HRI_GATE(NAME, PARAMETERS, ARGUMENTS)                                                      \
    CUresult NAME PARAMETERS {                                                                     \
        __typeof__(&NAME) call = HRI_REAL(NAME);                                                   \
        const bool passing = hri_gate_enter();                                                     \
        const CUresult result = call ? call ARGUMENTS : CUDA_ERROR_NOT_FOUND;                      \
        if (passing) {                                                                             \
            hri_gate_leave();                                                                      \
        }                                                                                          \
        return result;                                                                             \
    }
#include "interpose/gates.def"
#undef HRI_GATE
