/* What this machine is, and what works on it.
 *
 *   hr_doctor *d;
 *   hr_check check = {.size = sizeof check};
 *   hr_doctor_create(ctx, NULL, &d, &why);                       tries every device and the cache directory
 *   for (size_t i = 0; hr_doctor_get_check(d, i, &check) == HR_OK; i++) ...
 *   hr_doctor_destroy(d);
 *
 * "Found" proves nothing; a page that was mapped, written, read back and given up does.  So the checks do that, and leave
 * the machine as they found it.  Facts are read from /proc and /sys; one that cannot be read is unknown, never an error.
 *
 * Strings are valid as long as the hr_doctor.  Threads: one at a time. */
#ifndef HEADROOM_DOCTOR_H
#define HEADROOM_DOCTOR_H

#include <headroom/context.h>

HR_BEGIN_DECLS

/* Set size to sizeof(hr_machine_info). */
typedef struct hr_machine_info {
    size_t size;
    uint64_t memory_bytes;       /* of the machine; 0: unknown */
    uint64_t cgroup_limit_bytes; /* the smallest on the way up; UINT64_MAX: none */
    uint64_t lock_limit_bytes;   /* RLIMIT_MEMLOCK; UINT64_MAX: none */
    uint32_t cores_online;       /* of the machine */
    uint32_t cores_usable;       /* by this process (affinity, cgroup) */
    char system[160];            /* "Linux 6.1.0 x86_64" */
    char processor[96];          /* "AMD EPYC 7763"; "unknown" */
    char features[128];          /* "avx2 fma"; "none known" */
    char huge_pages[96];         /* "transparent: madvise, shared memory: never, reserved: 0" */
    char cgroup_path[256];       /* the file with the limit; "" */
} hr_machine_info;

HR_API HR_MUST_CHECK hr_status hr_machine_get_info(hr_machine_info *out);

/* Zero is the default in every field. */
typedef struct hr_doctor_options {
    size_t size;
    const char *const *devices; /* names; NULL: all devices of the context */
    size_t device_count;
    const char *cache; /* the directory that is tried; NULL: the user's; "": none */
} hr_doctor_options;

typedef struct hr_doctor hr_doctor;

/* HR_OK whether the checks pass or not.  ctx NULL: devices cannot be listed, the rest is checked.  options may be NULL.
 * HR_E_NOT_FOUND: no such device, with those there are in *why (may be NULL). */
HR_API HR_MUST_CHECK hr_status hr_doctor_create(hr_ctx *ctx, const hr_doctor_options *options,
                                                hr_doctor **out, hr_error *why);
/* NULL is allowed. */
HR_API void hr_doctor_destroy(hr_doctor *doctor);

typedef enum hr_check_result {
    HR_CHECK_OK = 0,
    HR_CHECK_FAILED,
    HR_CHECK_SKIPPED /* it makes no sense here; detail says why */
} hr_check_result;

typedef struct hr_check {
    size_t size;
    const char *subject; /* "cuda:0", "cache directory" */
    const char *name;    /* "maps a page" */
    const char *detail;
    int32_t result; /* hr_check_result */
    int32_t reserved;
} hr_check;

/* Until HR_E_EOF. */
HR_API HR_MUST_CHECK hr_status hr_doctor_get_check(const hr_doctor *doctor, size_t index,
                                                   hr_check *out);

typedef enum hr_found {
    HR_FOUND_OK = 0,
    HR_FOUND_MISSING, /* detail: what that switches off */
    HR_FOUND_BROKEN
} hr_found;

typedef struct hr_component {
    size_t size;
    const char *name, *version, *detail; /* "" where there is none */
    int32_t found;                       /* hr_found */
    int32_t reserved;
} hr_component;

/* Libraries, with those of the devices.  Until HR_E_EOF. */
HR_API HR_MUST_CHECK hr_status hr_doctor_get_component(const hr_doctor *doctor, size_t index,
                                                       hr_component *out);

HR_END_DECLS
#endif
