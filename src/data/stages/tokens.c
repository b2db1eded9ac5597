/* tokens:FILE[,FILE...]  a file of token numbers (u16 or u32, little-endian), cut into windows (formats/windows.h).  The
 * 1024-byte header of llm.c's files is recognised and skipped. */
#include "data/formats/windows.h"

typedef struct options {
    hri_windows_options windows;
    int type;
    uint64_t skip;
} options;

static const char *const types[] = {"u16", "u32", NULL};

static const hri_field fields[] = {
    {"path", "files", offsetof(options, windows.path), HRI_FIELD_LIST, .metavar = "FILE"},
    HRI_WINDOWS_CUT,
    {"type", "type of a token in the file", offsetof(options, type), HRI_FIELD_ENUM, "u16",
     .choices = types},
    {"skip", "bytes to skip before the first token", offsetof(options, skip), HRI_FIELD_BYTES, "0"},
    HRI_WINDOWS_DRAW,
    {0}};

static const uint32_t llmc_magic = 20240520;

static hr_status head(const void *o, const hri_file *f, uint64_t *out, hri_prose *why) {
    uint32_t word = 0;
    *out = ((const options *)o)->skip;
    if (*out || f->bytes < 1024) {
        return HR_OK;
    }
    const hr_status status = hri_filelist_read(f, 0, &word, sizeof word, why);
    *out = word == llmc_magic ? 1024 : 0;
    return status;
}

static hr_status open(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    hri_filelist *files = &((hri_windows *)s->own)->files;
    const hr_status status = hri_filelist_open(files, &o->windows.path, why);
    return status == HR_OK ? hri_windows_open(s, o->type == 0 ? 2 : 4, head, "tokens",
                                              files->files[0].path, -1, why)
                           : status;
}

const hri_stage_type hri_stage_type_tokens = {
    .name = "tokens",
    .help = "token files, read in windows",
    .main = "path",
    .fields = fields,
    .options_bytes = sizeof(options),
    .own_bytes = sizeof(hri_windows),
    .open = open,
    .close = hri_windows_close,
    .at = hri_windows_at,
    .load = hri_windows_load,
    .fingerprint = hri_windows_fingerprint,
    .newest = hri_windows_newest,
};
