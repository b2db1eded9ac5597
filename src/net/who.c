/* See who.h. */
#include "net/who.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/net.h"

typedef struct reading {
    hri_who_env *env;
    void *user;
    hri_prose *why;
} reading;

static const char *value(const reading *r, const char *name) {
    const char *text = r->env(r->user, name);
    return text && *text ? text : NULL;
}

/* A whole number below `most`; false: absent.  A wrong one sets *status. */
static bool number(const reading *r, const char *name, uint32_t most, uint32_t *out,
                   hr_status *status) {
    const char *text = value(r, name);
    if (!text) {
        return false;
    }
    char *end;
    const unsigned long n = strtoul(text, &end, 10);
    if (*end || text[0] < '0' || text[0] > '9' || n > most) {
        *status = hri_prose_set(r->why, HR_E_INVALID, "%s=%s is not a number from 0 to %u", name,
                                text, most);
        return false;
    }
    *out = (uint32_t)n;
    return true;
}

/* One launcher: its words for rank, size, local rank and local size. */
typedef struct launcher {
    const char *name, *rank, *size, *local_rank, *local_size;
    const char *needs; /* counts only when this is set too */
    const char *run;   /* the job's name, the same for all its ranks */
} launcher;

static const launcher launchers[] = {
    {"headroom", "HEADROOM_RANK", "HEADROOM_SIZE", NULL, NULL, NULL, "HEADROOM_RUN"},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
     "TORCHELASTIC_RUN_ID"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, "PMIX_NAMESPACE"},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL, "PMI_JOBID"},
    {"TF_CONFIG", NULL, NULL, NULL, NULL, NULL, NULL},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL, "SLURM_STEP_ID",
     "SLURM_JOB_ID"},
};

/* {"cluster": {"chief": ["h:p"], "worker": ["h:p", ...]}, "task": {"type": "worker", "index": 1}}: the chief is rank 0. */
static bool read_tf_config(const reading *r, hri_who *who, hr_status *status) {
    const char *text = value(r, "TF_CONFIG");
    if (!text) {
        return false;
    }
    json_t *root = json_loads(text, 0, NULL);
    const json_t *cluster = json_object_get(root, "cluster"), *task = json_object_get(root, "task");
    const json_t *chief = json_object_get(cluster, "chief");
    const json_t *worker = json_object_get(cluster, "worker");
    const char *type = json_string_value(json_object_get(task, "type"));
    const json_int_t index = json_integer_value(json_object_get(task, "index"));
    const size_t chiefs = json_array_size(chief), workers = json_array_size(worker);
    const bool is_chief = type && strcmp(type, "chief") == 0;
    const size_t rank = is_chief ? (size_t)index : chiefs + (size_t)index;
    const char *first = json_string_value(json_array_get(chiefs ? chief : worker, 0));
    const bool good = type && (is_chief || strcmp(type, "worker") == 0) && index >= 0 &&
                      rank < chiefs + workers && chiefs + workers <= HRI_NET_MOST_RANKS && first &&
                      strlen(first) < sizeof who->meet;
    if (good) {
        who->rank = (uint32_t)rank;
        who->size = (uint32_t)(chiefs + workers);
        snprintf(who->meet, sizeof who->meet, "%s", first);
    } else {
        *status = hri_prose_set(r->why, HR_E_INVALID,
                                "TF_CONFIG: no cluster of chief and workers with this task in it");
    }
    json_decref(root);
    return good;
}

static bool read_launcher(const reading *r, const launcher *l, hri_who *who, hr_status *status) {
    if (!l->rank) {
        return read_tf_config(r, who, status);
    }
    if ((l->needs && !value(r, l->needs)) ||
        !number(r, l->size, HRI_NET_MOST_RANKS, &who->size, status) ||
        !number(r, l->rank, HRI_NET_MOST_RANKS, &who->rank, status)) {
        return false;
    }
    if (who->size == 0 || who->rank >= who->size) {
        *status = hri_prose_set(r->why, HR_E_INVALID, "%s=%u with %s=%u: ranks are below the size",
                                l->rank, who->rank, l->size, who->size);
        return false;
    }
    if (l->local_rank) {
        (void)number(r, l->local_rank, HRI_NET_MOST_RANKS, &who->local_rank, status);
    }
    if (l->local_size) {
        (void)number(r, l->local_size, HRI_NET_MOST_RANKS, &who->local_size, status);
    }
    return *status == HR_OK;
}

