/* Finding the kernel of an op, and what the host's kernels are: those of the descriptors. */
#include <string.h>

#include "base/level.h"
#include "graph/op.h"

#ifdef HEADROOM_LEVELS
/* The ops compiled for wider vectors, in the order of hr_ops (cmake/levels.cmake). */
extern const hr_op *const hr_ops_v3[], *const hr_ops_v4[];

static const hr_op *const *ops_at(uint32_t level) {
    return level == 2 ? hr_ops_v4 : level == 1 ? hr_ops_v3 : hr_ops;
}
#else
static const hr_op *const *ops_at(uint32_t level) {
    (void)level;
    return hr_ops;
}
#endif

const hri_kernel *hri_op_host(const hr_op *op, uint32_t level) {
    const uint32_t best = hri_level_best();
    level = level < best ? level : best;
    for (size_t i = 0; level && hr_ops[i]; i++) {
        if (hr_ops[i] == op) {
            return &ops_at(level)[i]->host;
        }
    }
    return &op->host; /* also of an op that a program brings along */
}

uint32_t hri_op_levels(void) {
    return 1 + hri_level_best();
}

static const hri_kernel *host_kernel(const hri_sig *s) {
    return s->op->host.run ? hri_op_host(s->op, UINT32_MAX) : NULL;
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
    return hri_kernel_workspace(hri_op_host(s->op, UINT32_MAX), s, variant, threads);
}

hr_status hri_op_run(const hri_call *c) {
    return hri_kernel_run(hri_op_host(c->sig->op, UINT32_MAX), c->variant)(c);
}

hr_status hri_op_launch(const hri_gpu_call *c) {
    return c->kernel && c->kernel->launch ? c->kernel->launch(c) : HR_E_UNSUPPORTED;
}

uint64_t hri_kernel_launch_workspace(const hri_kernel *k, const hri_sig *s, hri_gpu *gpu,
                                     uint32_t variant) {
    return k && k->launch_workspace ? k->launch_workspace(s, gpu, variant) : 0;
}
