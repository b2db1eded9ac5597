/* The stack machine; see pickle.h. */
#include "base/pickle.h"

#include <stdlib.h>
#include <string.h>
#include "base/number.h"

#define VALUES_MAX ((size_t)1 << 28)

typedef struct machine {
    hri_pickle *p;
    const unsigned char *at, *end;
    bool ended, wrong;            /* the file is over; an instruction that makes no sense */
    const hri_pickle_name *names; /* NULL: calls are opaque */
    size_t values_max;
    hri_prose *why;
} machine;

void hri_pickle_deinit(hri_pickle *p) {
    for (size_t i = 0; i < p->containers.count; i++) {
        hri_pickle_items_deinit(&p->containers.items[i]);
    }
    hri_pickle_containers_deinit(&p->containers);
    hri_pickle_items_deinit(&p->stack);
    hri_pickle_items_deinit(&p->memo);
    hri_pickle_marks_deinit(&p->marks);
    *p = (hri_pickle){.truncated = false};
}

/* ---- reading bytes ---- */

static uint64_t take(machine *m, size_t bytes) {
    uint64_t x = 0;
    if ((size_t)(m->end - m->at) < bytes) {
        m->ended = true;
        return 0;
    }
    for (size_t i = 0; i < bytes; i++) {
        x |= (uint64_t)m->at[i] << (8 * i);
    }
    m->at += bytes;
    return x;
}

static const char *take_text(machine *m, uint64_t bytes) {
    if ((uint64_t)(m->end - m->at) < bytes || bytes > UINT32_MAX) {
        m->ended = true;
        return NULL;
    }
    const char *text = (const char *)m->at;
    m->at += bytes;
    return text;
}

/* Up to the next newline, which is read over. */
static const char *take_line(machine *m, size_t *bytes) {
    const unsigned char *from = m->at;
    const unsigned char *stop = from < m->end ? memchr(from, '\n', (size_t)(m->end - from)) : NULL;
    if (!stop) {
        m->ended = true;
        return NULL;
    }
    *bytes = (size_t)(stop - from);
    m->at = stop + 1;
    return (const char *)from;
}

/* ---- the stack ---- */

static hr_status push(machine *m, hri_pickled v) {
    return ++m->p->values > m->values_max ? HR_E_RANGE : hri_pickle_items_push(&m->p->stack, v);
}

static hr_status push_container(machine *m, hri_pickle_kind kind) {
    const hri_pickled v = {.kind = (uint8_t)kind, .as.number = m->p->containers.count};
    const hr_status status =
        hri_pickle_containers_push(&m->p->containers, (hri_pickle_items){.items = NULL});
    return status == HR_OK ? push(m, v) : status;
}

/* The lowest place that may be popped: marks are not. */
static size_t bottom(const hri_pickle *p) {
    return p->marks.count ? p->marks.items[p->marks.count - 1] : 0;
}

static bool has(machine *m, size_t count) {
    if (m->p->stack.count - bottom(m->p) < count) {
        m->wrong = true;
    }
    return !m->wrong;
}

static hri_pickle_items *container_at(const hri_pickle *p, size_t place) {
    const hri_pickled *v = &p->stack.items[place];
    return v->kind == HRI_PICKLE_LIST || v->kind == HRI_PICKLE_DICT
               ? &p->containers.items[v->as.number]
               : NULL;
}

/* Puts what lies above `from` into the container below it; opaque ones swallow it. */
static hr_status fill(machine *m, size_t from) {
    hri_pickle *p = m->p;
    hri_pickle_items *into = from ? container_at(p, from - 1) : NULL;
    size_t count = p->stack.count - from;
    m->wrong |= from == 0;
    if (into && p->stack.items[from - 1].kind == HRI_PICKLE_DICT) {
        count -= count % 2;
    }
    const hr_status status =
        into && count ? hri_pickle_items_append(into, p->stack.items + from, count) : HR_OK;
    p->stack.count = from;
    return status;
}

