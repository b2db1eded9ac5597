/* What replicas hold in slices, and the wire between them; see plan_job.h. */
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "device/device.h"
#include "job/plan_job.h"
#include "net/net.h"

/* Links of machines that are not there, one direction of one rank; docs/scaling.md. */
typedef struct known_link {
    const char *name;
    double latency_ns, bytes_per_ns;
} known_link;

static const known_link links[] = {
    {"nvlink", 4000, 350}, {"pcie", 8000, 50}, {"ib", 5000, 45}, {"ethernet", 25000, 11}};

const char *hri_plan_job_shard_at(const hr_job_options *o, uint32_t at) {
    return o->shard && !strcmp(o->shard, "auto") && at <= HRI_SHARD_WEIGHTS ? hri_shard_names[at]
                                                                            : NULL;
}

static hr_status read_mode(hri_plan_job *j) {
    const char *text = j->o.shard ? j->o.shard : "none";
    for (uint32_t i = 0; hri_shard_names[i]; i++) {
        if (!strcmp(hri_shard_names[i], text)) {
            j->job.shard = j->job.replicas > 1 ? (hri_shard_mode)i : HRI_SHARD_NONE;
            return HR_OK;
        }
    }
    return hri_why_option(&j->why, HR_E_INVALID, "shard",
                          ": \"%s\" is not none, states, weights or auto", text);
}

/* "5e-6/45e9": seconds, and bytes per second. */
static bool read_numbers(const char *text, hri_machine *m) {
    char *end = NULL;
    const double latency = hri_strtod(text, &end);
    if (end == text || *end != '/' || !(latency >= 0 && latency < 60)) {
        return false;
    }
    const char *rest = end + 1;
    const double speed = hri_strtod(rest, &end);
    if (end == rest || *end || !(speed >= 1 && speed < 1e18)) {
        return false;
    }
    m->net_latency_ns = latency * 1e9;
    m->net_bytes_per_ns = speed / 1e9;
    return true;
}

static hr_status read_link(hri_plan_job *j, const char *text) {
    hri_machine *m = &j->job.machine;
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        if (!strcmp(links[i].name, text)) {
            m->net_latency_ns = links[i].latency_ns;
            m->net_bytes_per_ns = links[i].bytes_per_ns;
            return HR_OK;
        }
    }
    if (read_numbers(text, m)) {
        return HR_OK;
    }
    hri_net_cost_bytes cost = {0};
    hri_prose prose = {""};
    const hri_net_options o = {.wire = text, .who = {.size = 2}};
    if (hri_net_cost(&o, &cost, &prose) != HR_OK) {
        return hri_why_option(&j->why, HR_E_INVALID, "link",
                              ": \"%s\" is not nvlink, pcie, ib, ethernet, shm, tcp, mpi or "
                              "LATENCY/BANDWIDTH in seconds and bytes per second",
                              text);
    }
    m->net_latency_ns = cost.latency_ns;
    m->net_bytes_per_ns = cost.bytes_per_ns;
    return HR_OK;
}

hr_status hri_plan_job_read_shard(hri_plan_job *j) {
    const hr_status status = read_mode(j);
    if (j->job.shard != HRI_SHARD_NONE && j->who.size > 1) {
        j->o.no_measure = 1; /* every rank must have the same plan */
    }
    if (status != HR_OK || j->job.replicas < 2) {
        return status;
    }
    return read_link(j, j->o.link ? j->o.link
                        : j->who.size > 1
                            ? hri_net_wire_of(&(hri_net_options){.wire = j->o.net, .who = j->who})
                            : "threads");
}

static hr_device *device_at(const hri_plan_job *j, uint32_t i) {
    return i ? j->others[i - 1].device : j->device;
}

/* Between GPUs that do not see one another bytes go to the host and from there, one after the other. */
static void link_by_host(hri_machine *m) {
    if (m->out_bytes_per_ns > 0 && m->in_bytes_per_ns > 0) {
        m->net_bytes_per_ns = 1.0 / (1.0 / m->out_bytes_per_ns + 1.0 / m->in_bytes_per_ns);
        m->net_latency_ns = 2.0 * m->copy_latency_ns;
    }
}

void hri_plan_job_link_peers(hri_plan_job *j) {
    int seen = 1, linked = 1;
    if (j->o.link || !j->other_count || j->who.size > 1) {
        return;
    }
    for (uint32_t i = 0; i <= j->other_count; i++) {
        for (uint32_t k = 0; k <= j->other_count; k++) {
            seen &= i == k || hri_device_is_read_by(device_at(j, i), device_at(j, k));
            linked &= i == k || hri_device_is_linked(device_at(j, i), device_at(j, k));
        }
    }
    if (!seen) {
        link_by_host(&j->job.machine);
    } else if (read_link(j, linked ? "nvlink" : "pcie") != HR_OK) {
        return; /* both are in the list */
    }
}
