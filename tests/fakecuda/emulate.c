/* Kernels on the host: blocks one after another, the threads of a block as fibers on small stacks.
 *
 * A thread runs until it waits (a barrier, an operation of its warp) or returns; most kernels never wait, and then all
 * threads use one stack in turn.  When nobody can go on and not all have returned, the launch fails and says where its
 * threads stand.  Bad addresses, misaligned accesses and indexes outside an array come as signals (kernels are compiled
 * with traps) and end the launch likewise.
 *
 * What real hardware would do at the same time is done in one fixed order here, or in the reverse one: a result that
 * differs between the two is a race.  A warp goes on until it waits for others, so that it is as far ahead of them as it
 * may be.  Left out: timing, caches, the limit of registers. */
#include "emulate.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    MOST_THREADS = 1024,
    STACK_BYTES = 128 << 10,
    GUARD_BYTES = 64 << 10, /* a page on every machine */
    VALUE_BYTES = 64,
    MOST_COPIES = 256
};

typedef enum state { NEW, READY, AT_BARRIER, AT_WARP, AT_PHASE, DONE } state;

/* An mbarrier: what is left of a phase, and how many it takes. */
typedef struct phases {
    uint32_t left : 15, parity : 1, count : 16;
    uint32_t mark; /* that it was made */
} phases;

/* The values of a warp operation, kept until every lane of it has gone on. */
typedef struct record {
    int references;
    unsigned there;
    _Alignas(16) unsigned char values[32 * VALUE_BYTES];
    struct record *next;
} record;

typedef struct async_copy {
    void *to;
    const void *from;
    unsigned bytes, source_bytes, group;
} async_copy;

typedef struct fiber {
    void *sp;
    unsigned char *stack; /* NULL: none now */
    state state;
    fake_uint3 at;
    unsigned mask, bytes; /* of the operation it waits in */
    int predicate;
    unsigned votes; /* result of barrier_count */
    record *result;
    const phases *bar; /* it waits for a phase of it, of `parity` */
    unsigned parity;
    _Alignas(16) unsigned char value[VALUE_BYTES];
    async_copy copies[MOST_COPIES];
    unsigned copy_count, group;
} fiber;

/* One of everything: one kernel runs at a time. */
static pthread_mutex_t one_kernel = PTHREAD_MUTEX_INITIALIZER;
static fake_emulator now;
static fiber *fibers; /* MOST_THREADS */
static unsigned thread_count, alive, waiting;
static fiber *running;
static void *scheduler_sp;
static const fake_kernel *kernel_now;
static unsigned char *stacks[MOST_THREADS];
static unsigned stack_count;
static record *records;
static CUresult failure;
static _Thread_local int in_kernel;

fake_emulator *fake_emulator_now(void) {
    return &now;
}

/* ---- switching ----
 *
 * fake_switch(&save, to) keeps the registers that a call must preserve on the present stack, and goes on with those of
 * another.  A new fiber's stack looks as if it had just called it. */
void fake_switch(void **save, void *to);
#if defined __aarch64__
enum { FRAME = 176, FRAME_RETURN = 88 };
__asm__(
    ".text\n.global fake_switch\n.hidden fake_switch\n.type fake_switch, %function\nfake_switch:\n"
    "sub sp, sp, #176\n"
    "stp x19, x20, [sp, #0]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\n"
    "stp x25, x26, [sp, #48]\nstp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\n"
    "stp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\n"
    "stp d14, d15, [sp, #144]\n"
    "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
    "ldp x19, x20, [sp, #0]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\n"
    "ldp x25, x26, [sp, #48]\nldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\n"
    "ldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\n"
    "ldp d14, d15, [sp, #144]\n"
    "add sp, sp, #176\nret\n.size fake_switch, .-fake_switch\n");
#elif defined __x86_64__
enum {
    FRAME = 64,
    FRAME_RETURN = 48
}; /* six registers, the return address, and a word that aligns the stack */
__asm__(
    ".text\n.global fake_switch\n.hidden fake_switch\n.type fake_switch, @function\nfake_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\n"
    "ret\n.size fake_switch, .-fake_switch\n");
#else
#error "write fake_switch for this processor"
#endif

static void to_scheduler(void) {
    fiber *self = running;
    fake_switch(&self->sp, scheduler_sp);
}

/* Ends the launch from within a fiber. */
static void stop(CUresult result, const char *why) {
    if (failure == CUDA_SUCCESS) {
        failure = result;
        fprintf(stderr,
                "fakecuda: kernel %s, block (%u, %u, %u) of (%u, %u, %u), thread (%u, %u, %u) of "
                "(%u, %u, %u): %s\n",
                kernel_now->name, now.block.x, now.block.y, now.block.z, now.grid_dim.x,
                now.grid_dim.y, now.grid_dim.z, now.thread.x, now.thread.y, now.thread.z,
                now.block_dim.x, now.block_dim.y, now.block_dim.z, why);
    }
    to_scheduler();
    abort(); /* never reached: the scheduler does not come back after a failure */
}

