/* The settings of every command, in one table: flags, environment, --help, man pages, and what doctor shows.
 *
 * The one idea: a setting is one row.  A flag is stronger than its variable, the variable than the default.  Variables
 * of other programs that we obey (NO_COLOR, CUDA_VISIBLE_DEVICES) have a table of their own: they have no flag. */
#ifndef HRI_MANUAL_SETTINGS_H
#define HRI_MANUAL_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/options.h"
#include "manual/manual.h"

typedef struct hri_settings {
    const char *visible_devices; /* NULL: the library reads its variable itself */
    uint64_t null_device_bytes;  /* 0: no null device */
    bool cuda;
    int64_t threads; /* 0: one for each core that this process may use */
    const char *cache_dir;
    int log;   /* hr_log_level */
    int color; /* hri_color_mode */
    bool help, version;
} hri_settings;

extern const hri_field hri_settings_fields[];

/* Ends with a NULL variable. */
extern const hri_foreign hri_foreign_variables[];

/* Reads the variables of the rows of `o` one by one, so that a bad one spoils no other; the first problem is put into
 * `why` ("HEADROOM_LOG=loud: ..."), and its status returned. */
hr_status hri_settings_set_env(hri_options *o, hri_prose *why);
/* The directory for compiled kernels and measurements: the setting, else $XDG_CACHE_HOME/headroom, else
 * ~/.cache/headroom, else "".  Returns buf. */
const char *hri_settings_cache_dir(const hri_settings *settings, char *buf, size_t size);

#endif
