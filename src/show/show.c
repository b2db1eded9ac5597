/* See show.h. */
#include "show/show.h"

#include <errno.h>
#include <string.h>
#include "base/alloc.h"
#include "base/text.h"

void hri_show_vtitle(hri_out *out, const hri_term *term, const char *format, va_list args) {
    hri_text text = {0};
    hri_text_vadd(&text, format, args);
    hri_out_text(out, hri_term_style(term, HRI_STYLE_BOLD));
    hri_out_printf(out, "%s", hri_text_get(&text)); /* what does not print is made visible */
    hri_out_text(out, hri_term_style(term, HRI_STYLE_PLAIN));
    hri_out_text(out, "\n");
    if (text.failed) {
        hri_out_failed(out, ENOMEM);
    }
    hri_text_deinit(&text);
}

void hri_show_title(hri_out *out, const hri_term *term, const char *format, ...) {
    va_list args;
    va_start(args, format);
    hri_show_vtitle(out, term, format, args);
    va_end(args);
}

static int take(void *user, const char *bytes, size_t count) {
    hri_taker *t = user;
    t->status = t->status == HR_OK ? t->write(t->user, bytes, count) : t->status;
    return t->status == HR_OK ? 0 : EIO;
}

hr_status hri_taker_begin(hri_taker *t, hr_write_fn *write, void *user, uint32_t columns,
                          bool color) {
    *t = (hri_taker){
        .write = write, .user = user, .term = {.width = columns ? columns : 80, .color = color}};
    t->out = hri_malloc(sizeof *t->out);
    if (!t->out) {
        return HR_E_NOMEM_HOST;
    }
    hri_out_init_sink(t->out, take, t);
    t->out->width = t->term.width;
    return HR_OK;
}

hr_status hri_taker_end(hri_taker *t, hr_status status) {
    hri_out_flush(t->out);
    if (status == HR_OK) {
        status = t->status != HR_OK ? t->status : t->out->error ? HR_E_NOMEM_HOST : HR_OK;
    }
    hri_free(t->out);
    return status;
}

hr_status hri_taker_give(hr_write_fn *write, void *user, char *text) {
    const hr_status status = text ? write(user, text, strlen(text)) : HR_E_NOMEM_HOST;
    hri_free(text);
    return status;
}

hr_status hri_taker_give_json(hr_write_fn *write, void *user, hri_json *json, hr_status status) {
    char *text = NULL;
    if (status == HR_OK) {
        status = hri_json_print(json, 2, &text);
    }
    hri_json_deinit(json);
    return status == HR_OK ? hri_taker_give(write, user, text) : status;
}