static void emulated_fail(const char *why) {
    stop(CUDA_ERROR_LAUNCH_FAILED, why);
}

/* ---- operations of a warp ---- */

static void forget_result(fiber *f) {
    if (f->result && --f->result->references == 0) {
        f->result->next = records;
        records = f->result;
    }
    f->result = NULL;
}

static record *new_record(void) {
    record *r = records;
    if (r) {
        records = r->next;
    } else {
        r = aligned_alloc(16, sizeof *r);
    }
    return r;
}

/* Lets the lanes of a mask go on when all of them are there. */
static void try_warp(unsigned first, unsigned mask) {
    const unsigned lanes = thread_count - first < 32 ? thread_count - first : 32;
    unsigned there = 0, bytes = 0;
    for (unsigned i = 0; i < lanes; i++) {
        const fiber *f = &fibers[first + i];
        if (!(mask >> i & 1u) || f->state == DONE) {
            continue;
        }
        if (f->state != AT_WARP || f->mask != mask) {
            return;
        }
        there |= 1u << i;
        bytes = f->bytes;
    }
    record *r = there ? new_record() : NULL;
    if (!r) {
        return;
    }
    r->references = 0;
    r->there = there;
    for (unsigned i = 0; i < lanes; i++) {
        if (there >> i & 1u) {
            fiber *f = &fibers[first + i];
            memcpy(r->values + i * bytes, f->value, bytes);
            f->result = r;
            f->state = READY;
            r->references++;
        }
    }
}

static const void *emulated_exchange(unsigned mask, const void *value, unsigned bytes,
                                     unsigned *there) {
    fiber *self = running;
    const unsigned index = (unsigned)(self - fibers);
    if (bytes > VALUE_BYTES || !(mask >> (index & 31u) & 1u)) {
        stop(CUDA_ERROR_LAUNCH_FAILED, bytes > VALUE_BYTES
                                           ? "a warp operation on too large a value"
                                           : "a warp operation whose mask lacks its own lane");
    }
    forget_result(self);
    self->mask = mask;
    self->bytes = bytes;
    memcpy(self->value, value, bytes);
    self->state = AT_WARP;
    try_warp(index & ~31u, mask);
    if (self->state != READY) {
        to_scheduler();
    }
    self->state = READY;
    *there = self->result->there;
    return self->result->values;
}

/* ---- barriers ---- */

static void try_barrier(void) {
    if (waiting == 0 || waiting < alive) {
        return;
    }
    unsigned votes = 0;
    for (unsigned i = 0; i < thread_count; i++) {
        votes += fibers[i].state == AT_BARRIER && fibers[i].predicate;
    }
    for (unsigned i = 0; i < thread_count; i++) {
        if (fibers[i].state == AT_BARRIER) {
            fibers[i].state = READY;
            fibers[i].votes = votes;
        }
    }
    waiting = 0;
}

static unsigned emulated_barrier_count(int predicate) {
    fiber *self = running;
    forget_result(self);
    self->predicate = predicate;
    self->state = AT_BARRIER;
    waiting++;
    try_barrier();
    if (self->state != READY) {
        to_scheduler();
    }
    return self->votes;
}

static void emulated_barrier(void) {
    (void)emulated_barrier_count(0);
}

enum { MARK = 0x6d626172 };

static phases *phases_at(void *bar) {
    phases *p = bar;
    if ((uintptr_t)bar % 8 || p->mark != MARK) {
        stop(CUDA_ERROR_ILLEGAL_ADDRESS, "a barrier in memory that nobody made");
    }
    return p;
}

static void emulated_phase_init(void *bar, unsigned count) {
    *(phases *)bar = (phases){.left = count & 0x7fffu, .count = count & 0xffffu, .mark = MARK};
}

static void emulated_phase_arrive(void *bar) {
    phases *p = phases_at(bar);
    if (--p->left > 0) {
        return;
    }
    p->left = p->count & 0x7fffu;
    p->parity ^= 1;
    for (unsigned i = 0; i < thread_count; i++) {
        fiber *f = &fibers[i];
        f->state = f->state == AT_PHASE && f->bar == p && f->parity != p->parity ? READY : f->state;
    }
}

/* The phase under way has the parity that the barrier says; what it waits for is the one before. */
static void emulated_phase_wait(void *bar, unsigned parity) {
    const phases *p = phases_at(bar);
    fiber *self = running;
    if (p->parity == parity) {
        self->bar = p;
        self->parity = parity;
        self->state = AT_PHASE;
        to_scheduler();
    }
}

/* ---- cp.async ---- */

