/* Who of several processes that started together speaks. */
#ifndef HRI_NET_SPEAK_H
#define HRI_NET_SPEAK_H

#include <stdint.h>

/* How many ranks the launcher's variables name, and which this one is; 1 where there are none.  Variables that cannot be
 * read count as 2: whoever joins the group says what is wrong with them. */
uint32_t hri_group_size(uint32_t *rank);
/* Output and errors of every rank but the first lead nowhere from here on. */
void hri_group_mute(void);
/* Errors are seen again, where they were. */
void hri_group_unmute(void);

#endif
