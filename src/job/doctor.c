/* hr_doctor: what was found and what was tried, kept for whoever asks; the checks are in checks.c. */
#include "job/doctor.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/cache_dir.h"
#include "base/grow.h"
#include "data/image/image.h"
#include "device/device.h"
#include "job/why.h"
#include "net/mpi_min.h"
#include "net/nccl_min.h"
#include "net/who.h"

/* HR_OK, or the status that ends it all. */
static void keep(hr_doctor *d, hr_status status) {
    d->status = d->status == HR_OK ? status : d->status;
}

/* A copy that lives as long; "" for NULL and when there is no memory. */
static const char *text_of(hr_doctor *d, const char *text) {
    const char *copy = hri_arena_strdup(&d->texts, text ? text : "");
    keep(d, copy ? HR_OK : HR_E_NOMEM_HOST);
    return copy ? copy : "";
}

void hri_doctor_check(hr_doctor *d, const char *subject, const char *name, hr_check_result result,
                      const char *format, ...) {
    va_list args;
    va_start(args, format);
    const char *detail = hri_arena_vprintf(&d->texts, format, args);
    va_end(args);
    keep(d, detail ? HR_OK : HR_E_NOMEM_HOST);
    const hr_check check = {.size = sizeof check,
                            .subject = text_of(d, subject),
                            .name = name,
                            .detail = detail ? detail : "",
                            .result = result};
    keep(d, hri_check_list_push(&d->checks, check));
}

static void add_component(void *user, const char *name, hri_found found, const char *version,
                          const char *detail) {
    hr_doctor *d = user;
    const hr_component component = {.size = sizeof component,
                                    .name = text_of(d, name),
                                    .version = text_of(d, version),
                                    .detail = text_of(d, detail),
                                    .found = (int32_t)found}; /* the same order */
    keep(d, hri_component_list_push(&d->components, component));
}

/* The devices that are named, or all of them; HR_E_NOT_FOUND. */
static hr_status check_devices(hr_doctor *d, hr_ctx *ctx, const hr_doctor_options *o,
                               hri_why *why) {
    const size_t count = o->devices ? o->device_count : hr_device_count(ctx);
    for (size_t i = 0; i < count; i++) {
        hr_device *device = o->devices ? NULL : hr_device_at(ctx, i);
        const hr_status status = device ? HR_OK : hr_device_find(ctx, o->devices[i], &device);
        if (status != HR_OK) {
            hr_error error;
            hr_ctx_error(ctx, &error);
            return hri_why_error(why, hri_cause_of(status), status, o->devices[i], &error);
        }
        hri_doctor_check_device(d, ctx, device);
    }
    return HR_OK;
}

/* What the library says of itself, up to the first comma or end of line: "Open MPI v4.1.4". */
static void add_mpi(hr_doctor *d, const hri_mpi *mpi) {
    enum { MOST = 8192 }; /* MPI_MAX_LIBRARY_VERSION_STRING of any of them */
    char *text = hri_calloc(1, MOST + 1);
    int length = 0;
    if (!text || mpi->version(text, &length) != 0) {
        add_component(d, "MPI", HRI_FOUND_OK, mpi->abi, mpi->name);
    } else {
        text[strcspn(text, ",\n")] = '\0';
        for (char *at = text; *at; at++) {
            *at = (char)(*at == '\t' ? ' ' : *at);
        }
        char detail[128];
        snprintf(detail, sizeof detail, "%s, with --net mpi", mpi->name);
        add_component(d, "MPI", HRI_FOUND_OK, text, detail);
    }
    hri_free(text);
}

/* Who has started us, and the MPI that would be used; without a launcher all that are there. */
static void add_launcher(hr_doctor *d) {
    static const char *const kinds[] = {"Open MPI", "MPICH"};
    hri_who who;
    hri_prose why = {0};
    hri_mpi mpi;
    char text[256];
    if (hri_who_am_i(&who, &why) != HR_OK) {
        add_component(d, "launcher", HRI_FOUND_BROKEN, "", why.text);
        return;
    }
    for (size_t i = 0; i < 2 && !who.launcher[0]; i++) {
        if (hri_mpi_load(kinds[i], &mpi, &why) == HR_OK) {
            add_mpi(d, &mpi);
            hri_mpi_unload(&mpi);
        }
    }
    if (!who.launcher[0]) {
        return;
    }
    snprintf(text, sizeof text, "rank %u of %u%s%s", who.rank, who.size,
             who.others[0] ? "; not used: " : "", who.others);
    add_component(d, "launcher", HRI_FOUND_OK, who.launcher, text);
    if (hri_mpi_load(who.launcher, &mpi, &why) == HR_OK) {
        add_mpi(d, &mpi);
        hri_mpi_unload(&mpi);
    } else {
        add_component(d, "MPI", HRI_FOUND_MISSING, "", why.text);
    }
}