static void emulated_async_copy(void *to, const void *from, unsigned bytes, unsigned source_bytes) {
    fiber *self = running;
    if (self->copy_count == MOST_COPIES || (uintptr_t)to % bytes ||
        (source_bytes && (uintptr_t)from % bytes)) {
        stop(CUDA_ERROR_MISALIGNED_ADDRESS, self->copy_count == MOST_COPIES
                                                ? "too many copies that nobody waits for"
                                                : "a misaligned asynchronous copy");
    }
    self->copies[self->copy_count++] = (async_copy){to, from, bytes, source_bytes, self->group};
}

static void emulated_async_commit(void) {
    running->group++;
}

/* Makes the copies of all groups but the last `groups_left`. */
static void emulated_async_wait(unsigned groups_left) {
    fiber *self = running;
    unsigned kept = 0;
    for (unsigned i = 0; i < self->copy_count; i++) {
        const async_copy c = self->copies[i];
        if (c.group + groups_left >= self->group) {
            self->copies[kept++] = c;
            continue;
        }
        if (c.source_bytes) {
            memcpy(c.to, c.from, c.source_bytes);
        }
        memset((char *)c.to + c.source_bytes, 0, c.bytes - c.source_bytes);
    }
    self->copy_count = kept;
}

/* ---- fibers ---- */

static void fiber_main(void) {
    kernel_now->run(kernel_now->arguments);
    fiber *self = running;
    const unsigned first = (unsigned)(self - fibers) & ~31u;
    forget_result(self);
    self->state = DONE;
    alive--;
    try_barrier();
    for (unsigned i = first; i < first + 32 && i < thread_count; i++) {
        if (fibers[i].state == AT_WARP) {
            try_warp(first, fibers[i].mask);
        }
    }
    to_scheduler();
    abort();
}

static int give_stack(fiber *f) {
    if (stack_count) {
        f->stack = stacks[--stack_count];
    } else {
        void *memory = mmap(NULL, STACK_BYTES + GUARD_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED || mprotect(memory, GUARD_BYTES, PROT_NONE) != 0) {
            return 0;
        }
        f->stack = memory;
    }
    unsigned char *top = f->stack + GUARD_BYTES + STACK_BYTES - FRAME;
    memset(top, 0, FRAME);
    void (*entry)(void) = fiber_main;
    memcpy(top + FRAME_RETURN, &entry, sizeof entry);
    f->sp = top;
    return 1;
}

static void take_stack(fiber *f) {
    if (f->stack) {
        stacks[stack_count++] = f->stack;
        f->stack = NULL;
    }
}

static int go_on(fiber *f) {
    if (f->state == NEW) {
        if (!give_stack(f)) {
            return 0;
        }
        f->state = READY;
    }
    running = f;
    now.thread = f->at;
    fake_switch(&scheduler_sp, f->sp);
    if (f->state == DONE) {
        take_stack(f);
    }
    return 1;
}

/* ---- faults ---- */

static struct sigaction before[NSIG];

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    if (!in_kernel) {
        sigaction(number, &before[number], NULL); /* somebody else's: it comes again, without us */
        return;
    }
    char text[128];
    if (number == SIGSEGV || number == SIGBUS) {
        snprintf(text, sizeof text, "address %p is not mapped", info->si_addr);
        stop(CUDA_ERROR_ILLEGAL_ADDRESS, text);
    }
    if (number == SIGFPE) {
        stop(CUDA_ERROR_LAUNCH_FAILED, "a division by zero");
    }
    stop(CUDA_ERROR_MISALIGNED_ADDRESS, "a misaligned access, or an index outside its array");
}

static void watch_faults(void) {
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGTRAP, SIGILL, SIGFPE};
    static int watched;
    static _Thread_local int has_stack;
    if (!has_stack) { /* a fiber may fault because its own stack is full */
        stack_t alternate = {.ss_size = 64 << 10};
        alternate.ss_sp = mmap(NULL, alternate.ss_size, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        has_stack = alternate.ss_sp != MAP_FAILED && sigaltstack(&alternate, NULL) == 0;
    }
    if (!watched) {
        struct sigaction action = {.sa_sigaction = on_fault,
                                   .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
        sigemptyset(&action.sa_mask);
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
            sigaction(numbers[i], &action, &before[numbers[i]]);
        }
        watched = 1;
    }
}

/* ---- blocks ---- */

static void report_deadlock(void) {
    static const char *const places[] = {
        "", "", "a barrier of the block", "an operation of its warp", "a barrier in memory", ""};
    fprintf(stderr, "fakecuda: kernel %s, block (%u, %u, %u): nobody can go on;", kernel_now->name,
            now.block.x, now.block.y, now.block.z);
    unsigned shown = 0;
    for (unsigned i = 0; i < thread_count && shown < 8; i++) {
        const fiber *f = &fibers[i];
        if (f->state != DONE && (i == 0 || f->state != fibers[i - 1].state)) {
            fprintf(stderr, " thread %u waits at %s", i, places[f->state]);
            if (f->state == AT_WARP) {
                fprintf(stderr, " (mask %08x)", f->mask);
            }
            shown++;
        }
    }
    fprintf(stderr, "\n");
    failure = CUDA_ERROR_LAUNCH_FAILED;
}

