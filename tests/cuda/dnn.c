/* cuDNN and cuBLASLt without a device: their absence, and the graphs that we hand to cuDNN.
 *
 * Where the library is installed it builds plans for a described device (an H200) without having one; so the graphs of
 * every convolution of ResNet-50 are tried on machines that cannot run them. */
#include "libs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/fault.h"
#include "device/cuda/cublaslt.h"
#include "device/cuda/gpu_dnn.h"

static const char h200[] =
    "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":"
    "65536,"
    "\"multiProcessorCount\":132,\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"
    "\"maxSharedMemoryPerBlockOptin\":232448,\"reservedSharedMemoryPerBlock\":1024,"
    "\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,"
    "\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,"
    "\"totalGlobalMem\":150000000000,\"smClockRateKHz\":1980000,\"memClockRateKHz\":3201000,"
    "\"l2CacheSize\":62914560,\"cudaDeviceId\":0,\"deviceVer\":900,\"driverVer\":13000,"
    "\"deviceName\":\"NVIDIA H200\"}";

/* Skips the case where cuDNN is not, or is too old to plan for a device that is not there. */
static void open_described(hri_dnn *dnn) {
    hri_dnn_load(dnn);
    if (!dnn->found) {
        char why[256];
        snprintf(why, sizeof why, "%s", dnn->why_not);
        hri_dnn_unload(dnn);
        test_skip("cuDNN is not available: %s", why);
    }
    hri_dnn_start(dnn, h200);
    if (!dnn->usable) {
        test_skip("cuDNN %zu plans for no described device: %s", dnn->version, dnn->why_not);
    }
}

static void check_plans(const hri_dnn *dnn, const hri_gpu_conv *x, const char *name) {
    hri_dnn_graph *g = calloc(1, sizeof *g);
    hri_dnn_plan plans[4];
    uint32_t count = 0;
    const hri_dnn_wish wish = {.limit_bytes = HRI_GPU_LIMIT_CONV, .deterministic = 1};
    hri_dnn_graph_init(g, dnn);
    hri_gpu_conv_graph(g, x);
    const hr_status status = hri_dnn_plans(g, &wish, plans, 4, &count);
    test_count_check();
    if (status != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s: %s", name, hr_status_name(status), g->text);
    }
    CHECK(count >= 1 && count <= 4);
    for (uint32_t i = 0; i < count; i++) {
        CHECK_LE(plans[i].workspace_bytes, HRI_GPU_LIMIT_CONV);
        CHECK(plans[i].tag[0] != '\0');
    }
    /* The same engine again by its tag, alone. */
    hri_dnn_graph_deinit(g);
    hri_dnn_graph_init(g, dnn);
    hri_gpu_conv_graph(g, x);
    hri_dnn_plan again[4];
    const hri_dnn_wish same = {
        .limit_bytes = HRI_GPU_LIMIT_CONV, .deterministic = 1, .tag = plans[0].tag};
    CHECK_OK(hri_dnn_plans(g, &same, again, 4, &count));
    CHECK_STR(again[0].tag, plans[0].tag);
    CHECK_EQ(again[0].workspace_bytes, plans[0].workspace_bytes);
    hri_dnn_graph_deinit(g);
    free(g);
}

TEST_TIMEOUT(dnn, plans_for_every_convolution_of_resnet50, 120) {
    static hri_dnn dnn;
    open_described(&dnn);
    for (int i = 0; i < CONV_COUNT; i++) {
        for (int kind = 0; kind < 3; kind++) {
            char name[160];
            const hri_gpu_conv x = conv_of(&conv_cases[i], 256, kind);
            check_plans(&dnn, &x, conv_name(&conv_cases[i], 256, kind, name, sizeof name));
        }
    }
    hri_dnn_unload(&dnn);
}

TEST(dnn, exact_arithmetic_takes_other_engines) {
    static hri_dnn dnn;
    static hri_dnn_graph g;
    hri_dnn_plan fast, exact;
    uint32_t count = 0;
    open_described(&dnn);
    const hri_gpu_conv x = conv_of(&(conv_case){0, F3, 28, 128, 128, 3, 1, 1}, 4, 0);
    for (int way = 0; way < 2; way++) {
        const hri_dnn_wish wish = {
            .limit_bytes = HRI_GPU_LIMIT_CONV, .deterministic = 1, .exact = way};
        hri_dnn_graph_init(&g, &dnn);
        hri_gpu_conv_graph(&g, &x);
        CHECK_OK(hri_dnn_plans(&g, &wish, way ? &exact : &fast, 1, &count));
        hri_dnn_graph_deinit(&g);
    }
    CHECK(strcmp(fast.tag, exact.tag) != 0);
    hri_dnn_unload(&dnn);
}