/* Everything above the last mark; the mark goes too. */
static size_t pop_mark(machine *m) {
    hri_pickle *p = m->p;
    if (!p->marks.count) {
        m->wrong = true;
        return p->stack.count;
    }
    return p->marks.items[--p->marks.count];
}

/* A container of what lies above `from`. */
static hr_status gather(machine *m, size_t from, hri_pickle_kind kind) {
    hri_pickle *p = m->p;
    hri_pickle_items items = {.items = NULL};
    hr_status status = hri_pickle_items_append(&items, p->stack.items + from,
                                               p->stack.count > from ? p->stack.count - from : 0);
    if (status == HR_OK) {
        p->stack.count = from;
        status = push_container(m, kind);
    }
    if (status == HR_OK) {
        p->containers.items[p->containers.count - 1] = items;
    } else {
        hri_pickle_items_deinit(&items);
    }
    return status;
}

/* Pops so many and pushes one that nobody knows. */
static hr_status opaque(machine *m, size_t count) {
    if (!has(m, count)) {
        return HR_OK;
    }
    m->p->stack.count -= count;
    return push(m, (hri_pickled){.kind = HRI_PICKLE_OPAQUE});
}

static hr_status memo_put(machine *m, uint64_t place) {
    hri_pickle_items *memo = &m->p->memo;
    if (!has(m, 1) || place > memo->count + 16) { /* Python counts up by one */
        m->wrong = true;
        return HR_OK;
    }
    hr_status status = HR_OK;
    if (place >= memo->count) {
        status = hri_pickle_items_resize(memo, (size_t)place + 1);
    }
    if (status == HR_OK) {
        memo->items[place] = m->p->stack.items[m->p->stack.count - 1];
    }
    return status;
}

static hr_status memo_get(machine *m, uint64_t place) {
    if (place >= m->p->memo.count) {
        m->wrong = true;
        return HR_OK;
    }
    return push(m, m->p->memo.items[place]);
}

/* ---- values ---- */

static hr_status push_int(machine *m, int64_t x) {
    return m->ended ? HR_OK : push(m, (hri_pickled){.kind = HRI_PICKLE_INT, .as.integer = x});
}

static hr_status push_text(machine *m, uint64_t bytes) {
    const char *text = m->ended ? NULL : take_text(m, bytes);
    return text ? push(m, (hri_pickled){.kind = HRI_PICKLE_TEXT,
                                        .count = (uint32_t)bytes,
                                        .as.text = text})
                : HR_OK;
}

/* Two's complement, little-endian; what does not fit is opaque. */
static hr_status push_long(machine *m, uint64_t bytes) {
    const char *text = m->ended ? NULL : take_text(m, bytes);
    uint64_t x = 0;
    if (!text) {
        return HR_OK;
    }
    /* Addresses over 2^63 come with a ninth byte, 0; they keep their bits. */
    if (bytes > 9 || (bytes == 9 && text[8] != 0)) {
        return push(m, (hri_pickled){.kind = HRI_PICKLE_OPAQUE});
    }
    for (size_t i = 0; i < bytes && i < 8; i++) {
        x |= (uint64_t)(unsigned char)text[i] << (8 * i);
    }
    if (bytes && bytes < 8 && (unsigned char)text[bytes - 1] & 0x80) {
        x |= ~UINT64_C(0) << (8 * bytes);
    }
    return push_int(m, (int64_t)x);
}

static hr_status push_double(machine *m) {
    uint64_t big = 0;
    const uint64_t bits = take(m, 8);
    hri_pickled v = {.kind = HRI_PICKLE_FLOAT};
    for (int i = 0; i < 8; i++) {
        big = big << 8 | (bits >> (8 * i) & 255);
    }
    memcpy(&v.as.real, &big, sizeof big);
    return m->ended ? HR_OK : push(m, v);
}

