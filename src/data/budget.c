/* See budget.h; memory/left.h has the reading. */
#include "data/budget.h"

#include "memory/left.h"

uint64_t hri_budget_available(const char *root) {
    hri_memory_left left;
    hri_memory_left_read(root, &left);
    return left.free_bytes;
}
