/* See pattern.h. */
#include "passes/common/pattern.h"

#include <string.h>

static const char letters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-/:*?+";

hr_status hri_pattern_check(const char *pattern, hri_prose *why) {
    const size_t plain = strspn(pattern, letters), length = strlen(pattern);
    if (plain < length) {
        return hri_prose_set(why, HR_E_INVALID, "\"%s\" is not a pattern: %.1s cannot be in it",
                             pattern, pattern + plain);
    }
    if (!length || pattern[0] == '+' || pattern[length - 1] == '+' || strstr(pattern, "++")) {
        return hri_prose_set(why, HR_E_INVALID, "\"%s\" is not a pattern: a name is missing",
                             pattern);
    }
    return HR_OK;
}

/* The usual way: where a star took too little, it takes one letter more. */
static int is_glob(const char *p, size_t p_length, const char *t, size_t t_length) {
    size_t i = 0, k = 0, star = p_length, from = 0;
    while (k < t_length) {
        if (i < p_length && p[i] == '*') {
            star = i++;
            from = k;
        } else if (i < p_length && (p[i] == '?' || p[i] == t[k])) {
            i++;
            k++;
        } else if (star < p_length) {
            i = star + 1;
            k = ++from;
        } else {
            return 0;
        }
    }
    while (i < p_length && p[i] == '*') {
        i++;
    }
    return i == p_length;
}

/* The first `length` letters of path, or their end behind some dot. */
static int is_tail(const char *p, size_t p_length, const char *path, size_t length) {
    for (size_t at = 0; at < length; at++) {
        if ((at == 0 || path[at - 1] == '.') && is_glob(p, p_length, path + at, length - at)) {
            return 1;
        }
    }
    return 0;
}

int hri_pattern_has(const char *pattern, const char *path) {
    for (const char *p = pattern; *p;) {
        const size_t n = strcspn(p, "+");
        for (size_t end = 1; end <= strlen(path); end++) { /* every layer around it, then itself */
            if ((path[end] == '.' || !path[end]) && is_tail(p, n, path, end)) {
                return 1;
            }
        }
        p += n + (p[n] == '+');
    }
    return 0;
}
