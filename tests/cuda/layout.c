/* Our declarations of the driver API against NVIDIA's own headers; see layout.h.  Signatures of functions are compared
 * when layout_real.c is compiled. */
#include "layout.h"

#include "device/cuda/cuda_min.h"
#include "test.h"

static const layout_entry ours_cuda[] = {
#include "layout_cuda.def"
    {NULL, 0},
};
static const layout_entry ours_nvml[] = {
#include "layout_nvml.def"
    {NULL, 0},
};

static void compare(const layout_entry *ours, const layout_entry *real, const char *header) {
    if (!real[0].name) {
        test_skip("this machine has no %s", header);
    }
    for (; ours->name && real->name; ours++, real++) {
        CHECK_STR(ours->name, real->name);
        if (ours->number != real->number) {
            test_fail(__FILE__, __LINE__, "%s is %lld, in %s %lld", ours->name, ours->number,
                      header, real->number);
        }
    }
    CHECK(!ours->name && !real->name);
}

TEST(layout, our_declarations_are_those_of_cuda_h) {
    compare(ours_cuda, layout_real_cuda, "cuda.h");
}

TEST(layout, our_declarations_are_those_of_nvml_h) {
    compare(ours_nvml, layout_real_nvml, "nvml.h");
}

TEST(layout, our_declarations_are_those_of_cublaslt_h) {
    compare(layout_ours_cublaslt, layout_real_cublaslt, "cublasLt.h");
}

TEST(layout, our_declarations_are_those_of_cudnn_graph_h) {
    compare(layout_ours_cudnn, layout_real_cudnn, "cudnn_graph.h");
}
