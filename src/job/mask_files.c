/* Masks and overlays; see mask_files.h. */
#include "job/mask_files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "data/image/mask.h"
#include "data/read.h"

/* Black, then colours that are far apart: bits of the number go to red, green and blue by turns, highest first. */
static uint32_t colour_of(uint32_t number) {
    uint32_t rgb[3] = {0, 0, 0};
    for (int bit = 7; number && bit >= 0; bit--, number >>= 3) {
        for (int k = 0; k < 3; k++) {
            rgb[k] |= (number >> k & 1) << bit;
        }
    }
    return rgb[0] << 16 | rgb[1] << 8 | rgb[2];
}

/* "a/b/c": a and a/b. */
static hr_status make_folders(const char *path, bool whole, hri_prose *why) {
    char part[4096];
    if ((size_t)snprintf(part, sizeof part, "%s%s", path, whole ? "/" : "") >= sizeof part) {
        return hri_prose_set(why, HR_E_RANGE, "%s: the path is too long", path);
    }
    for (char *at = strchr(part + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST) {
            return hri_prose_set(why, HR_E_IO, "%s: %s", part, strerror(errno));
        }
        *at = '/';
    }
    return HR_OK;
}

hr_status hri_mask_files_open(const hr_predictor *p, const char *folder, const hri_given *given,
                              hri_mask_files *out, hri_prose *why) {
    hr_infer_info info = {.size = sizeof info};
    hri_account *account;
    hr_status status = hr_predictor_get_info(p, &info);
    *out = (hri_mask_files){.folder = folder, .given = given, .classes = info.pixel_classes};
    if (status == HR_OK && !info.pixel_classes) {
        return hri_prose_set(why, HR_E_INVALID, "%s predicts no masks, so there is nothing for %s",
                             info.model, folder);
    }
    if (out->classes > HRI_MASK_FILES_CLASSES) {
        return hri_prose_set(why, HR_E_INVALID, "%s has %llu classes, masks at most %d", info.model,
                             (unsigned long long)out->classes, HRI_MASK_FILES_CLASSES);
    }
    for (uint32_t i = 0; i < out->classes; i++) {
        const char *name = hr_predictor_class_name(p, i);
        if (!name || !hri_mask_colour(name, &out->palette[i])) {
            out->palette[i] = colour_of(i);
        }
    }
    if (status == HR_OK) {
        status = make_folders(folder, true, why);
    }
    if (status == HR_OK) {
        status = hri_pool_create(HRI_MASK_FILES_BYTES, &out->pool);
    }
    if (status == HR_OK) {
        status = hri_ledger_open(hri_pool_ledger(out->pool), "overlays", 0, &account);
    }
    if (status == HR_OK) {
        hri_ledger_set_user_waiting(hri_pool_ledger(out->pool), true); /* nobody else frees */
        out->memory = (hri_memory){.pool = out->pool, .account = account};
    }
    return status;
}

void hri_mask_files_close(hri_mask_files *f) {
    hri_strmap_deinit(&f->written);
    if (f->pool) {
        hri_pool_unref(f->pool);
    }
    hri_free(f->mask);
    *f = (hri_mask_files){0};
}

/* ---- one mask ---- */

/* The most likely class of each pixel. */
static hr_status take_mask(hri_mask_files *f, const hr_prediction *p, hri_prose *why) {
    const hr_shape *shape = &p->output_meta.shape;
    const int64_t n = (int64_t)f->classes;
    if (shape->rank != 3 || shape->dim[2] != n) {
        return hri_prose_set(why, HR_E_SHAPE, "the model's output is not a class for every pixel");
    }
    const int64_t pixels = shape->dim[0] * shape->dim[1];
    if (!f->mask) {
        f->mask = hri_malloc((size_t)pixels);
        if (!f->mask) {
            return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for a mask");
        }
    }
    f->height = shape->dim[0];
    f->width = shape->dim[1];
    memset(f->shares, 0, sizeof f->shares);
    for (int64_t i = 0; i < pixels; i++) {
        const float *row = p->output + i * n;
        int64_t best = 0;
        for (int64_t c = 1; c < n; c++) {
            best = row[c] > row[best] ? c : best;
        }
        f->mask[i] = (uint8_t)best;
        f->shares[best] += 1.0 / (double)pixels;
    }
    return HR_OK;
}

