/* Addresses of another program, packed: ranges that it used lie one behind another, so that a map of them has no deserts. */
#ifndef HRI_SEE_PLACES_H
#define HRI_SEE_PLACES_H

#include <stdint.h>
#include <headroom/status.h>
#include "base/alloc.h"
#include "base/vector.h"

typedef struct hri_see_place {
    uint64_t from, to, offset;
} hri_see_place;

HRI_VECTOR(hri_see_places, hri_see_place)

/* Any number of ranges, overlapping or not; then pack once. */
HR_MUST_CHECK hr_status hri_see_places_add(hri_see_places *p, uint64_t from, uint64_t bytes);
void hri_see_places_pack(hri_see_places *p);
/* Of an address that was added. */
uint64_t hri_see_places_find(const hri_see_places *p, uint64_t address);

#endif
