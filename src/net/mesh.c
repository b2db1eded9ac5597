/* Opening, closing and the calls of a mesh; see mesh.h. */
#include "net/mesh.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"

enum { STACK_BYTES = 256 << 10 };

/* What rank 0 has said last must reach everybody. */
static void close_talks(hri_mesh *mesh) {
    int fds[HRI_MEETING_RANKS];
    for (uint32_t i = 0; mesh->talks && i < mesh->talk_count; i++) {
        fds[i] = mesh->talks[i].fd;
        hri_free(mesh->talks[i].out);
    }
    if (mesh->talks && mesh->m.rank == 0) {
        hri_end_leave(&mesh->m, fds, mesh->talk_count);
    } else if (mesh->talks && fds[0] >= 0) {
        close(fds[0]);
    }
}

static void destroy(hri_mesh *mesh) {
    for (uint32_t i = 0; mesh->links && i < mesh->m.size; i++) {
        if (mesh->links[i].stream) {
            mesh->links[i].stream->ops->close(mesh->links[i].stream);
        }
    }
    close_talks(mesh);
    for (int i = 0; i < HRI_MESH_FLIGHT; i++) {
        hri_free(mesh->flights[i].to);
        hri_free(mesh->flights[i].from);
    }
    if (mesh->bell >= 0) {
        close(mesh->bell);
    }
    if (mesh->mpi.library && mesh->all_bye) {
        (void)!mesh->mpi.finalize(); /* after an end it would wait for the dead */
    }
    hri_free(mesh->talks);
    hri_free(mesh->links);
    hri_free(mesh->pieces);
    hri_free(mesh->polls);
    hri_meeting_deinit(&mesh->m);
    pthread_cond_destroy(&mesh->moved);
    pthread_mutex_destroy(&mesh->mutex);
    hri_free(mesh);
}

/* With the mutex held.  HR_E_AGAIN: the time is over. */
static hr_status sleep_until(hri_mesh *mesh, uint64_t until_ns) {
    if (until_ns == UINT64_MAX) {
        pthread_cond_wait(&mesh->moved, &mesh->mutex);
        return HR_OK;
    }
    const struct timespec t = {.tv_sec = (time_t)(until_ns / 1000000000u),
                               .tv_nsec = (long)(until_ns % 1000000000u)};
    return pthread_cond_timedwait(&mesh->moved, &mesh->mutex, &t) == ETIMEDOUT ? HR_E_AGAIN : HR_OK;
}

/* With the mutex held: until `number` exchanges are done. */
static hr_status await_done(hri_mesh *mesh, uint64_t number, uint64_t until_ns) {
    hr_status status = HR_OK;
    while (mesh->done < number && !mesh->ended && status == HR_OK) {
        status = sleep_until(mesh, until_ns);
    }
    /* What is done is good, also when a rank has ended since: its reason is for the next call. */
    return mesh->done >= number ? HR_OK : mesh->ended ? HR_E_PEER : status;
}

static hr_status mesh_exchange(hri_net_wire_state *state, const hri_net_range *to,
                               const hri_net_range *from, uint64_t ticket) {
    hri_mesh *const mesh = state;
    const uint32_t me = mesh->m.rank;
    pthread_mutex_lock(&mesh->mutex);
    const uint64_t before = ticket > HRI_MESH_FLIGHT ? ticket - HRI_MESH_FLIGHT : 0;
    const hr_status status = await_done(mesh, before, UINT64_MAX);
    if (status == HR_OK) {
        hri_mesh_flight *f = &mesh->flights[ticket % HRI_MESH_FLIGHT];
        memcpy(f->to, to, mesh->m.size * sizeof *to);
        memcpy(f->from, from, mesh->m.size * sizeof *from);
        f->begun_ns = hri_clock_ns();
        mesh->posted = ticket;
        hri_mesh_ring(mesh);
    }
    pthread_mutex_unlock(&mesh->mutex);
    if (status == HR_OK && to[me].bytes && from[me].bytes && to[me].at != from[me].at) {
        memcpy(from[me].at, to[me].at, to[me].bytes);
    }
    return status;
}

