/* One device, several processes: the capacity is everybody's, and a process that is killed gives its part back. */
#include "rig.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "device/cuda/cuda_load.h"

/* A process that takes `count` pages of cuda:0, says so through the pipe, and stays. */
static pid_t start_holder(int count) {
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        rig r;
        uint64_t page;
        rig_open(&r, 0);
        for (int i = 0; i < count; i++) {
            CHECK_OK(r.source->ops->create(r.source->self, &page));
        }
        CHECK_EQ(write(ends[1], "x", 1), 1);
        for (;;) {
            pause();
        }
    }
    char byte;
    close(ends[1]);
    CHECK_EQ(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    return child;
}

static size_t create_all(rig *r, uint64_t *pages, size_t have) {
    while (have < 1000 && r->source->ops->create(r->source->self, &pages[have]) == HR_OK) {
        have++;
    }
    return have;
}

static unsigned processes(const hri_cuda_nvml *nvml, nvmlDevice_t device, nvmlProcessInfo_t *list) {
    unsigned count = 16;
    CHECK_EQ(nvml->nvmlDeviceGetComputeRunningProcesses_v3(device, &count, list), NVML_SUCCESS);
    return count;
}

TEST(shared, a_killed_process_gives_its_bytes_back) {
    need_fake();
    knob("FAKECUDA_CAPACITY", "512MiB");
    knob("FAKECUDA_CONTEXT", "62MiB"); /* 64 with what is loaded lazily */
    const pid_t child = start_holder(100);
    rig r;
    static uint64_t pages[1000];
    rig_open(&r, 0);
    size_t count = create_all(&r, pages, 0);
    CHECK_EQ(count, (512 - 64 - 200 - 64) / 2);
    CHECK_EQ(fake()->used_bytes(0), 512 << 20);

    hri_cuda_nvml nvml;
    nvmlDevice_t device;
    nvmlProcessInfo_t list[16];
    hri_cuda_nvml_load(&nvml);
    CHECK_EQ(nvml.usable, 1);
    CHECK_EQ(nvml.nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
    CHECK_EQ(processes(&nvml, device, list), 2);
    const int at = list[0].pid == (unsigned)child ? 0 : 1;
    CHECK_EQ(list[at].pid, child);
    CHECK_EQ(list[at].usedGpuMemory, 264 << 20);
    CHECK_EQ(list[1 - at].pid, getpid());

    kill(child, SIGKILL); /* no exit handler runs */
    siginfo_t gone;
    CHECK_EQ(waitid(P_PID, (id_t)child, &gone, WEXITED | WNOWAIT), 0); /* dead, not yet buried */
    CHECK_EQ(processes(&nvml, device, list), 1);
    CHECK_EQ(fake()->used_bytes(0), 248 << 20);
    CHECK_EQ(waitpid(child, NULL, 0), child);

    count = create_all(&r, pages, count);
    CHECK_EQ(count, (512 - 64) / 2);
    CHECK_EQ(fake()->peak_bytes(0, 0), 512 << 20);
    while (count) {
        r.source->ops->destroy(r.source->self, pages[--count]);
    }
    hri_cuda_nvml_unload(&nvml);
    rig_check_idle(&r);
    rig_close(&r);
}

TEST(shared, others_bytes_are_not_in_our_runtime) {
    need_fake();
    const pid_t child = start_holder(300);
    rig r;
    hr_device_info info = {.size = sizeof info};
    rig_open(&r, 0);
    CHECK_OK(cuda.info(r.dev, &info));
    CHECK_EQ(info.runtime_bytes, 66 << 20);
    CHECK_EQ(info.process_bytes, 66 << 20);
    CHECK_EQ(info.total_bytes - info.free_bytes, (66 + 66 + 600) << 20);
    kill(child, SIGKILL);
    CHECK_EQ(waitpid(child, NULL, 0), child);
    rig_close(&r);
}

/* With process numbers of another namespace, the one that is new is ours; with two new ones there is no telling. */
TEST(shared, a_translated_process_number_is_found_beside_others) {
    need_fake();
    knob("FAKECUDA_NVML_PIDS", "translate");
    const pid_t child = start_holder(7);
    rig r;
    hr_device_info info = {.size = sizeof info};
    rig_open(&r, 0);
    CHECK_OK(cuda.info(r.dev, &info));
    CHECK_EQ(info.runtime_bytes, 66 << 20);
    CHECK_EQ(info.process_bytes, 66 << 20);
    kill(child, SIGKILL);
    CHECK_EQ(waitpid(child, NULL, 0), child);
    rig_close(&r);
}