/* Numbers of protocol 0: "12", "12L", "1.5", and "00" and "01" for booleans. */
static hr_status push_line_number(machine *m, bool real) {
    char text[64];
    size_t bytes = 0;
    const char *line = take_line(m, &bytes);
    if (!line) {
        return HR_OK;
    }
    if (bytes >= sizeof text) {
        return push(m, (hri_pickled){.kind = HRI_PICKLE_OPAQUE});
    }
    memcpy(text, line, bytes);
    text[bytes] = '\0';
    if (real) {
        return push(m, (hri_pickled){.kind = HRI_PICKLE_FLOAT, .as.real = hri_strtod(text, NULL)});
    }
    return push_int(m,
                    text[0] == '-' ? strtoll(text, NULL, 10) : (int64_t)strtoull(text, NULL, 10));
}

static hr_status push_line_text(machine *m) {
    size_t bytes = 0;
    const char *line = take_line(m, &bytes);
    return line ? push(m, (hri_pickled){.kind = HRI_PICKLE_TEXT,
                                        .count = (uint32_t)(bytes & UINT32_MAX),
                                        .as.text = line})
                : HR_OK;
}

static hr_status read_line_place(machine *m, bool put) {
    char text[32] = "";
    size_t bytes = 0;
    const char *line = take_line(m, &bytes);
    if (!line) {
        return HR_OK;
    }
    m->wrong |= bytes >= sizeof text;
    memcpy(text, line, m->wrong ? 0 : bytes);
    const uint64_t place = strtoull(text, NULL, 10);
    return put ? memo_put(m, place) : memo_get(m, place);
}

static hr_status skip_lines(machine *m, int count) {
    size_t bytes;
    while (count-- > 0 && take_line(m, &bytes)) {
    }
    return m->ended ? HR_OK : opaque(m, 0);
}

/* ---- instructions ---- */

static hr_status add_pair(machine *m) {
    return has(m, 3) ? fill(m, m->p->stack.count - 2) : HR_OK;
}

static hr_status add_one(machine *m) {
    return has(m, 2) ? fill(m, m->p->stack.count - 1) : HR_OK;
}

static hr_status tuple(machine *m, size_t count) {
    return has(m, count) ? gather(m, m->p->stack.count - count, HRI_PICKLE_LIST) : HR_OK;
}

static hr_status do_numbers_and_texts(machine *m, unsigned char op, bool *known) {
    switch (op) {
    case 'N':
        return push(m, (hri_pickled){.kind = HRI_PICKLE_NONE});
    case 0x88:
        return push_int(m, 1);
    case 0x89:
        return push_int(m, 0);
    case 'J':
        return push_int(m, (int32_t)(uint32_t)take(m, 4));
    case 'K':
        return push_int(m, (int64_t)take(m, 1));
    case 'M':
        return push_int(m, (int64_t)take(m, 2));
    case 0x8a:
        return push_long(m, take(m, 1));
    case 0x8b:
        return push_long(m, take(m, 4));
    case 'G':
        return push_double(m);
    case 'I':
    case 'L':
        return push_line_number(m, false);
    case 'F':
        return push_line_number(m, true);
    case 'V':
    case 'S':
        return push_line_text(m);
    case 0x8c:
    case 'C':
    case 'U':
        return push_text(m, take(m, 1));
    case 'X':
    case 'B':
    case 'T':
        return push_text(m, take(m, 4));
    case 0x8d:
    case 0x8e:
    case 0x96:
        return push_text(m, take(m, 8));
    default:
        *known = false;
        return HR_OK;
    }
}

static hr_status do_containers(machine *m, unsigned char op, bool *known) {
    switch (op) {
    case ']':
    case ')':
    case 0x8f:
        return push_container(m, HRI_PICKLE_LIST);
    case '}':
        return push_container(m, HRI_PICKLE_DICT);
    case 'l':
    case 't':
    case 0x91:
        return gather(m, pop_mark(m), HRI_PICKLE_LIST);
    case 'd':
        return gather(m, pop_mark(m), HRI_PICKLE_DICT);
    case 0x85:
    case 0x86:
    case 0x87:
        return tuple(m, (size_t)op - 0x84);
    case 'a':
        return add_one(m);
    case 's':
        return add_pair(m);
    case 'e':
    case 'u':
    case 0x90:
        return fill(m, pop_mark(m));
    default:
        *known = false;
        return HR_OK;
    }
}

