/* The way of our commands to the broker: finding it, starting it, the devices it sees, the lines of its list. */
#ifndef HRI_GOVERN_LINK_H
#define HRI_GOVERN_LINK_H

#include "broker/client.h"
#include "base/prose.h"

enum { HRI_LINK_DEVICES = 16 };

typedef struct hri_link {
    hri_client client;
    char folder[HRI_WIRE_PATH];
} hri_link;

/* Connects; where no broker runs, starts one (`headroom broker`: this program if it is headroom, else the one in PATH) and
 * waits for it, up to five seconds.  HR_E_UNSUPPORTED: there is nothing to start, it ended at once, as it does where NVML is
 * missing, or HEADROOM_BROKER=off. */
HR_MUST_CHECK hr_status hri_link_open(hri_link *link, hri_prose *why);
/* Only connects: HR_E_NOT_FOUND where none runs. */
HR_MUST_CHECK hr_status hri_link_find(hri_link *link, hri_prose *why);
void hri_link_close(hri_link *link);

/* Row `row` of the list; HR_E_EOF behind the last. */
HR_MUST_CHECK hr_status hri_link_row(hri_link *link, uint32_t row, hri_wire *out);
/* "GPU-fae7c4..." in full, for environment variables and --json. */
void hri_link_uuid_text(const unsigned char uuid[16], char out[48]);

#endif