static hr_status mesh_wait(hri_net_wire_state *state, uint64_t ticket, uint64_t timeout_ns) {
    hri_mesh *const mesh = state;
    const uint64_t now = hri_clock_ns();
    pthread_mutex_lock(&mesh->mutex);
    const hr_status status =
        await_done(mesh, ticket, timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns);
    pthread_mutex_unlock(&mesh->mutex);
    return status;
}

static hr_status mesh_share(hri_net_wire_state *state, const void *mine, uint32_t bytes,
                            void *all) {
    hri_mesh *const mesh = state;
    const uint32_t size = mesh->m.size;
    pthread_mutex_lock(&mesh->mutex);
    const uint64_t number = ++mesh->shares;
    if (!mesh->ended && mesh->m.rank == 0) {
        hri_mesh_share_piece(mesh, number, 0, mine, bytes);
    } else if (!mesh->ended) {
        hri_mesh_say(
            mesh, 0,
            &(hri_frame){
                .kind = HRI_FRAME_SHARE, .from = mesh->m.rank, .number = number, .bytes = bytes},
            mine);
        hri_mesh_flush(mesh, 0);
    }
    while (mesh->shared < number && !mesh->ended) {
        pthread_cond_wait(&mesh->moved, &mesh->mutex);
    }
    hri_mesh_piece *pieces = mesh->pieces + (number & 1) * size;
    hr_status status =
        mesh->shared >= number ? HR_OK : HR_E_PEER; /* what all have is good, also at the end */
    for (uint32_t i = 0; i < size && status == HR_OK; i++) {
        if (pieces[i].bytes != bytes) {
            status = HR_E_PEER;
            hri_mesh_find(mesh, (int32_t)i, HR_E_SHAPE, "%s shares %u bytes, rank %u %u",
                          mesh->m.members[i].name, pieces[i].bytes, mesh->m.rank, bytes);
            while (!mesh->ended) {
                pthread_cond_wait(&mesh->moved, &mesh->mutex);
            }
        } else {
            memcpy((unsigned char *)all + (size_t)i * bytes, pieces[i].data, bytes);
            pieces[i].here = false;
        }
    }
    pthread_mutex_unlock(&mesh->mutex);
    return status;
}

static void mesh_stop(hri_net_wire_state *state, const hri_net_end *end) {
    hri_mesh *const mesh = state;
    pthread_mutex_lock(&mesh->mutex);
    hri_mesh_find(mesh, end->rank, end->status, "%s", end->text);
    hri_mesh_ring(mesh);
    const uint64_t until = hri_clock_ns() + 2000000000u;
    while (!mesh->ended && hri_clock_ns() < until) { /* rank 0 may know an earlier cause */
        (void)!sleep_until(mesh, until);
    }
    pthread_mutex_unlock(&mesh->mutex);
}

static bool mesh_cause(hri_net_wire_state *state, hri_net_end *out) {
    hri_mesh *const mesh = state;
    pthread_mutex_lock(&mesh->mutex);
    const bool ended = mesh->ended;
    if (ended) {
        *out = mesh->end;
    }
    pthread_mutex_unlock(&mesh->mutex);
    return ended;
}

static uint32_t mesh_slowest(hri_net_wire_state *state) {
    hri_mesh *const mesh = state;
    pthread_mutex_lock(&mesh->mutex);
    const uint32_t slowest = mesh->slowest;
    pthread_mutex_unlock(&mesh->mutex);
    return slowest;
}

static const char *mesh_member(hri_net_wire_state *state, uint32_t rank) {
    hri_mesh *const mesh = state;
    return mesh->m.members[rank].name;
}

static uint64_t mesh_waited(hri_net_wire_state *state, uint32_t rank) {
    hri_mesh *const mesh = state;
    pthread_mutex_lock(&mesh->mutex);
    const hri_mesh_link *l = &mesh->links[rank];
    const uint64_t waited = l->waited_ns + l->late_ns;
    pthread_mutex_unlock(&mesh->mutex);
    return waited;
}