/* Whatever Python would look up or call. */
static hr_status do_calls(machine *m, unsigned char op, bool *known) {
    switch (op) {
    case 'c': /* a name in two lines */
        return skip_lines(m, 2);
    case 'P':
        return skip_lines(m, 1);
    case 0x93: /* a name from the stack; a call; a class and its arguments */
    case 'R':
    case 0x81:
        return opaque(m, 2);
    case 0x92:
        return opaque(m, 3);
    case 'Q':
        return opaque(m, 1);
    case 'b': /* the state of an object */
        m->p->stack.count -= has(m, 1);
        return HR_OK;
    case 'i':
        m->p->stack.count = pop_mark(m);
        return skip_lines(m, 2);
    case 'o':
        m->p->stack.count = pop_mark(m);
        return opaque(m, 0);
    case 0x82:
    case 0x83:
    case 0x84:
        (void)take(m, (size_t)1 << (op - 0x82));
        return opaque(m, 0);
    case 0x97:
        return opaque(m, 0);
    case 0x98:
        return HR_OK;
    default:
        *known = false;
        return HR_OK;
    }
}

static hr_status do_stack(machine *m, unsigned char op, bool *known) {
    hri_pickle *p = m->p;
    switch (op) {
    case '(':
        return hri_pickle_marks_push(&p->marks, p->stack.count);
    case '0':
        p->stack.count -= has(m, 1);
        return HR_OK;
    case '1':
        p->stack.count = pop_mark(m);
        return HR_OK;
    case '2':
        return has(m, 1) ? push(m, p->stack.items[p->stack.count - 1]) : HR_OK;
    case 0x80:
        (void)take(m, 1);
        return HR_OK;
    case 0x95:
        (void)take(m, 8);
        return HR_OK;
    case 'q':
    case 'r': {
        const uint64_t place = take(m, op == 'q' ? 1 : 4);
        return m->ended ? HR_OK : memo_put(m, place);
    }
    case 0x94:
        return memo_put(m, p->memo.count);
    case 'h':
    case 'j': {
        const uint64_t place = take(m, op == 'h' ? 1 : 4);
        return m->ended ? HR_OK : memo_get(m, place);
    }
    case 'p':
    case 'g':
        return read_line_place(m, op == 'p');
    default:
        *known = false;
        return HR_OK;
    }
}

/* ---- calls of names that are allowed ---- */

static hr_status refuse(machine *m, const char *what, size_t bytes, const char *name,
                        size_t name_bytes) {
    return hri_prose_set(
        m->why, HR_E_UNSUPPORTED,
        "it speaks of %.*s.%.*s, which is not part of a tensor; nothing was executed",
        (int)(bytes < 80 ? bytes : 80), what, (int)(name_bytes < 80 ? name_bytes : 80), name);
}

static hr_status push_name(machine *m, const char *module, size_t bytes, const char *name,
                           size_t name_bytes) {
    for (size_t i = 0; m->names[i].module; i++) {
        const hri_pickle_name *n = &m->names[i];
        if (strlen(n->module) == bytes && !memcmp(n->module, module, bytes) &&
            strlen(n->name) == name_bytes && !memcmp(n->name, name, name_bytes)) {
            return push(m, (hri_pickled){.kind = HRI_PICKLE_NAME, .as.number = i});
        }
    }
    return refuse(m, module, bytes, name, name_bytes);
}

