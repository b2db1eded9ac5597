/* The table of file types and the loops that convert. */
#include "weights/tensor_types.h"

#include <string.h>

#include "graph/half.h"

const hri_dtype hri_dtypes[] = {
    {"F64", 8, -1, 1},          {"F32", 4, HR_TYPE_F32, 1}, {"BF16", 2, HR_TYPE_BF16, 1},
    {"F16", 2, HR_TYPE_F16, 1}, {"I64", 8, HR_TYPE_I64, 0}, {"I32", 4, HR_TYPE_I32, 0},
    {"U8", 1, HR_TYPE_U8, 0},   {"U64", 8, -1, 0},          {"U32", 4, -1, 0},
    {"I16", 2, -1, 0},          {"U16", 2, -1, 0},          {"I8", 1, HR_TYPE_I8, 0},
    {"BOOL", 1, -1, 0},         {"F8_E4M3", 1, -1, 0},      {"F8_E5M2", 1, -1, 0},
    {NULL, 0, -1, 0},
};

int hri_dtype_find(const char *name, uint32_t *out) {
    for (uint32_t i = 0; hri_dtypes[i].name; i++) {
        if (!strcmp(hri_dtypes[i].name, name)) {
            *out = i;
            return 1;
        }
    }
    return 0;
}

uint32_t hri_dtype_of(hr_type type) {
    uint32_t i = 0;
    while (hri_dtypes[i].type != (int)type) {
        i++;
    }
    return i;
}

int hri_dtype_converts(uint32_t kind, hr_type to) {
    return hri_dtypes[kind].type == (int)to || (hri_dtypes[kind].real && hr_type_is_real(to));
}

static float load(uint32_t kind, const unsigned char *in) {
    if (hri_dtypes[kind].bytes == 8) {
        double x;
        memcpy(&x, in, sizeof x);
        return (float)x;
    }
    if (hri_dtypes[kind].type == HR_TYPE_BF16) {
        hri_bf16 x;
        memcpy(&x, in, sizeof x);
        return hri_from_bf16(x);
    }
    if (hri_dtypes[kind].type == HR_TYPE_F16) {
        hri_f16 x;
        memcpy(&x, in, sizeof x);
        return hri_from_f16(x);
    }
    float x;
    memcpy(&x, in, sizeof x);
    return x;
}

static void store(hr_type type, unsigned char *out, float x) {
    if (type == HR_TYPE_BF16) {
        const hri_bf16 y = hri_to_bf16(x);
        memcpy(out, &y, sizeof y);
    } else if (type == HR_TYPE_F16) {
        const hri_f16 y = hri_to_f16(x);
        memcpy(out, &y, sizeof y);
    } else {
        memcpy(out, &x, sizeof x);
    }
}

void hri_dtype_convert(uint32_t kind, const void *in, hr_type to, void *out, uint64_t n) {
    const uint64_t from_bytes = hri_dtypes[kind].bytes, to_bytes = hr_type_bytes(to);
    if (hri_dtypes[kind].type == (int)to) {
        memcpy(out, in, (size_t)(n * to_bytes));
        return;
    }
    const unsigned char *a = in;
    unsigned char *b = out;
    for (uint64_t i = 0; i < n; i++, a += from_bytes, b += to_bytes) {
        store(to, b, load(kind, a));
    }
}
