/* text:FILE[,FILE...]  text as bytes: every byte is a token, so there are 256 of them and any file is text, in any language
 * and encoding.  Cut into windows (formats/windows.h). */
#include "data/formats/windows.h"

static const hri_field fields[] = {
    {"path", "files", offsetof(hri_windows_options, path), HRI_FIELD_LIST, .metavar = "FILE"},
    HRI_WINDOWS_CUT,
    HRI_WINDOWS_DRAW,
    {0}};

static hr_status open(hri_stage *s, hri_prose *why) {
    return hri_windows_open(s, 1, NULL, "bytes", why);
}

const hri_stage_type hri_stage_type_text = {
    .name = "text",
    .help = "text files as bytes, read in windows",
    .main = "path",
    .fields = fields,
    .options_bytes = sizeof(hri_windows_options),
    .own_bytes = sizeof(hri_windows),
    .open = open,
    .close = hri_windows_close,
    .at = hri_windows_at,
    .load = hri_windows_load,
    .fingerprint = hri_windows_fingerprint,
    .newest = hri_windows_newest,
};
