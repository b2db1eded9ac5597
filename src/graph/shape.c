/* Types and shapes: names, checked sizes, text. */
#include <stdio.h>
#include <string.h>
#include <headroom/graph.h>

static const struct {
    const char *name;
    uint8_t bytes, real;
} types[] = {
#define TYPE_ROW(NAME, TEXT, BYTES, REAL) {TEXT, BYTES, REAL},
    HR_TYPE_MAP(TYPE_ROW)
#undef TYPE_ROW
};

static int is_type(hr_type type) {
    return (unsigned)type < HR_TYPE_COUNT;
}

const char *hr_type_name(hr_type type) {
    return is_type(type) ? types[type].name : "unknown";
}

size_t hr_type_bytes(hr_type type) {
    return is_type(type) ? types[type].bytes : 0;
}

int hr_type_is_real(hr_type type) {
    return is_type(type) && types[type].real;
}

hr_status hr_type_find(const char *name, int32_t *out) {
    for (int i = 0; i < HR_TYPE_COUNT; i++) {
        if (!strcmp(name, types[i].name)) {
            *out = i;
            return HR_OK;
        }
    }
    return HR_E_NOT_FOUND;
}

/* A rank that is not possible is kept in the shape, so that the check after it finds and names it. */
hr_shape hr_shape_from(int32_t rank, const int64_t *dims) {
    hr_shape s = {.rank = rank};
    for (int i = 0; i < rank && i < HR_RANK_MAX; i++) {
        s.dim[i] = dims[i];
    }
    return s;
}

hr_shape hr_shape_0(void) {
    return hr_shape_from(0, NULL);
}

hr_shape hr_shape_1(int64_t a) {
    return hr_shape_from(1, (const int64_t[]){a});
}

hr_shape hr_shape_2(int64_t a, int64_t b) {
    return hr_shape_from(2, (const int64_t[]){a, b});
}

hr_shape hr_shape_3(int64_t a, int64_t b, int64_t c) {
    return hr_shape_from(3, (const int64_t[]){a, b, c});
}

hr_shape hr_shape_4(int64_t a, int64_t b, int64_t c, int64_t d) {
    return hr_shape_from(4, (const int64_t[]){a, b, c, d});
}

hr_shape hr_shape_5(int64_t a, int64_t b, int64_t c, int64_t d, int64_t e) {
    return hr_shape_from(5, (const int64_t[]){a, b, c, d, e});
}

hr_status hr_meta_check(const hr_meta *meta, uint64_t *out_bytes) {
    const hr_shape *s = &meta->shape;
    if (!is_type(meta->type) || s->rank < 0 || s->rank > HR_RANK_MAX) {
        return HR_E_SHAPE;
    }
    /* Empty or not, the product of the dimensions that are not 0 must fit: strides are made of it. */
    int64_t bytes = (int64_t)hr_type_bytes(meta->type);
    int empty = 0;
    for (int i = 0; i < s->rank; i++) {
        if (s->dim[i] < 0) {
            return HR_E_SHAPE;
        }
        empty |= s->dim[i] == 0;
        if (s->dim[i] > 0 && __builtin_mul_overflow(bytes, s->dim[i], &bytes)) {
            return HR_E_RANGE;
        }
    }
    if (out_bytes) {
        *out_bytes = empty ? 0 : (uint64_t)bytes;
    }
    return HR_OK;
}

int64_t hr_shape_count(const hr_shape *shape) {
    int64_t count = 1;
    for (int i = 0; i < shape->rank; i++) {
        count *= shape->dim[i];
    }
    return count;
}

uint64_t hr_meta_bytes(const hr_meta *meta) {
    return (uint64_t)hr_shape_count(&meta->shape) * hr_type_bytes(meta->type);
}

int hr_shape_same(const hr_shape *a, const hr_shape *b) {
    return a->rank == b->rank && !memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]);
}

const char *hr_meta_print(const hr_meta *meta, char *buf, size_t size) {
    size_t at = 0;
    const int rank = meta->shape.rank > HR_RANK_MAX ? HR_RANK_MAX : meta->shape.rank;
    int n = snprintf(buf, size, "%s[", hr_type_name(meta->type));
    at = n > 0 ? (size_t)n : 0;
    for (int i = 0; i < rank && at < size; i++) {
        n = snprintf(buf + at, size - at, "%s%lld", i ? "," : "", (long long)meta->shape.dim[i]);
        at += n > 0 ? (size_t)n : 0;
    }
    if (at < size) {
        snprintf(buf + at, size - at, meta->shape.rank > HR_RANK_MAX ? ",...]" : "]");
    }
    return buf;
}
