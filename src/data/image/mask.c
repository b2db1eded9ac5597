/* Classes of pixels; see mask.h. */
#include "data/image/mask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- looking ---- */

static uint32_t colour_at(const uint8_t *p) {
    return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

static bool is_grey(uint32_t colour) {
    return colour == (colour & 255) * 0x010101u;
}

/* Where a colour stands in the list, or would. */
static size_t place_of(const hri_mask_seen *s, uint32_t colour) {
    size_t low = 0, high = s->colour_count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (s->colours[middle] < colour) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* 0: there are too many. */
static int see_colour(hri_mask_seen *s, uint32_t colour) {
    const size_t at = place_of(s, colour);
    if (at < s->colour_count && s->colours[at] == colour) {
        return 1;
    }
    if (s->colour_count == sizeof s->colours / sizeof s->colours[0]) {
        return 0;
    }
    memmove(s->colours + at + 1, s->colours + at, (s->colour_count - at) * sizeof s->colours[0]);
    s->colours[at] = colour;
    s->colour_count++;
    return 1;
}

typedef struct looking {
    hri_mask_seen *seen;
    hri_prose *why;
} looking;

static hr_status look_row(void *user, const hri_png_rows *of, uint32_t y, const uint8_t *row) {
    const looking *k = user;
    int64_t last = -1;
    (void)y;
    for (uint32_t x = 0; x < of->width; x++) {
        const bool three = of->kind == HRI_PNG_COLOUR;
        const int64_t value = three ? (int64_t)colour_at(row + 3 * (size_t)x) : row[x];
        if (value == last) {
            continue;
        }
        const uint32_t colour = three ? (uint32_t)value : of->palette[value];
        last = value;
        k->seen->coloured |= three && !is_grey(colour);
        if (!three || is_grey(colour)) {
            k->seen->values[value & 255] = true;
        }
        if (!see_colour(k->seen, colour)) {
            return hri_prose_set(k->why, HR_E_FORMAT,
                                 "it has more than %d colours; a mask has one colour per class",
                                 HRI_MASK_CLASSES);
        }
    }
    return HR_OK;
}

/* The rows of a mask in a format that keeps values as they are. */
static hr_status each_row(const void *data, size_t bytes, hri_memory *memory, hri_png_row_fn *fn,
                          void *user, hri_prose *why) {
    hri_image_info info;
    const bool known = hri_image_is(data, bytes);
    const hr_status status = known ? hri_image_probe(data, bytes, &info, why) : HR_E_FORMAT;
    if (known && status != HR_OK) {
        return status == HR_E_EOF ? hri_prose_set(why, HR_E_FORMAT, "the file is truncated")
                                  : status;
    }
    switch (known ? info.format : HRI_IMAGE_JPEG) {
    case HRI_IMAGE_PNG:
        return hri_png_each_row(data, bytes, memory, fn, user, why);
    case HRI_IMAGE_BMP:
        return hri_bmp_each_row(data, bytes, memory, fn, user, why);
    case HRI_IMAGE_TIFF:
        return hri_tiff_each_row(data, bytes, memory, fn, user, why);
    case HRI_IMAGE_WEBP:
        return hri_webp_each_row(data, bytes, memory, fn, user, why);
    case HRI_IMAGE_JPEG:
    case HRI_IMAGE_AVIF:
        break;
    }
    return hri_prose_set(why, HR_E_FORMAT, "not a " HRI_MASK_FILES " file");
}

hr_status hri_mask_look(const void *data, size_t bytes, hri_memory *memory, hri_mask_seen *seen,
                        hri_prose *why) {
    looking k = {seen, why};
    return each_row(data, bytes, memory, look_row, &k, why);
}

/* ---- classes ---- */

/* "ff8000" or "#ff8000" */
static bool read_colour(const char *text, size_t length, uint32_t *out) {
    uint32_t x = 0;
    if (length == 7 && *text == '#') {
        text++;
        length--;
    }
    for (size_t i = 0; i < length; i++) {
        static const char digits[] = "0123456789abcdef";
        const char c = text[i] >= 'A' && text[i] <= 'F' ? (char)(text[i] - 'A' + 'a') : text[i];
        const char *at = c ? strchr(digits, c) : NULL;
        if (!at) {
            return false;
        }
        x = x << 4 | (uint32_t)(at - digits);
    }
    *out = x;
    return length == 6;
}

bool hri_mask_colour(const char *text, uint32_t *out) {
    const size_t n = strlen(text);
    return n >= 7 && text[n - 7] == '#' && (n == 7 || text[n - 8] == ' ') &&
           read_colour(text + n - 7, 7, out);
}

static hr_status read_ignore(const char *text, hri_mask_classes *c, hri_prose *why) {
    char *end;
    uint32_t colour;
    c->ignore = c->has_colours ? -1 : HRI_MASK_IGNORED;
    if (!text) {
        return HR_OK;
    }
    if (!strcmp(text, "none")) {
        c->ignore = -1;
        return HR_OK;
    }
    if (c->has_colours && read_colour(text, strlen(text), &colour)) {
        c->ignore = colour;
        return HR_OK;
    }
    const long value = strtol(text, &end, 10);
    if (*end || end == text || value < 0 || value > 255) {
        return hri_prose_set(
            why, HR_E_INVALID,
            "ignore: \"%s\" is neither a value (0-255), a colour (rrggbb) nor none", text);
    }
    c->ignore = c->has_colours ? value * 0x010101 : value;
    return HR_OK;
}

/* The next of "a+b+c"; NULL at the end. */
static const char *next_word(const char **at, size_t *length) {
    const char *word = *at;
    if (!word || !*word) {
        return NULL;
    }
    *length = strcspn(word, "+");
    *at = word + *length + (word[*length] == '+');
    return word;
}

static hr_status take_colours(const char *text, hri_mask_classes *c, hri_prose *why) {
    size_t n;
    for (const char *word; (word = next_word(&text, &n)) != NULL;) {
        uint32_t colour = 0;
        if (!read_colour(word, n, &colour)) {
            return hri_prose_set(why, HR_E_INVALID, "colours: \"%.*s\" is not a colour like ff8000",
                                 (int)(n < 32 ? n : 32), word);
        }
        for (size_t i = 0; i < c->count; i++) {
            if (c->colours[i] == colour) {
                return hri_prose_set(why, HR_E_INVALID, "colours: #%06x is there twice", colour);
            }
        }
        if (c->count == HRI_MASK_CLASSES) {
            return hri_prose_set(why, HR_E_RANGE, "colours: more than %d", HRI_MASK_CLASSES);
        }
        c->colours[c->count++] = colour;
    }
    return HR_OK;
}

/* Only black and white: two classes, not one with white ignored. */
static bool is_black_and_white(const hri_mask_seen *s) {
    for (int i = 1; i < 255; i++) {
        if (s->values[i]) {
            return false;
        }
    }
    return s->values[255];
}

static void count_seen(const hri_mask_seen *s, hri_mask_classes *c) {
    for (size_t i = 0; c->has_colours && i < s->colour_count; i++) {
        if ((int64_t)s->colours[i] != c->ignore && c->count < HRI_MASK_CLASSES) {
            c->colours[c->count++] = s->colours[i];
        }
    }
    for (size_t i = 0; !c->has_colours && i < 256; i++) {
        if (s->values[i] && (int64_t)i != c->ignore) {
            c->count = i + 1 < HRI_MASK_CLASSES ? i + 1 : HRI_MASK_CLASSES;
        }
    }
}

static hr_status put_text(hri_mask_classes *c, size_t i, const char *name, size_t length,
                          hri_prose *why) {
    char colour[16] = "", number[16] = "";
    if (c->has_colours) {
        snprintf(colour, sizeof colour, "%s#%06x", name ? " " : "", c->colours[i]);
    } else if (!name) {
        snprintf(number, sizeof number, "%zu", i);
    }
    if (length > HRI_MASK_TEXT - 16) {
        return hri_prose_set(why, HR_E_RANGE, "classes: \"%.*s...\" is longer than %d bytes", 32,
                             name, HRI_MASK_TEXT - 16);
    }
    snprintf(c->texts[i], HRI_MASK_TEXT, "%.*s%s%s", (int)length, name ? name : "", number, colour);
    for (size_t k = 0; k < i; k++) {
        if (!strcmp(c->texts[k], c->texts[i])) {
            return hri_prose_set(why, HR_E_INVALID, "classes: \"%s\" is there twice", c->texts[i]);
        }
    }
    return HR_OK;
}

static hr_status name_all(const char *names, hri_mask_classes *c, hri_prose *why) {
    size_t n = 0, named = 0;
    const char *at = names;
    hr_status status = HR_OK;
    while (names && next_word(&at, &n)) {
        named++;
    }
    if (named > HRI_MASK_CLASSES) {
        return hri_prose_set(why, HR_E_RANGE, "classes: more than %d", HRI_MASK_CLASSES);
    }
    if (named && c->has_colours && named != c->count) {
        return hri_prose_set(why, HR_E_INVALID,
                             "classes: %zu names for %zu colours; say which is which with colours=",
                             named, c->count);
    }
    c->count = named ? named : c->count;
    at = names;
    for (size_t i = 0; status == HR_OK && i < c->count; i++) {
        n = 0;
        const char *word = named ? next_word(&at, &n) : NULL;
        status = put_text(c, i, word, n, why);
    }
    return status;
}

hr_status hri_mask_classes_settle(const char *names, const char *colours, const char *ignore,
                                  const hri_mask_seen *seen, hri_mask_classes *out,
                                  hri_prose *why) {
    *out = (hri_mask_classes){
        .has_colours = colours || (seen && (seen->coloured || is_black_and_white(seen)))};
    hr_status status = read_ignore(ignore, out, why);
    if (status == HR_OK && colours) {
        status = take_colours(colours, out, why);
    } else if (status == HR_OK && seen) {
        count_seen(seen, out);
    }
    return status == HR_OK ? name_all(names, out, why) : status;
}

hr_status hri_mask_classes_take(const char *const *texts, size_t count, const char *ignore,
                                hri_mask_classes *out, hri_prose *why) {
    *out = (hri_mask_classes){.count = count, .has_colours = count > 0};
    if (count > HRI_MASK_CLASSES) {
        return hri_prose_set(why, HR_E_RANGE, "the model has %zu classes, masks at most %d", count,
                             HRI_MASK_CLASSES);
    }
    for (size_t i = 0; i < count; i++) {
        snprintf(out->texts[i], HRI_MASK_TEXT, "%s", texts[i]);
        out->has_colours = out->has_colours && hri_mask_colour(texts[i], &out->colours[i]);
    }
    return read_ignore(ignore, out, why);
}

/* ---- decoding ---- */

typedef struct decoding {
    const hri_mask_classes *classes;
    uint8_t *out;
    int of[256]; /* class of a value of one byte; -1: none */
    bool begun;
    hri_prose *why;
} decoding;

/* -1: it is none. */
static int class_of(const hri_mask_classes *c, uint32_t value) {
    if ((int64_t)value == c->ignore) {
        return HRI_MASK_IGNORED;
    }
    if (!c->has_colours) {
        return value < c->count ? (int)value : -1;
    }
    for (size_t i = 0; i < c->count; i++) {
        if (c->colours[i] == value) {
            return (int)i;
        }
    }
    return -1;
}

static hr_status no_class(const decoding *d, uint32_t x, uint32_t y, uint32_t value, bool colour) {
    const hri_mask_classes *c = d->classes;
    return colour ? hri_prose_set(d->why, HR_E_FORMAT,
                                  "pixel (%u, %u) has the colour #%06x, which is none of the %zu "
                                  "classes",
                                  x, y, value, c->count)
                  : hri_prose_set(d->why, HR_E_FORMAT,
                                  "pixel (%u, %u) has the value %u, but there are %zu classes "
                                  "(0-%zu)",
                                  x, y, value, c->count, c->count ? c->count - 1 : 0);
}

static hr_status decode_row(void *user, const hri_png_rows *of, uint32_t y, const uint8_t *row) {
    decoding *d = user;
    const hri_mask_classes *c = d->classes;
    uint8_t *to = d->out + (size_t)y * of->width;
    uint32_t last = UINT32_MAX;
    int is = -1;
    for (uint32_t i = 0; !d->begun && i < 256; i++) {
        d->of[i] = class_of(c, c->has_colours ? of->palette[i] : i);
    }
    d->begun = true;
    for (uint32_t x = 0; x < of->width; x++) {
        if (of->kind != HRI_PNG_COLOUR) {
            is = d->of[row[x]];
            if (is < 0) {
                return no_class(d, x, y, c->has_colours ? of->palette[row[x]] : row[x],
                                c->has_colours);
            }
        } else {
            const uint32_t colour = colour_at(row + 3 * (size_t)x);
            if (colour != last) {
                const bool known = c->has_colours || is_grey(colour);
                is = known ? class_of(c, c->has_colours ? colour : colour & 255) : -1;
                last = colour;
            }
            if (is < 0) {
                const bool is_colour = c->has_colours || !is_grey(colour);
                return no_class(d, x, y, is_colour ? colour : colour & 255, is_colour);
            }
        }
        to[x] = (uint8_t)is;
    }
    return HR_OK;
}

hr_status hri_mask_decode(const void *data, size_t bytes, const hri_mask_classes *c,
                          hri_memory *memory, uint8_t *out, hri_prose *why) {
    decoding d = {.classes = c, .out = out, .why = why};
    return each_row(data, bytes, memory, decode_row, &d, why);
}
