/* The device of a job, and what is known of its speed: the host, a GPU, or one that is not there; see plan_job.h. */
#include <stdio.h>
#include <string.h>

#include <headroom/bytes.h>
#include "base/cache_dir.h"
#include "base/cores.h"
#include "base/options.h"
#include "device/device.h"
#include "fit/planned.h"
#include "job/plan_job.h"
#include "memory/resident.h"

typedef struct spec {
    double flops, bandwidth, launch, copy, drag;
    uint64_t runtime, page;
} spec;

static const hri_field spec_fields[] = {
    {"flops", "operations per second", offsetof(spec, flops), HRI_FIELD_DOUBLE, "15e12", .min = 1,
     .max = 1e20},
    {"bandwidth", "memory bandwidth in bytes per second", offsetof(spec, bandwidth),
     HRI_FIELD_DOUBLE, "900e9", .min = 1, .max = 1e18},
    {"launch", "kernel launch time in seconds", offsetof(spec, launch), HRI_FIELD_DOUBLE, "4e-6",
     .min = 0, .max = 1},
    {"copy", "copy bandwidth to and from the host in bytes per second; 0: no copies",
     offsetof(spec, copy), HRI_FIELD_DOUBLE, "0", .min = 0, .max = 1e18},
    {"drag", "share of a copy's time that what is computed meanwhile loses", offsetof(spec, drag),
     HRI_FIELD_DOUBLE, "0.15", .min = 0, .max = 1},
    {"runtime", "bytes used before any tensor", offsetof(spec, runtime), HRI_FIELD_BYTES, "0"},
    {"page", "allocation granularity in bytes", offsetof(spec, page), HRI_FIELD_BYTES, "2MiB",
     .min = 1, .max = 1e12},
    {0},
};

static hr_status read_spec(hri_plan_job *j, const char *text, spec *out) {
    hri_options o;
    hri_prose why = {0};
    hr_status status = hri_options_init(&o, spec_fields, out, &why);
    if (status == HR_OK) {
        status = hri_options_set_text(&o, text ? text : "", &why);
        hri_options_deinit(&o);
    }
    return status == HR_OK ? HR_OK
                           : hri_why_option(&j->why, status, "device_spec", ": %s", why.text);
}

static void take_spec(hri_plan_job *j, const spec *s) {
    j->job.machine.flops_per_ns = s->flops / 1e9;
    j->job.machine.bytes_per_ns = s->bandwidth / 1e9;
    j->job.machine.launch_ns = s->launch * 1e9;
    j->job.machine.out_bytes_per_ns = s->copy / 1e9;
    j->job.machine.in_bytes_per_ns = s->copy / 1e9;
    j->job.machine.copy_latency_ns = s->copy > 0 ? 10e3 : 0;
    j->job.machine.copy_drag = s->copy > 0 ? s->drag : 0;
    j->job.runtime_bytes = s->runtime;
    j->job.page_bytes = s->page;
}

static int is_given(const hri_plan_job *j, const char *key) {
    return j->o.device_spec && strstr(j->o.device_spec, key);
}

static hr_status open_host(hri_plan_job *j, const hr_device_info *info, spec *s) {
    const uint32_t cores = hri_cores_usable(), beside = j->who.size > 1 ? j->who.local_size : 1;
    const uint32_t shared = beside > 1 && cores > beside ? cores / beside : beside > 1 ? 1 : cores;
    const uint32_t threads = j->o.threads ? (uint32_t)j->o.threads : shared;
    const uint64_t runtime = j->known_base_bytes
                                 ? j->known_base_bytes
                                 : hri_resident_runtime(); /* before there are threads */
    j->base_bytes = runtime;
    uint64_t wire = 0;
    hr_status status = hri_plan_job_wire_bytes(j, &wire);
    if (status != HR_OK) {
        return status;
    }
    /* Replicas wait for one another, each on its thread. */
    const uint32_t here =
        j->job.replicas > 1 && j->who.size < 2 && !j->o.link ? j->job.replicas : 1;
    const uint32_t all = threads > here ? threads : here;
    status = hri_threads_create(all, &j->threads);
    if (status == HR_E_NOMEM_HOST) {
        return hri_why_set(
            &j->why, hri_cause_of(status), status,
            "%u threads cannot be started: a limit of processes (ulimit -u, pids.max "
            "of a container) or of memory is reached; `threads` 1 starts none",
            all);
    }
    if (status != HR_OK) {
        return hri_why_set(&j->why, hri_cause_of(status), status, "threads: %s",
                           hr_status_text(status));
    }
    const uint32_t each = here > 1 ? 1 : threads; /* replicas compute on one thread each */
    j->job.arenas = here;
    /* A core does about this much on our kernels; a disk behind the page cache takes about this much. */
    const double given = s->flops;
    s->flops = 15e9 * each;
    s->bandwidth = is_given(j, "bandwidth=") ? s->bandwidth : 10e9;
    s->launch = is_given(j, "launch=") ? s->launch : 2e-6;
    s->copy = is_given(j, "copy=") || !j->o.spill ? s->copy : 1e9;
    if (is_given(j, "flops=")) {
        s->flops = given;
    }
    take_spec(j, s);
    j->job.machine.copies_block = 1;
    j->job.machine.threads = each;
    j->job.machine.align = 64;
    j->job.nominal = j->job.machine; /* two such cores, whatever there is */
    j->job.nominal.flops_per_ns = is_given(j, "flops=") ? s->flops / 1e9 : 30;
    j->job.nominal.threads = 1;
    j->job.page_bytes = info->page_bytes;
    /* And each has one for exchanges (run/net_queue.h). */
    const uint32_t nets = j->job.replicas > 1 ? here : 0;
    j->job.runtime_bytes = runtime + (here + nets) * (uint64_t)HRI_RESIDENT_THREAD + wire;
    j->job.thread_bytes = HRI_RESIDENT_THREAD;
    j->job.count_records = 1;
    return HR_OK;
}

