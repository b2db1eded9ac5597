/* Laying out the bottom of a shared arena; see share.h. */
#include "plan/share.h"

#include "base/map.h"

/* Where a value lies and how large it is: the first problem that has it decides. */
typedef struct places {
    hri_strmap at, bytes;
    uint64_t used;
} places;

static hr_status place(places *p, const hri_problem_value *value, uint64_t *out, hri_prose *why) {
    uint64_t bytes = 0;
    if (value->role == HRI_ROLE_PERSISTENT && hri_strmap_get(&p->at, value->name, out)) {
        if (!hri_strmap_get(&p->bytes, value->name, &bytes) || bytes != value->bytes) {
            return hri_prose_set(why, HR_E_SHAPE,
                                 "%s has %llu bytes in one graph and %llu in "
                                 "another",
                                 value->name, (unsigned long long)bytes,
                                 (unsigned long long)value->bytes);
        }
        return HR_OK;
    }
    *out = p->used;
    p->used += value->room_bytes;
    if (value->role != HRI_ROLE_PERSISTENT) {
        return HR_OK;
    }
    const hr_status status = hri_strmap_put(&p->at, value->name, *out);
    return status == HR_OK ? hri_strmap_put(&p->bytes, value->name, value->bytes) : status;
}

hr_status hri_problem_share(const hri_problem *const *problems, uint64_t *const *offsets,
                            uint32_t count, uint64_t *out_bytes, hri_prose *why) {
    places p = {.used = 0};
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < count && status == HR_OK; i++) {
        for (uint32_t v = 0; v < problems[i]->value_count && status == HR_OK; v++) {
            const hri_problem_value *value = &problems[i]->values[v];
            if (value->role == HRI_ROLE_PERSISTENT || value->role == HRI_ROLE_CONSTANT) {
                status = place(&p, value, &offsets[i][v], why);
            }
        }
    }
    hri_strmap_deinit(&p.at);
    hri_strmap_deinit(&p.bytes);
    if (status == HR_OK) {
        *out_bytes = p.used;
    }
    return status;
}