/* The first number in "[1-3,7]". */
static void first_of_list(const char *list, char *out, size_t size) {
    size_t used = 0;
    for (const char *c = list + 1; *c && !strchr(",-]", *c) && used + 1 < size; c++) {
        out[used++] = *c;
    }
    out[used] = '\0';
}

static void slurm_meeting(const reading *r, hri_who *who) {
    const char *nodes = value(r, "SLURM_STEP_NUM_NODES"), *list = value(r, "SLURM_STEP_NODELIST");
    list = list ? list : value(r, "SLURM_JOB_NODELIST");
    nodes = nodes ? nodes : value(r, "SLURM_JOB_NUM_NODES");
    const char *job = value(r, "SLURM_JOB_ID");
    if (list && nodes && strcmp(nodes, "1") != 0 && job) {
        char host[200] = "";
        /* "n[1-3,7]" is n1, "a,b" is a; outside brackets a dash belongs to the name. */
        const char *bracket = strchr(list, '['), *comma = strchr(list, ',');
        if (bracket && (!comma || bracket < comma)) {
            const size_t stem = (size_t)(bracket - list);
            if (stem < 100) {
                memcpy(host, list, stem);
                first_of_list(bracket, host + stem, sizeof host - stem);
            }
        } else {
            const size_t length = comma ? (size_t)(comma - list) : strlen(list);
            snprintf(host, sizeof host, "%.*s", (int)(length < 190 ? length : 190), list);
        }
        snprintf(who->meet, sizeof who->meet, "%s:%lu", host,
                 20000 + strtoul(job, NULL, 10) % 20000);
    }
}

static hr_status meeting(const reading *r, const launcher *l, hri_who *who) {
    const char *ours = value(r, "HEADROOM_MEET"), *host = value(r, "MASTER_ADDR");
    const char *port = value(r, "MASTER_PORT"), *token = value(r, "HEADROOM_TOKEN_FILE");
    int length = 0;
    if (ours) {
        length = snprintf(who->meet, sizeof who->meet, "%s", ours);
    } else if (strcmp(l->name, "Slurm") == 0 && !host) {
        slurm_meeting(r, who);
    } else if (host && strcmp(l->name, "TF_CONFIG") != 0) {
        length = snprintf(who->meet, sizeof who->meet, strchr(host, ':') ? "[%s]:%s" : "%s:%s",
                          host, port ? port : "29500");
    }
    if (length < 0 || (size_t)length >= sizeof who->meet) {
        return hri_prose_set(r->why, HR_E_INVALID, "the address of rank 0 is too long");
    }
    if (token && strlen(token) >= sizeof who->token_file) {
        return hri_prose_set(r->why, HR_E_INVALID, "HEADROOM_TOKEN_FILE is too long");
    }
    snprintf(who->token_file, sizeof who->token_file, "%s", token ? token : "");
    const char *run = l->run ? value(r, l->run) : NULL;
    if (run) {
        snprintf(who->run, sizeof who->run, "%s", run);
    } else if (who->meet[0]) { /* where ranks of several parents, or machines, meet */
        snprintf(who->run, sizeof who->run, "%.63s", who->meet);
    } else {
        snprintf(who->run, sizeof who->run, "parent-%d",
                 (int)getppid()); /* mpiexec, for all of its ranks */
    }
    return HR_OK;
}

hr_status hri_who_read(hri_who_env *env, void *user, hri_who *out, hri_prose *why) {
    const reading r = {env, user, why};
    hri_who who = {.size = 1};
    const launcher *winner = NULL;
    hr_status status = HR_OK;
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers && status == HR_OK; i++) {
        hri_who candidate = {0};
        hr_status bad = HR_OK;
        const bool seen = read_launcher(&r, &launchers[i], &candidate, &bad);
        if (seen && !winner) {
            winner = &launchers[i];
            who = candidate;
            snprintf(who.launcher, sizeof who.launcher, "%s", winner->name);
        } else if (seen) {
            const size_t used = strlen(who.others);
            snprintf(who.others + used, sizeof who.others - used, "%s%s", used ? ", " : "",
                     launchers[i].name);
        }
        status = winner && !seen ? HR_OK : bad; /* what would lose anyway is not complained of */
    }
    if (status == HR_OK && winner) {
        status = meeting(&r, winner, &who);
    }
    if (status == HR_OK) {
        *out = who;
    }
    return status;
}

static const char *from_process(void *user, const char *name) {
    (void)user;
    return getenv(name);
}

hr_status hri_who_am_i(hri_who *out, hri_prose *why) {
    return hri_who_read(from_process, NULL, out, why);
}