/* Kernels and libraries are opened before anything is planned: what they take is runtime.  A GPU without a compiler for
 * kernels can be planned for all the same. */
static hr_status open_cuda(hri_plan_job *j, const hr_device_info *info, spec *s) {
    char folder[1024];
    const hri_gpu_options o = {.cache = j->o.cache ? j->o.cache
                                                   : hri_cache_default(folder, sizeof folder),
                               .exact_f32 = j->o.exact_f32 != 0,
                               .fastest = j->o.tune != 0,
                               .choices = j->o.gpu_choices};
    hri_prose why = {0};
    hr_status status = hri_engine_open(j->device, &o, &j->engine, &why);
    if (status == HR_E_UNSUPPORTED) {
        hri_listener_warn(&j->listener, NULL, "%s cannot run kernels: %s; planning anyway",
                          info->name, why.text);
        s->copy = j->o.device_spec ? s->copy : 20e9;
        take_spec(j, s);
        j->job.runtime_bytes = s->runtime ? s->runtime : info->runtime_bytes;
        j->job.page_bytes = info->page_bytes;
        return HR_OK;
    }
    if (status == HR_OK && j->job.replicas > 1) {
        status = hri_gpu_load_ranges(hri_engine_gpu(j->engine));
    }
    if (status != HR_OK) {
        return hri_why_prose(&j->why, hri_cause_of(status), status, info->name, &why);
    }
    status = hri_plan_job_open_others(j, &o);
    if (status != HR_OK) {
        return status;
    }
    if (j->job.replicas > 1) { /* slices of each GPU, or one rank of several */
        const uint32_t devices = 1 + j->other_count;
        j->job.arenas = j->who.size < 2 ? (j->job.replicas + devices - 1) / devices : 1;
        status = hri_plan_job_wire_device_bytes(j, &j->job.reserve_bytes);
        if (status != HR_OK) {
            return status;
        }
        /* What goes from device to device has no other way to whoever writes a checkpoint. */
        const int direct = j->job.reserve_bytes && j->job.shard != HRI_SHARD_NONE;
        j->job.band_bytes = direct ? HRI_PLANNED_BAND : 0;
    }
    if (!j->o.device_spec) {
        hri_engine_speed speed;
        hri_engine_measure_speed(j->engine, &speed);
        j->job.machine = (hri_machine){.flops_per_ns = speed.flops_per_ns,
                                       .bytes_per_ns = speed.bytes_per_ns,
                                       .launch_ns = speed.launch_ns,
                                       .out_bytes_per_ns = speed.out_bytes_per_ns,
                                       .in_bytes_per_ns = speed.in_bytes_per_ns,
                                       .copy_latency_ns = speed.copy_latency_ns,
                                       .copy_drag = speed.copy_drag,
                                       .net_bytes_per_ns = j->job.machine.net_bytes_per_ns,
                                       .net_latency_ns = j->job.machine.net_latency_ns};
        j->job.nominal = hri_fit_nominal_gpu(&j->job.machine);
    } else {
        take_spec(j, s);
    }
    hri_plan_job_link_peers(j);
    j->job.machine.gpu = hri_engine_gpu(j->engine);
    j->job.engine = j->engine;
    j->job.runtime_bytes = s->runtime ? s->runtime : hri_engine_runtime(j->engine);
    j->base_bytes = j->job.runtime_bytes;
    j->job.page_bytes = info->page_bytes;
    snprintf(j->device_what, sizeof j->device_what, "%s%s", info->description,
             j->o.exact_f32 ? " exact" : "");
    return HR_OK;
}

