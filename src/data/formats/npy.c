/* .npy headers: a magic number, a version, a length, and a Python dictionary in text with three keys. */
#include "data/formats/npy.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct known {
    const char *descr;
    hr_type type;
    hri_npy_kind kind;
    size_t unit;
} known;

static const known types[] = {
    {"<f4", HR_TYPE_F32, HRI_NPY_SAME, 4}, {"<f2", HR_TYPE_F16, HRI_NPY_SAME, 2},
    {"<f8", HR_TYPE_F32, HRI_NPY_F64, 8},  {"<i4", HR_TYPE_I32, HRI_NPY_SAME, 4},
    {"<i8", HR_TYPE_I64, HRI_NPY_SAME, 8}, {"|u1", HR_TYPE_U8, HRI_NPY_SAME, 1},
    {"|b1", HR_TYPE_U8, HRI_NPY_SAME, 1},  {"<u2", HR_TYPE_I32, HRI_NPY_U16, 2},
    {"<u4", HR_TYPE_I64, HRI_NPY_U32, 4},  {"<i2", HR_TYPE_I32, HRI_NPY_I16, 2},
    {"|i1", HR_TYPE_I32, HRI_NPY_I8, 1},   {0}};

/* What stands behind 'key': in the dictionary. */
static const char *value_of(const char *text, const char *key) {
    const char *at = strstr(text, key);
    at = at ? strchr(at + strlen(key), ':') : NULL;
    if (!at) {
        return NULL;
    }
    for (at++; *at == ' '; at++) {
    }
    return at;
}

static hr_status parse_shape(const char *at, hr_shape *shape, hri_prose *why) {
    if (!at || *at++ != '(') {
        return hri_prose_set(why, HR_E_FORMAT, "the header lacks a shape");
    }
    for (;;) {
        while (*at == ' ' || *at == ',') {
            at++;
        }
        if (*at == ')') {
            return HR_OK;
        }
        char *end;
        if (!isdigit((unsigned char)*at)) {
            return hri_prose_set(why, HR_E_FORMAT, "the shape cannot be read");
        }
        const unsigned long long n = strtoull(at, &end, 10);
        if (shape->rank == HR_RANK_MAX || n > INT64_MAX) {
            return hri_prose_set(why, HR_E_FORMAT, "more than %d dimensions", HR_RANK_MAX);
        }
        shape->dim[shape->rank++] = (int64_t)n;
        at = end;
    }
}

hr_status hri_npy_parse(const void *data, size_t bytes, hri_npy *out, hri_prose *why) {
    const unsigned char *p = data;
    if (bytes < 10 || memcmp(p, "\x93NUMPY", 6) != 0) {
        const char *is = bytes >= 4 && memcmp(p, "PK\3\4", 4) == 0
                             ? ": an archive (.npz); numpy.save writes its arrays one by one"
                         : bytes >= 2 && memcmp(p, "\x1f\x8b", 2) == 0 ? ": compressed; gunzip it"
                                                                       : "";
        return hri_prose_set(why, HR_E_FORMAT, "not a .npy file%s", is);
    }
    if (p[6] < 1 || p[6] > 3) {
        return hri_prose_set(why, HR_E_FORMAT,
                             "version %d.%d is not supported; 1.0 to 3.0 "
                             "are",
                             p[6], p[7]);
    }
    const bool wide = p[6] >= 2;
    const size_t start = wide ? 12 : 10;
    if (bytes < start) {
        return hri_prose_set(why, HR_E_FORMAT, "truncated header");
    }
    size_t length = (size_t)p[8] | (size_t)p[9] << 8;
    if (wide) {
        length |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    }
    if (length > HRI_NPY_HEAD_MAX) {
        return hri_prose_set(why, HR_E_FORMAT, "the header has %zu bytes, more than the %d allowed",
                             length, HRI_NPY_HEAD_MAX);
    }
    if (length > bytes - start) {
        return hri_prose_set(why, HR_E_FORMAT, "truncated header");
    }
    char text[1024];
    const size_t n = length < sizeof text - 1 ? length : sizeof text - 1;
    memcpy(text, p + start, n);
    text[n] = 0;
    hri_npy r = {.data_start = start + length};
    const char *descr = value_of(text, "'descr'"), *order = value_of(text, "'fortran_order'");
    if (!descr || !order) {
        return hri_prose_set(why, HR_E_FORMAT, "the header cannot be read");
    }
    const known *t = types;
    while (t->descr &&
           !(descr[0] == '\'' && strncmp(descr + 1, t->descr, 3) == 0 && descr[4] == '\'')) {
        t++;
    }
    if (!t->descr) {
        const int quoted = descr[0] == '\'';
        const int letters = quoted ? (int)strcspn(descr + 1, "'") : (int)strcspn(descr, ",}");
        return hri_prose_set(
            why, HR_E_FORMAT, "type %.*s is not supported%s", letters < 16 ? letters : 16,
            descr + quoted,
            quoted && descr[1] == '>'
                ? "; save a little-endian copy: x.astype(x.dtype.newbyteorder('<'))"
                : "");
    }
    if (strncmp(order, "False", 5) != 0) {
        return hri_prose_set(why, HR_E_FORMAT,
                             "Fortran order is not supported; save a C-ordered copy");
    }
    r.meta.type = t->type;
    r.kind = t->kind;
    r.unit_bytes = t->unit;
    const hr_status status = parse_shape(value_of(text, "'shape'"), &r.meta.shape, why);
    if (status != HR_OK) {
        return status;
    }
    if (hr_meta_check(&r.meta, NULL) != HR_OK) {
        return hri_prose_set(why, HR_E_FORMAT, "invalid shape");
    }
    *out = r;
    return HR_OK;
}

void hri_npy_convert(hri_npy_kind kind, const void *from, void *to, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        switch (kind) {
        case HRI_NPY_U16:
            ((int32_t *)to)[i] = ((const uint16_t *)from)[i];
            break;
        case HRI_NPY_U32:
            ((int64_t *)to)[i] = ((const uint32_t *)from)[i];
            break;
        case HRI_NPY_I16:
            ((int32_t *)to)[i] = ((const int16_t *)from)[i];
            break;
        case HRI_NPY_I8:
            ((int32_t *)to)[i] = ((const int8_t *)from)[i];
            break;
        case HRI_NPY_F64:
            ((float *)to)[i] = (float)((const double *)from)[i];
            break;
        case HRI_NPY_SAME:
            break;
        }
    }
}
