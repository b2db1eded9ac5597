/* Who of several processes that started together speaks. */
#ifndef HRI_NET_SPEAK_H
#define HRI_NET_SPEAK_H

#include <stdint.h>
#include "net/net.h"

/* How many ranks the launcher's variables name, and which this one is; 1 where there are none.  Variables that cannot be
 * read count as 2: whoever joins the group says what is wrong with them. */
uint32_t hri_group_size(uint32_t *rank);
/* Output and errors of every rank but the first lead nowhere from here on. */
void hri_group_mute(void);
/* Did the run end because rank 0 is gone, before it could say anything?  net NULL: they never met, and `why` is what
 * hri_net_open said. */
bool hri_group_first_is_gone(hri_net *net, const char *why);
/* Errors are seen again, where they were. */
void hri_group_unmute(void);

#endif
