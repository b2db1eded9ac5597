/* tf.train.Example: see example.h.
 *
 *   Example  { Features features = 1; }          Features { map<string, Feature> feature = 1; }
 *   Feature  { oneof: BytesList = 1, FloatList = 2, Int64List = 3; }, each { repeated value = 1; }
 *
 * Every length is checked against what is left before it is used. */
#include "data/formats/example.h"

#include <stdio.h>
#include <string.h>

typedef struct span {
    const uint8_t *at, *end;
} span;

typedef struct entry {
    uint32_t field, wire;
    uint64_t number; /* wire 0, 1 and 5 */
    span bytes;      /* wire 2 */
} entry;

static bool get_number(span *s, uint64_t *out) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && s->at < s->end; shift += 7) {
        const uint8_t b = *s->at++;
        value |= (uint64_t)(b & 127) << shift;
        if (b < 128) {
            *out = value;
            return true;
        }
    }
    return false;
}

/* The next field; false at damage. */
static bool get_entry(span *s, entry *e) {
    uint64_t tag, n;
    if (!get_number(s, &tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX) {
        return false;
    }
    *e = (entry){.field = (uint32_t)(tag >> 3), .wire = (uint32_t)(tag & 7)};
    const size_t left = (size_t)(s->end - s->at);
    switch (e->wire) {
    case 0:
        return get_number(s, &e->number);
    case 1:
    case 5:
        n = e->wire == 1 ? 8 : 4;
        if (n > left) {
            return false;
        }
        memcpy(&e->number, s->at, (size_t)n);
        s->at += n;
        return true;
    case 2:
        if (!get_number(s, &n) || n > (size_t)(s->end - s->at)) {
            return false;
        }
        e->bytes = (span){s->at, s->at + n};
        s->at += n;
        return true;
    default:
        return false;
    }
}

typedef struct counted {
    uint64_t values, bytes;
} counted;

/* How many values a list has; with `to`, they are written there, else only counted. */
static bool walk_list(span list, uint32_t kind, uint8_t *to, int64_t *lengths, counted *out) {
    *out = (counted){0};
    while (list.at < list.end) {
        entry e;
        if (!get_entry(&list, &e)) {
            return false;
        }
        if (e.field != 1) {
            continue;
        }
        if (kind == 1) {
            if (e.wire != 2) {
                return false;
            }
            const size_t n = (size_t)(e.bytes.end - e.bytes.at);
            if (to) {
                memcpy(to + out->bytes, e.bytes.at, n);
            }
            if (lengths) {
                lengths[out->values] = (int64_t)n;
            }
            out->bytes += n;
            out->values++;
            continue;
        }
        const uint32_t single = kind == 2 ? 5 : 0;
        const size_t unit = kind == 2 ? 4 : 8;
        if (e.wire == single) {
            if (to) {
                memcpy(to + out->values * unit, &e.number, unit);
            }
            out->values++;
        } else if (e.wire == 2 && kind == 2) {
            const size_t n = (size_t)(e.bytes.end - e.bytes.at);
            if (n % 4) {
                return false;
            }
            if (to) {
                memcpy(to + out->values * 4, e.bytes.at, n);
            }
            out->values += n / 4;
        } else if (e.wire == 2) {
            while (e.bytes.at < e.bytes.end) {
                uint64_t number;
                if (!get_number(&e.bytes, &number)) {
                    return false;
                }
                if (to) {
                    memcpy(to + out->values * 8, &number, 8);
                }
                out->values++;
            }
        } else {
            return false;
        }
    }
    return true;
}

static hr_status broken(hr_emit *emit) {
    return hri_emit_fail(emit, HR_E_FORMAT, "the record is not a tf.train.Example");
}

static hr_status emit_list(hr_emit *emit, const char *name, span list, uint32_t kind) {
    counted n;
    if (!walk_list(list, kind, NULL, NULL, &n)) {
        return broken(emit);
    }
    hr_meta m = {.type = kind == 1 ? HR_TYPE_U8 : kind == 2 ? HR_TYPE_F32 : HR_TYPE_I64};
    if (kind == 1 || n.values != 1) {
        m.shape.rank = 1;
        m.shape.dim[0] = (int64_t)(kind == 1 ? n.bytes : n.values);
    }
    void *data, *lengths = NULL;
    hr_status status = hr_emit_field(emit, name, &m, &data);
    if (status == HR_OK && kind == 1 && n.values > 1) {
        char longer[HR_FIELD_NAME_SIZE + 16];
        const hr_meta lm = {.type = HR_TYPE_I64, .shape = {.rank = 1, .dim = {(int64_t)n.values}}};
        snprintf(longer, sizeof longer, "%s.lengths", name);
        status = hr_emit_field(emit, longer, &lm, &lengths);
    }
    if (status == HR_OK) {
        (void)walk_list(list, kind, data, lengths, &n);
    }
    /* Two features of one name, or a name that leaves no room for ".lengths": the record's fault. */
    return status == HR_E_EXISTS || status == HR_E_INVALID ? HR_E_FORMAT : status;
}

static hr_status emit_feature(hr_emit *emit, span pair) {
    span key = {0}, feature = {0};
    while (pair.at < pair.end) {
        entry e;
        if (!get_entry(&pair, &e)) {
            return broken(emit);
        }
        if (e.field == 1 && e.wire == 2) {
            key = e.bytes;
        } else if (e.field == 2 && e.wire == 2) {
            feature = e.bytes;
        }
    }
    char name[HR_FIELD_NAME_SIZE];
    const size_t n = key.at ? (size_t)(key.end - key.at) : 0;
    if (n == 0 || n >= sizeof name || memchr(key.at, 0, n)) {
        return hri_emit_fail(emit, HR_E_FORMAT,
                             "a feature name has %zu bytes; 1 to %d are "
                             "allowed",
                             n, HR_FIELD_NAME_SIZE - 1);
    }
    memcpy(name, key.at, n);
    name[n] = 0;
    hr_status status = HR_OK;
    while (status == HR_OK && feature.at && feature.at < feature.end) {
        entry e;
        if (!get_entry(&feature, &e) || e.wire != 2 || e.field < 1 || e.field > 3) {
            return broken(emit);
        }
        status = emit_list(emit, name, e.bytes, e.field);
    }
    return status;
}

hr_status hri_example_emit(const void *data, size_t bytes, hr_emit *emit) {
    span all = {data, (const uint8_t *)data + bytes};
    hr_status status = HR_OK;
    while (status == HR_OK && all.at < all.end) {
        entry e;
        if (!get_entry(&all, &e)) {
            return broken(emit);
        }
        if (e.field != 1 || e.wire != 2) {
            continue;
        }
        span features = e.bytes;
        while (status == HR_OK && features.at < features.end) {
            if (!get_entry(&features, &e)) {
                return broken(emit);
            }
            if (e.field == 1 && e.wire == 2) {
                status = emit_feature(emit, e.bytes);
            }
        }
    }
    if (status == HR_OK && emit->output->count == 0) {
        return broken(emit);
    }
    return status;
}