/* The class under a pixel of a picture of this size. */
static uint8_t class_at(const hri_mask_files *f, uint32_t x, uint32_t y, uint32_t width,
                        uint32_t height) {
    const uint64_t sx = (2 * (uint64_t)x + 1) * (uint64_t)f->width / (2 * (uint64_t)width);
    const uint64_t sy = (2 * (uint64_t)y + 1) * (uint64_t)f->height / (2 * (uint64_t)height);
    return f->mask[sy * (uint64_t)f->width + sx];
}

typedef struct writing {
    const hri_mask_files *f;
    uint32_t width, height;
} writing;

static void fill_row(void *user, uint32_t y, uint8_t *row) {
    const writing *w = user;
    for (uint32_t x = 0; x < w->width; x++) {
        row[x] = class_at(w->f, x, y, w->width, w->height);
    }
}

/* ---- names ---- */

/* Where the image is; "": it is no file. */
static void image_path(const hri_given *g, const hr_prediction *p, char *out, size_t size) {
    out[0] = '\0';
    if (g->only) {
        snprintf(out, size, "/proc/self/fd/%d", g->fd);
    } else if (g->pictures && p->name) {
        snprintf(out, size, "%s%s", g->prefix, p->name);
    }
}

static hr_status choose_names(hri_mask_files *f, const hr_prediction *p, hri_prose *why) {
    const hri_given *g = f->given;
    char stem[2048];
    uint64_t before;
    const char *name = g->only ? "stdin" : p->name, *slash = name ? strrchr(name, '/') : NULL;
    if (name && !g->prefix[0] && slash) {
        name = slash + 1; /* of a list: paths from anywhere */
    }
    if (name) {
        snprintf(stem, sizeof stem, "%s", name);
        char *dot = strrchr(stem, '.');
        if (dot && dot > stem && !strchr(dot, '/')) {
            *dot = '\0';
        }
    } else {
        snprintf(stem, sizeof stem, "%06llu", (unsigned long long)p->index);
    }
    if ((size_t)snprintf(f->name, sizeof f->name, "%s/%s.png", f->folder, stem) >= sizeof f->name ||
        (size_t)snprintf(f->overlay, sizeof f->overlay, "%s/%s-overlay.png", f->folder, stem) >=
            sizeof f->overlay) {
        return hri_prose_set(why, HR_E_RANGE, "%s: the path is too long", f->folder);
    }
    if (hri_strmap_get(&f->written, stem, &before)) {
        return hri_prose_set(why, HR_E_EXISTS, "%s would be written for two images", f->name);
    }
    const hr_status status = hri_strmap_put(&f->written, stem, p->index);
    return status == HR_OK ? make_folders(f->name, false, why) : status;
}

/* ---- overlays ---- */

/* Half the colour of the class; what is black stays as it is. */
static void blend(const hri_mask_files *f, uint8_t *pixels, uint32_t width, uint32_t height) {
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            const uint32_t colour = f->palette[class_at(f, x, y, width, height)];
            uint8_t *at = pixels + 3 * ((size_t)y * width + x);
            for (int k = 0; colour && k < 3; k++) {
                at[k] = (uint8_t)((at[k] + (colour >> (16 - 8 * k) & 255) + 1) / 2);
            }
        }
    }
}

