/* What ops take together, measured and put into a problem: see hri_fit_company in fit_int.h.
 *
 * The adaptor says who may go with whom (`joins`, `beside`, `after` and `many` of plan/problem.h); here each such pair and
 * each such crowd is timed as a step launches it, on operands that share memory as they would in a plan.  What a pair saves
 * is what both take alone less what it takes; a crowd's time is shared by the bytes that each touches. */
#include "fit/fit_int.h"

typedef struct company {
    const hri_fit_job *job;
    const hr_graph *g;
    const hri_problem *p;
    double *time_ns; /* by op: as it is to be */
    hri_problem_company *with;
} company;

static double alone(const company *c, uint32_t n) {
    return c->p->ops[n].variants[0].time_ns;
}

static const hri_sig *sig_of(const company *c, uint32_t n) {
    return &c->g->nodes[c->p->ops[n].id].sig;
}

/* ---- two ---- */

/* Does the value die where op n reads it? */
static int dies_in(const hri_problem *p, uint32_t v, uint32_t n) {
    const hri_problem_value *value = &p->values[v];
    return value->role == HRI_ROLE_MADE && value->root == v && !value->result && value->use_count &&
           p->uses[value->use_first + value->use_count - 1] == n;
}

/* Outputs by number: that of an input where they may lie over it and it dies, the latest made of them, as plans have it. */
static void number_outputs(const hri_problem *p, uint32_t n, uint32_t *out) {
    const hri_problem_op *op = &p->ops[n];
    uint64_t taken = 0;
    for (uint32_t k = 0; k < op->out_count; k++) {
        uint32_t best = HRI_PROBLEM_NONE;
        out[k] = op->out[k].value;
        for (uint32_t i = 0; i < op->in_count && i < HRI_PROBLEM_OVERWRITE_MAX; i++) {
            if ((op->out[k].overwrite & ~taken) >> i & 1 && dies_in(p, op->in[i], n) &&
                (best == HRI_PROBLEM_NONE ||
                 p->values[op->in[i]].producer > p->values[op->in[best]].producer)) {
                best = i;
            }
        }
        if (best != HRI_PROBLEM_NONE) {
            out[k] = op->in[best];
            taken |= UINT64_C(1) << best;
        }
    }
}

/* What ops m and n save as neighbours; 0 where that is not known. */
static double saved_by(const company *c, uint32_t m, uint32_t n, int *known) {
    uint32_t out[2][HRI_OUT_MAX];
    number_outputs(c->p, m, out[0]);
    number_outputs(c->p, n, out[1]);
    const hri_trial_op ops[2] = {{sig_of(c, m), c->p->ops[m].in, out[0]},
                                 {sig_of(c, n), c->p->ops[n].in, out[1]}};
    const double time = c->job->together_ns(c->job->time_user, ops, 2);
    *known = time > 0;
    return *known ? alone(c, m) + alone(c, n) - time : 0;
}

static double share(double part, double whole) {
    return part <= 0 || whole <= 0 ? 0 : part < whole ? part / whole : 1;
}

static void measure_pairs(company *c, uint32_t n) {
    const hri_problem_op *op = &c->p->ops[n];
    const uint32_t maker = hri_problem_joined(c->p, n);
    int known = 0;
    if (maker != HRI_PROBLEM_NONE) {
        const double saved = saved_by(c, maker, n, &known);
        c->with[n].joins = known ? share(saved, alone(c, maker)) : op->joins;
    }
    if (op->beside) {
        const double saved = saved_by(c, op->beside - 1, n, &known);
        c->with[n].beside_share = known ? share(saved, alone(c, op->beside - 1)) : op->beside_share;
    }
    if (op->after) {
        const double saved = saved_by(c, op->after - 1, n, &known);
        const double most = saved < alone(c, n) ? saved : alone(c, n);
        c->time_ns[n] = alone(c, n) - (known ? most : 0); /* more, where together is slower */
        c->with[n].alone_ns = known && most > 0 ? most : 0;
    }
}

