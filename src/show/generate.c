/* See generate.h. */
#include "show/generate.h"

#include <headroom/bytes.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/visible.h"

/* Bytes of the character that begins so; 1 for what begins none. */
static size_t length_of(unsigned char first) {
    return first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf8 ? 4 : 1;
}

/* Is what has come so far still the beginning of one? */
static bool may_go_on(const hri_generate_stream *s) {
    for (size_t i = 1; i < s->used; i++) {
        if (((unsigned char)s->part[i] & 0xc0) != 0x80) {
            return false;
        }
    }
    return s->used < length_of((unsigned char)s->part[0]);
}

/* One character, or one byte that is none, leaves the part. */
static void show_first(hri_generate_stream *s) {
    char shown[17];
    size_t taken = 1;
    s->part[s->used] = '\0';
    if (s->part[0] == '\n' || s->part[0] == '\t') {
        hri_out_bytes(s->out, s->part, 1);
    } else if (s->part[0] == '\0') {
        hri_out_text(s->out, "\\x00");
    } else {
        const size_t n = hri_visible_next(s->part, shown, &taken);
        hri_out_bytes(s->out, shown, n);
    }
    s->used -= taken;
    memmove(s->part, s->part + taken, s->used);
}

static void show_byte(hri_generate_stream *s, char byte) {
    s->part[s->used++] = byte;
    while (s->used && !may_go_on(s)) {
        show_first(s);
    }
}

hr_status hri_generate_token(void *stream, int32_t token, const char *text, size_t bytes) {
    hri_generate_stream *s = stream;
    if (s->keep) {
        const char end = '\0'; /* a byte 0 in the text ends it in JSON */
        s->text.count -= s->text.count > 0;
        hr_status status = hri_text_bytes_of_append(&s->text, text, bytes);
        status = status == HR_OK ? hri_text_bytes_of_push(&s->text, end) : status;
        return status == HR_OK ? hri_tokens_push(&s->tokens, token) : status;
    }
    for (size_t i = 0; s->tty && i < bytes; i++) {
        show_byte(s, text[i]);
    }
    if (!s->tty) {
        hri_out_bytes(s->out, text, bytes);
    }
    hri_out_flush(s->out);
    return HR_OK;
}

void hri_generate_end(hri_generate_stream *s) {
    while (s->used) {
        show_first(s);
    }
    if (!s->keep) {
        hri_out_text(s->out, "\n");
        hri_out_flush(s->out);
    }
}

void hri_generate_deinit(hri_generate_stream *s) {
    hri_text_bytes_of_deinit(&s->text);
    hri_tokens_deinit(&s->tokens);
}

void hri_generate_sum(const hr_generate_info *n, const hr_generate_result *r, char *buf,
                      size_t size) {
    char planned[32], cache[32], measured[32], budget[32] = "";
    const int used = hri_snprintf(
        buf, size, "%llu tokens, %.1f tokens/s; planned %s (%s of cache), peak resident %s",
        (unsigned long long)r->tokens, r->tokens_per_second,
        hr_bytes_print(n->peak_bytes, planned, sizeof planned),
        hr_bytes_print(n->cache_bytes, cache, sizeof cache),
        hr_bytes_print(r->measured_peak_bytes, measured, sizeof measured));
    if (n->budget_bytes && used > 0 && (size_t)used < size) {
        snprintf(buf + used, size - (size_t)used, ", budget %s",
                 hr_bytes_print(n->budget_bytes, budget, sizeof budget));
    }
}

void hri_generate_json(const hri_generate_stream *s, const char *prompt, const hr_generate_info *n,
                       const hr_generate_result *r, hri_json *json) {
    hri_json_bool(json, "fits", true);
    hri_json_string(json, "model", n->model);
    hri_json_string(json, "checkpoint", n->checkpoint);
    hri_json_string(json, "prompt", prompt);
    hri_json_string(json, "text", s->text.count ? s->text.items : "");
    hri_json_array(json, "tokens");
    for (size_t i = 0; i < s->tokens.count; i++) {
        hri_json_i64(json, NULL, s->tokens.items[i]);
    }
    hri_json_end(json);
    hri_json_u64(json, "prompt_tokens", r->prompt_tokens);
    hri_json_string(json, "ended", r->ended ? "end of text" : "max");
    hri_json_string(json, "device", n->device);
    hri_json_u64(json, "budget_bytes", n->budget_bytes);
    hri_json_u64(json, "planned_peak_bytes", n->peak_bytes);
    hri_json_u64(json, "measured_peak_bytes", r->measured_peak_bytes);
    hri_json_u64(json, "floor_bytes", n->minimum_bytes);
    hri_json_u64(json, "runtime_bytes", n->runtime_bytes);
    hri_json_u64(json, "persistent_bytes", n->persistent_bytes);
    hri_json_u64(json, "cache_bytes", n->cache_bytes);
    hri_json_u64(json, "arena_bytes", n->arena_bytes);
    hri_json_double(json, "prompt_seconds", r->prompt_seconds);
    hri_json_double(json, "seconds", r->seconds);
    hri_json_double(json, "tokens_per_second", r->tokens_per_second);
}
