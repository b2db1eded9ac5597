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

/* One of two or many, by the memory of its operands. */
typedef struct member {
    uint32_t in[HRI_IN_MAX], out[HRI_OUT_MAX];
} member;

/* Is input i read in another place as well, where the output must not lie over it? */
static int read_elsewhere(const hri_problem_op *op, uint64_t overwrite, uint32_t i) {
    int other = 0;
    for (uint32_t j = 0; j < op->in_count; j++) {
        other |=
            op->in[j] == op->in[i] && (j >= HRI_PROBLEM_OVERWRITE_MAX || !(overwrite >> j & 1));
    }
    return other;
}

/* Outputs have the number of an input where they may lie over it and it dies, the latest made of them, as plans have it. */
static void number_outputs(const hri_problem *p, uint32_t n, member *x) {
    const hri_problem_op *op = &p->ops[n];
    uint64_t taken = 0;
    for (uint32_t k = 0; k < op->out_count; k++) {
        const uint64_t mask = op->out[k].overwrite;
        uint32_t best = HRI_PROBLEM_NONE;
        x->out[k] = op->out[k].value;
        for (uint32_t i = 0; i < op->in_count && i < HRI_PROBLEM_OVERWRITE_MAX; i++) {
            if ((mask & ~taken) >> i & 1 && dies_in(p, op->in[i], n) &&
                !read_elsewhere(op, mask, i) &&
                (best == HRI_PROBLEM_NONE ||
                 p->values[op->in[i]].producer > p->values[op->in[best]].producer)) {
                best = i;
            }
        }
        if (best != HRI_PROBLEM_NONE) {
            x->out[k] = x->in[best];
            taken |= UINT64_C(1) << best;
        }
    }
}

/* Op n, after op m where `before` is that one: what n reads of it lies where m's output does, which may be over m's input. */
static void number(const hri_problem *p, uint32_t n, uint32_t m, const member *before, member *x) {
    for (uint32_t i = 0; i < p->ops[n].in_count; i++) {
        x->in[i] = p->ops[n].in[i];
        for (uint32_t k = 0; before && k < p->ops[m].out_count; k++) {
            x->in[i] = p->ops[m].out[k].value == p->ops[n].in[i] ? before->out[k] : x->in[i];
        }
    }
    number_outputs(p, n, x);
}

/* What op n saves where it is the third of one launch, beside what the two before it save; 0 where that is not known. */
static double saved_by_third(const company *c, uint32_t n, int *known) {
    const uint32_t m = c->p->ops[n].after - 1, first = c->p->ops[m].after - 1;
    member x[3];
    number(c->p, first, 0, NULL, &x[0]);
    number(c->p, m, first, &x[0], &x[1]);
    number(c->p, n, m, &x[1], &x[2]);
    const hri_trial_op ops[3] = {{sig_of(c, first), x[0].in, x[0].out},
                                 {sig_of(c, m), x[1].in, x[1].out},
                                 {sig_of(c, n), x[2].in, x[2].out}};
    const double time = c->job->together_ns(c->job->time_user, ops, 3);
    *known = time > 0;
    return *known ? alone(c, first) + c->time_ns[m] + alone(c, n) - time : 0;
}

/* What ops m and n save as neighbours; 0 where that is not known. */
static double saved_by(const company *c, uint32_t m, uint32_t n, int *known) {
    member x[2];
    number(c->p, m, 0, NULL, &x[0]);
    number(c->p, n, m, &x[0], &x[1]);
    const hri_trial_op ops[2] = {{sig_of(c, m), x[0].in, x[0].out},
                                 {sig_of(c, n), x[1].in, x[1].out}};
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
        const double saved =
            op->third ? saved_by_third(c, n, &known) : saved_by(c, op->after - 1, n, &known);
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

/* The ops of the first one's kind; `ops` and `members` have room for all. */
static void measure_many(company *c, uint32_t first, hri_trial_op *ops, member *members) {
    const hri_problem *p = c->p;
    uint32_t count = 0, used = 0;
    double bytes = 0;
    for (uint32_t n = first; n < p->op_count; n++) {
        if (p->ops[n].many == p->ops[first].many) {
            member *x = &members[count];
            number(p, n, 0, NULL, x);
            ops[count++] = (hri_trial_op){sig_of(c, n), x->in, x->out};
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
    member *members = hri_calloc(count, sizeof *members);
    uint32_t seen = 0;
    for (uint32_t n = 0; ops && members && n < c->p->op_count; n++) {
        if (c->p->ops[n].many > seen) { /* the adaptor counts them from 1 on */
            seen = c->p->ops[n].many;
            measure_many(c, n, ops, members);
        }
    }
    const hr_status status = ops && members ? HR_OK : HR_E_NOMEM_HOST;
    hri_free(ops);
    hri_free(members);
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
