/* Putting the page together; see page.h. */
#include "see/page.h"

#include <stdint.h>
#include <string.h>
#include <zlib.h>

#include "base/file.h"
#include "base/sha256.h"
#include "see/hrp.h"
#include "see/overview.h"
#include "see/page_order.h"

extern const char hri_page_html[], hri_page_css[], hri_page_js[]; /* made by the build */

/* ---- base64 ---- */

enum { GROUPS = 4096 };

typedef struct base64 {
    hri_writer *to;
    unsigned char rest[3];
    size_t rest_count;
    char text[4 * GROUPS];
    size_t used;
} base64;

static void encode_group(const unsigned char in[3], size_t count, char out[4]) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint32_t x =
        (uint32_t)in[0] << 16 | (count > 1 ? (uint32_t)in[1] << 8 : 0) | (count > 2 ? in[2] : 0);
    out[0] = digits[x >> 18];
    out[1] = digits[x >> 12 & 63];
    out[2] = count > 1 ? digits[x >> 6 & 63] : '=';
    out[3] = count > 2 ? digits[x & 63] : '=';
}

static hr_status base64_flush(base64 *b, hri_prose *why) {
    const size_t used = b->used;
    b->used = 0;
    return used ? hri_writer_write(b->to, b->text, used, why) : HR_OK;
}

static hr_status base64_add(base64 *b, const unsigned char *bytes, size_t count, hri_prose *why) {
    hr_status status = HR_OK;
    for (size_t i = 0; i < count && status == HR_OK; i++) {
        b->rest[b->rest_count++] = bytes[i];
        if (b->rest_count == 3) {
            encode_group(b->rest, 3, b->text + b->used);
            b->used += 4;
            b->rest_count = 0;
            status = b->used == sizeof b->text ? base64_flush(b, why) : HR_OK;
        }
    }
    return status;
}

static hr_status base64_end(base64 *b, hri_prose *why) {
    if (b->rest_count) {
        encode_group(b->rest, b->rest_count, b->text + b->used);
        b->used += 4;
        b->rest_count = 0;
    }
    return base64_flush(b, why);
}

/* ---- gzip ---- */

typedef struct packing {
    z_stream z;
    base64 text;
    unsigned char out[16384];
} packing;

static hr_status deflate_more(packing *p, int flush, hri_prose *why) {
    hr_status status = HR_OK;
    int code = Z_OK;
    do {
        p->z.next_out = p->out;
        p->z.avail_out = sizeof p->out;
        code = deflate(&p->z, flush);
        status = base64_add(&p->text, p->out, sizeof p->out - p->z.avail_out, why);
    } while (status == HR_OK && p->z.avail_out == 0);
    return status == HR_OK && code == Z_STREAM_ERROR ? HR_E_INTERNAL : status;
}

static hr_status pack(void *user, const void *bytes, size_t count, hri_prose *why) {
    packing *p = user;
    hr_status status = HR_OK;
    const unsigned char *from = bytes;
    while (count && status == HR_OK) {
        const size_t some = count < (1u << 30) ? count : 1u << 30;
        p->z.next_in = (unsigned char *)(uintptr_t)from; /* zlib does not write there */
        p->z.avail_in = (uInt)some;
        status = deflate_more(p, Z_NO_FLUSH, why);
        from += some;
        count -= some;
    }
    return status;
}

static voidpf take(voidpf user, uInt count, uInt size) {
    (void)user;
    return hri_calloc(count, size);
}

static void give(voidpf user, voidpf memory) {
    (void)user;
    hri_free(memory);
}

static hr_status write_packed(hri_writer *w, const hri_recording *r, hri_prose *why) {
    packing *p = hri_calloc(1, sizeof *p);
    if (!p) {
        return HR_E_NOMEM_HOST;
    }
    p->text.to = w;
    p->z.zalloc = take;
    p->z.zfree = give;
    hr_status status = HR_E_NOMEM_HOST;
    if (deflateInit2(&p->z, 6, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) == Z_OK) {
        status = hri_hrp_encode_lean(r, pack, p, why);
        if (status == HR_OK) {
            status = deflate_more(p, Z_FINISH, why);
        }
        if (status == HR_OK) {
            status = base64_end(&p->text, why);
        }
        deflateEnd(&p->z);
    }
    hri_free(p);
    return status;
}

static hr_status write_recording(hri_writer *w, const hri_recording *r, hri_prose *why) {
    hri_recording ordered = *r; /* another table of buffers, the rest shared */
    hri_see_buffer *buffers;
    hr_status status = hri_see_page_order(r, &buffers);
    if (status == HR_OK) {
        ordered.tables[HRI_SEE_BUFFERS].items = buffers;
        status = write_packed(w, &ordered, why);
        hri_free(buffers);
    }
    return status;
}

/* ---- the file ---- */

static hr_status put(hri_writer *w, const char *text, hri_prose *why) {
    return hri_writer_write(w, text, strlen(text), why);
}

