#include "show/doctor.h"

#include <stdio.h>
#include <headroom/bytes.h>
#include "show/show.h"

void hri_section_start(hri_sections *r, const char *title, const char *key) {
    static const char *const headings[] = {"", "", "", ""};
    hri_table_init(&r->table, headings, 4);
    if (r->as_json) {
        hri_json_array(&r->json, key);
    } else {
        hri_out_text(r->out, "\n");
        hri_show_title(r->out, r->term, "%s", title);
    }
}

void hri_section_end(hri_sections *r) {
    if (r->as_json) {
        hri_json_end(&r->json);
    } else if (r->status == HR_OK) {
        r->status = hri_table_print(&r->table, r->out, r->term, 2, 0);
    }
    hri_table_deinit(&r->table);
}

void hri_section_row(hri_sections *r, const hri_row_cell *cells, int first) {
    if (r->as_json) {
        hri_json_object(&r->json, NULL);
        for (int i = 0; i < 4; i++) {
            hri_json_string(&r->json, cells[i].key, cells[i].value);
        }
        hri_json_end(&r->json);
        return;
    }
    for (int i = -1; i < 4; i++) {
        const hri_row_cell *c = &cells[i < 0 ? first : i];
        if (i != first) {
            hri_table_cell(&r->table, c->style, "%s", c->shown ? c->shown : c->value);
        }
    }
}

/* ---- the machine ---- */

static void fact(hri_sections *r, const char *key, const char *label, const char *value) {
    if (r->as_json) {
        hri_json_string(&r->json, key, value);
        return;
    }
    hri_section_row(
        r, (const hri_row_cell[]){{.value = label}, {.value = value}, {.value = ""}, {.value = ""}},
        0);
}

static const char *limit_text(uint64_t bytes, char *buf, size_t size) {
    return bytes == UINT64_MAX ? "no limit" : hr_bytes_print(bytes, buf, size);
}

void hri_show_machine(hri_sections *r) {
    char text[400], size[32];
    hr_machine_info own = {.size = sizeof own};
    const hr_machine_info *m = &own;
    if (hr_machine_get_info(&own) != HR_OK) {
        return; /* the size is right */
    }
    if (r->as_json) {
        hri_json_object(&r->json, "machine");
        hri_json_u64(&r->json, "memory_bytes", m->memory_bytes);
        hri_json_u64(&r->json, "cores_online", m->cores_online);
        hri_json_u64(&r->json, "cores_usable", m->cores_usable);
        if (m->cgroup_limit_bytes == UINT64_MAX) {
            hri_json_null(&r->json, "cgroup_limit_bytes");
        } else {
            hri_json_u64(&r->json, "cgroup_limit_bytes", m->cgroup_limit_bytes);
        }
        hri_table_init(&r->table, NULL, 0);
    } else {
        hri_section_start(r, "machine", NULL);
        fact(r, NULL, "memory",
             m->memory_bytes ? hr_bytes_print(m->memory_bytes, size, sizeof size) : "unknown");
        snprintf(text, sizeof text, "%u online, %u usable", m->cores_online, m->cores_usable);
        fact(r, NULL, "cores", text);
        snprintf(text, sizeof text, "%s%s%s", limit_text(m->cgroup_limit_bytes, size, sizeof size),
                 m->cgroup_path[0] ? ", " : "", m->cgroup_path);
        fact(r, NULL, "cgroup", text);
    }
    fact(r, "system", "system", m->system);
    fact(r, "processor", "processor", m->processor);
    fact(r, "features", "features", m->features);
    fact(r, "huge_pages", "huge pages", m->huge_pages);
    fact(r, "locked_memory", "locked memory", limit_text(m->lock_limit_bytes, size, sizeof size));
    hri_section_end(r);
}

/* ---- components, settings, checks ---- */

void hri_show_components(hri_sections *r, const hr_doctor *d) {
    static const char *const names[] = {"ok", "missing", "broken"};
    static const hri_style styles[] = {HRI_STYLE_GOOD, HRI_STYLE_WARN, HRI_STYLE_BAD};
    hr_component c = {.size = sizeof c};
    hri_section_start(r, "found", "components");
    for (size_t i = 0; hr_doctor_get_component(d, i, &c) == HR_OK; i++) {
        hri_section_row(r,
                        (const hri_row_cell[]){{"name", c.name},
                                               {"found", names[c.found], .style = styles[c.found]},
                                               {"version", c.version, c.version[0] ? NULL : "-"},
                                               {"detail", c.detail}},
                        1);
    }
    hri_section_end(r);
}

void hri_show_check(hri_sections *r, const hr_check *c) {
    static const char *const names[] = {"ok", "failed", "skipped"};
    static const hri_style styles[] = {HRI_STYLE_GOOD, HRI_STYLE_BAD, HRI_STYLE_DIM};
    hri_section_row(
        r,
        (const hri_row_cell[]){{"subject", c->subject},
                               {"name", c->name},
                               {"result", names[c->result],
                                c->result == HR_CHECK_FAILED ? "FAILED" : NULL, styles[c->result]},
                               {"detail", c->detail}},
        2);
}
