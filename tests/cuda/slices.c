/* Replicas as slices of one GPU, or on several: the bits of one that computes the parts one after the other, in arenas of their
 * own inside the budget of each device, and nothing of the exchange by way of the host where devices see one another. */
#include "rig.h"
#include "training.h"

#include <stdlib.h>
#include <string.h>

#include "device/device.h"

typedef struct outcome {
    float losses[TRAINING_STEPS];
    uint64_t print; /* of every parameter and state that a checkpoint has */
    int64_t
        graphs; /* launches of kernels, captured: of a part and the last part of every replica */
} outcome;

typedef struct setting {
    const char *model, *options;
    int64_t batch, parts;
    uint32_t replicas, devices;
    int apart; /* no device sees another */
    hri_shard_mode shard;
} setting;

/* Kernels that were launched so far, or captured. */
static int64_t launches(void) {
    return is_fake() ? fake()->calls("cuLaunchKernel") : 0;
}

static void train(const setting *x, outcome *out) {
    training t;
    int64_t before;
    hri_measured m;
    training_open(&t, x->model, x->options, x->batch);
    if (x->devices > 1) {
        training_add_devices(&t, x->devices, !x->apart);
    }
    t.job.parts = x->parts;
    t.job.replicas = x->replicas;
    t.job.arenas = (x->replicas + x->devices - 1) / x->devices;
    t.job.shard = x->replicas > 1 ? x->shard : HRI_SHARD_NONE;
    t.job.allow_coupled = 1;
    training_plan(&t, 1.0);
    CHECK_EQ(t.plans.arenas, t.job.arenas);
    before = launches();
    training_take(&t); /* one replica runs its graphs once and captures them */
    out->graphs = (launches() - before) / 2;
    before = launches();
    const int64_t syncs = is_fake() ? fake()->calls("cuStreamSynchronize") : 0;
    training_steps(&t, out->losses);
    if (is_fake() && !x->apart) { /* of parts and steps, never of tensors */
        const int64_t most = TRAINING_STEPS * (x->parts * 20 + 20);
        CHECK_LE(fake()->calls("cuStreamSynchronize") - syncs, most);
    }
    if (x->replicas > 1) { /* several are captured together with the first step */
        out->graphs = launches() - before;
    }
    CHECK_OK(training_print(t.planned, &out->print));
    hri_planned_measure(t.planned, &m);
    CHECK_EQ(m.planned_bytes, t.job.arenas * t.plans.arena_bytes);
    CHECK_EQ(m.arena_bytes, m.planned_bytes);
    CHECK(m.process_bytes > m.arena_bytes);
    CHECK_LE(m.process_bytes, t.plans.peak_bytes);
    training_close(&t);
}

static void same(const setting *x, const outcome *one) {
    outcome is;
    train(x, &is);
    CHECK(memcmp(is.losses, one->losses, sizeof one->losses) == 0);
    CHECK(is.print == one->print);
    if (is_fake() &&
        x->devices == 1) { /* exchanging and adding up cost launches of their own, few */
        printf("    %lld launches, %lld of one replica\n", (long long)is.graphs,
               (long long)one->graphs);
        CHECK_LE(is.graphs, x->replicas * one->graphs * 6 / 5 + 8);
    }
}

TEST_TIMEOUT(slices, have_the_bits_of_one, 300) {
    setting x = {.model = "mlp:size=4,width=8,classes=10,dropout=0.2",
                 .options = "optimizer=sgd,momentum=0.9",
                 .batch = 10,
                 .parts = 4,
                 .replicas = 1,
                 .devices = 1};
    outcome one;
    train(&x, &one);
    x.replicas = 3;
    same(&x, &one);
}

TEST_TIMEOUT(slices, on_several_devices_have_the_bits_of_one, 300) {
    setting x = {.model = "net: input(16,classes=4) | dense(8) | batch_norm | relu | "
                          "dense(classes)",
                 .options = "optimizer=adamw,clip=0.01,precision=bf16",
                 .batch = 6,
                 .parts = 3,
                 .replicas = 1,
                 .devices = 1};
    outcome one;
    need_fake();
    knob("FAKECUDA_DEVICES", "2");
    train(&x, &one);
    x.replicas = 3;
    x.devices = 2;
    same(&x, &one);
    knob("FAKECUDA_PEERS", "none"); /* by way of the host */
    x.replicas = 2;
    x.apart = 1;
    same(&x, &one);
}

