/* Pages of a CUDA device: what is mapped is usable, maps are all or nothing, running out is a status. */
#include "rig.h"

#include <string.h>

TEST(memory, a_mapped_page_keeps_what_is_written) {
    rig r;
    rig_open(&r, 0);
    run mem;
    run_open(&r, 3, &mem);
    static unsigned char out[100000], back[100000];
    for (size_t i = 0; i < sizeof out; i++) {
        out[i] = (unsigned char)(i * 7 + 3);
    }
    const hr_addr at = mem.at + 2 * r.page - 50000; /* across two pages */
    put_bytes(&r, at, out, sizeof out);
    get_bytes(&r, back, at, sizeof back);
    CHECK(memcmp(out, back, sizeof out) == 0);
    run_close(&r, &mem);
    rig_check_idle(&r);
    rig_close(&r);
}

TEST(memory, addresses_and_page_size_are_multiples) {
    rig r;
    rig_open(&r, 0);
    CHECK(r.page >= 4096 && (r.page & (r.page - 1)) == 0);
    for (uint64_t count = 1; count < 40; count += 13) {
        hr_addr at = 0;
        CHECK_OK(r.source->ops->reserve(r.source->self, count * r.page, &at));
        CHECK(at != 0);
        CHECK_EQ(at % r.page, 0);
        r.source->ops->unreserve(r.source->self, at, count * r.page);
    }
    rig_close(&r);
}

TEST(memory, a_page_at_two_addresses_is_one_page) {
    rig r;
    rig_open(&r, 0);
    run mem;
    run_open(&r, 2, &mem);
    hr_addr second;
    CHECK_OK(r.source->ops->reserve(r.source->self, 2 * r.page, &second));
    const uint64_t swapped[2] = {mem.pages[1], mem.pages[0]};
    CHECK_OK(r.source->ops->map(r.source->self, second, swapped, 2));
    put_bytes(&r, mem.at + 5, "left", 5);
    put_bytes(&r, second + 5, "right", 6);
    char text[8];
    get_bytes(&r, text, second + r.page + 5, 5);
    CHECK_STR(text, "left");
    get_bytes(&r, text, mem.at + r.page + 5, 6);
    CHECK_STR(text, "right");
    /* Contents live in the page, not in the address. */
    CHECK_OK(r.source->ops->unmap(r.source->self, mem.at, 2));
    get_bytes(&r, text, second + r.page + 5, 5);
    CHECK_STR(text, "left");
    CHECK_OK(r.source->ops->map(r.source->self, mem.at, mem.pages, 2));
    get_bytes(&r, text, mem.at + 5, 5);
    CHECK_STR(text, "left");
    CHECK_OK(r.source->ops->unmap(r.source->self, second, 2));
    r.source->ops->unreserve(r.source->self, second, 2 * r.page);
    run_close(&r, &mem);
    rig_check_idle(&r);
    rig_close(&r);
}

TEST(memory, a_part_of_a_run_can_be_unmapped_and_mapped_anew) {
    rig r;
    rig_open(&r, 0);
    run mem;
    run_open(&r, 4, &mem);
    put_bytes(&r, mem.at + 3 * r.page, "stays", 6);
    CHECK_OK(r.source->ops->unmap(r.source->self, mem.at + r.page, 2));
    CHECK_OK(r.source->ops->map(r.source->self, mem.at + r.page, &mem.pages[1], 2));
    char text[8];
    get_bytes(&r, text, mem.at + 3 * r.page, 6);
    CHECK_STR(text, "stays");
    run_close(&r, &mem);
    rig_close(&r);
}

TEST(memory, a_description_costs_no_context) {
    rig r;
    hr_device_info described = {.size = sizeof described}, info = {.size = sizeof info};
    rig_isolate();
    hri_lib *lib;
    CHECK_OK(cuda.probe(NULL, NULL, &lib));
    if (lib->device_count) {
        CHECK_STATUS(cuda.describe(lib, -1, &described), HR_E_NOT_FOUND);
        CHECK_STATUS(cuda.describe(lib, lib->device_count, &described), HR_E_NOT_FOUND);
        CHECK_OK(cuda.describe(lib, 0, &described));
        CHECK_EQ(described.runtime_bytes, 0);
        if (is_fake()) {
            CHECK_EQ(fake()->used_bytes(0), 0);
            CHECK_EQ(described.free_bytes, described.total_bytes);
        }
    }
    cuda.unprobe(lib);
    rig_open(&r, 0);
    CHECK_OK(cuda.info(r.dev, &info));
    CHECK_STR(described.name, info.name);
    CHECK_STR(described.description, info.description);
    CHECK_EQ(described.page_bytes, info.page_bytes);
    CHECK_EQ(described.compute_major, info.compute_major);
    if (is_fake()) { /* a real driver may count differently once there is a context */
        CHECK_EQ(described.total_bytes, info.total_bytes);
    }
    rig_close(&r);
}

