/* The device under test.  The same suite runs on every back end: HEADROOM_TEST_DEVICE names the device ("host" when
 * unset), and a case skips loudly when there is none of that name. */
#ifndef HR_TEST_FIXTURE_H
#define HR_TEST_FIXTURE_H

#include <headroom/headroom.h>
#include "test.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

typedef struct fixture {
    hr_ctx *ctx;
    hr_device *device;
    hr_device_info info; /* of the device when opened */
} fixture;

fixture fixture_open(void);
/* Everything must have been given back: nothing is held, our own records are gone. */
void fixture_close(fixture *f);
/* Without opening: "host", "cuda:0". */
const char *fixture_device_name(void);
int fixture_is_host(void);
hr_status fixture_try_ctx(hr_ctx **out, hr_device **device);

hr_logical *fixture_slice(fixture *f, const char *name, uint64_t limit, hr_growth growth);
void fixture_drop(hr_logical *logical);
hr_block fixture_alloc(hr_logical *logical, uint64_t bytes);
void fixture_free(hr_logical *logical, const hr_block *block);
/* CHECKs the invariants and says which is broken. */
void fixture_check(hr_logical *logical);
/* The last error's text, in static storage. */
const char *fixture_error(hr_ctx *ctx);
/* What the outside sees for this process on this device. */
uint64_t fixture_outside_bytes(fixture *f);

#endif
