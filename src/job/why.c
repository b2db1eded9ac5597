/* Sentences with causes; see why.h. */
#include "job/why.h"

#include <stdarg.h>
#include <string.h>

#include "base/text.h"

hr_cause hri_cause_of(hr_status status) {
    switch (status) {
    case HR_OK:
        return HR_CAUSE_NONE;
    case HR_E_LIMIT:
    case HR_E_NO_PLAN:
        return HR_CAUSE_NO_FIT;
    case HR_E_CANCELLED:
        return HR_CAUSE_CANCELLED;
    case HR_E_INVALID:
    case HR_E_RANGE:
    case HR_E_NOT_FOUND:
    case HR_E_EXISTS:
    case HR_E_FORMAT:
    case HR_E_SHAPE:
        return HR_CAUSE_USAGE;
    case HR_E_INTERNAL:
        return HR_CAUSE_BUG;
    default:
        return HR_CAUSE_MACHINE;
    }
}

hr_cause hri_cause_of_input(hr_status status) {
    return status == HR_E_IO || status == HR_E_UNSUPPORTED || status == HR_E_EOF
               ? HR_CAUSE_DATA
               : hri_cause_of(status);
}

static hr_status keep(hri_why *why, hr_cause cause, hr_status status) {
    why->status = status;
    why->cause = cause;
    why->option_bytes = 0;
    return status;
}

hr_status hri_why_set(hri_why *why, hr_cause cause, hr_status status, const char *format, ...) {
    if (!why || why->cause != HR_CAUSE_NONE) {
        return status;
    }
    va_list args;
    va_start(args, format);
    hri_prose_set_args(&why->prose, format, args);
    va_end(args);
    return keep(why, cause, status);
}

hr_status hri_why_option(hri_why *why, hr_status status, const char *option, const char *rest,
                         ...) {
    if (!why || why->cause != HR_CAUSE_NONE) {
        return status;
    }
    hri_text text = {0};
    va_list args;
    hri_text_add(&text, "%s", option);
    va_start(args, rest);
    hri_text_vadd(&text, rest, args);
    va_end(args);
    hri_prose_set(&why->prose, status, "%s", hri_text_get(&text));
    hri_text_deinit(&text);
    keep(why, status == HR_E_NOMEM_HOST ? HR_CAUSE_MACHINE : HR_CAUSE_USAGE, status);
    why->option_bytes = (uint32_t)strlen(option);
    return status;
}

static hr_status take(hri_why *why, hr_cause cause, hr_status status, const char *what,
                      const char *text) {
    return hri_why_set(why, cause, status, "%s%s%s", what ? what : "", what ? ": " : "",
                       text[0] ? text : hr_status_text(status));
}

hr_status hri_why_prose(hri_why *why, hr_cause cause, hr_status status, const char *what,
                        const hri_prose *prose) {
    return take(why, cause, status, what, prose->text);
}

hr_status hri_why_error(hri_why *why, hr_cause cause, hr_status status, const char *what,
                        const hr_error *error) {
    return take(why, cause, status, what, error->message);
}

void hri_why_give(const hri_why *why, hr_status status, hr_error *out) {
    if (!out) {
        return;
    }
    const char *text = why->prose.text[0] ? why->prose.text : hr_status_text(status);
    *out = (hr_error){.code = status,
                      .cause = (int32_t)(why->cause ? why->cause : hri_cause_of(status)),
                      .option_bytes = (int32_t)why->option_bytes};
    memcpy(out->message, text, strlen(text) + 1);
}

void hri_listener_warn(const hri_listener *l, const char *option, const char *format, ...) {
    if (!l->fn) {
        return;
    }
    hri_text text = {0};
    va_list args;
    hri_text_add(&text, "%s", option ? option : "");
    va_start(args, format);
    hri_text_vadd(&text, format, args);
    va_end(args);
    const hr_job_event e = {
        .size = sizeof e, .kind = HR_EVENT_WARNING, .text = hri_text_get(&text), .option = option};
    (void)!l->fn(l->user, &e); /* whoever wants to stop says so again at the next tick */
    hri_text_deinit(&text);
}

hr_status hri_listener_tick(const hri_listener *l, const char *activity, uint64_t done,
                            uint64_t total, hri_why *why) {
    const hr_job_event e = {
        .size = sizeof e, .kind = HR_EVENT_TICK, .text = activity, .done = done, .total = total};
    const hr_status status = l->fn ? l->fn(l->user, &e) : HR_OK;
    return status == HR_OK ? HR_OK
                           : hri_why_set(why, hri_cause_of(status), status, "%s: %s", activity,
                                         hr_status_text(status));
}