/* All of its threads that can, one after the other; 0: there was none. */
static int run_warp(unsigned first, int reverse) {
    const unsigned lanes = thread_count - first < 32 ? thread_count - first : 32;
    int moved = 0;
    for (unsigned i = 0; i < lanes && failure == CUDA_SUCCESS; i++) {
        fiber *f = &fibers[first + (reverse ? lanes - 1 - i : i)];
        if (f->state == NEW || f->state == READY) {
            moved = 1;
            if (!go_on(f)) {
                failure = CUDA_ERROR_OUT_OF_MEMORY;
            }
        }
    }
    return moved && failure == CUDA_SUCCESS;
}

static void run_block(int reverse) {
    alive = thread_count;
    waiting = 0;
    for (unsigned i = 0; i < thread_count; i++) {
        fiber *f = &fibers[i];
        f->state = NEW;
        f->result = NULL;
        f->copy_count = 0;
        f->group = 0;
        f->at = (fake_uint3){i % now.block_dim.x, i / now.block_dim.x % now.block_dim.y,
                             i / now.block_dim.x / now.block_dim.y};
    }
    while (alive && failure == CUDA_SUCCESS) {
        int moved = 0;
        for (unsigned i = 0; i < thread_count; i += 32) {
            const unsigned warp = reverse ? (thread_count - 1) / 32 - i / 32 : i / 32;
            while (run_warp(warp * 32, reverse)) {
                moved = 1;
            }
        }
        if (!moved && failure == CUDA_SUCCESS) {
            report_deadlock();
        }
    }
    for (unsigned i = 0; i < thread_count; i++) {
        take_stack(&fibers[i]);
    }
}

/* Dynamic shared memory ends where nothing is mapped, so that going past it shows. */
static unsigned char *shared_memory(unsigned bytes) {
    static unsigned char *memory;
    const size_t room = 256 << 10;
    if (!memory) {
        void *got = mmap(NULL, room + GUARD_BYTES, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (got == MAP_FAILED) {
            return NULL;
        }
        memory = got;
        mprotect(memory + room, GUARD_BYTES, PROT_NONE);
    }
    return memory + room - (bytes + 127u) / 128u * 128u;
}

CUresult fake_emulate(const fake_kernel *kernel) {
    const char *order = getenv("FAKECUDA_ORDER");
    const int reverse = order && strcmp(order, "reverse") == 0;
    pthread_mutex_lock(&one_kernel);
    if (!fibers) {
        fibers = aligned_alloc(64, MOST_THREADS * sizeof *fibers);
        if (!fibers) {
            pthread_mutex_unlock(&one_kernel);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        memset(fibers, 0, MOST_THREADS * sizeof *fibers);
    }
    fake_memory_open();
    watch_faults();
    kernel_now = kernel;
    failure = CUDA_SUCCESS;
    thread_count = kernel->block.x * kernel->block.y * kernel->block.z;
    now = (fake_emulator){.block_dim = kernel->block,
                          .grid_dim = kernel->grid,
                          .shared = shared_memory(kernel->shared_bytes),
                          .shared_bytes = kernel->shared_bytes,
                          .barrier = emulated_barrier,
                          .barrier_count = emulated_barrier_count,
                          .exchange = emulated_exchange,
                          .async_copy = emulated_async_copy,
                          .async_commit = emulated_async_commit,
                          .async_wait = emulated_async_wait,
                          .phase_init = emulated_phase_init,
                          .phase_arrive = emulated_phase_arrive,
                          .phase_wait = emulated_phase_wait,
                          .fail = emulated_fail};
    in_kernel = 1;
    const uint64_t blocks = (uint64_t)kernel->grid.x * kernel->grid.y * kernel->grid.z;
    for (uint64_t i = 0; i < blocks && failure == CUDA_SUCCESS; i++) {
        const uint64_t b = reverse ? blocks - 1 - i : i;
        now.block = (fake_uint3){(unsigned)(b % kernel->grid.x),
                                 (unsigned)(b / kernel->grid.x % kernel->grid.y),
                                 (unsigned)(b / kernel->grid.x / kernel->grid.y)};
        memset(now.shared, 0xff, kernel->shared_bytes); /* what nobody wrote is not a number */
        run_block(reverse);
    }
    in_kernel = 0;
    fake_memory_close();
    const CUresult result = failure;
    pthread_mutex_unlock(&one_kernel);
    return result;
}
