/* Opening what was trained; see trained.h. */
#include "job/trained.h"

#include <string.h>

#include <headroom/bytes.h>
#include "base/alloc.h"
#include "device/device.h"
#include "models/common/model.h"

static hr_status failed(hri_why *why, const char *what, hr_status status, const hri_prose *prose) {
    return hri_why_prose(why, hri_cause_of_input(status), status, what, prose);
}

static int is_model_file(const char *path) {
    const size_t n = strlen(path);
    return n > 3 && !strcmp(path + n - 3, ".hr");
}

/* A file of parameters and nothing else, of a model that is known from elsewhere. */
static hr_status open_parameters(hri_trained *t, const char *path, hri_why *why) {
    hri_prose prose = {0};
    t->checkpoint.path = hri_strdup(path);
    t->checkpoint.plain = 1;
    hr_status status =
        t->checkpoint.path ? hri_tensors_open(path, &t->checkpoint.file, &prose) : HR_E_NOMEM_HOST;
    if (status == HR_OK) {
        status = hri_model_input_of(t->model, &t->want, &prose);
    }
    t->checkpoint.about = (hri_about){
        .model = hr_model_name(t->model), .precision = "f32", .source = "", .input = t->want.name};
    return status == HR_OK ? HR_OK : failed(why, NULL, status, &prose);
}

/* A model file with its weights, or the name of a model and a file, stand for a checkpoint of which nothing else is known. */
static hr_status open_model(hri_trained *t, const hri_trained_options *o, hri_why *why) {
    hr_error error = {0};
    const hr_status status = hr_model_open(o->model ? o->model : o->checkpoint, &t->model, &error);
    if (status != HR_OK) {
        return hri_why_error(why, hri_cause_of_input(status), status, NULL, &error);
    }
    if (o->model) {
        return open_parameters(t, o->checkpoint, why);
    }
    if (!t->model->weights) {
        return hri_why_set(why, HR_CAUSE_USAGE, HR_E_INVALID,
                           "%s names no weights: train it and give the run, or add a line weights "
                           "\"my.safetensors\"",
                           o->checkpoint);
    }
    return open_parameters(t, t->model->weights, why);
}

static hr_status open_checkpoint(hri_trained *t, const hri_trained_options *o, hri_why *why) {
    hri_prose prose = {0};
    if (o->model || is_model_file(o->checkpoint)) {
        return open_model(t, o, why);
    }
    hr_status status = hri_checkpoint_open(o->checkpoint, &t->checkpoint, &prose);
    if (status != HR_OK) {
        return failed(why, NULL, status, &prose);
    }
    if (o->custom_model) {
        t->model = (hr_model *)(uintptr_t)o->custom_model; /* only read */
        t->borrowed = true;
    } else {
        status = hri_checkpoint_model(&t->checkpoint, &t->model, &prose);
    }
    if (status == HR_OK) {
        const char *own = t->checkpoint.about.passes ? t->checkpoint.about.passes : "";
        const char *more = o->more_passes ? o->more_passes : "";
        hri_text text = {0};
        hri_text_add(&text, "%s%s%s", own, *own && *more ? ";" : "", more);
        status = hri_text_status(&text);
        status =
            status == HR_OK ? hri_passes_parse(hri_text_get(&text), &t->passes, &prose) : status;
        hri_text_deinit(&text);
        t->passes.without = "ema"; /* a file has one kind of weights to evaluate with */
    }
    if (status == HR_OK) {
        status = hri_model_input_with(t->model, &t->checkpoint.about.loss, &t->want, &prose);
    }
    return status == HR_OK ? HR_OK : failed(why, t->checkpoint.path, status, &prose);
}

static hr_status on_wait(void *user, const char *what, uint64_t waited_ms) {
    hri_trained *t = user;
    (void)waited_ms;
    if (!t->said_waiting) {
        t->said_waiting = true;
        hri_listener_warn(&t->listener, NULL, "%s", what);
    }
    return hri_listener_tick(&t->listener, what, 0, 0, NULL);
}

/* Before the device is opened; see plan_job.h. */
static hr_status reserve(hri_trained *t, const hri_trained_options *o, hri_why *why) {
    hri_prose prose = {0};
    const hri_admission_options a = {.device = t->device,
                                     .name = t->checkpoint.about.model,
                                     .budget = o->budget,
                                     .wait_ms = o->wait_ms,
                                     .on_wait = on_wait,
                                     .user = t};
    const hr_status status = hri_admission_open(&a, &t->admission, &prose);
    if (status == HR_OK && *prose.text) {
        hri_listener_warn(&t->listener, NULL, "%s", prose.text);
    }
    return status == HR_OK
               ? HR_OK
               : hri_why_prose(why, status == HR_E_AGAIN ? HR_CAUSE_NO_FIT : hri_cause_of(status),
                               status, NULL, &prose);
}

static hr_status open_device(hri_trained *t, hr_ctx *ctx, const hri_trained_options *o,
                             hri_why *why) {
    hr_device_info info = {.size = sizeof info};
    hr_status status = hr_device_find(ctx, o->device, &t->device);
    if (status == HR_OK) {
        status = reserve(t, o, why);
        if (status != HR_OK) {
            return status;
        }
        status = hr_device_get_info(t->device, &info);
    }
    if (status != HR_OK) {
        hr_error error = {0};
        hr_ctx_error(ctx, &error);
        error.message[0] = error.code == status ? error.message[0] : '\0';
        return hri_why_error(why, hri_cause_of(status), status, o->device, &error);
    }
    if (!(hri_device_can(t->device) & HRI_CAN_COMPUTE)) {
        return hri_why_option(why, HR_E_UNSUPPORTED, "device",
                              " %s cannot run kernels, so it cannot run a model", o->device);
    }
    const uint64_t reserved = hri_admission_bytes(t->admission);
    t->budget_bytes = info.free_bytes;
    if (o->budget) {
        status = hr_bytes_parse(o->budget, info.total_bytes, &t->budget_bytes);
        if (status != HR_OK || t->budget_bytes == 0) {
            return hri_why_option(why, HR_E_INVALID, "budget",
                                  ": \"%s\" is not an amount of memory", o->budget);
        }
    } else if (o->ledger) { /* what it leaves is known when it is planned */
        uint64_t left = 0;
        status = hri_budget_free(o->ledger, t->device->name, &left);
        t->budget_bytes = hri_budget_limit(o->ledger, t->device->name);
    }
    t->budget_bytes = reserved < t->budget_bytes ? reserved : t->budget_bytes;
    return status == HR_OK ? HR_OK
                           : hri_why_set(why, hri_cause_of(status), status, "ledger: %s",
                                         hr_status_text(status));
}

void hri_trained_init(hri_trained *t, hri_listener listener) {
    *t = (hri_trained){.listener = listener, .checkpoint = {.file = {.fd = -1}}};
}

hr_status hri_trained_open(hri_trained *t, hr_ctx *ctx, const hri_trained_options *o,
                           hri_why *why) {
    const hr_status status = open_checkpoint(t, o, why);
    return status == HR_OK ? open_device(t, ctx, o, why) : status;
}

void hri_trained_close(hri_trained *t) {
    hri_admission_close(t->admission);
    hri_passes_deinit(&t->passes);
    hr_model_close(t->borrowed ? NULL : t->model);
    hri_checkpoint_close(&t->checkpoint);
}
