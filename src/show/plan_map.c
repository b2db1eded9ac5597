/* A plan as a picture: addresses up, steps across, one box a buffer for as long as it lives.
 *
 * What one sees: the grey floor of weights and states that is there for all steps; activations that begin in the
 * forward part and wait, to the right, for the backward part; those that were let go and are made again just before
 * they are needed; and how little is left empty under the line of the budget. */
#include <math.h>
#include <stdio.h>

#include <headroom/bytes.h>
#include "base/svg.h"
#include "show/plan.h"

enum { WIDTH = 900, HEIGHT = 540 };

typedef enum kind { KEPT, INPUT, FORWARD, BACKWARD, AGAIN, WORKSPACE, KINDS } kind;
static const struct {
    const char *name, *color;
} kinds[KINDS] = {{"parameters and optimizer state", "#b8b8b8"},
                  {"inputs", "#8c6bb1"},
                  {"forward pass", "#3b7dbd"},
                  {"backward pass", "#e08a3c"},
                  {"recomputed", "#2e8b57"},
                  {"workspace", "#d9c14a"}};

static kind kind_of(const hri_problem *p, const hri_plan *plan, const hri_plan_buffer *b) {
    if (b->value == HRI_PROBLEM_NONE) {
        return WORKSPACE;
    }
    const hri_problem_value *v = &p->values[b->value];
    if (v->role == HRI_ROLE_INPUT) {
        return INPUT;
    }
    if (v->role != HRI_ROLE_MADE) {
        return KEPT;
    }
    const hri_plan_step *s = &plan->steps[b->birth < plan->step_count ? b->birth : 0];
    if (hri_step_runs(s) && s->again) {
        return AGAIN;
    }
    return v->producer != HRI_PROBLEM_NONE && p->ops[v->producer].phase != HRI_PROBLEM_FORWARD
               ? BACKWARD
               : FORWARD;
}

static void draw_box(hri_svg *s, const hri_chart *c, double birth, double death, double low,
                     double high, kind k, const char *title, uint64_t bytes) {
    const double x = hri_chart_x(c, birth), y = hri_chart_y(c, high);
    const double width = hri_chart_x(c, death) - x, height = hri_chart_y(c, low) - y;
    char size[32];
    if (height < 0.25) {
        return; /* a hair that nobody sees */
    }
    hri_svg_put(s,
                "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" "
                "stroke=\"white\" stroke-width=\"%g\"><title>",
                x, y, width, height, kinds[k].color, height > 3 ? 0.4 : 0.0);
    hri_svg_escape(s, title);
    hri_svg_put(s, ", %s</title></rect>\n", hr_bytes_print(bytes, size, sizeof size));
}

static void draw_buffers(hri_svg *s, const hri_chart *c, const hri_problem *p,
                         const hri_plan *plan) {
    draw_box(s, c, 0, plan->step_count, 0, (double)plan->persistent_bytes, KEPT, kinds[KEPT].name,
             plan->persistent_bytes);
    for (uint32_t i = 0; i < plan->buffer_count; i++) {
        const hri_plan_buffer *b = &plan->buffers[i];
        const kind k = kind_of(p, plan, b);
        if (b->memory || k == KEPT) {
            continue;
        }
        draw_box(s, c, b->birth, fmin(b->death, plan->step_count), (double)b->offset,
                 (double)(b->offset + b->bytes), k,
                 k == WORKSPACE ? kinds[k].name : p->values[b->value].name, b->bytes);
    }
}

static void draw_keys(hri_svg *s, const hri_chart *c) {
    double x = c->left;
    for (int k = 0; k < KINDS; k++) {
        hri_svg_put(s, "<rect x=\"%.1f\" y=\"58\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", x,
                    kinds[k].color);
        hri_svg_label(s, x + 17, 68, 12, "#333333", "start", kinds[k].name);
        x += 34 + 6.6 * (double)hri_term_columns(kinds[k].name);
    }
}

/* Where going forward ends.  Updates do not tell: running statistics are updated on the way. */
static uint32_t turning_point(const hri_problem *p, const hri_plan *plan) {
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const hri_plan_step *s = &plan->steps[i];
        if (hri_step_runs(s) && p->ops[s->op].phase == HRI_PROBLEM_BACKWARD) {
            return i;
        }
    }
    return plan->step_count;
}

char *hri_plan_print_map(const hri_plan_job *j, const hri_problem *p, const hri_plan *plan) {
    const double room = (double)plan->arena_bytes;
    const bool large = room > 4e9;
    const hri_chart c = {.left = 76,
                         .right = WIDTH - 24,
                         .top = 84,
                         .bottom = HEIGHT - 60,
                         .high_x = plan->step_count ? plan->step_count : 1,
                         .high_y = room > 0 ? room * 1.06 : 1,
                         .unit_y = large ? 1073741824.0 : 1048576.0,
                         .x_name = "ops of the plan, in order",
                         .y_name = large ? "address in GiB" : "address in MiB"};
    char text[128], arena[32];
    hri_svg s;
    hri_svg_begin(&s, WIDTH, HEIGHT);
    hri_svg_put(&s, "<text x=\"%.0f\" y=\"28\" font-size=\"17\" fill=\"#111111\">", c.left);
    hri_svg_escape(&s, j->what);
    if (j->model) {
        hri_svg_put(&s, ", batch %lld", (long long)j->job.batch);
    }
    hri_svg_put(&s, "</text>\n");
    snprintf(text, sizeof text, "one step in an arena of %s; %u ops recomputed",
             hr_bytes_print(plan->arena_bytes, arena, sizeof arena), plan->again_count);
    hri_svg_label(&s, c.left, 47, 12, "#555555", "start", text);
    draw_keys(&s, &c);
    hri_chart_axes(&s, &c);
    draw_buffers(&s, &c, p, plan);
    const uint32_t turn = turning_point(p, plan);
    if (turn > 0 && turn < plan->step_count) {
        hri_chart_mark_x(&s, &c, turn, "backward pass starts", "#222222", 0);
    }
    hri_chart_mark_y(&s, &c, room, "end of the arena", "#a83232");
    hri_chart_frame(&s, &c);
    char *svg = NULL;
    return hri_svg_end(&s, &svg) == HR_OK ? svg : NULL;
}