/* ---- many ---- */

static double bytes_of(const hri_sig *s) {
    double bytes = 1;
    for (uint32_t i = 0; i < s->in_count + s->out_count; i++) {
        bytes += (double)hr_meta_bytes(i < s->in_count ? &s->in[i] : &s->out[i - s->in_count]);
    }
    return bytes;
}

/* The ops of the first one's kind; `ops` and `out` have room for all. */
static void measure_many(company *c, uint32_t first, hri_trial_op *ops, uint32_t *out) {
    const hri_problem *p = c->p;
    uint32_t count = 0, used = 0;
    double bytes = 0;
    for (uint32_t n = first; n < p->op_count; n++) {
        if (p->ops[n].many == p->ops[first].many) {
            uint32_t *numbers = out + (size_t)count * HRI_OUT_MAX;
            number_outputs(p, n, numbers);
            ops[count++] = (hri_trial_op){sig_of(c, n), p->ops[n].in, numbers};
        }
    }
    const double time = c->job->many_ns(c->job->time_user, ops, count, &used);
    for (uint32_t i = 0; i < used; i++) {
        bytes += bytes_of(ops[i].sig);
    }
    for (uint32_t n = first; n < p->op_count && time > 0; n++) {
        if (p->ops[n].many == p->ops[first].many) {
            const double mine = time * bytes_of(sig_of(c, n)) / bytes;
            c->time_ns[n] = mine;
            c->with[n].alone_ns = alone(c, n) > mine ? alone(c, n) - mine : 0;
        }
    }
}

static hr_status measure_crowds(company *c) {
    const size_t count = (size_t)c->p->op_count + 1;
    hri_trial_op *ops = hri_calloc(count, sizeof *ops);
    uint32_t *out = hri_calloc(count * HRI_OUT_MAX, sizeof *out), seen = 0;
    for (uint32_t n = 0; ops && out && n < c->p->op_count; n++) {
        if (c->p->ops[n].many > seen) { /* the adaptor counts them from 1 on */
            seen = c->p->ops[n].many;
            measure_many(c, n, ops, out);
        }
    }
    const hr_status status = ops && out ? HR_OK : HR_E_NOMEM_HOST;
    hri_free(ops);
    hri_free(out);
    return status;
}

/* ---- into the problem ---- */

static double new_time(void *user, const hri_problem_op *op, uint32_t variant) {
    const company *c = user;
    return variant == 0 ? c->time_ns[op - c->p->ops] : -1;
}

static void new_company(void *user, uint32_t op, hri_problem_company *out) {
    const company *c = user;
    *out = c->with[op];
}

hr_status hri_fit_company(const hri_fit_job *job, const hr_graph *g, hri_problem *p, int set) {
    company c = {.job = job, .g = g, .p = p};
    if (!job->time_ns || !job->together_ns || !job->many_ns || !job->engine) {
        return HR_OK;
    }
    c.time_ns = hri_calloc((size_t)p->op_count + 1, sizeof *c.time_ns);
    c.with = hri_calloc((size_t)p->op_count + 1, sizeof *c.with);
    hr_status status = c.time_ns && c.with ? HR_OK : HR_E_NOMEM_HOST;
    for (uint32_t n = 0; n < p->op_count && status == HR_OK; n++) {
        const hri_problem_op *op = &p->ops[n];
        c.time_ns[n] = alone(&c, n);
        c.with[n] = (hri_problem_company){op->alone_ns, op->joins, op->beside_share};
        measure_pairs(&c, n);
    }
    status = status == HR_OK ? measure_crowds(&c) : status;
    if (status == HR_OK && set) {
        hri_problem_retime(p, new_time, &c);
        hri_problem_recompany(p, new_company, &c);
    }
    hri_free(c.time_ns);
    hri_free(c.with);
    return status;
}
