/* The RAM of a process and of everything below it, from /proc. */
#ifndef HRI_GOVERN_RAM_TREE_H
#define HRI_GOVERN_RAM_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <headroom/status.h>

typedef struct hri_ram_tree {
    uint64_t bytes;
    pid_t largest; /* the process that has most; 0: none */
    uint64_t largest_bytes;
    char name[64]; /* its */
} hri_ram_tree;

/* exact: pages that several have count once, which costs a walk over their page tables; else what each has for itself, plus the
 * most that one of them shares. */
HR_MUST_CHECK hr_status hri_ram_tree_read(pid_t root, bool exact, hri_ram_tree *out);

#endif
