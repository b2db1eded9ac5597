/* One table of keys; see change.h. */
#include "job/change.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <headroom/bytes.h>

typedef enum kind { INT64, INT32, BYTES, TEXT } kind;

#define AT(MEMBER) offsetof(hr_job_options, MEMBER)
static const struct {
    const char *key;
    kind kind;
    size_t at;
} keys[] = {{"batch", INT64, AT(batch)},
            {"val_batch", INT64, AT(val_batch)},
            {"micro_batches", INT64, AT(micro_batches)},
            {"split_norm", INT32, AT(split_norm)},
            {"no_offload", INT32, AT(no_offload)},
            {"data_budget_bytes", BYTES, AT(data_budget_bytes)},
            {"budget", TEXT, AT(budget)},
            {"spill", TEXT, AT(spill)}};

static const char *const training_keys[] = {"precision", "moments", "optimizer", "momentum",
                                            "nesterov"};

static hr_status set(hr_job_options *to, size_t at, kind k, const char *value) {
    char *member = (char *)to + at;
    const int64_t number = strtoll(value, NULL, 10);
    switch (k) {
    case INT64:
        memcpy(member, &number, sizeof number);
        return HR_OK;
    case INT32: {
        const int32_t small = (int32_t)number;
        memcpy(member, &small, sizeof small);
        return HR_OK;
    }
    case BYTES: {
        uint64_t bytes = 0;
        const hr_status status = hr_bytes_parse(value, 0, &bytes);
        memcpy(member, &bytes, sizeof bytes);
        return status;
    }
    default:
        memcpy(member, &value, sizeof value);
        return HR_OK;
    }
}

void hri_training_set(const char *from, const char *key, const char *value, hri_text *out) {
    const size_t length = strlen(key);
    for (const char *at = from ? from : ""; *at;) {
        size_t n = 0;
        while (at[n] && at[n] != ',') {
            n += at[n] == '\\' && at[n + 1] ? 2 : 1;
        }
        const int same = n >= length && !strncmp(at, key, length) &&
                         (at[length] == '=' || at[length] == ',' || !at[length]);
        if (!same && n) {
            hri_text_add(out, "%s%.*s", out->used ? "," : "", (int)n, at);
        }
        at += n + (at[n] == ',');
    }
    hri_text_add(out, "%s%s=%s", out->used ? "," : "", key, value);
}

static hr_status set_training(const hri_way_change *c, hri_text *training, hr_job_options *to) {
    for (size_t i = 0; i < sizeof training_keys / sizeof training_keys[0]; i++) {
        if (strcmp(c->key, training_keys[i]) != 0) {
            continue;
        }
        hri_text next = {0};
        hri_training_set(to->training, c->key, c->value, &next);
        const hr_status status = hri_text_status(&next);
        if (status != HR_OK) {
            hri_text_deinit(&next);
            return status;
        }
        hri_text_deinit(training);
        *training = next;
        to->training = hri_text_get(training);
        return HR_OK;
    }
    return HR_E_NOT_FOUND;
}

hr_status hri_job_change(const hr_job_options *from, const hri_way_change *changes, size_t count,
                         hri_text *training, hr_job_options *to) {
    hr_status status = HR_OK;
    *to = *from;
    for (size_t i = 0; i < count && status == HR_OK; i++) {
        size_t k = 0;
        while (k < sizeof keys / sizeof keys[0] && strcmp(keys[k].key, changes[i].key) != 0) {
            k++;
        }
        status = k < sizeof keys / sizeof keys[0]
                     ? set(to, keys[k].at, keys[k].kind, changes[i].value)
                     : set_training(&changes[i], training, to);
    }
    return status;
}