static void mesh_close(hri_net_wire_state *state) {
    hri_mesh *const mesh = state;
    if (mesh->running) {
        pthread_mutex_lock(&mesh->mutex);
        mesh->closing = true;
        mesh->closing_ns = hri_clock_ns();
        if (!mesh->ended && mesh->m.rank != 0) {
            hri_mesh_say(mesh, 0, &(hri_frame){.kind = HRI_FRAME_BYE}, NULL);
            hri_mesh_flush(mesh, 0);
        }
        hri_mesh_ring(mesh);
        pthread_mutex_unlock(&mesh->mutex);
        pthread_join(mesh->thread, NULL);
    }
    destroy(mesh);
}

/* ---- opening ---- */

static bool allocate(hri_mesh *mesh) {
    const uint32_t size = mesh->m.size;
    const size_t room = (size_t)(size + 4) * (HRI_FRAME_BYTES + HRI_NET_SMALL_BYTES + 64);
    mesh->talk_count = mesh->m.rank == 0 ? size : 1;
    mesh->talks = hri_calloc(mesh->talk_count, sizeof *mesh->talks);
    mesh->links = hri_calloc(size, sizeof *mesh->links);
    mesh->pieces = hri_calloc((size_t)2 * size, sizeof *mesh->pieces);
    mesh->polls = hri_calloc((size_t)1 + mesh->talk_count + size, sizeof *mesh->polls);
    bool good = mesh->talks && mesh->links && mesh->pieces && mesh->polls;
    for (uint32_t i = 0; mesh->talks && i < mesh->talk_count; i++) {
        hri_mesh_talk *t = &mesh->talks[i];
        t->fd = mesh->m.control[i];
        mesh->m.control[i] = -1;
        t->out_room = room;
        t->out = t->fd >= 0 ? hri_malloc(room) : NULL;
        t->heard_ns = hri_clock_ns();
        good = good && (t->out || t->fd < 0);
    }
    for (int i = 0; i < HRI_MESH_FLIGHT; i++) {
        mesh->flights[i].to = hri_calloc(size, sizeof(hri_net_range));
        mesh->flights[i].from = hri_calloc(size, sizeof(hri_net_range));
        good = good && mesh->flights[i].to && mesh->flights[i].from;
    }
    for (uint32_t i = 0; mesh->links && i < size; i++) {
        mesh->links[i].out_number = mesh->links[i].in_number = 1;
    }
    return good;
}

static hr_status open_streams(hri_mesh *mesh, const hri_net_options *o, const char *wire,
                              uint32_t *lost, hri_prose *why) {
    hr_status status = HR_OK;
    const uint64_t until = hri_clock_ns() + mesh->deadline_ns;
    for (uint32_t i = 0; i < mesh->m.size && status == HR_OK; i++) {
        const int fd = mesh->m.links[i];
        if (fd < 0) {
            continue;
        }
        mesh->m.links[i] = -1;
        status = strcmp(wire, "shm") == 0 ? hri_stream_shm(fd, i < mesh->m.rank, o->ring_bytes,
                                                           until, &mesh->links[i].stream, why)
                                          : hri_stream_tcp(fd, &mesh->links[i].stream);
        *lost = status == HR_E_PEER ? i : *lost;
        if (status == HR_E_PEER && why) {
            const hri_prose said = *why;
            hri_prose_set(why, status, "%s: %s", mesh->m.members[i].name, said.text);
        }
    }
    return status;
}

/* A wire that did not open.  Rank 0 finds out whose reason it is, and tells it to all. */
static void tell_cause(hri_mesh *mesh, hr_status status, uint32_t lost, hri_prose *why) {
    int control[HRI_MEETING_RANKS];
    for (uint32_t i = 0; i < mesh->talk_count; i++) {
        control[i] = mesh->talks[i].fd;
        mesh->talks[i].fd = -1;
    }
    if (mesh->m.rank == 0 && status == HR_E_PEER && lost) {
        (void)!hri_meeting_lost(&mesh->m, control, lost, why);
    }
    for (uint32_t i = 0; i < mesh->talk_count; i++) {
        if (control[i] >= 0) {
            hri_end_send(control[i], mesh->m.epoch, mesh->m.rank, status, why->text);
        }
    }
    if (mesh->m.rank != 0 && status == HR_E_PEER) {
        hri_prose said = {""};
        (void)!hri_meeting_first_lost(&mesh->m, control[0],
                                      hri_clock_ns() + mesh->m.grace_ns * 3 / 2, &said);
        if (lost == 0 || strncmp(said.text, HRI_FIRST_GONE, sizeof HRI_FIRST_GONE - 1) != 0) {
            *why = said;
        }
    }
    hri_end_leave(&mesh->m, control, mesh->talk_count);
}

