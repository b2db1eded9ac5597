/* See budget.h. */
#include "govern/budget.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <headroom/bytes.h>

#include "base/alloc.h"
#include "base/number.h"
#include "base/prose.h"

typedef struct card {
    unsigned char uuid[16];
    uint64_t total_bytes, free_bytes;
} card;

static hr_status read_cards(hri_link *link, card *cards, int *count, hri_prose *why) {
    hri_wire row;
    hr_status status;
    *count = 0;
    for (uint32_t r = 0; (status = hri_link_row(link, r, &row)) == HR_OK; r++) {
        if ((row.flags & HRI_WIRE_ROW_DEVICE) && *count < HRI_DOOR_DEVICES) {
            memcpy(cards[*count].uuid, row.uuid, 16);
            cards[*count].total_bytes = row.total_bytes;
            cards[*count].free_bytes = row.free_bytes;
            ++*count;
        }
    }
    if (status != HR_E_EOF) {
        return hri_prose_set(why, status, "the broker does not respond");
    }
    return *count ? HR_OK : hri_prose_set(why, HR_E_UNSUPPORTED, "no NVIDIA GPU was found");
}

/* The card that one word of CUDA_VISIBLE_DEVICES names, or -1. */
static int card_named(const card *cards, int count, const char *word, size_t length) {
    char *end;
    for (int i = 0; length >= 8 && i < count; i++) {
        char text[48];
        hri_link_uuid_text(cards[i].uuid, text);
        if (strncasecmp(text, word, length) == 0) {
            return i;
        }
    }
    const long number = strtol(word, &end, 10);
    return end != word && number >= 0 && number < count ? (int)number : -1;
}

/* Leaves the visible ones, in the program's order. */
static void keep_visible(card *cards, int *count) {
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    card kept[HRI_DOOR_DEVICES];
    int seen = 0;
    if (!list) {
        return;
    }
    while (*list && seen < HRI_DOOR_DEVICES) {
        const size_t length = strcspn(list, ",");
        const int i = card_named(cards, *count, list, length);
        if (i < 0) {
            break; /* the driver ends the list there, too */
        }
        kept[seen++] = cards[i];
        list += length + (list[length] == ',');
    }
    memcpy(cards, kept, (size_t)seen * sizeof *cards);
    *count = seen;
}

static hr_status parse_size(const char *text, const card *of, uint64_t *out, hri_prose *why) {
    char left[32];
    const hr_status status = hr_bytes_parse(text, of->total_bytes, out);
    if (status != HR_OK || *out == 0) {
        return hri_prose_set(why, HR_E_INVALID,
                             "--budget: '%s' is not a size; use 8GiB or 50%%, for example", text);
    }
    if (*out > of->total_bytes) {
        return hri_prose_set(why, HR_E_RANGE, "--budget: %s is more than the GPU has (%s)", text,
                             hr_bytes_print(of->total_bytes, left, sizeof left));
    }
    return HR_OK;
}

/* "cuda:0=8GiB,cuda:1=4GiB" into limits[]; text is cut into pieces. */
static hr_status parse_list(char *text, const card *cards, int count, uint64_t *limits,
                            hri_prose *why) {
    char *rest = NULL;
    for (char *piece = strtok_r(text, ",", &rest); piece; piece = strtok_r(NULL, ",", &rest)) {
        char *equals = strchr(piece, '='), *end = NULL;
        const long number = strncmp(piece, "cuda:", 5) == 0 ? strtol(piece + 5, &end, 10) : -1;
        if (!equals || number < 0 || end != equals) {
            return hri_prose_set(why, HR_E_INVALID,
                                 "--budget: '%s' does not have the form cuda:0=8GiB", piece);
        }
        if (number >= count) {
            return hri_prose_set(why, HR_E_NOT_FOUND,
                                 "--budget: there is no cuda:%ld, only %d GPU%s", number, count,
                                 hri_plural((uint64_t)count));
        }
        const hr_status status = parse_size(equals + 1, &cards[number], &limits[number], why);
        if (status != HR_OK) {
            return status;
        }
    }
    return HR_OK;
}

static hr_status parse(const char *text, const card *cards, int count, uint64_t *limits,
                       hri_prose *why) {
    hr_status status = HR_OK;
    if (text && strchr(text, '=')) {
        char *copy = hri_strdup(text);
        status = copy ? parse_list(copy, cards, count, limits, why) : HR_E_NOMEM_HOST;
        hri_free(copy);
        return status;
    }
    for (int i = 0; i < count && status == HR_OK; i++) {
        if (text && *text) {
            status = parse_size(text, &cards[i], &limits[i], why);
        } else {
            limits[i] = cards[i].free_bytes;
        }
    }
    return status;
}

hr_status hri_run_budget(hri_link *link, const char *text, hri_door_job *job, hri_prose *why) {
    card cards[HRI_DOOR_DEVICES];
    uint64_t limits[HRI_DOOR_DEVICES] = {0};
    int count;
    hr_status status = read_cards(link, cards, &count, why);
    if (status != HR_OK) {
        return status;
    }
    keep_visible(cards, &count);
    if (!count) {
        return hri_prose_set(why, HR_E_UNSUPPORTED, "CUDA_VISIBLE_DEVICES leaves no GPU visible");
    }
    status = parse(text, cards, count, limits, why);
    for (int i = 0; i < count && status == HR_OK; i++) {
        if (limits[i]) {
            memcpy(job->uuids[job->count], cards[i].uuid, 16);
            job->limits[job->count++] = limits[i];
        }
    }
    if (status == HR_OK && !job->count) {
        return hri_prose_set(why, HR_E_RANGE,
                             "every GPU is full; headroom top shows who holds the memory");
    }
    return status;
}

hr_status hri_run_wait_parse(const char *text, uint64_t *out_ms, hri_prose *why) {
    char *end;
    const double number = hri_strtod(text, &end);
    const double unit = *end == '\0' || strcmp(end, "s") == 0 ? 1
                        : strcmp(end, "m") == 0               ? 60
                        : strcmp(end, "h") == 0               ? 3600
                                                              : -1;
    if (end == text || unit < 0 || !(number >= 0) || !isfinite(number) || number * unit > 1e9) {
        return hri_prose_set(why, HR_E_INVALID,
                             "--wait: '%s' is not a duration; use 30s, 10m or 2h, for example",
                             text);
    }
    *out_ms = (uint64_t)(number * unit * 1000);
    return HR_OK;
}
