/* Edit distance by the usual table of three rows, and the choice of what is near enough to be meant. */
#include "base/nearest.h"

#include <string.h>

enum { MOST_LETTERS = 63 };

static char fold(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c == '_' ? '-' : c;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

size_t hri_edit_distance(const char *a, const char *b) {
    const size_t a_length = strnlen(a, MOST_LETTERS), b_length = strnlen(b, MOST_LETTERS);
    size_t rows[3][MOST_LETTERS + 1];
    for (size_t j = 0; j <= b_length; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i - 1) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            const size_t replaced = above[j - 1] + (fold(a[i - 1]) != fold(b[j - 1]));
            row[j] = least(replaced, least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) &&
                fold(a[i - 2]) == fold(b[j - 1])) {
                row[j] = least(row[j], two_above[j - 2] + 1);
            }
        }
    }
    return rows[a_length % 3][b_length];
}

/* Twice the distance, so that a beginning of a name can lie between one change and none. */
static size_t farness(const char *word, const char *name) {
    const size_t length = strlen(word);
    const size_t far = 2 * hri_edit_distance(word, name);
    size_t same = 0;
    while (same < length && name[same] && fold(word[same]) == fold(name[same])) {
        same++;
    }
    return length >= 2 && same == length ? least(far, 1) : far;
}

const char *hri_nearest(const char *word, const char *const *first, size_t count,
                        size_t stride_bytes) {
    const char *best = NULL;
    size_t best_far = 2 * ((strnlen(word, MOST_LETTERS) + 2) / 3) + 1;
    for (size_t i = 0; i < count; i++) {
        const char *name;
        memcpy(&name, (const char *)first + i * stride_bytes, sizeof name);
        const size_t far = name ? farness(word, name) : best_far;
        if (far < best_far) {
            best_far = far;
            best = name;
        }
    }
    return best;
}
