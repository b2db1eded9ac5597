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

void hri_startup_event(hri_startup *s, const hri_train_job *j, const hr_job_event *e) {
    if (e->kind == HR_EVENT_STEP && !s->end_ns) {
        hri_startup_mark(s, "first_step", 0);
        hri_startup_end(s);
    } else if (e->kind != HR_EVENT_TICK || e->trainer) {
        return;
    } else if (!strcmp(e->text, "opening the device")) {
        hri_startup_mark(s, "look", 0);
    } else if (!strcmp(e->text, "planning")) {
        hri_startup_mark(s, "device", 0);
    } else if (!strcmp(e->text, "allocating memory")) {
        hri_startup_mark(s, "input", 0);
    } else if (!strcmp(e->text, "starting") && j) {
        hri_measured m;
        hri_planned_measure(j->planned, &m);
        hri_startup_mark(s, "start", m.memory_ns + m.prepare_ns + m.begin_ns);
        hri_startup_add(s, "memory", m.memory_ns);
        hri_startup_add(s, "graphs", m.prepare_ns);
        hri_startup_add(s, "weights", m.begin_ns);
    }
}

void hri_startup_planned(hri_startup *s, const hri_together *t) {
    uint64_t kernels = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        const hri_plan_job *j = t->jobs[i].plan;
        kernels += j->engine && j->timing ? hri_timing_trial_ns(j->timing) : 0;
    }
    hri_startup_mark(s, "plan", kernels);
    hri_startup_add(s, "kernels", kernels);
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
