/* See stack.h. */
#include "base/stack.h"

#include <pthread.h>
#include <sys/resource.h>

hr_status hri_stack_raise(hri_prose *why) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= HRI_STACK_WANTED) {
        return HR_OK; /* RLIM_INFINITY is the largest number */
    }
    const struct rlimit own = {.rlim_cur = HRI_STACK_WANTED, .rlim_max = limit.rlim_max};
    const struct rlimit both = {.rlim_cur = HRI_STACK_WANTED, .rlim_max = HRI_STACK_WANTED};
    const struct rlimit rest = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
    const int raised = limit.rlim_max >= HRI_STACK_WANTED
                           ? setrlimit(RLIMIT_STACK, &own) == 0
                           : setrlimit(RLIMIT_STACK, &both) == 0 || /* root may */
                                 setrlimit(RLIMIT_STACK, &rest) == 0;
    if (!raised || getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur < HRI_STACK_LEAST) {
        return hri_prose_set(why, HR_E_LIMIT,
                             "the stack is limited to %llu KiB, but %d KiB are needed; raise the "
                             "limit: ulimit -s 8192",
                             (unsigned long long)limit.rlim_cur / 1024, HRI_STACK_LEAST / 1024);
    }
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) == 0) { /* else they have what the shell left */
        if (pthread_attr_setstacksize(&attributes, limit.rlim_cur) == 0) {
            (void)pthread_setattr_default_np(&attributes);
        }
        pthread_attr_destroy(&attributes);
    }
    return HR_OK;
}