/* Names come from files and command lines. */
static hr_status put_escaped(hri_writer *w, const char *text, hri_prose *why) {
    hr_status status = HR_OK;
    for (; *text && status == HR_OK; text++) {
        status = *text == '&'   ? put(w, "&amp;", why)
                 : *text == '<' ? put(w, "&lt;", why)
                 : *text == '"' ? put(w, "&quot;", why)
                                : hri_writer_write(w, text, 1, why);
    }
    return status;
}

/* Only the script with this hash runs, and nothing is fetched. */
static hr_status put_policy(hri_writer *w, hri_prose *why) {
    hri_sha256 hash;
    unsigned char digest[HRI_SHA256_BYTES];
    char text[45] = "";
    hri_sha256_init(&hash);
    hri_sha256_add(&hash, "\n", 1);
    hri_sha256_add(&hash, hri_page_js, strlen(hri_page_js));
    hri_sha256_get(&hash, digest);
    for (size_t i = 0; i < sizeof digest; i += 3) {
        const size_t left = sizeof digest - i;
        encode_group(digest + i, left < 3 ? left : 3, text + i / 3 * 4);
    }
    hr_status status =
        put(w,
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
            "style-src 'unsafe-inline'; worker-src blob:; img-src data:; script-src 'sha256-",
            why);
    if (status == HR_OK) {
        status = put(w, text, why);
    }
    return status == HR_OK ? put(w, "'\">", why) : status;
}

static hr_status put_between(hri_writer *w, const char *before, const char *text, const char *after,
                             hri_prose *why) {
    hr_status status = put(w, before, why);
    if (status == HR_OK) {
        status = put(w, text, why);
    }
    return status == HR_OK ? put(w, after, why) : status;
}

/* Of the first, when it is large: a picture of it before the rest has been read. */
static hr_status put_overview(hri_writer *w, const hri_recording *r, hri_prose *why) {
    hri_text text = {0};
    if (r->tables[HRI_SEE_BUFFERS].count < HRI_SEE_OVERVIEW_FROM) {
        return HR_OK;
    }
    hr_status status = hri_see_overview(r, &text);
    if (status == HR_OK) {
        status = put_between(w, "<script type=\"text/plain\" id=\"overview\">", hri_text_get(&text),
                             "</script>", why);
    }
    hri_text_deinit(&text);
    return status;
}

static hr_status put_recordings(hri_writer *w, const hri_recording *const *recordings,
                                const char *const *names, size_t count, hri_prose *why) {
    hr_status status = HR_OK;
    for (size_t i = 0; i < count && status == HR_OK; i++) {
        status = put(w, "<script type=\"text/plain\" class=\"recording\" data-name=\"", why);
        if (status == HR_OK) {
            status = put_escaped(w, names[i], why);
        }
        if (status == HR_OK) {
            status = put(w, "\">", why);
        }
        if (status == HR_OK) {
            status = write_recording(w, recordings[i], why);
        }
        if (status == HR_OK) {
            status = put(w, "</script>\n", why);
        }
    }
    return status;
}

static hr_status write_page(hri_writer *w, const hri_recording *const *recordings,
                            const char *const *names, size_t count, hri_prose *why) {
    const char *at = hri_page_html, *mark;
    hr_status status = HR_OK;
    while (status == HR_OK && (mark = strstr(at, "<!-- ")) != NULL) {
        status = hri_writer_write(w, at, (size_t)(mark - at), why);
        const char *end = strstr(mark, "-->");
        if (status != HR_OK || !end) {
            return status == HR_OK ? HR_E_INTERNAL : status;
        }
        at = end + 3;
        if (!strncmp(mark, "<!-- csp ", 9)) {
            status = put_policy(w, why);
        } else if (!strncmp(mark, "<!-- css ", 9)) {
            status = put_between(w, "<style>\n", hri_page_css, "</style>", why);
        } else if (!strncmp(mark, "<!-- data ", 10)) {
            status = put_recordings(w, recordings, names, count, why);
        } else if (!strncmp(mark, "<!-- overview ", 14)) {
            status = count ? put_overview(w, recordings[0], why) : HR_OK;
        } else if (!strncmp(mark, "<!-- js ", 8)) {
            status = put_between(w, "<script>\n", hri_page_js, "</script>", why);
        }
    }
    return status == HR_OK ? put(w, at, why) : status;
}

hr_status hri_see_page_write(const char *path, const hri_recording *const *recordings,
                             const char *const *names, size_t count, hri_prose *why) {
    hri_writer w = {.fd = -1};
    hr_status status = hri_writer_open(&w, path, why);
    if (status == HR_OK) {
        status = write_page(&w, recordings, names, count, why);
    }
    if (status == HR_OK) {
        status = hri_writer_commit(&w, why);
    }
    hri_writer_abandon(&w);
    return status;
}