static hr_status name_from_lines(machine *m) {
    size_t bytes = 0, name_bytes = 0;
    const char *module = take_line(m, &bytes);
    const char *name = module ? take_line(m, &name_bytes) : NULL;
    return name ? push_name(m, module, bytes, name, name_bytes) : HR_OK;
}

static hr_status name_from_stack(machine *m) {
    if (!has(m, 2)) {
        return HR_OK;
    }
    const hri_pickled *two = &m->p->stack.items[m->p->stack.count - 2];
    m->p->stack.count -= 2;
    m->wrong |= two[0].kind != HRI_PICKLE_TEXT || two[1].kind != HRI_PICKLE_TEXT;
    return m->wrong ? HR_OK
                    : push_name(m, two[0].as.text, two[0].count, two[1].as.text, two[1].count);
}

static hr_status call(machine *m) {
    if (!has(m, 2)) {
        return HR_OK;
    }
    const hri_pickled *two = &m->p->stack.items[m->p->stack.count - 2];
    m->wrong |= two[0].kind != HRI_PICKLE_NAME || two[1].kind != HRI_PICKLE_LIST;
    if (m->wrong) {
        return HR_OK;
    }
    const hri_pickle_name *name = &m->names[two[0].as.number];
    if (name->dict) {
        m->wrong |= m->p->containers.items[two[1].as.number].count > 0;
        m->p->stack.count -= 2;
        return push_container(m, HRI_PICKLE_DICT);
    }
    return gather(m, m->p->stack.count - 2, HRI_PICKLE_CALL);
}

/* The state of an object: what a dict has beside its members is looked past. */
static hr_status set_state(machine *m) {
    if (has(m, 2)) {
        m->p->stack.count--;
        m->wrong |= m->p->stack.items[m->p->stack.count - 1].kind != HRI_PICKLE_DICT;
    }
    return HR_OK;
}

static hr_status do_names(machine *m, unsigned char op, bool *known) {
    static const struct {
        unsigned char op;
        const char *name;
    } refused[] = {
        {'P', "PERSID"},       {0x81, "NEWOBJ"},         {0x92, "NEWOBJ_EX"}, {'i', "INST"},
        {'o', "OBJ"},          {0x82, "EXT1"},           {0x83, "EXT2"},      {0x84, "EXT4"},
        {0x97, "NEXT_BUFFER"}, {0x98, "READONLY_BUFFER"}};
    switch (op) {
    case 'c':
        return name_from_lines(m);
    case 0x93:
        return name_from_stack(m);
    case 'R':
        return call(m);
    case 'Q':
        return has(m, 1) ? gather(m, m->p->stack.count - 1, HRI_PICKLE_OUTSIDE) : HR_OK;
    case 'b':
        return set_state(m);
    default:
        break;
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (refused[i].op == op) {
            return hri_prose_set(m->why, HR_E_UNSUPPORTED,
                                 "it has the instruction %s, which makes objects; nothing was "
                                 "executed",
                                 refused[i].name);
        }
    }
    *known = false;
    return HR_OK;
}

static hr_status step(machine *m, unsigned char op) {
    hr_status (*const kinds[])(machine *, unsigned char, bool *) = {
        do_numbers_and_texts, do_stack, do_containers, m->names ? do_names : do_calls};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        bool known = true;
        const hr_status status = kinds[i](m, op, &known);
        if (known) {
            return status;
        }
    }
    m->wrong = true;
    return HR_OK;
}

/* What was being built when the file ended goes where it would have gone: marks from the top down, then single items. */
static hr_status finish_early(machine *m) {
    hri_pickle *p = m->p;
    hr_status status = HR_OK;
    m->wrong = false;
    while (p->marks.count && status == HR_OK) {
        const size_t from = pop_mark(m);
        status = from ? fill(m, from) : HR_OK;
    }
    while (p->stack.count > 1 && status == HR_OK) {
        const size_t count = p->stack.count;
        const bool pair = count > 2 && p->stack.items[count - 3].kind == HRI_PICKLE_DICT;
        status = fill(m, pair ? count - 2 : count - 1);
    }
    return status;
}

