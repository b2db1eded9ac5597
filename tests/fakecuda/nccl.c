/* A libnccl.so.2 of our own, over the fake driver: communicators, groups, sends and receives of bytes, never blocking.
 *
 *   FAKENCCL_VERSION   what it says it is, "22809" (default), or one for each rank, "22809,22703"
 *   FAKENCCL_BYTES     what a communicator takes of its device, as the real one's buffers; default 0
 *   FAKENCCL_FAIL      "init" or "group": that call fails; "hang": no group from the 40th on ever ends, and the abort of it
 *                      does not come back; "die": rank 1 is killed in that group
 *
 * A message is a file in the folder that the id names: written under another name, then renamed.  What a group begins goes on
 * in ncclCommGetAsyncError, which says 7 until all of it is there. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "net/nccl_min.h"

#define API __attribute__((visibility("default")))
enum { OK = 0, INVALID = 4, FAILED = 3, PROGRESS = 7, MOST = 4096, RANKS = 64, LATE = 40 };

typedef struct op {
    char *at;
    size_t bytes;
    int peer, receives;
    void *stream;
} op;

struct ncclComm {
    char folder[100];
    int rank, size;
    unsigned sent[RANKS], received[RANKS];
    int groups, hangs;
};

static struct {
    int (*sync)(void *stream);
    int (*out)(void *to, unsigned long long from, size_t bytes);
    int (*in)(unsigned long long to, const void *from, size_t bytes);
    int (*take)(int device, unsigned long long bytes);
    int (*device)(int *device);
} driver;
static op ops[MOST];
static int op_count, depth;
static hri_nccl_comm *now;

API int ncclGetVersion(int *version);
API int ncclGetUniqueId(hri_nccl_id *id);
API int ncclCommInitRankConfig(hri_nccl_comm **out, int size, hri_nccl_id id, int rank,
                               hri_nccl_config *config);
API int ncclCommGetAsyncError(hri_nccl_comm *c, int *error);
API int ncclCommAbort(hri_nccl_comm *c);
API int ncclCommFinalize(hri_nccl_comm *c);
API int ncclCommDestroy(hri_nccl_comm *c);
API int ncclGroupStart(void);
API int ncclGroupEnd(void);
API int ncclSend(const void *from, size_t count, int type, int peer, hri_nccl_comm *c,
                 void *stream);
API int ncclRecv(void *to, size_t count, int type, int peer, hri_nccl_comm *c, void *stream);
API const char *ncclGetErrorString(int error);
API const char *ncclGetLastError(hri_nccl_comm *c);

static int asks(const char *what) {
    const char *text = getenv("FAKENCCL_FAIL");
    return text && strcmp(text, what) == 0;
}

int ncclGetVersion(int *version) {
    const char *text = getenv("FAKENCCL_VERSION"), *rank = getenv("HEADROOM_RANK");
    for (int i = rank ? atoi(rank) : 0; i > 0 && text && strchr(text, ','); i--) {
        text = strchr(text, ',') + 1;
    }
    *version = text ? atoi(text) : 22809;
    return OK;
}

int ncclGetUniqueId(hri_nccl_id *id) {
    memset(id, 0, sizeof *id);
    snprintf(id->bytes, sizeof id->bytes, "/tmp/fakenccl-XXXXXX");
    return mkdtemp(id->bytes) ? OK : FAILED;
}

static void find(void *library, const char *name, void *out) {
    void *symbol = dlsym(library, name);
    memcpy(out, &symbol, sizeof symbol);
}

int ncclCommInitRankConfig(hri_nccl_comm **out, int size, hri_nccl_id id, int rank,
                           hri_nccl_config *config) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    const char *bytes = getenv("FAKENCCL_BYTES");
    /* Who does not bound the channels gets gigabytes with many ranks. */
    if (!library || !getenv("NCCL_MAX_P2P_NCHANNELS") || size > RANKS ||
        config->magic != 0xcafebeefu || config->blocking) {
        return INVALID;
    }
    if (asks("init")) {
        return FAILED;
    }
    find(library, "cuStreamSynchronize", &driver.sync);
    find(library, "cuMemcpyDtoH_v2", &driver.out);
    find(library, "cuMemcpyHtoD_v2", &driver.in);
    find(library, "fakecuda_take", &driver.take);
    find(library, "cuCtxGetDevice", &driver.device);
    int device = 0;
    if (bytes && (driver.device(&device) != 0 || driver.take(device, strtoull(bytes, NULL, 10)))) {
        return FAILED;
    }
    hri_nccl_comm *c = calloc(1, sizeof *c);
    snprintf(c->folder, sizeof c->folder, "%.90s", id.bytes);
    c->rank = rank;
    c->size = size;
    *out = c;
    return PROGRESS;
}

