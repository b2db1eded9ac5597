/* Finding the kernel of an op, and what the host's kernels are: those of the descriptors. */
#include <string.h>

#include "graph/op.h"

static const hri_kernel *host_kernel(const hri_sig *s) {
    return s->op->host.run ? &s->op->host : NULL;
}

const hri_kernels hri_kernels_host = {.general = host_kernel};

static const hri_kernel *listed(const hri_kernels *kernels, const hri_sig *s) {
    for (const hri_kernel_entry *e = kernels->entries; e && e->op; e++) {
        if (e->kernel && !strcmp(e->op, s->op->name)) {
            return !e->kernel->supports || e->kernel->supports(s) ? e->kernel : NULL;
        }
    }
    return NULL;
}

const hri_kernel *hri_kernel_for(const hri_kernels *kernels, const hri_sig *s) {
    const hri_kernel *found = NULL;
    for (; kernels && !found; kernels = kernels->base) {
        found = listed(kernels, s);
        found = !found && kernels->general ? kernels->general(s) : found;
    }
    return found;
}

static const hri_variant *variant_of(const hri_kernel *k, uint32_t variant) {
    for (uint32_t i = 0; k->variants && k->variants[i].name; i++) {
        if (i == variant) {
            return &k->variants[i];
        }
    }
    return NULL;
}

uint64_t hri_kernel_workspace(const hri_kernel *k, const hri_sig *s, uint32_t variant,
                              uint32_t threads) {
    const hri_variant *v = variant_of(k, variant);
    hri_workspace_fn *workspace = v ? v->workspace : k->workspace;
    return workspace ? workspace(s, threads ? threads : 1) : 0;
}

hri_run_fn *hri_kernel_run(const hri_kernel *k, uint32_t variant) {
    const hri_variant *v = variant_of(k, variant);
    return v ? v->run : k->run;
}

uint64_t hri_op_workspace(const hri_sig *s, uint32_t variant, uint32_t threads) {
    return hri_kernel_workspace(&s->op->host, s, variant, threads);
}

hr_status hri_op_run(const hri_call *c) {
    return hri_kernel_run(&c->sig->op->host, c->variant)(c);
}

hr_status hri_op_launch(const hri_gpu_call *c) {
    return c->kernel && c->kernel->launch ? c->kernel->launch(c) : HR_E_UNSUPPORTED;
}

uint64_t hri_kernel_launch_workspace(const hri_kernel *k, const hri_sig *s, hri_gpu *gpu,
                                     uint32_t variant) {
    return k && k->launch_workspace ? k->launch_workspace(s, gpu, variant) : 0;
}