/* Slices of what is kept, on slices of one GPU, on several, and on two that do not see one another. */
static void sharded(hri_shard_mode shard, const char *options) {
    static const uint32_t replicas[] = {3, 2}, devices[] = {1, 2};
    outcome one;
    setting x = {.model = "net: input(64,classes=4) | dense(48) | batch_norm | relu | "
                          "dense(classes)",
                 .options = options,
                 .batch = 7,
                 .parts = 4,
                 .replicas = 1,
                 .devices = 1,
                 .shard = shard};
    need_fake();
    knob("FAKECUDA_DEVICES", "2");
    train(&x, &one);
    for (size_t i = 0; i < sizeof replicas / sizeof *replicas; i++) {
        x.replicas = replicas[i];
        x.devices = devices[i];
        same(&x, &one);
    }
    x.replicas = x.devices = 2;
    x.apart = 1;
    knob("FAKECUDA_PEERS", "none");
    same(&x, &one);
}

TEST_TIMEOUT(slices, that_hold_slices_have_the_bits_of_one, 300) {
    sharded(HRI_SHARD_WEIGHTS, "optimizer=adamw,clip=0.01");
}

/* Small states are rounded at random: what is drawn for an element does not depend on whose slice it is in. */
TEST_TIMEOUT(slices, that_hold_slices_of_small_states_have_the_bits_of_one, 300) {
    setting x = {.model = "net: input(70,classes=4) | dense(64) | relu | dense(classes)",
                 .batch = 6,
                 .parts = 3,
                 .shard = HRI_SHARD_WEIGHTS};
    static const char *const options[] = {"optimizer=adamw,moments=8bit",
                                          "optimizer=rmsprop,momentum=0.9,moments=bf16"};
    need_fake();
    for (size_t i = 0; i < (getenv("HEADROOM_TEST_ALL") ? 2 : 1); i++) {
        outcome one;
        x.options = options[i];
        x.replicas = x.devices = 1;
        train(&x, &one);
        x.replicas = 3;
        same(&x, &one);
        x.shard = HRI_SHARD_STATES;
    }
}

TEST_TIMEOUT(slices, that_hold_slices_of_velocities_have_the_bits_of_one, 300) {
    sharded(HRI_SHARD_STATES, "optimizer=sgd,momentum=0.9,precision=bf16");
}

static void fill(hr_queue *queue, hr_addr at, uint8_t value) {
    CHECK_OK(hr_fill(queue, at, value, 4096));
    CHECK_OK(hr_queue_sync(queue));
}

/* The fake driver is as strict as a real one, so what the cases above say is said of peers. */
TEST(slices, memory_of_another_device_is_read_only_when_it_lets) {
    need_fake();
    knob("FAKECUDA_DEVICES", "2");
    for (int lets = 1; lets >= 0; lets--) {
        hr_ctx *ctx;
        hr_device *a, *b;
        hr_logical *slice;
        hr_range *range;
        hr_queue *own, *other;
        void *host;
        rig_isolate();
        CHECK_OK(hr_ctx_create(NULL, &ctx));
        CHECK_OK(hr_device_find(ctx, "cuda:0", &a));
        CHECK_OK(hr_device_find(ctx, "cuda:1", &b));
        if (lets) {
            CHECK_OK(hri_device_let_read(a, b));
        }
        CHECK_EQ(hri_device_is_read_by(a, b), lets);
        CHECK_EQ(hri_device_is_read_by(b, a), 0);
        const hr_logical_options o = {.size = sizeof o, .limit_bytes = 2 << 20};
        CHECK_OK(hr_logical_create(a, &o, &slice));
        CHECK_OK(hr_range_create(slice, 2 << 20, HR_CATEGORY_OTHER, 0, &range));
        CHECK_OK(hr_range_resize(range, 2 << 20));
        CHECK_OK(hr_queue_create(a, &own));
        CHECK_OK(hr_queue_create(b, &other));
        CHECK_OK(hr_pinned_create(b, 4096, &host));
        fill(own, hr_range_addr(range), 0x5a);
        CHECK_OK(hr_copy(other, host_addr(host), hr_range_addr(range), 4096));
        CHECK_STATUS(hr_queue_sync(other), lets ? HR_OK : HR_E_LOST);
        CHECK(!lets || ((char *)host)[4095] == 0x5a);
        hr_pinned_destroy(b, host);
        hr_queue_destroy(own);
        hr_queue_destroy(other);
        hr_ctx_destroy(ctx);
    }
}
