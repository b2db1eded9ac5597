/* hr_plan_print: a plan in its forms, to whoever takes the text; see plan.h. */
#include "show/plan.h"

#include <string.h>

#include "job/plan_object.h"
#include "show/show.h"

typedef struct taker {
    hr_write_fn *write;
    void *user;
    hr_status status; /* the first that was not HR_OK */
} taker;

static hr_status give(const taker *t, char *text) {
    return hri_taker_give(t->write, t->user, text);
}

static hr_status print_text(const hr_plan *p, uint32_t columns, bool color, const taker *to) {
    const hri_plan_sheet sheet = {
        .job = &p->job, .answer = &p->answer, .curve = p->answer.point_count > 0};
    hri_taker t;
    const hr_status status = hri_taker_begin(&t, to->write, to->user, columns, color);
    return status == HR_OK ? hri_taker_end(&t, hri_plan_print_text(&sheet, t.out, &t.term))
                           : status;
}

static hr_status print_json(const hr_plan *p, const taker *t) {
    const hri_plan_sheet sheet = {.job = &p->job, .answer = &p->answer};
    hri_json json;
    hri_json_init(&json);
    hri_json_u64(&json, "version", 1);
    const hr_status status = hri_plan_print_json(&sheet, &json);
    return hri_taker_give_json(t->write, t->user, &json, status);
}

static hr_status print_map(const hr_plan *p, taker *t) {
    const hri_problem *problem;
    const hri_plan *plan = hri_plan_of(p, p->job.is_problem ? 0 : p->plans.peak_piece, &problem);
    return plan ? give(t, hri_plan_print_map(&p->job, problem, plan)) : HR_E_NOT_FOUND;
}

/* The case that was planned, or that of the whole batch. */
static hr_status case_of(hr_plan *p, hri_fit_case **out) {
    hri_prose why = {0};
    if (p->used) {
        return HR_E_NOT_FOUND;
    }
    *out = p->plans.c;
    return *out ? HR_OK : hri_fit_case_get(&p->job.fit, p->job.job.batch, out, &why);
}

static hr_status print_problem(hr_plan *p, taker *t) {
    char *text = NULL;
    hri_fit_case *c = NULL;
    hr_status status = p->job.is_problem ? HR_OK : case_of(p, &c);
    if (status == HR_OK) {
        status = hri_problem_print(c ? &c->pieces[0].x.problem : &p->job.problem, &text);
    }
    return status == HR_OK ? give(t, text) : status;
}

static void take_piece(void *user, const char *text) {
    taker *t = user;
    t->status = t->status == HR_OK ? t->write(t->user, text, strlen(text)) : t->status;
}

static hr_status print_dot(hr_plan *p, taker *t) {
    hri_fit_case *c = NULL;
    const hr_status status = p->job.is_problem ? HR_E_NOT_FOUND : case_of(p, &c);
    if (status != HR_OK) {
        return status;
    }
    hr_graph_print(c->pieces[0].g, HR_GRAPH_DOT, take_piece, t);
    return t->status;
}

hr_status hr_plan_print(hr_plan *p, int32_t format, uint32_t columns, hr_write_fn *write,
                        void *user) {
    taker t = {.write = write, .user = user};
    switch (format & ~HR_PRINT_COLOR) {
    case HR_PLAN_TEXT:
        return print_text(p, columns, (format & HR_PRINT_COLOR) != 0, &t);
    case HR_PLAN_JSON:
        return print_json(p, &t);
    case HR_PLAN_CURVE_SVG:
        return p->answer.point_count ? give(&t, hri_plan_print_svg(&p->job, &p->answer))
                                     : HR_E_NOT_FOUND;
    case HR_PLAN_MAP_SVG:
        return print_map(p, &t);
    case HR_PLAN_PROBLEM:
        return print_problem(p, &t);
    case HR_PLAN_DOT:
        return print_dot(p, &t);
    default:
        return HR_E_INVALID;
    }
}
