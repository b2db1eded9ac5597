/* A device's memory as a row of a table with eight columns and as an object of a list. */
#ifndef HRI_SHOW_DEVICES_H
#define HRI_SHOW_DEVICES_H

#include <headroom/device.h>
#include "base/json.h"
#include "base/table.h"

void hri_device_show(const hr_device_info *info, hri_json *json, hri_table *table);
/* A device that is there and cannot be used (a full GPU, say) is shown with the reason: that is what people look
 * for. */
void hri_device_show_unusable(const char *name, const char *why, hri_json *json, hri_table *table);

#endif
