/* See startup.h. */
#include "show/startup.h"

#include <string.h>
#include "base/clock.h"

void hri_startup_begin(hri_startup *s) {
    *s = (hri_startup){.begin_ns = hri_clock_ns()};
    s->last_ns = s->begin_ns;
}

void hri_startup_add(hri_startup *s, const char *name, uint64_t ns) {
    uint32_t i = 0;
    while (i < s->count && strcmp(s->parts[i].name, name) != 0) {
        i++;
    }
    if (s->end_ns || i == HRI_STARTUP_PARTS) {
        return;
    }
    s->count += i == s->count;
    s->parts[i].name = name;
    s->parts[i].ns += ns;
}

void hri_startup_mark(hri_startup *s, const char *name, uint64_t other_ns) {
    const uint64_t now = hri_clock_ns(), all = now - s->last_ns;
    hri_startup_add(s, name, all > other_ns ? all - other_ns : 0);
    s->last_ns = now;
}

void hri_startup_end(hri_startup *s) {
    s->end_ns = s->end_ns ? s->end_ns : hri_clock_ns();
}

void hri_startup_json(const hri_startup *s, hri_json *json) {
    if (!s->end_ns) {
        return;
    }
    hri_json_object(json, "startup_seconds");
    hri_json_double(json, "total", (double)(s->end_ns - s->begin_ns) / 1e9);
    for (uint32_t i = 0; i < s->count; i++) {
        hri_json_double(json, s->parts[i].name, (double)s->parts[i].ns / 1e9);
    }
    hri_json_end(json);
}
