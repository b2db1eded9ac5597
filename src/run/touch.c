/* The ranges of a bound plan's calls; see touch.h. */
#include "run/touch.h"

typedef struct touching {
    const hri_bound *b;
    hri_touch_fn *each;
    void *user;
} touching;

static void touch(const touching *t, int64_t call, hri_touch_how how, const void *pointer,
                  uint64_t bytes) {
    if (pointer && bytes) {
        t->each(t->user, call, how, (uint64_t)((uintptr_t)pointer - (uintptr_t)t->b->arena), bytes);
    }
}

/* Inputs are written before the first call; what stays is there. */
static void touch_sources(const touching *t) {
    const hr_graph *g = t->b->g;
    for (hr_value v = 1; v < g->value_count; v++) {
        const hri_value *value = &g->values[v];
        const bool stays = value->kind == HR_VALUE_PARAM || value->kind == HR_VALUE_STATE ||
                           value->kind == HR_VALUE_CONSTANT;
        if (stays || value->kind == HR_VALUE_INPUT) {
            touch(t, 0, stays ? HRI_TOUCH_KEEP : HRI_TOUCH_WRITE, t->b->data[v],
                  hr_meta_bytes(&value->meta));
        }
    }
}

static void touch_kernel(const touching *t, uint32_t i) {
    const hri_bound_call *c = &t->b->calls[i];
    const hri_sig *sig = &t->b->g->nodes[c->node].sig;
    void *const *pointers = t->b->pointers + c->first;
    if (hri_bound_is_name(t->b, c)) {
        return; /* nothing runs */
    }
    for (uint32_t k = 0; k < sig->in_count; k++) {
        touch(t, i, HRI_TOUCH_READ, pointers[k], hr_meta_bytes(&sig->in[k]));
    }
    for (uint32_t k = 0; k < sig->out_count; k++) {
        touch(t, i, HRI_TOUCH_WRITE, pointers[sig->in_count + k], hr_meta_bytes(&sig->out[k]));
    }
    touch(t, i, HRI_TOUCH_WRITE, hri_bound_workspace(t->b, c), c->bytes);
}

static void touch_copy(const touching *t, uint32_t i, const hri_bound_call *copy) {
    const bool in = copy->kind == HRI_STEP_IN;
    const bool begins = copy == &t->b->calls[i];
    touch(t, i, in && begins ? HRI_TOUCH_WRITE : HRI_TOUCH_READ,
          t->b->pointers[copy->first + (in ? 0 : 1)], copy->bytes);
}

/* An exchange works on all of it until the wait. */
static void touch_end(const touching *t, uint32_t i, const hri_bound_call *net) {
    const hri_sig *sig = &t->b->g->nodes[net->node].sig;
    void *const *pointers = t->b->pointers + net->first;
    for (uint32_t k = 0; k < sig->in_count + sig->out_count; k++) {
        touch(t, i, HRI_TOUCH_READ, pointers[k],
              hr_meta_bytes(k < sig->in_count ? &sig->in[k] : &sig->out[k - sig->in_count]));
    }
}

static void touch_wait(const touching *t, uint32_t i) {
    const uint32_t number = t->b->calls[i].copy;
    for (uint32_t k = i; k-- > 0;) {
        const hri_bound_call *c = &t->b->calls[k];
        if (t->b->calls[i].net && c->kind == HRI_STEP_NET && c->copy == number) {
            touch_end(t, i, c);
            return;
        }
        if (!t->b->calls[i].net && (c->kind == HRI_STEP_OUT || c->kind == HRI_STEP_IN) &&
            c->copy == number) {
            touch_copy(t, i, c);
            return;
        }
    }
}

static void touch_results(const touching *t) {
    const hr_graph *g = t->b->g;
    for (uint32_t i = 0; i < g->result_count; i++) {
        const hr_value v = g->results[i].value;
        touch(t, HRI_TOUCH_AFTER, HRI_TOUCH_READ, t->b->data[v], hr_meta_bytes(&g->values[v].meta));
    }
}

void hri_bound_touch(const hri_bound *b, hri_touch_fn *each, void *user) {
    const touching t = {b, each, user};
    touch_sources(&t);
    for (uint32_t i = 0; i < b->call_count; i++) {
        const hri_bound_call *c = &b->calls[i];
        switch ((hri_step_kind)c->kind) {
        case HRI_STEP_RUN:
        case HRI_STEP_NET:
            touch_kernel(&t, i);
            break;
        case HRI_STEP_OUT:
        case HRI_STEP_IN:
            touch_copy(&t, i, c);
            break;
        case HRI_STEP_WAIT:
            touch_wait(&t, i);
            break;
        default:
            break;
        }
    }
    touch_results(&t);
}
