/* Which place of a record is which column: as the user asks for it, or as a table names them; see columns.h. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "data/formats/columns_int.h"

/* ---- names ---- */

/* The next of "a+b+c"; false behind the last. */
static bool next_name(const char **at, const char **name, size_t *length) {
    if (!*at || !**at) {
        return false;
    }
    *name = *at;
    *length = strcspn(*at, "+");
    *at += *length + ((*at)[*length] == '+');
    return true;
}

static bool has_name(const char *list, const char *name) {
    const char *one;
    size_t n;
    while (next_name(&list, &one, &n)) {
        if (strlen(name) == n && memcmp(one, name, n) == 0) {
            return true;
        }
    }
    return false;
}

static int64_t place_of(char *const *names, uint32_t count, const char *name, size_t length) {
    for (uint32_t i = 0; i < count; i++) {
        if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0) {
            return i;
        }
    }
    return -1;
}

static hr_status no_column(const hri_columns_ask *ask, char *const *names, uint32_t count,
                           const char *what, const char *name, size_t length, hri_prose *why) {
    char list[400] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < count && used + 70 < sizeof list; i++) {
        used +=
            (size_t)snprintf(list + used, sizeof list - used, "%s%.60s", i ? ", " : "", names[i]);
    }
    const char *other = count == 1 ? strpbrk(names[0], ";\t|") : NULL;
    char hint[80] = "";
    if (other) {
        snprintf(hint, sizeof hint, "; to split it at %s",
                 *other == '\t'  ? "tabs, add separator=tab"
                 : *other == ';' ? "semicolons, add separator=;"
                                 : "bars, add separator=\\|");
    }
    return hri_prose_set(why, HR_E_NOT_FOUND, "%s has no column \"%.*s\"%s; it has %s%s", ask->file,
                         (int)(length < 60 ? length : 60), name, what, list, hint);
}

/* Gives the columns of a list their roles, from *role on. */
static hr_status take_list(hri_columns *c, char *const *names, const char *list,
                           const hri_columns_ask *ask, int32_t *role, hri_prose *why) {
    const char *name;
    size_t n;
    while (next_name(&list, &name, &n)) {
        const int64_t place = place_of(names, c->count, name, n);
        if (place < 0) {
            return no_column(ask, names, c->count, "", name, n, why);
        }
        if (c->roles[place] >= 0) {
            return hri_prose_set(why, HR_E_INVALID, "column \"%.60s\" of %s is named twice",
                                 names[place], ask->file);
        }
        c->roles[place] = (*role)++;
    }
    return HR_OK;
}

static hr_status take_table(hri_columns *c, char *const *names, const hri_columns_ask *ask,
                            hri_prose *why) {
    const hri_tabular *t = c->table;
    uint32_t found = 0;
    for (size_t i = 0; i < t->input_count + t->target_count + (t->key != NULL); i++) {
        const char *name = i < t->input_count ? t->inputs[i].name
                           : i < t->input_count + t->target_count
                               ? t->targets[i - t->input_count].name
                               : t->key;
        const int64_t place = place_of(names, c->count, name, strlen(name));
        if (place < 0 && i < t->input_count) {
            return no_column(ask, names, c->count, ", which the model was trained with", name,
                             strlen(name), why);
        }
        if (place >= 0) {
            c->roles[place] = (int32_t)i;
            found += i >= t->input_count && i < t->input_count + t->target_count;
            c->has_key |= i == t->input_count + t->target_count;
        }
    }
    c->has_targets = t->target_count && found == t->target_count;
    return HR_OK;
}

/* The column of weights, which is no other. */
static hr_status take_weight(hri_columns *c, char *const *names, const hri_columns_ask *ask,
                             hri_prose *why) {
    const size_t n = ask->weight ? strlen(ask->weight) : 0;
    const int64_t place = n ? place_of(names, c->count, ask->weight, n) : -1;
    if (!n) {
        return HR_OK;
    }
    if (place < 0) {
        return no_column(ask, names, c->count, " for weights", ask->weight, n, why);
    }
    if (c->roles[place] != -1) {
        return hri_prose_set(why, HR_E_INVALID,
                             "column \"%.60s\" of %s is the weight, so it cannot be x, y or key",
                             names[place], ask->file);
    }
    c->roles[place] = HRI_COLUMNS_WEIGHT;
    c->has_weight = true;
    return HR_OK;
}

/* The rest of the columns: those that are neither target nor key. */
static void take_rest(hri_columns *c, int32_t *role) {
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->roles[i] == -1) {
            c->roles[i] = (*role)++;
        }
    }
}

/* Who is named in categories= or ids= but is no input. */
static hr_status check_lists(const hri_columns *c, char *const *names, const hri_columns_ask *ask,
                             hri_prose *why) {
    const char *const lists[] = {ask->categories, ask->ids};
    for (int k = 0; k < 2; k++) {
        const char *at = lists[k], *name;
        size_t n;
        while (next_name(&at, &name, &n)) {
            if (place_of(names, c->count, name, n) < 0) {
                return no_column(ask, names, c->count, "", name, n, why);
            }
        }
    }
    return HR_OK;
}