static hr_status open_mpi(hri_mesh *mesh, const hri_net_options *o, hri_prose *why) {
    hr_status status = hri_mpi_load(o->who.launcher, &mesh->mpi, why);
    status = status == HR_OK ? hri_mpi_start(&mesh->mpi, mesh->m.rank, mesh->m.size, why) : status;
    for (uint32_t i = 0; i < mesh->m.size && status == HR_OK; i++) {
        status = i == mesh->m.rank ? HR_OK : hri_stream_mpi(&mesh->mpi, i, &mesh->links[i].stream);
    }
    return status;
}

static hr_status start(hri_mesh *mesh, hri_prose *why) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    mesh->running =
        !HRI_FAULT(THREAD) && pthread_create(&mesh->thread, &attributes, hri_mesh_run, mesh) == 0;
    pthread_attr_destroy(&attributes);
    return mesh->running ? HR_OK
                         : hri_prose_set(why, HR_E_NOMEM_HOST, "the wire's thread did not start");
}

static hri_mesh *create(const hri_net_options *o) {
    hri_mesh *mesh = hri_calloc(1, sizeof *mesh);
    if (!mesh) {
        return NULL;
    }
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&mesh->mutex, NULL);
    pthread_cond_init(&mesh->moved, &clock);
    pthread_condattr_destroy(&clock);
    mesh->m.listener = -1;
    mesh->deadline_ns = o->deadline_ns ? o->deadline_ns : HRI_NET_DEADLINE_S * 1000000000ull;
    mesh->bell = HRI_FAULT(OPEN) ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return mesh;
}

/* One mesh over three wires. */
#define MESH_OPS(NAME)                                                                             \
    {                                                                                              \
        .name = NAME, .exchange = mesh_exchange, .wait = mesh_wait, .share = mesh_share,           \
        .stop = mesh_stop, .cause = mesh_cause, .slowest = mesh_slowest, .member = mesh_member,    \
        .waited_ns = mesh_waited, .close = mesh_close                                              \
    }

static const hri_net_wire_ops tcp_ops = MESH_OPS("tcp"), mpi_ops = MESH_OPS("mpi"),
                              shm_ops = MESH_OPS("shm");

hr_status hri_net_mesh_open(const hri_net_options *o, const char *wire, hri_net_wire_end *out,
                            hri_prose *why) {
    const bool mpi = strcmp(wire, "mpi") == 0;
    uint32_t lost = 0;
    hri_prose unheard = {""};
    why = why ? why : &unheard;
    hri_mesh *mesh = create(o);
    hr_status status = mesh && mesh->bell >= 0 ? HR_OK : mesh ? HR_E_IO : HR_E_NOMEM_HOST;
    if (status == HR_OK) {
        status = hri_meeting_open(o, wire, !mpi, &mesh->m, why);
    }
    if (status == HR_OK) {
        status = allocate(mesh) ? HR_OK : HR_E_NOMEM_HOST;
    }
    status = status != HR_OK ? status
             : mpi           ? open_mpi(mesh, o, why)
                             : open_streams(mesh, o, wire, &lost, why);
    status = status == HR_OK ? start(mesh, why) : status;
    if (status != HR_OK) {
        if (!why->text[0]) {
            hri_prose_set(why, status, "opening the wire %s: %s", wire, hr_status_text(status));
        }
        if (mesh && mesh->talks) {
            tell_cause(mesh, status, lost, why);
        }
        if (mesh) {
            destroy(mesh);
        }
        return status;
    }
    *out = (hri_net_wire_end){.ops = mpi                        ? &mpi_ops
                                     : strcmp(wire, "shm") == 0 ? &shm_ops
                                                                : &tcp_ops,
                              .state = mesh};
    return HR_OK;
}