TEST(memory, process_bytes_grow_by_what_is_created) {
    rig r;
    rig_open(&r, 0);
    hr_device_info before = {.size = sizeof before}, after = {.size = sizeof after};
    CHECK_OK(cuda.info(r.dev, &before));
    if (!before.process_bytes) {
        test_skip("NVML does not list this process");
    }
    uint64_t pages[32];
    for (int i = 0; i < 32; i++) {
        CHECK_OK(r.source->ops->create(r.source->self, &pages[i]));
        CHECK(pages[i] != 0);
    }
    CHECK_OK(cuda.info(r.dev, &after));
    CHECK_LE(before.process_bytes + 32 * r.page, after.process_bytes);
    CHECK_LE(after.process_bytes,
             before.process_bytes + 32 * r.page + (is_fake() ? 0 : (8ull << 20)));
    CHECK_LE(after.free_bytes, before.total_bytes - 32 * r.page);
    for (int i = 0; i < 32; i++) {
        r.source->ops->destroy(r.source->self, pages[i]);
    }
    rig_check_idle(&r);
    rig_close(&r);
}

/* All that is left, page by page, then the refusal; on a real device that would be everybody's memory. */
TEST(memory, the_last_page_is_given_and_the_next_refused) {
    need_fake();
    knob("FAKECUDA_CAPACITY", "256MiB");
    rig r;
    rig_open(&r, 0);
    hr_device_info info = {.size = sizeof info};
    CHECK_OK(cuda.info(r.dev, &info));
    CHECK_EQ(info.total_bytes, 256 << 20);
    static uint64_t pages[200];
    size_t count = 0;
    hr_status status;
    while ((status = r.source->ops->create(r.source->self, &pages[count])) == HR_OK) {
        count++;
    }
    CHECK_STATUS(status, HR_E_NOMEM_DEVICE);
    CHECK_EQ(count, (info.total_bytes - info.runtime_bytes) / r.page);
    char text[128];
    cuda.detail(r.dev, text, sizeof text);
    CHECK_STR(text, "cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
    CHECK_EQ(fake()->peak_bytes(0, 0), info.total_bytes);
    r.source->ops->destroy(r.source->self, pages[0]);
    CHECK_OK(r.source->ops->create(r.source->self, &pages[0]));
    while (count) {
        r.source->ops->destroy(r.source->self, pages[--count]);
    }
    rig_check_idle(&r);
    rig_close(&r);
}

/* After a refused map the addresses must be free for another. */
static void check_all_or_nothing(rig *r, run *mem, hr_status wanted) {
    CHECK_STATUS(r->source->ops->map(r->source->self, mem->at, mem->pages, mem->count), wanted);
}

TEST(memory, a_map_that_fails_anywhere_maps_nothing) {
    rig r;
    rig_open(&r, 0);
    run mem;
    run_open(&r, 5, &mem);
    CHECK_OK(r.source->ops->unmap(r.source->self, mem.at, mem.count));
    for (uint64_t n = 1; n <= mem.count + 1; n++) { /* five maps and the access */
        hri_fault_set(HRI_FAULT_MAP, n, 0);
        check_all_or_nothing(&r, &mem, HR_E_NOMEM_DEVICE);
        CHECK_EQ(hri_fault_delivered(), 1);
        hri_fault_set(HRI_FAULT_MAP, 0, 0);
        CHECK_OK(r.source->ops->map(r.source->self, mem.at, mem.pages, mem.count));
        CHECK_OK(r.source->ops->unmap(r.source->self, mem.at, mem.count));
    }
    CHECK_OK(r.source->ops->map(r.source->self, mem.at, mem.pages, mem.count));
    run_close(&r, &mem);
    rig_check_idle(&r);
    rig_close(&r);
}

TEST(memory, a_driver_that_refuses_a_map_leaves_nothing_mapped) {
    need_fake();
    static const char *const schedules[] = {"cuMemMap:1", "cuMemMap:3", "cuMemMap:5",
                                            "cuMemSetAccess:1=2"};
    rig r;
    rig_open(&r, 0);
    run mem;
    run_open(&r, 5, &mem);
    CHECK_OK(r.source->ops->unmap(r.source->self, mem.at, mem.count));
    for (int i = 0; i < 4; i++) {
        fake()->schedule(schedules[i]);
        check_all_or_nothing(&r, &mem, HR_E_NOMEM_DEVICE);
        fake()->schedule("");
        CHECK_OK(r.source->ops->map(r.source->self, mem.at, mem.pages, mem.count));
        CHECK_EQ(fake()->calls("cuMemSetAccess"), 1); /* one call for a whole run */
        CHECK_OK(r.source->ops->unmap(r.source->self, mem.at, mem.count));
    }
    CHECK_OK(r.source->ops->map(r.source->self, mem.at, mem.pages, mem.count));
    run_close(&r, &mem);
    rig_close(&r);
}

TEST(memory, an_unmap_that_fails_leaves_everything_mapped) {
    need_fake();
    rig r;
    rig_open(&r, 0);
    run mem;
    run_open(&r, 3, &mem);
    put_bytes(&r, mem.at + 2 * r.page, "here", 5);
    fake()->schedule("cuMemUnmap:1");
    CHECK_STATUS(r.source->ops->unmap(r.source->self, mem.at, mem.count), HR_E_DEVICE);
    char text[8];
    get_bytes(&r, text, mem.at + 2 * r.page, 5);
    CHECK_STR(text, "here");
    run_close(&r, &mem);
    rig_close(&r);
}

TEST(memory, refused_reservations_and_pages_leave_the_output_alone) {
    rig r;
    rig_open(&r, 0);
    hr_addr at = 77;
    uint64_t page = 78;
    hri_fault_set(HRI_FAULT_RESERVE, 1, 1);
    CHECK_STATUS(r.source->ops->reserve(r.source->self, r.page, &at), HR_E_NOMEM_DEVICE);
    hri_fault_set(HRI_FAULT_CREATE, 1, 1);
    CHECK_STATUS(r.source->ops->create(r.source->self, &page), HR_E_NOMEM_DEVICE);
    hri_fault_set(HRI_FAULT_ANY, 0, 0);
    CHECK_EQ(at, 77);
    CHECK_EQ(page, 78);
    /* More addresses than there are. */
    const hr_status status = r.source->ops->reserve(r.source->self, 1ull << 60, &at);
    CHECK(status == HR_E_NOMEM_DEVICE || (!is_fake() && status == HR_E_DEVICE));
    CHECK_EQ(at, 77);
    rig_check_idle(&r);
    rig_close(&r);
}

TEST(memory, pinned_memory_is_ordinary_to_the_host) {
    rig r;
    rig_open(&r, 0);
    run mem;
    run_open(&r, 1, &mem);
    unsigned char *a = NULL, *b = NULL;
    CHECK_OK(cuda.pinned_create(r.dev, 100000, (void **)&a));
    CHECK_OK(cuda.pinned_create(r.dev, 100000, (void **)&b));
    for (int i = 0; i < 100000; i++) {
        a[i] = (unsigned char)(i ^ (i >> 8));
    }
    put_bytes(&r, mem.at + 1, a, 100000);
    get_bytes(&r, b, mem.at + 1, 100000);
    CHECK(memcmp(a, b, 100000) == 0);
    cuda.pinned_destroy(r.dev, a);
    cuda.pinned_destroy(r.dev, b);
    void *none = &r;
    hri_fault_set(HRI_FAULT_PINNED, 1, 0);
    CHECK_STATUS(cuda.pinned_create(r.dev, 4096, &none), HR_E_NOMEM_HOST);
    hri_fault_set(HRI_FAULT_PINNED, 0, 0);
    CHECK(none == &r);
    run_close(&r, &mem);
    rig_close(&r);
}
