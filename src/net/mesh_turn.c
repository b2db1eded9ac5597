/* The thread of a mesh: does what there is to do, and sleeps until there is more.  See mesh.h. */
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/mesh.h"

/* A wire that has nothing to sleep on is looked at again at once, SPIN times, then every LOOK_NS: ranks that outnumber the
 * cores would otherwise keep one another from computing. */
enum { SOON_NS = 1000000, LOOK_NS = 50000, SPIN = 16, LAST_NS = 1000000000, SUSPECT_NS = 50000000 };

static void count_done(hri_mesh *mesh) {
    uint64_t least = mesh->posted;
    for (uint32_t i = 0; i < mesh->m.size; i++) {
        const hri_mesh_link *l = &mesh->links[i];
        if (l->stream) {
            least = l->out_number - 1 < least ? l->out_number - 1 : least;
            least = l->in_number - 1 < least ? l->in_number - 1 : least;
        }
    }
    if (least != mesh->done) {
        mesh->done = least;
        pthread_cond_broadcast(&mesh->moved);
    }
}

/* Everybody has begun this exchange, and from one of them nothing comes: the way between the two is broken. */
static void find_broken(hri_mesh *mesh, uint64_t now) {
    for (uint32_t i = 0; i < mesh->m.size && mesh->done < mesh->posted; i++) {
        const hri_mesh_link *l = &mesh->links[i];
        const uint64_t next = l->in_number < l->out_number ? l->in_number : l->out_number;
        if (l->stream && next <= mesh->posted && mesh->slowest_position >= next &&
            now > l->moved_ns + mesh->deadline_ns &&
            now > mesh->flights[next % HRI_MESH_FLIGHT].begun_ns + mesh->deadline_ns) {
            hri_mesh_find(mesh, (int32_t)i, HR_E_PEER,
                          "nothing has moved between rank %u and %s for %.1f s in exchange %llu",
                          mesh->m.rank, mesh->m.members[i].name, (double)(now - l->moved_ns) / 1e9,
                          (unsigned long long)next);
        }
    }
}

/* Rank 0: all have said that they are done. */
static void count_byes(hri_mesh *mesh) {
    if (mesh->m.rank != 0 || !mesh->closing || mesh->all_bye || mesh->ended) {
        return;
    }
    for (uint32_t i = 1; i < mesh->m.size; i++) {
        if (!mesh->talks[i].bye) {
            return;
        }
    }
    mesh->all_bye = true;
    for (uint32_t i = 1; i < mesh->m.size; i++) {
        hri_mesh_say(mesh, i, &(hri_frame){.kind = HRI_FRAME_BYE}, NULL);
        hri_mesh_flush(mesh, i);
    }
    pthread_cond_broadcast(&mesh->moved);
}

static bool work(hri_mesh *mesh, uint64_t now) {
    bool moved = false;
    /* After a pause of our own (stopped, a sleeping machine) the others' words are still to be read. */
    const bool paused = mesh->turn_ns && now > mesh->turn_ns + mesh->deadline_ns / 2;
    mesh->turn_ns = now;
    for (uint32_t i = 0; i < mesh->talk_count; i++) {
        hri_mesh_talk *t = &mesh->talks[i];
        t->heard_ns = paused ? now : t->heard_ns;
        moved = hri_mesh_hear(mesh, i) || moved;
        hri_mesh_flush(mesh, i);
    }
    for (uint32_t i = 0; i < mesh->m.size && !mesh->ended && !mesh->found; i++) {
        moved = hri_mesh_pump(mesh, i, now) || moved;
    }
    count_done(mesh);
    count_byes(mesh);
    hri_mesh_beat(mesh, now);
    hri_mesh_listen(mesh, now);
    if (!mesh->ended && !mesh->found) {
        find_broken(mesh, now);
    }
    return moved;
}

/* What will wake us.  False: there is more to do at once. */
static bool prepare(hri_mesh *mesh, nfds_t *count, uint64_t *timeout_ns) {
    mesh->polls[0] = (struct pollfd){.fd = mesh->bell, .events = POLLIN};
    *count = 1;
    for (uint32_t i = 0; i < mesh->talk_count; i++) {
        hri_mesh_talk *t = &mesh->talks[i];
        mesh->polls[(*count)++] =
            (struct pollfd){.fd = t->fd, .events = (short)(POLLIN | (t->out_used ? POLLOUT : 0))};
    }
    const uint64_t now = hri_clock_ns();
    const uint64_t left = mesh->beat_ns > now ? mesh->beat_ns - now : 0;
    *timeout_ns = left + SOON_NS;
    if (mesh->suspected && !mesh->ended) {
        *timeout_ns = *timeout_ns < SUSPECT_NS ? *timeout_ns : SUSPECT_NS;
    }
    for (uint32_t i = 0; i < mesh->m.size; i++) {
        hri_mesh_link *l = &mesh->links[i];
        struct pollfd *p = &mesh->polls[(*count)++];
        *p = (struct pollfd){.fd = -1};
        if (!l->stream || l->over || mesh->ended || mesh->found) {
            continue;
        }
        int fd = -1;
        if (!l->stream->ops->sleep(l->stream, !l->held, l->blocked, &fd, &p->events)) {
            return false;
        }
        p->fd = fd;
        if (fd < 0 && !l->held) {
            *timeout_ns = mesh->done == mesh->posted ? SOON_NS : mesh->idle < SPIN ? 0 : LOOK_NS;
        }
    }
    return true;
}

static void woken(hri_mesh *mesh) {
    if (mesh->polls[0].revents) {
        uint64_t rings;
        (void)!read(mesh->bell, &rings, sizeof rings);
    }
    for (uint32_t i = 0; i < mesh->m.size; i++) {
        if (mesh->polls[1 + mesh->talk_count + i].revents) {
            mesh->links[i].stream->ops->wake(mesh->links[i].stream);
        }
    }
}

void hri_mesh_ring(hri_mesh *mesh) {
    const uint64_t one = 1;
    (void)!write(mesh->bell, &one, sizeof one);
}

/* Nothing more is to be done: all have left, or everybody knows of the end. */
static bool over(const hri_mesh *mesh) {
    if (!mesh->closing || !(mesh->all_bye || mesh->ended)) {
        return false;
    }
    if (mesh->turn_ns > mesh->closing_ns + LAST_NS) {
        return true; /* who does not read now will find the connection closed */
    }
    for (uint32_t i = 0; i < mesh->talk_count; i++) {
        if (mesh->talks[i].fd >= 0 && mesh->talks[i].out_used) {
            return false;
        }
    }
    return true;
}

void *hri_mesh_run(void *arg) {
    hri_mesh *mesh = arg;
    pthread_mutex_lock(&mesh->mutex);
    while (!over(mesh)) {
        nfds_t count;
        uint64_t timeout_ns;
        const bool moved = work(mesh, hri_clock_ns());
        mesh->idle = moved ? 0 : mesh->idle + 1;
        if (moved || !prepare(mesh, &count, &timeout_ns)) {
            pthread_mutex_unlock(&mesh->mutex); /* callers get their turn */
            pthread_mutex_lock(&mesh->mutex);
            continue;
        }
        pthread_mutex_unlock(&mesh->mutex);
        const struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                                         .tv_nsec = (long)(timeout_ns % 1000000000u)};
        const int n = ppoll(mesh->polls, count, &timeout, NULL);
        pthread_mutex_lock(&mesh->mutex);
        if (n > 0) {
            woken(mesh);
        }
    }
    pthread_mutex_unlock(&mesh->mutex);
    return NULL;
}
