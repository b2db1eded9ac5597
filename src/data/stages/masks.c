/* masks:images=DIR,masks=DIR  images with a class for every pixel.  The mask of DIR/a/1.jpg is the PNG of the same name in the
 * other folder, a/1.png (suffix=_mask: a/1_mask.png), or else the BMP, TIFF or lossless WebP.  JPEG and AVIF are refused: they change values.  masks:DIR alone is DIR/images with DIR/masks.
 *
 * "image" is the file as it is (u8[n]: decode comes next); "label" is the mask as numbers of classes, u8[height,width], with 255
 * for pixels that are ignored, which decode turns into i32 of the size of the image, with -1 for them.
 *
 * Classes (image/mask.h) come from the options, or from the table that the pipeline was given (a checkpoint's), or from up to
 * 256 masks, spread evenly.  Opening looks for every mask and reads its size and time, so a missing one is refused at once;
 * a mask of another size than its image and a pixel of no class are bad elements with the mask's path and the place. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"
#include "data/formats/imagelist.h"
#include "data/image/mask.h"
#include "data/pipeline.h"
#include "data/read.h"

enum { LOOKS = 256, PATH_SIZE = HRI_IMAGELIST_PATH };

typedef struct options {
    const char *images, *masks, *suffix, *classes, *colours, *ignore;
    bool names;
} options;

static const hri_field fields[] = {
    {"images", "directory of images; alone: the directory with images/ and masks/",
     offsetof(options, images), HRI_FIELD_STRING, .metavar = "DIR"},
    {"masks",
     "directory of masks: PNG, BMP, TIFF or lossless WebP files with the names of the images",
     offsetof(options, masks), HRI_FIELD_STRING, .metavar = "DIR"},
    {"suffix", "what follows the name of an image in that of its mask", offsetof(options, suffix),
     HRI_FIELD_STRING, "", .metavar = "TEXT"},
    {"classes", "names of the classes, NAME+NAME, in the order of values or colours",
     offsetof(options, classes), HRI_FIELD_STRING, .metavar = "NAMES"},
    {"colours", "colours of the classes, 000000+ff0000; without: those in the masks",
     offsetof(options, colours), HRI_FIELD_STRING, .metavar = "COLOURS"},
    {"ignore", "value or colour of pixels that count for nothing, or none; without: the value 255",
     offsetof(options, ignore), HRI_FIELD_STRING, .metavar = "VALUE"},
    {"names", "add a field with the path of each image", offsetof(options, names), HRI_FIELD_BOOL,
     "off"},
    {0}};

typedef struct own {
    hri_imagelist images;
    hri_mask_classes classes;
    hri_tabular *table; /* the classes, until somebody takes them */
    char *images_dir, *masks_dir;
    hri_hasher print; /* of the masks' sizes and times */
    uint64_t largest_mask;
    bool whole_masks; /* some are of formats that are decoded as a whole */
    uint64_t newest;
    struct timespec newest_time;
} own;

/* ---- pairs ---- */

/* The path of the mask of image i with this end; false when it is too long. */
static bool path_with(const hri_stage *s, uint64_t i, const char *end, char *path) {
    const own *w = s->own;
    const options *o = s->options;
    char name[PATH_SIZE];
    const size_t n = hri_pathlist_print(&w->images.files, i, name, sizeof name);
    char *dot = n < sizeof name ? strrchr(name, '.') : NULL; /* an image has one */
    if (!dot) {
        return false;
    }
    *dot = '\0';
    const int used = snprintf(path, PATH_SIZE, "%s/%s%s%s", w->masks_dir, name, o->suffix, end);
    return used > 0 && used < PATH_SIZE;
}

/* The mask of image i: a PNG, or the first of the others that is there; false when its path is too long. */
static bool mask_path(const hri_stage *s, uint64_t i, char *path) {
    static const char *const ends[] = {".png", ".bmp", ".tif", ".tiff", ".webp"};
    for (size_t k = 0; k < sizeof ends / sizeof ends[0]; k++) {
        if (!path_with(s, i, ends[k], path)) {
            return false;
        }
        if (access(path, F_OK) == 0) {
            return true;
        }
    }
    return path_with(s, i, ends[0], path);
}

/* Why there is no mask: one that loses values is not taken. */
static hr_status no_mask(const hri_stage *s, uint64_t i, const char *image, const char *path,
                         hri_prose *why) {
    static const char *const ends[] = {".jpg", ".jpeg", ".JPG", ".avif"};
    char other[PATH_SIZE];
    for (size_t k = 0; k < sizeof ends / sizeof ends[0]; k++) {
        if (path_with(s, i, ends[k], other) && access(other, F_OK) == 0) {
            return hri_prose_set(why, HR_E_UNSUPPORTED,
                                 "%s: %s cannot be a mask, since its compression changes "
                                 "values and colours; save masks as " HRI_MASK_FILES,
                                 other, ends[k][1] == 'a' ? "an AVIF" : "a JPEG");
        }
    }
    return hri_prose_set(why, HR_E_NOT_FOUND,
                         "%s has no mask: there is no %s (suffix= is for other names)", image,
                         path);
}