TEST(dnn, an_engine_can_be_left_out) {
    static hri_dnn dnn;
    static hri_dnn_graph g;
    hri_dnn_plan plans[2];
    uint32_t count = 0;
    open_described(&dnn);
    const hri_gpu_conv x = conv_of(&(conv_case){0, F3, 28, 128, 128, 3, 1, 1}, 4, 0);
    hri_dnn_wish wish = {.limit_bytes = HRI_GPU_LIMIT_CONV, .deterministic = 1};
    for (int i = 0; i < 2; i++) {
        hri_dnn_graph_init(&g, &dnn);
        hri_gpu_conv_graph(&g, &x);
        CHECK_OK(hri_dnn_plans(&g, &wish, &plans[i], 1, &count));
        hri_dnn_graph_deinit(&g);
        wish.without = atoll(plans[0].tag) + 1;
    }
    CHECK(atoll(plans[0].tag) != atoll(plans[1].tag));
    hri_dnn_unload(&dnn);
}

TEST(dnn, a_graph_that_makes_no_sense_is_refused_in_words) {
    static hri_dnn dnn;
    static hri_dnn_graph g;
    open_described(&dnn);
    hri_dnn_plan plans[2];
    uint32_t count = 7;
    hri_gpu_conv x = conv_of(&conv_cases[2], 4, 0);
    x.p = 3; /* not what the window gives */
    hri_dnn_graph_init(&g, &dnn);
    hri_gpu_conv_graph(&g, &x);
    const hri_dnn_wish wish = {.limit_bytes = HRI_GPU_LIMIT_CONV, .deterministic = 1};
    CHECK_STATUS(hri_dnn_plans(&g, &wish, plans, 2, &count), HR_E_UNSUPPORTED);
    CHECK_EQ(count, 7);
    CHECK(strstr(g.text, "convolution") != NULL);
    hri_dnn_graph_deinit(&g);
    hri_dnn_unload(&dnn);
}

/* Attention is compiled at run time, which needs a driver; its descriptors do not. */
TEST(dnn, the_descriptors_of_attention_are_taken) {
    static hri_dnn dnn;
    static hri_dnn_graph g;
    open_described(&dnn);
    for (int way = 0; way < 10; way++) {
        hri_gpu_attention x = attention_of(2, 12, 256, 64, BF, way & 1, way >> 1 & 1);
        if (way >= 8) {
            x = attention_of(2, 12, 256, 64, BF, 0, way & 1);
            x.lengths = 1;
        } else if (way >= 4) {
            x.masked = 1;
            x.mask_type = F3;
            x.mask_dim[0] = 2, x.mask_dim[1] = 1, x.mask_dim[2] = way & 1 ? 1 : 256;
        }
        hri_dnn_graph_init(&g, &dnn);
        hri_gpu_attention_graph(&g, &x);
        CHECK_STR(g.text, "");
        CHECK(!g.failed && g.op_count >= 10);
        hri_dnn_graph_deinit(&g);
    }
    hri_dnn_unload(&dnn);
}

#ifdef HEADROOM_FAULTS
TEST(dnn, a_missing_library_is_told_and_changes_nothing_else) {
    static hri_dnn dnn;
    static hri_lt lt;
    hri_fault_set(HRI_FAULT_OPEN, 1, 1);
    hri_dnn_load(&dnn);
    hri_lt_load(&lt);
    hri_fault_set(HRI_FAULT_OPEN, 0, 0);
    hri_dnn_start(&dnn, NULL);
    hri_lt_start(&lt);
    CHECK(!dnn.found && !dnn.usable && dnn.why_not[0]);
    CHECK(!lt.found && !lt.usable && lt.why_not[0]);
    hri_dnn_unload(&dnn);
    hri_lt_unload(&lt);
    desk d; /* and a product goes to our own kernel */
    desk_open(&d, (hri_gpu_options){.exact_f32 = 1});
    const product_case p = {"small", F3, F3, 1, 5, 6, 7, 0, 0, 0};
    const hri_gpu_matmul x = product_of(&p);
    tensor a = desk_random(&d, F3, 35, 1, 1.0), b = desk_random(&d, F3, 42, 2, 1.0);
    tensor y = desk_tensor(&d, F3, 30);
    hri_fault_set(HRI_FAULT_OPEN, 1, 1);
    const uint64_t bytes = hri_gpu_matmul_workspace(d.gpu, &x, HRI_GPU_LIMIT_MATMUL);
    hri_fault_set(HRI_FAULT_OPEN, 0, 0);
    CHECK_EQ(bytes, 0);
    CHECK(strstr(hri_gpu_detail(d.gpu), "cuBLASLt") != NULL);
    desk_check(&d, hri_gpu_matmul_run(d.gpu, &x, a.block.addr, b.block.addr, 0, y.block.addr, 0, 0),
               "the product");
    double *va = desk_read(&d, &a), *vb = desk_read(&d, &b), *is = desk_read(&d, &y);
    double want[30] = {0};
    for (int i = 0; i < 30; i++) {
        for (int k = 0; k < 7; k++) {
            want[i] += va[i / 6 * 7 + k] * vb[k * 6 + i % 6];
        }
    }
    CHECK(desk_error(is, want, 30) < 1e-6);
    free(va), free(vb), free(is);
    desk_free(&d, &a), desk_free(&d, &b), desk_free(&d, &y);
    desk_close(&d);
}
#endif