static hr_status on_wait(void *user, const char *what, uint64_t waited_ms) {
    hri_plan_job *j = user;
    (void)waited_ms;
    if (!j->said_waiting) {
        j->said_waiting = true;
        hri_listener_warn(&j->listener, NULL, "%s", what);
    }
    return hri_listener_tick(&j->listener, what, 0, 0, &j->why);
}

/* Its memory is asked for before the device is opened, so that the context is in what was granted. */
hr_status hri_plan_job_admit(hri_plan_job *j, hr_device *device, hri_admission **out) {
    hri_prose prose = {0};
    const hri_admission_options o = {.device = device,
                                     .name = j->o.name ? j->o.name : j->what,
                                     .budget = j->o.budget,
                                     .wait_ms = j->o.wait_ms,
                                     .on_wait = on_wait,
                                     .user = j};
    const hr_status status = hri_admission_open(&o, out, &prose);
    if (status == HR_OK && *prose.text) {
        hri_listener_warn(&j->listener, NULL, "%s", prose.text);
    }
    if (status == HR_OK || status == HR_E_CANCELLED) {
        return status;
    }
    return hri_why_prose(&j->why, status == HR_E_AGAIN ? HR_CAUSE_NO_FIT : hri_cause_of(status),
                         status, NULL, &prose);
}

hr_status hri_plan_job_reserve(hri_plan_job *j, uint64_t peak_bytes, hri_why *why) {
    const uint64_t page = j->job.page_bytes ? j->job.page_bytes : 1;
    const uint64_t bytes = (peak_bytes + page - 1) / page * page;
    hri_prose prose = {0};
    hr_status status = hri_admission_resize(j->admission, bytes, &prose);
    status = status == HR_OK ? hri_plan_job_reserve_others(j, bytes, &prose) : status;
    return status == HR_OK ? HR_OK : hri_why_prose(why, HR_CAUSE_NO_FIT, status, NULL, &prose);
}

static hr_status open_real(hri_plan_job *j, const char *name, spec *s) {
    hr_device_info info = {.size = sizeof info};
    hr_status status = hr_device_find(j->ctx, name, &j->device);
    if (status == HR_OK) {
        status = hri_plan_job_admit(j, j->device, &j->admission);
        if (status != HR_OK) {
            return status;
        }
        status = hri_device_open(j->device);
    }
    if (status == HR_OK) {
        status = hr_device_get_info(j->device, &info);
    }
    if (status != HR_OK) {
        hr_error error = {0};
        hr_ctx_error(j->ctx, &error);
        error.message[0] = error.code == status ? error.message[0] : '\0';
        return hri_why_error(&j->why, hri_cause_of(status), status, name, &error);
    }
    snprintf(j->device_name, sizeof j->device_name, "%s", info.name);
    j->device_bytes = info.total_bytes;
    j->device_free = info.free_bytes;
    const uint32_t can = hri_device_can(j->device);
    if (!(can & HRI_CAN_QUEUE) && j->o.device && hri_device_list_count(j->o.device) > 1) {
        return hri_why_option(&j->why, HR_E_UNSUPPORTED, "device",
                              ": several devices must be GPUs; on the host use `replicas`");
    }
    if (can & HRI_CAN_POINT) {
        j->job.machine.kernels = hri_device_kernels(j->device);
        return open_host(j, &info, s);
    }
    if (can & HRI_CAN_QUEUE) {
        return open_cuda(j, &info, s);
    }
    take_spec(j, s);
    j->job.runtime_bytes = s->runtime ? s->runtime : info.runtime_bytes;
    j->job.page_bytes = info.page_bytes;
    return HR_OK;
}

hr_status hri_plan_job_open_device(hri_plan_job *j) {
    char name[HR_NAME_SIZE];
    spec s = {0};
    hr_status status = read_spec(j, j->o.device_spec, &s);
    status = status == HR_OK
                 ? hri_plan_job_first_device(j, j->o.device ? j->o.device : "host", name)
                 : status;
    if (status != HR_OK) {
        return status;
    }
    const char *size = hri_device_name_null(name);
    if (!size || !strcmp(size, "0")) {
        return open_real(j, name, &s);
    }
    if (hr_bytes_parse(size, 0, &j->device_bytes) != HR_OK || !j->device_bytes) {
        return hri_why_option(&j->why, HR_E_INVALID, "device",
                              ": \"%s\" is not a size; null:24GiB is a device of 24 GiB", size);
    }
    snprintf(j->device_name, sizeof j->device_name, "%s", name);
    j->device_free = j->device_bytes;
    take_spec(j, &s);
    return HR_OK;
}