static const char *input_name(const hri_columns_ask *ask) {
    return ask->whole == HRI_COLUMN_TEXT ? "text" : ask->whole ? "image" : "x";
}

static hr_status find_asked(hri_columns *c, char *const *names, const hri_columns_ask *ask,
                            hri_prose *why) {
    int32_t targets = 0, inputs = 0;
    hr_status status = take_list(c, names, ask->y, ask, &targets, why);
    for (uint32_t i = 0; i < c->count; i++) { /* behind the inputs, whose number is not known yet */
        c->roles[i] = c->roles[i] >= 0 ? -2 - c->roles[i] : -1;
    }
    const int64_t key = ask->key ? place_of(names, c->count, ask->key, strlen(ask->key)) : -1;
    if (status == HR_OK && ask->key && key < 0) {
        status = no_column(ask, names, c->count, "", ask->key, strlen(ask->key), why);
    }
    if (key >= 0) {
        c->roles[key] = INT32_MIN;
    }
    status = status == HR_OK ? take_weight(c, names, ask, why) : status;
    if (status == HR_OK && !strcmp(ask->x, "*")) {
        take_rest(c, &inputs);
    } else if (status == HR_OK) {
        const char *at = ask->x, *name;
        size_t n;
        while (status == HR_OK && next_name(&at, &name, &n)) {
            const int64_t place = place_of(names, c->count, name, n);
            if (place >= 0 && c->roles[place] != -1) {
                status =
                    hri_prose_set(why, HR_E_INVALID, "column \"%.60s\" of %s is in both %s and %s",
                                  names[place], ask->file, input_name(ask),
                                  place == key                            ? "key"
                                  : c->roles[place] == HRI_COLUMNS_WEIGHT ? "weight"
                                                                          : "y");
            }
        }
        status = status == HR_OK ? take_list(c, names, ask->x, ask, &inputs, why) : status;
    }
    status = status == HR_OK ? check_lists(c, names, ask, why) : status;
    if (status == HR_OK && ask->whole && inputs != 1) {
        status = hri_prose_set(why, HR_E_INVALID, "%s: %s names %d columns, but must name one",
                               ask->file, input_name(ask), (int)inputs);
    }
    if (status == HR_OK && inputs == 0) {
        status = hri_prose_set(why, HR_E_INVALID, "%s: x names no columns", ask->file);
    }
    for (uint32_t i = 0; i < c->count; i++) {
        const int32_t r = c->roles[i];
        c->roles[i] = r == INT32_MIN ? inputs + targets : r < -1 ? inputs + (-2 - r) : r;
    }
    c->has_targets = targets > 0;
    c->target_count = (uint32_t)targets;
    c->has_key = key >= 0;
    c->sum_count = (uint32_t)(inputs + targets);
    return status;
}

static hr_status make_sums(hri_columns *c, char *const *names, const hri_columns_ask *ask) {
    c->sums = hri_calloc(c->sum_count ? c->sum_count : 1, sizeof *c->sums);
    for (uint32_t i = 0; c->sums && i < c->count; i++) {
        if (c->roles[i] >= 0 && c->roles[i] < (int32_t)c->sum_count) {
            hri_columns_sums *s = &c->sums[c->roles[i]];
            s->name = hri_strdup(names[i]);
            s->whole = true;
            s->text = ask->whole && c->roles[i] == 0;
            s->as_ids = has_name(ask->ids, names[i]);
            s->forced = s->as_ids || has_name(ask->categories, names[i]);
            if (!s->name) {
                return HR_E_NOMEM_HOST;
            }
        }
    }
    return c->sums ? HR_OK : HR_E_NOMEM_HOST;
}

hr_status hri_columns_find(hri_columns *c, char *const *names, uint32_t count,
                           const hri_columns_ask *ask, const hri_tabular *table, hri_prose *why) {
    c->roles = hri_malloc((count ? count : 1) * sizeof *c->roles);
    if (!c->roles) {
        return HR_E_NOMEM_HOST;
    }
    c->count = count;
    c->table = table;
    for (uint32_t i = 0; i < count; i++) {
        c->roles[i] = -1;
        if (place_of(names, i, names[i], strlen(names[i])) >= 0) {
            return hri_prose_set(why, HR_E_EXISTS, "two columns of %s are named \"%.60s\"",
                                 ask->file, names[i]);
        }
    }
    if (table) {
        const hr_status taken = take_table(c, names, ask, why);
        return taken == HR_OK ? take_weight(c, names, ask, why) : taken;
    }
    const hr_status status = find_asked(c, names, ask, why);
    return status == HR_OK ? make_sums(c, names, ask) : status;
}
