/* See holders.h. */
#include "govern/holders.h"

#include <stdio.h>
#include <string.h>
#include <headroom/bytes.h>

enum { NAMED = 5 };

const char *hri_holders_time(uint64_t ms, char *out, size_t size) {
    const unsigned long long s = ms / 1000;
    if (s < 120) {
        snprintf(out, size, "%llu s", s);
    } else if (s < 7200) {
        snprintf(out, size, "%llu min", s / 60);
    } else {
        snprintf(out, size, "%llu h", s / 3600);
    }
    return out;
}

/* What a row takes from everybody else. */
static uint64_t taken(const hri_wire *row) {
    const int reserved = !(row->flags & HRI_WIRE_OVERCOMMIT);
    return reserved && row->limit_bytes > row->granted_bytes ? row->limit_bytes
                                                             : row->granted_bytes;
}

static void keep_largest(hri_wire *kept, int *count, const hri_wire *row) {
    int at = *count < NAMED ? (*count)++ : NAMED;
    while (at > 0 && taken(&kept[at - 1]) < taken(row)) {
        if (at < NAMED) {
            kept[at] = kept[at - 1];
        }
        at--;
    }
    if (at < NAMED) {
        kept[at] = *row;
    }
}

static void name_them(const hri_wire *kept, int count, int more, uint64_t outside,
                      hri_text *names) {
    char size[32], since[32];
    for (int i = 0; i < count; i++) {
        hri_text_add(names, "%s%s (job %llu, %s for %s)", i ? ", " : "", kept[i].name,
                     (unsigned long long)kept[i].job,
                     hr_bytes_print(taken(&kept[i]), size, sizeof size),
                     hri_holders_time(kept[i].wait_ms, since, sizeof since));
    }
    if (more > 0) {
        hri_text_add(names, ", %d more", more);
    }
    if (outside) {
        hri_text_add(names, "%sprograms outside (%s)", count ? ", " : "",
                     hr_bytes_print(outside, size, sizeof size));
    }
    if (!count && !outside) {
        hri_text_add(names, "nobody");
    }
}

hr_status hri_holders_read(hri_link *link, const unsigned char uuid[16], hri_holders *out,
                           hri_text *names) {
    hri_wire row, kept[NAMED];
    hri_holders h = {0};
    int count = 0, all = 0;
    hr_status status;
    for (uint32_t r = 0; (status = hri_link_row(link, r, &row)) == HR_OK; r++) {
        if (memcmp(row.uuid, uuid, 16) != 0) {
            continue;
        }
        if (row.flags & HRI_WIRE_ROW_DEVICE) {
            h = (hri_holders){.found = 1,
                              .total_bytes = row.total_bytes,
                              .free_bytes = row.free_bytes,
                              .outside_bytes = row.outside_bytes};
        } else if ((row.flags & HRI_WIRE_ROW_JOB) && !(row.flags & HRI_WIRE_WAITING) &&
                   taken(&row)) {
            keep_largest(kept, &count, &row);
            all++;
        }
    }
    if (status != HR_E_EOF) {
        return HR_E_IO;
    }
    if (names) {
        name_them(kept, count, all - count, h.outside_bytes, names);
    }
    *out = h;
    return HR_OK;
}

void hri_holders_say(const char *verb, uint64_t bytes, const char *device,
                     const unsigned char uuid[16], hri_text *out) {
    hri_link look;
    hri_holders h;
    hri_text names = {0};
    char size[32];
    hri_text_clear(out);
    hri_text_add(out, "%s %s on %s", verb, hr_bytes_print(bytes, size, sizeof size), device);
    if (hri_link_find(&look, NULL) == HR_OK) {
        if (hri_holders_read(&look, uuid, &h, &names) == HR_OK && h.found) {
            hri_text_add(out, ": %s free, held by %s",
                         hr_bytes_print(h.free_bytes, size, sizeof size), hri_text_get(&names));
        }
        hri_link_close(&look);
    }
    hri_text_deinit(&names);
}
