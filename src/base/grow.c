/* Structs that grow; see grow.h. */
#include "base/grow.h"

#include <string.h>

hr_status hri_take(void *own, size_t own_size, const void *theirs) {
    size_t size;
    memcpy(&size, theirs, sizeof size);
    if (size < sizeof size) {
        return HR_E_INVALID;
    }
    for (size_t i = own_size; i < size; i++) {
        if (((const char *)theirs)[i]) {
            return HR_E_UNSUPPORTED;
        }
    }
    memset(own, 0, own_size);
    memcpy(own, theirs, size < own_size ? size : own_size);
    memcpy(own, &own_size, sizeof own_size);
    return HR_OK;
}

hr_status hri_give(void *theirs, const void *own, size_t own_size) {
    size_t size;
    memcpy(&size, theirs, sizeof size);
    if (size < sizeof size) {
        return HR_E_INVALID;
    }
    const size_t known = size < own_size ? size : own_size;
    memcpy(theirs, own, known);
    memset((char *)theirs + known, 0, size - known);
    memcpy(theirs, &known, sizeof known);
    return HR_OK;
}
