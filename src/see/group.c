/* Adding up; see group.h. */
#include "see/group.h"

#include <string.h>

#include "base/text.h"

static hr_status group_of(hri_see_groups *g, const char *name, size_t bytes, hri_see_group **out) {
    uint64_t index = g->list.count;
    if (!hri_strmap_get_n(&g->numbers, name, bytes, &index)) {
        const hri_see_group fresh = {.name = hri_arena_strndup(&g->arena, name, bytes)};
        hr_status status =
            fresh.name ? hri_strmap_put(&g->numbers, fresh.name, index) : HR_E_NOMEM_HOST;
        if (status == HR_OK) {
            status = hri_see_group_list_push(&g->list, fresh);
        }
        if (status != HR_OK) {
            return status;
        }
    }
    *out = &g->list.items[index];
    return HR_OK;
}

static hr_status add_op(hri_see_groups *g, const hri_recording *r, hri_see_by by,
                        const hri_see_op *op) {
    hri_see_group *group;
    const char *name = hri_recording_get_text(r, by == HRI_SEE_BY_LAYER ? op->layer : op->kind);
    const hr_status status = group_of(g, name, strlen(name), &group);
    if (status == HR_OK) {
        group->ops++;
        group->ns += hri_see_op_ns(op);
        group->flops += op->flops;
        group->bytes += (double)op->bytes;
    }
    return status;
}

/* A buffer belongs to the layer that its name is of; nobody knows the op that it would be kept for. */
static hr_status add_buffer(hri_see_groups *g, const hri_recording *r, hri_see_by by,
                            const hri_see_buffer *b) {
    hri_see_group *group;
    const char *name = by == HRI_SEE_BY_LAYER ? hri_recording_get_text(r, b->name)
                                              : hri_see_category_name(b->category);
    const char *dot = by == HRI_SEE_BY_LAYER ? strrchr(name, '.') : NULL;
    const hr_status status = group_of(g, name, dot ? (size_t)(dot - name) : strlen(name), &group);
    if (status == HR_OK) {
        group->alive_bytes += b->bytes;
    }
    return status;
}

hr_status hri_see_groups_open(const hri_recording *r, hri_see_by by, hri_see_groups *out) {
    hri_see_groups g = {.list = {0}};
    hr_status status = HR_OK;
    const hri_see_op *ops = hri_recording_ops(r);
    const hri_see_buffer *buffers = hri_recording_buffers(r);
    const size_t op_count = by == HRI_SEE_BY_CATEGORY ? 0 : r->tables[HRI_SEE_OPS].count;
    const size_t buffer_count = by == HRI_SEE_BY_KIND ? 0 : r->tables[HRI_SEE_BUFFERS].count;
    for (size_t i = 0; i < op_count && status == HR_OK; i++) {
        status = add_op(&g, r, by, &ops[i]);
    }
    for (size_t i = 0; i < buffer_count && status == HR_OK; i++) {
        if (buffers[i].birth <= r->head.peak_op && r->head.peak_op < buffers[i].death) {
            status = add_buffer(&g, r, by, &buffers[i]);
        }
    }
    if (status != HR_OK) {
        hri_see_groups_close(&g);
        return status;
    }
    *out = g;
    return HR_OK;
}

void hri_see_groups_close(hri_see_groups *g) {
    hri_see_group_list_deinit(&g->list);
    hri_strmap_deinit(&g->numbers);
    hri_arena_deinit(&g->arena);
}

const hri_see_group *hri_see_groups_find(const hri_see_groups *g, const char *name) {
    uint64_t index;
    return hri_strmap_get(&g->numbers, name, &index) ? &g->list.items[index] : NULL;
}

const char *hri_see_buffer_name(const hri_recording *r, const hri_see_buffer *b, hri_text *out) {
    const char *name = hri_recording_get_text(r, b->name);
    hri_text_clear(out);
    hri_text_add(out, "%s%s",
                 b->category == HRI_SEE_WORKSPACES       ? "workspace of "
                 : b->flags & HRI_SEE_PARAMETER_GRADIENT ? "gradient of "
                                                         : "",
                 name);
    return hri_text_get(out);
}