/* Where there is a GPU: what would carry gradients between ranks. */
static void add_nccl(hr_doctor *d, hr_ctx *ctx) {
    hr_device *gpu;
    hri_nccl nccl;
    hri_prose why = {0};
    char version[32], text[sizeof why.text + 64];
    if (!ctx || hr_device_find(ctx, "cuda:0", &gpu) != HR_OK) {
        return;
    }
    if (hri_nccl_load(&nccl, &why) == HR_OK) {
        hri_nccl_version_text(nccl.version, version, sizeof version);
        hri_text where = {0};
        hri_text_add(&where, "gradients between ranks, with --net nccl; %s", nccl.path);
        add_component(d, "nccl", HRI_FOUND_OK, version, hri_text_get(&where));
        hri_text_deinit(&where);
        hri_nccl_unload(&nccl);
    } else {
        snprintf(text, sizeof text, "%s: ranks use other wires", why.text);
        add_component(d, "nccl", HRI_FOUND_MISSING, "", text);
    }
}

/* Decoders of pictures that are found at run time. */
static void add_pictures(hr_doctor *d) {
    char text[32];
    const int version = hri_webp_version();
    snprintf(text, sizeof text, "%d.%d.%d", version >> 16, version >> 8 & 255, version & 255);
    if (version) {
        add_component(d, "libwebp", HRI_FOUND_OK, text, "WebP images");
    } else {
        add_component(d, "libwebp", HRI_FOUND_MISSING, "", "no WebP images; Debian: libwebp7");
    }
    if (hri_tiff_version(text, sizeof text)) {
        add_component(d, "libtiff", HRI_FOUND_OK, text, "TIFF images");
    } else {
        add_component(d, "libtiff", HRI_FOUND_MISSING, "",
                      "no TIFF images; Debian: libtiff6, 4.5 or later");
    }
    if (hri_avif_version(text, sizeof text)) {
        add_component(d, "libavif", HRI_FOUND_OK, text, "AVIF images");
    } else {
        add_component(d, "libavif", HRI_FOUND_MISSING, "", "no AVIF images; Debian: libavif15");
    }
}

static hr_status examine(hr_doctor *d, hr_ctx *ctx, const hr_doctor_options *o, hri_why *why) {
    char path[4096];
    hr_status status = ctx ? check_devices(d, ctx, o, why) : HR_OK;
    if (status != HR_OK) {
        return status;
    }
    hri_doctor_check_cache(d, o->cache ? o->cache : hri_cache_default(path, sizeof path));
    add_component(d, "headroom", HRI_FOUND_OK, hr_version(), "");
    add_component(d, "jansson", HRI_FOUND_OK, JANSSON_VERSION, "JSON");
    add_pictures(d);
    add_launcher(d);
    if (ctx) {
        hri_ctx_report(ctx, add_component, d); /* after the devices were used */
        add_nccl(d, ctx);
    }
    return d->status == HR_OK
               ? HR_OK
               : hri_why_set(why, HR_CAUSE_MACHINE, d->status, "%s", hr_status_text(d->status));
}

hr_status hr_doctor_create(hr_ctx *ctx, const hr_doctor_options *options, hr_doctor **out,
                           hr_error *error) {
    hr_doctor_options o = {.size = sizeof o};
    hri_why why = {0};
    hr_doctor *d = NULL;
    hr_status status = options ? hri_take(&o, sizeof o, options) : HR_OK;
    if (status != HR_OK) {
        (void)hri_why_set(&why, HR_CAUSE_USAGE, status, "hr_doctor_options: %s",
                          hr_status_text(status));
    } else if (!(d = hri_calloc(1, sizeof *d))) {
        status = hri_why_set(&why, HR_CAUSE_MACHINE, HR_E_NOMEM_HOST, "%s",
                             hr_status_text(HR_E_NOMEM_HOST));
    } else {
        status = examine(d, ctx, &o, &why);
    }
    if (status != HR_OK) {
        hr_doctor_destroy(d);
        hri_why_give(&why, status, error);
        return status;
    }
    *out = d;
    return HR_OK;
}

void hr_doctor_destroy(hr_doctor *d) {
    if (d) {
        hri_check_list_deinit(&d->checks);
        hri_component_list_deinit(&d->components);
        hri_arena_deinit(&d->texts);
        hri_free(d);
    }
}

hr_status hr_doctor_get_check(const hr_doctor *d, size_t index, hr_check *out) {
    return index < d->checks.count ? hri_give(out, &d->checks.items[index], sizeof *out) : HR_E_EOF;
}

hr_status hr_doctor_get_component(const hr_doctor *d, size_t index, hr_component *out) {
    return index < d->components.count ? hri_give(out, &d->components.items[index], sizeof *out)
                                       : HR_E_EOF;
}