int ncclGroupStart(void) {
    depth++;
    return OK;
}

static int add(op o, hri_nccl_comm *c, int type) {
    if (!depth || type != HRI_NCCL_BYTE || o.peer < 0 || o.peer >= c->size || op_count == MOST) {
        return INVALID;
    }
    ops[op_count++] = o;
    now = c;
    return OK;
}

int ncclSend(const void *from, size_t count, int type, int peer, hri_nccl_comm *c, void *stream) {
    return add((op){(char *)(uintptr_t)from, count, peer, 0, stream}, c, type);
}

int ncclRecv(void *to, size_t count, int type, int peer, hri_nccl_comm *c, void *stream) {
    return add((op){to, count, peer, 1, stream}, c, type);
}

static void name(const hri_nccl_comm *c, int from, int to, unsigned number, char path[160]) {
    snprintf(path, 160, "%s/%d-%d-%u", c->folder, from, to, number);
}

static int send_it(hri_nccl_comm *c, const op *o) {
    char path[160], half[180];
    char *bytes = malloc(o->bytes);
    int result = bytes ? driver.sync(o->stream) : FAILED;
    result =
        result == OK ? driver.out(bytes, (unsigned long long)(uintptr_t)o->at, o->bytes) : FAILED;
    name(c, c->rank, o->peer, c->sent[o->peer]++, path);
    snprintf(half, sizeof half, "%s.half", path);
    FILE *file = result == OK ? fopen(half, "wb") : NULL;
    const int good = file && fwrite(bytes, 1, o->bytes, file) == o->bytes;
    if (file) {
        fclose(file);
    }
    free(bytes);
    return good && rename(half, path) == 0 ? OK : FAILED;
}

/* PROGRESS: it is not there yet. */
static int receive_it(hri_nccl_comm *c, const op *o) {
    char path[160];
    name(c, o->peer, c->rank, c->received[o->peer], path);
    FILE *file = fopen(path, "rb");
    if (!file) {
        return PROGRESS;
    }
    char *bytes = malloc(o->bytes + 1);
    const size_t got = bytes ? fread(bytes, 1, o->bytes + 1, file) : 0;
    fclose(file);
    unlink(path);
    c->received[o->peer]++;
    int result = got == o->bytes ? driver.sync(o->stream) : FAILED;
    result =
        result == OK ? driver.in((unsigned long long)(uintptr_t)o->at, bytes, o->bytes) : FAILED;
    free(bytes);
    return result;
}

int ncclGroupEnd(void) {
    int result = OK;
    if (--depth || !now) {
        return OK;
    }
    if (asks("group")) {
        op_count = 0;
        return FAILED;
    }
    now->groups++;
    now->hangs = now->groups >= LATE && asks("hang");
    if (now->groups >= LATE && now->rank == 1 && asks("die")) {
        raise(SIGKILL);
    }
    for (int i = 0; i < op_count && result == OK; i++) {
        result = ops[i].receives || now->hangs ? OK : send_it(now, &ops[i]);
    }
    return result == OK ? PROGRESS : result;
}

int ncclCommGetAsyncError(hri_nccl_comm *c, int *error) {
    *error = c->hangs ? PROGRESS : OK;
    for (int i = 0; i < op_count && *error == OK && now == c; i++) {
        if (ops[i].receives) {
            *error = receive_it(c, &ops[i]);
            ops[i].receives = *error == PROGRESS;
        }
    }
    op_count = *error == PROGRESS ? op_count : 0;
    return OK;
}

int ncclCommFinalize(hri_nccl_comm *c) {
    (void)c;
    return OK;
}

int ncclCommDestroy(hri_nccl_comm *c) {
    rmdir(c->folder); /* the last one finds it empty */
    now = NULL;
    op_count = 0;
    free(c);
    return OK;
}

int ncclCommAbort(hri_nccl_comm *c) {
    while (c->hangs) {
        pause();
    }
    return ncclCommDestroy(c);
}

const char *ncclGetErrorString(int error) {
    return error == PROGRESS ? "in progress" : error == OK ? "no error" : "fake failure";
}

const char *ncclGetLastError(hri_nccl_comm *c) {
    (void)c;
    return "";
}