/* HR_E_LIMIT: it needs more memory than there is for it. */
static hr_status write_overlay(hri_mask_files *f, const hri_buffer *file, uint64_t bytes,
                               const hri_image_info *info, hri_prose *why) {
    const uint32_t longer = info->width > info->height ? info->width : info->height;
    const double scale = longer > HRI_OVERLAY_SIDE ? (double)HRI_OVERLAY_SIDE / longer : 1;
    const uint32_t width = (uint32_t)(info->width * scale + 0.5),
                   height = (uint32_t)(info->height * scale + 0.5);
    const hri_view view = {.width = info->width,
                           .height = info->height,
                           .out_width = width ? width : 1,
                           .out_height = height ? height : 1,
                           .channels = 3};
    hri_buffer *pixels = NULL;
    hr_status status = hri_buffer_create(f->pool, f->memory.account,
                                         (uint64_t)view.out_width * view.out_height * 3, &pixels);
    if (status == HR_OK) {
        status = hri_image_decode(file->data, bytes, info, &view, &f->memory, pixels->data, why);
    }
    if (status == HR_OK) {
        blend(f, pixels->data, view.out_width, view.out_height);
        status = hri_png_write(f->overlay, pixels->data, view.out_width, view.out_height, why);
    }
    hri_buffer_unref(pixels);
    return status;
}

/* The whole image file, within what there is for it. */
static hr_status read_image(hri_mask_files *f, const char *path, hri_buffer **out, uint64_t *bytes,
                            hri_prose *why) {
    int fd;
    hr_status status = hri_file_open_regular(path, &fd, bytes, why);
    if (status != HR_OK) {
        return status;
    }
    status = hri_buffer_create(f->pool, f->memory.account, *bytes ? *bytes : 1, out);
    if (status == HR_OK) {
        status = hri_read_at(fd, path, 0, (*out)->data, *bytes, why);
    }
    close(fd);
    return status;
}

/* The size of an image whose file is too large to be read whole: from its beginning. */
static hr_status read_size(const char *path, hri_image_info *out, hri_prose *why) {
    enum { HEAD = 256 << 10 };
    int fd;
    uint64_t bytes;
    uint8_t *head = hri_malloc(HEAD);
    hr_status status = head ? hri_file_open_regular(path, &fd, &bytes, why) : HR_E_NOMEM_HOST;
    if (status == HR_OK) {
        bytes = bytes < HEAD ? bytes : HEAD;
        status = hri_read_at(fd, path, 0, head, bytes, why);
        status = status == HR_OK ? hri_image_probe(head, bytes, out, why) : status;
        close(fd);
    }
    hri_free(head);
    return status;
}

static hr_status write_pair(hri_mask_files *f, const char *path, writing *w, hri_prose *why) {
    hri_image_info info;
    hri_buffer *file = NULL;
    uint64_t bytes = 0;
    hr_status status = path[0] ? read_size(path, &info, why) : HR_OK;
    if (status == HR_OK && path[0]) {
        w->width = info.width;
        w->height = info.height;
    }
    if (status == HR_OK) {
        status = hri_png_write_indexed(f->name, w->width, w->height, f->palette,
                                       (uint32_t)f->classes, fill_row, w, why);
    }
    hr_status over =
        status == HR_OK && path[0] ? read_image(f, path, &file, &bytes, why) : HR_E_NOT_FOUND;
    if (over == HR_OK) {
        over = write_overlay(f, file, bytes, &info, why);
    }
    hri_buffer_unref(file);
    if (over == HR_E_LIMIT || !path[0]) {
        f->overlay[0] = '\0';
        return status;
    }
    return status == HR_OK ? over : status;
}

hr_status hri_mask_files_write(hri_mask_files *f, const hr_prediction *p, hri_prose *why) {
    char path[4096];
    hr_status status = take_mask(f, p, why);
    if (status == HR_OK) {
        status = choose_names(f, p, why);
    }
    if (status == HR_OK) {
        writing w = {f, (uint32_t)f->width, (uint32_t)f->height};
        image_path(f->given, p, path, sizeof path);
        status = write_pair(f, path, &w, why);
    }
    return status;
}