/* Up to the end or to what cannot be read; true: it stopped where it says so. */
static bool run(machine *m, hr_status *status) {
    bool stopped = false;
    while (*status == HR_OK && !m->ended && !m->wrong && !stopped) {
        const unsigned char op = (unsigned char)take(m, 1);
        stopped = !m->ended && op == '.';
        *status = m->ended || stopped ? HR_OK : step(m, op);
    }
    return stopped && m->p->marks.count == 0 && m->p->stack.count == 1;
}

static hr_status finish(machine *m, hr_status status, hri_pickle *out) {
    if (status == HR_OK && m->p->stack.count != 1) {
        status = hri_prose_set(m->why, HR_E_FORMAT, "not a pickle that can be read");
    }
    if (status != HR_OK) {
        hri_pickle_deinit(m->p);
        return status == HR_E_RANGE ? hri_prose_set(m->why, status, "more values than can be read")
                                    : status;
    }
    m->p->root = m->p->stack.items[0];
    *out = *m->p;
    return HR_OK;
}

hr_status hri_pickle_read(const void *bytes, size_t count, hri_pickle *out, hri_prose *why) {
    hri_pickle p = {.truncated = false};
    machine m = {.p = &p,
                 .at = bytes,
                 .end = (const unsigned char *)bytes + count,
                 .values_max = VALUES_MAX,
                 .why = why};
    hr_status status = HR_OK;
    p.truncated = !run(&m, &status);
    if (status == HR_OK && p.truncated) {
        status = finish_early(&m);
    }
    return finish(&m, status, out);
}

hr_status hri_pickle_read_names(const void *bytes, size_t count, const hri_pickle_name *names,
                                size_t values_max, hri_pickle *out, hri_prose *why) {
    hri_pickle p = {.truncated = false};
    machine m = {.p = &p,
                 .at = bytes,
                 .end = (const unsigned char *)bytes + count,
                 .names = names,
                 .values_max = values_max,
                 .why = why};
    hr_status status = HR_OK;
    if (!run(&m, &status) && status == HR_OK) {
        status = hri_prose_set(
            why, HR_E_FORMAT, "byte %zu: %s", (size_t)(m.at - (const unsigned char *)bytes),
            m.ended ? "the pickle ends too early" : "not a pickle that can be read");
    }
    return finish(&m, status, out);
}

/* ---- looking ---- */

hri_pickle_items hri_pickle_list(const hri_pickle *p, const hri_pickled *v) {
    const hri_pickle_items none = {.items = NULL};
    return v && (v->kind == HRI_PICKLE_LIST || v->kind == HRI_PICKLE_DICT ||
                 v->kind == HRI_PICKLE_CALL || v->kind == HRI_PICKLE_OUTSIDE)
               ? p->containers.items[v->as.number]
               : none;
}

bool hri_pickle_is(const hri_pickled *v, const char *text) {
    return v && v->kind == HRI_PICKLE_TEXT && v->count == strlen(text) &&
           !memcmp(v->as.text, text, v->count);
}

const hri_pickled *hri_pickle_get(const hri_pickle *p, const hri_pickled *v, const char *key) {
    if (!v || v->kind != HRI_PICKLE_DICT) {
        return NULL;
    }
    const hri_pickle_items items = hri_pickle_list(p, v);
    for (size_t i = 0; i + 1 < items.count; i += 2) {
        if (hri_pickle_is(&items.items[i], key)) {
            return &items.items[i + 1];
        }
    }
    return NULL;
}

uint64_t hri_pickle_u64(const hri_pickled *v) {
    return v && v->kind == HRI_PICKLE_INT ? (v->as.integer > 0 ? (uint64_t)v->as.integer : 0)
           : v && v->kind == HRI_PICKLE_FLOAT && v->as.real >= 0 && v->as.real < 1.8e19
               ? (uint64_t)v->as.real
               : 0;
}