static void note_mask(own *w, uint64_t i, const struct stat *st) {
    const struct timespec *t = &st->st_mtim, *newest = &w->newest_time;
    hri_hasher_add_u64(&w->print, (uint64_t)st->st_size);
    hri_hasher_add_u64(&w->print, (uint64_t)t->tv_sec);
    hri_hasher_add_u64(&w->print, (uint64_t)t->tv_nsec);
    w->largest_mask =
        (uint64_t)st->st_size > w->largest_mask ? (uint64_t)st->st_size : w->largest_mask;
    if (t->tv_sec > newest->tv_sec ||
        (t->tv_sec == newest->tv_sec && t->tv_nsec > newest->tv_nsec)) {
        w->newest = i;
        w->newest_time = *t;
    }
}

/* Every image has a mask. */
static hr_status find_masks(hri_stage *s, hri_prose *why) {
    own *w = s->own;
    char path[PATH_SIZE], image[PATH_SIZE];
    struct stat st;
    if (stat(w->masks_dir, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return hri_prose_set(why, HR_E_NOT_FOUND, "%s: no such directory of masks", w->masks_dir);
    }
    hri_hasher_init(&w->print, 0);
    for (uint64_t i = 0; i < w->images.files.count; i++) {
        if (!hri_imagelist_path(&w->images, i, image) || !mask_path(s, i, path)) {
            return hri_prose_set(why, HR_E_RANGE, "%s: a path inside is too long", w->masks_dir);
        }
        errno = EIO;
        if (HRI_FAULT(OPEN) || stat(path, &st) != 0) {
            return errno == ENOENT ? no_mask(s, i, image, path, why)
                                   : hri_prose_set(why, HR_E_IO, "%s: %s", path, strerror(errno));
        }
        note_mask(w, i, &st);
        const char *end = strrchr(path, '.');
        w->whole_masks |= strcmp(end, ".png") != 0 && strcmp(end, ".bmp") != 0;
        if ((i + 1) % 16384 == 0) {
            hri_pipeline_progress(s->pipeline, s, i + 1, w->images.files.count);
        }
    }
    return HR_OK;
}

/* A file as a buffer. */
static hr_status read_whole(hri_memory *memory, const char *path, hri_buffer **out, uint64_t *bytes,
                            hri_prose *why) {
    int fd;
    hri_buffer *b = NULL;
    hr_status status = hri_file_open_regular(path, &fd, bytes, why);
    if (status != HR_OK) {
        return status;
    }
    status = hri_memory_buffer(memory, *bytes ? *bytes : 1, &b);
    if (status == HR_OK) {
        status = hri_read_at(fd, path, 0, b->data, *bytes, why);
    }
    close(fd);
    if (status != HR_OK) {
        hri_buffer_unref(b);
        return status;
    }
    *out = b;
    return HR_OK;
}

/* ---- classes ---- */

static hr_status look_at(hri_stage *s, uint64_t i, hri_mask_seen *seen, hri_prose *why) {
    char path[PATH_SIZE];
    hri_memory memory = hri_stage_memory(s);
    hri_prose reason = {{0}};
    hri_buffer *file = NULL;
    uint64_t bytes;
    if (!mask_path(s, i, path)) {
        return HR_E_RANGE;
    }
    hr_status status = read_whole(&memory, path, &file, &bytes, why);
    if (status == HR_OK) {
        status = hri_mask_look(file->data, bytes, &memory, seen, &reason);
        if (status != HR_OK) {
            (void)hri_prose_set(why, status, "%s: %s", path,
                                reason.text[0] ? reason.text : hr_status_text(status));
        }
        hri_buffer_unref(file);
    }
    return status;
}

static hr_status find_classes(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    own *w = s->own;
    const uint64_t count = w->images.files.count, n = count < LOOKS ? count : LOOKS;
    hri_mask_seen *seen = hri_calloc(1, sizeof *seen);
    hr_status status = seen ? HR_OK : HR_E_NOMEM_HOST;
    for (uint64_t i = 0; !o->colours && i < n && status == HR_OK; i++) {
        status = look_at(s, n == count ? i : i * (count / n), seen, why);
        if (i % 16 == 15) {
            hri_pipeline_progress(s->pipeline, s, i + 1, n);
        }
    }
    if (status == HR_OK) {
        status = hri_mask_classes_settle(o->classes, o->colours, o->ignore,
                                         o->colours ? NULL : seen, &w->classes, why);
    }
    if (status == HR_OK && w->classes.count == 0) {
        status = hri_prose_set(why, HR_E_FORMAT, "%s: its masks have no pixel that counts",
                               w->masks_dir);
    }
    hri_free(seen);
    return status;
}

/* The classes as a table of one target, for a checkpoint. */
static hr_status make_table(own *w) {
    const char *texts[HRI_MASK_CLASSES];
    for (size_t i = 0; i < w->classes.count; i++) {
        texts[i] = w->classes.texts[i];
    }
    hr_status status = hri_tabular_open(0, 1, &w->table);
    if (status == HR_OK) {
        status = hri_column_set(w->table, &w->table->targets[0], "mask", HRI_COLUMN_CLASSES, texts,
                                w->classes.count);
    }
    return status == HR_OK ? hri_tabular_settle(w->table) : status;
}

static hr_status settle_classes(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    own *w = s->own;
    const hri_tabular *given = hri_pipeline_table(s->pipeline);
    if (given && hri_tabular_has_classes(given)) {
        return hri_mask_classes_take(given->targets[0].values, given->targets[0].value_count,
                                     o->ignore, &w->classes, why);
    }
    const hr_status status = find_classes(s, why);
    return status == HR_OK ? make_table(w) : status;
}

/* ---- opening ---- */

static hr_status put_specs(hri_stage *s) {
    const options *o = s->options;
    const own *w = s->own;
    const hr_meta bytes = {.type = HR_TYPE_U8, .shape = {.rank = 1, .dim = {-1}}};
    const hr_meta plane = {.type = HR_TYPE_U8, .shape = {.rank = 2, .dim = {-1, -1}}};
    hr_status status = hri_spec_put(&s->spec, "image", bytes);
    if (status == HR_OK) {
        status = hri_spec_put(&s->spec, "label", plane);
    }
    if (status == HR_OK && o->names) {
        status = hri_spec_put(&s->spec, "name", bytes);
    }
    const uint32_t width = s->spec.image_width ? s->spec.image_width : 4096,
                   height = s->spec.image_height ? s->spec.image_height : 4096;
    s->spec.count = w->images.files.count;
    s->spec.item_bytes = hri_bytes_add(hri_bytes_add(hri_pool_round(w->images.largest_file + 1),
                                                     hri_pool_round((uint64_t)width * height)),
                                       o->names ? 64 + PATH_SIZE : 64);
    const uint64_t pixels = (uint64_t)width * height;
    const uint64_t whole = w->whole_masks ? pixels * 12 + (1 << 20) : pixels * 3; /* of a TIFF */
    s->spec.load_bytes =
        hri_bytes_add(hri_bytes_add(s->spec.item_bytes, hri_pool_round(w->largest_mask + 1)),
                      hri_image_scratch_bytes(width, height, whole, 1, 1));
    return status;
}

/* DIR/images and DIR/masks, or both as they were given. */
static hr_status find_folders(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    own *w = s->own;
    char images[PATH_SIZE], masks[PATH_SIZE];
    if (!o->images) {
        return hri_prose_set(why, HR_E_INVALID, "images: missing directory");
    }
    if (strlen(o->images) + 16 > PATH_SIZE || (o->masks && strlen(o->masks) + 16 > PATH_SIZE)) {
        return hri_prose_set(why, HR_E_RANGE, "images: the path is too long");
    }
    snprintf(images, sizeof images, "%s%s", o->images, o->masks ? "" : "/images");
    snprintf(masks, sizeof masks, "%s%s", o->masks ? o->masks : o->images,
             o->masks ? "" : "/masks");
    w->images_dir = hri_strdup(images);
    w->masks_dir = hri_strdup(masks);
    return w->images_dir && w->masks_dir ? HR_OK : HR_E_NOMEM_HOST;
}

static hr_status open_masks(hri_stage *s, hri_prose *why) {
    own *w = s->own;
    hr_status status = find_folders(s, why);
    if (status == HR_OK) {
        status = hri_imagelist_open(&w->images, s, w->images_dir, false, why);
    }
    if (status == HR_OK) {
        status = find_masks(s, why);
    }
    if (status == HR_OK) {
        status = settle_classes(s, why);
    }
    return status == HR_OK ? put_specs(s) : status;
}

static void close_masks(hri_stage *s) {
    own *w = s->own;
    hri_imagelist_close(&w->images);
    hri_tabular_close(w->table);
    hri_free(w->images_dir);
    hri_free(w->masks_dir);
}

/* ---- elements ---- */

static hr_status at(hri_stage *s, uint64_t i, hri_item *out) {
    *out = (hri_item){.source = s, .a = i, .epoch = s->epoch, .index = i};
    return HR_OK;
}

/* The mask in numbers of classes, as large as the image says. */
static hr_status emit_mask(const own *w, const char *path, const hri_buffer *file, uint64_t bytes,
                           const hri_image_info *image, hr_emit *emit) {
    hri_image_info info;
    hri_prose why = {{0}};
    void *data;
    hr_status status = hri_image_probe(file->data, bytes, &info, &why);
    if (status != HR_OK || info.format == HRI_IMAGE_JPEG || info.format == HRI_IMAGE_AVIF) {
        return hri_emit_fail(emit, HR_E_FORMAT, "its mask %s is not a " HRI_MASK_FILES " file",
                             path);
    }
    if (info.width != image->width || info.height != image->height) {
        return hri_emit_fail(emit, HR_E_SHAPE,
                             "its mask %s has %u x %u pixels, but the image %u x %u", path,
                             info.width, info.height, image->width, image->height);
    }
    const hr_meta meta = {.type = HR_TYPE_U8,
                          .shape = {.rank = 2, .dim = {info.height, info.width}}};
    status = hr_emit_field(emit, "label", &meta, &data);
    if (status == HR_OK) {
        status = hri_mask_decode(file->data, bytes, &w->classes, emit->memory, data, &why);
    }
    return status != HR_OK && why.text[0]
               ? hri_emit_fail(emit, status, "its mask %s: %s", path, why.text)
               : status;
}

static hr_status load_mask(hri_stage *s, uint64_t i, hr_emit *emit) {
    char path[PATH_SIZE];
    const hr_field *f = hr_element_find(emit->output, "image");
    hri_image_info image;
    hri_prose why = {{0}};
    hri_buffer *file = NULL;
    uint64_t bytes;
    if (hri_image_probe(f->data, f->bytes, &image, &why) != HR_OK) {
        return hri_emit_fail(emit, HR_E_FORMAT, "%s", why.text[0] ? why.text : "truncated header");
    }
    if ((uint64_t)image.width * image.height > UINT64_C(1) << 28) {
        return hri_emit_fail(emit, HR_E_RANGE, "the image has %u x %u pixels, more than 2^28",
                             image.width, image.height);
    }
    if (!mask_path(s, i, path)) {
        return hri_emit_fail(emit, HR_E_RANGE, "the path of its mask is too long");
    }
    hr_status status = read_whole(emit->memory, path, &file, &bytes, &why);
    if (status != HR_OK) {
        return why.text[0] ? hri_emit_fail(emit, status, "its mask: %s", why.text) : status;
    }
    status = emit_mask(s->own, path, file, bytes, &image, emit);
    hri_buffer_unref(file);
    return status;
}

static hr_status load(hri_stage *s, const hri_item *item, hr_emit *emit) {
    const options *o = s->options;
    const own *w = s->own;
    char path[PATH_SIZE];
    hr_status status = hri_imagelist_path(&w->images, item->a, path)
                           ? hri_emit_file(emit, "image", path)
                           : hri_emit_fail(emit, HR_E_RANGE, "its path is too long");
    if (status == HR_OK) {
        status = load_mask(s, item->a, emit);
    }
    return status == HR_OK && o->names ? hri_imagelist_emit_name(&w->images, item->a, emit)
                                       : status;
}

static void name_of(hri_stage *s, const hri_item *item, char *buf, size_t size) {
    const own *w = s->own;
    hri_pathlist_print(&w->images.files, item->a, buf, size);
}

static const char *class_name(hri_stage *s, size_t index) {
    const own *w = s->own;
    return index < w->classes.count ? w->classes.texts[index] : NULL;
}

static hri_tabular *take_table(hri_stage *s) {
    own *w = s->own;
    hri_tabular *t = w->table;
    w->table = NULL;
    return t;
}

static void fingerprint(hri_stage *s, hri_state *state) {
    const own *w = s->own;
    const hri_hash128 print = hri_hasher_get(&w->print);
    hri_imagelist_print_to(&w->images, state);
    hri_state_put(state, print.lo);
    hri_state_put(state, print.hi);
}

static int64_t newest(hri_stage *s, char *path, size_t size) {
    const own *w = s->own;
    const int64_t image = hri_imagelist_newest(&w->images, path, size);
    char mask[PATH_SIZE];
    if ((int64_t)w->newest_time.tv_sec > image && mask_path(s, w->newest, mask)) {
        snprintf(path, size, "%s", mask);
        return (int64_t)w->newest_time.tv_sec;
    }
    return image;
}

const hri_stage_type hri_stage_type_masks = {
    .name = "masks",
    .help = "images with masks: a class for every pixel",
    .main = "images",
    .fields = fields,
    .options_bytes = sizeof(options),
    .own_bytes = sizeof(own),
    .open = open_masks,
    .close = close_masks,
    .at = at,
    .load = load,
    .name_of = name_of,
    .class_name = class_name,
    .take_table = take_table,
    .fingerprint = fingerprint,
    .newest = newest,
};
