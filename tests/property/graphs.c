/* Random graphs: differentiated, run by the interpreter, and compared with a naive interpreter in double.
 *
 * Nothing here knows an op by name.  Every op with a gradient joins by its own cases: a case says which shapes, which
 * attributes and which range of numbers the op takes; the inputs are cut, repeated and squashed from values that the
 * graph already has, so ops feed one another in any order.  Three things must hold:
 *   values and gradients in f32 are those in double, within a tolerance;
 *   the gradient along a random direction is the difference quotient of the loss, all in double;
 *   one thread and three threads give the same bits.
 *
 * Close to a kink (relu at 0, ties of max) f32 and double may rightly take different sides, so a graph fails only when
 * it fails for three draws of its parameters.  A failing graph is shrunk by leaving out nodes as long as it still fails;
 * the seed, the nodes left and the text of the graph are printed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref.h"
#include "run/interpret.h"
#include "test.h"

enum { NODES = 8, POOL = 64, PARAMS = 2, RECIPES = 2048, ELEMENTS = 700, DRAWS = 3 };

/* An op, one of its cases, and its inputs. */
typedef struct recipe {
    const hr_op *op;
    const hri_case *c;
    uint32_t count;
    hr_meta in[HRI_IN_MAX];
    uint32_t flows; /* bit i: the op has a gradient for input i; the others get constants */
} recipe;

static recipe recipes[RECIPES];
static size_t recipe_count;

/* What makes one graph, and makes it again. */
typedef struct script {
    uint64_t seed;
    uint32_t nodes;
    uint32_t left_out;   /* bit i: node i is */
    const recipe *first; /* of node 0, or NULL: any */
} script;

typedef struct life {
    hr_graph *g;
    uint64_t random;
    hr_value param[PARAMS], grad[PARAMS], loss;
    hr_value pool[POOL];
    uint32_t pooled;
} life;

static double uniform(uint64_t *state, double low, double high) {
    return low + (high - low) * (double)(test_random(state) >> 11) * 0x1p-53;
}

/* ---- recipes ---- */

static int fits(const hr_op *op, const hri_case *c, recipe *r) {
    int64_t elements = 0;
    int real = 0;
    if (!op->grad || c->flags || op->updates[0]) {
        return 0;
    }
    *r = (recipe){.op = op, .c = c};
    r->count = ref_parse(c->in, r->in);
    for (uint32_t i = 0; i < r->count; i++) {
        const int64_t n = hr_shape_count(&r->in[i].shape);
        const int is_real = hr_type_is_real(r->in[i].type);
        if (n == 0 || (is_real && r->in[i].type != HR_TYPE_F32)) {
            return 0;
        }
        real |= is_real;
        elements += n;
    }
    return real && elements <= ELEMENTS;
}

/* Asks the op's own rule which inputs have a gradient: statistics and labels may have none. */
static uint32_t flows_of(const recipe *r) {
    hr_value in[HRI_IN_MAX], wrt[HRI_IN_MAX], grad[HRI_IN_MAX], loss = HR_NONE;
    uint32_t at[HRI_IN_MAX], count = 0, flows = 0;
    hr_graph *g;
    CHECK_OK(hr_graph_create(&g));
    for (uint32_t i = 0; i < r->count; i++) {
        const char name[2] = {(char)('a' + i), 0};
        in[i] = hr_graph_param(g, name, r->in[i].type, r->in[i].shape, hr_init_constant(0));
        if (hr_type_is_real(r->in[i].type)) {
            at[count] = i;
            wrt[count++] = in[i];
        }
    }
    const hr_value y = hr_graph_node(g, r->op->name, in, r->count, r->c->attributes);
    for (uint32_t k = 0; k < r->op->out_count; k++) {
        hr_value term = hr_graph_output(g, y, k);
        if (!(r->op->aux >> k & 1) && hr_graph_meta(g, term).type == HR_TYPE_F32) {
            term = hr_graph_node(g, "sum", &term, 1, NULL);
            loss = loss == HR_NONE
                       ? term
                       : hr_graph_node(g, "add", (const hr_value[]){loss, term}, 2, NULL);
        }
    }
    CHECK_OK(hr_graph_differentiate(g, loss, HR_NONE, wrt, count, grad));
    for (uint32_t i = 0; i < count; i++) {
        flows |= (uint32_t)(grad[i] != HR_NONE) << at[i];
    }
    hr_graph_destroy(g);
    return flows;
}

static void list_recipes(void) {
    for (size_t i = 0; hr_ops[i]; i++) {
        for (const hri_case *c = hr_ops[i]->cases; c->name && recipe_count < RECIPES; c++) {
            recipe *r = &recipes[recipe_count];
            if (fits(hr_ops[i], c, r)) {
                r->flows = flows_of(r);
                recipe_count++;
            }
        }
    }
    CHECK(recipe_count > 0 && recipe_count < RECIPES);
}

/* ---- building ---- */

static hr_value numbers(life *l, hr_shape shape, double low, double high) {
    const int64_t n = hr_shape_count(&shape);
    float *data = malloc((size_t)n * sizeof *data);
    for (int64_t i = 0; i < n; i++) {
        data[i] = (float)uniform(&l->random, low, high);
    }
    const hr_value v = hr_graph_constant(l->g, HR_TYPE_F32, shape, data);
    free(data);
    return v;
}

static hr_value ids(life *l, const hr_meta *m, int64_t below) {
    const int64_t n = hr_shape_count(&m->shape);
    int64_t *data = malloc((size_t)n * sizeof *data); /* wide enough for every type */
    for (int64_t i = 0; i < n; i++) {
        ref_store(m->type, data, i,
                  (double)(test_random(&l->random) % (uint64_t)(below ? below : 10)));
    }
    const hr_value v = hr_graph_constant(l->g, m->type, m->shape, data);
    free(data);
    return v;
}

static hr_value with(life *l, const char *op, hr_value x, const char *format, long long a,
                     long long b) {
    char text[128];
    snprintf(text, sizeof text, format, a, b);
    return hr_graph_node(l->g, op, &x, 1, text);
}

static hr_value reshaped(life *l, hr_value x, const hr_shape *shape) {
    char text[256] = "to=";
    for (int d = 0; d < shape->rank; d++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%lld", d ? "x" : "",
                 (long long)shape->dim[d]);
    }
    return hr_graph_node(l->g, "reshape", &x, 1, text);
}

/* A value of the pool, brought to a shape and into a range. */
static hr_value fitted(life *l, const hr_shape *shape, const hri_case *c) {
    hr_value x = l->pool[test_random(&l->random) % l->pooled];
    const hr_meta from = hr_graph_meta(l->g, x);
    const int64_t have = hr_shape_count(&from.shape), want = hr_shape_count(shape);
    x = with(l, "reshape", x, "to=%lld", have, 0);
    if (have > want) {
        const int64_t begin = (int64_t)(test_random(&l->random) % (uint64_t)(have - want + 1));
        x = with(l, "slice", x, "begin=%lld,size=%lld", begin, want);
    } else if (have < want) {
        const int64_t times = (want + have - 1) / have;
        x = with(l, "broadcast_to", x, "to=%lldx%lld", times, have);
        x = with(l, "reshape", x, "to=%lld", times * have, 0);
        x = with(l, "slice", x, "begin=%lld,size=%lld", 0, want);
    }
    const hr_shape flat = {.rank = 1, .dim = {want}};
    const hr_value noise = numbers(l, flat, -0.7, 0.7); /* nothing repeats exactly */
    x = hr_graph_node(l->g, "add", (const hr_value[]){x, noise}, 2, NULL);
    x = hr_graph_node(l->g, "tanh", &x, 1, NULL);
    if (c->low != c->high) {
        char text[96];
        /* a range of millions would cancel all digits of what lies at its lower end */
        const double low = c->low, high = c->high - low < 200.0 ? c->high : low + 200.0;
        snprintf(text, sizeof text, "scale=%.9g,shift=%.9g", (high - low) / 2, (high + low) / 2);
        x = hr_graph_node(l->g, "affine", &x, 1, text);
    }
    return reshaped(l, x, shape);
}

static void grow(life *l, const recipe *r) {
    hr_value in[HRI_IN_MAX];
    for (uint32_t i = 0; i < r->count; i++) {
        const int any = r->c->low == r->c->high;
        in[i] = !hr_type_is_real(r->in[i].type) ? ids(l, &r->in[i], r->c->ids)
                : r->flows >> i & 1u
                    ? fitted(l, &r->in[i].shape, r->c)
                    : numbers(l, r->in[i].shape, any ? -1.0 : r->c->low, any ? 1.0 : r->c->high);
    }
    const hr_value y = hr_graph_node(l->g, r->op->name, in, r->count, r->c->attributes);
    for (uint32_t k = 0; k < r->op->out_count && l->pooled < POOL; k++) {
        const hr_value out = hr_graph_output(l->g, y, k);
        const hr_meta m = hr_graph_meta(l->g, out);
        if (out != HR_NONE && !(r->op->aux >> k & 1) && m.type == HR_TYPE_F32 &&
            hr_shape_count(&m.shape) > 0) {
            l->pool[l->pooled++] = out;
        }
    }
}

/* The loss weighs every value that a node has put into the pool. */
static void close_graph(life *l) {
    for (uint32_t i = PARAMS; i < l->pooled; i++) {
        const hr_value weight = numbers(l, hr_graph_meta(l->g, l->pool[i]).shape, -1.0, 1.0);
        hr_value term = hr_graph_node(l->g, "mul", (const hr_value[]){l->pool[i], weight}, 2, NULL);
        term = hr_graph_node(l->g, "sum", &term, 1, NULL);
        l->loss = l->loss == HR_NONE
                      ? term
                      : hr_graph_node(l->g, "add", (const hr_value[]){l->loss, term}, 2, NULL);
    }
}

/* NULL when nothing was left to build. */
static hr_graph *build(const script *s, life *l) {
    static const hr_shape shapes[PARAMS] = {{2, {3, 5}}, {1, {20}}};
    *l = (life){.random = s->seed};
    CHECK_OK(hr_graph_create(&l->g));
    for (uint32_t i = 0; i < PARAMS; i++) {
        l->param[i] =
            hr_graph_param(l->g, i ? "b" : "a", HR_TYPE_F32, shapes[i], hr_init_constant(0));
        l->pool[l->pooled++] = l->param[i];
    }
    for (uint32_t i = 0; i < s->nodes; i++) {
        uint64_t own = s->seed * 1000003 + i;
        l->random = test_random(&own);
        const recipe *r = &recipes[test_random(&l->random) % recipe_count];
        if (!(s->left_out >> i & 1u)) {
            grow(l, i == 0 && s->first ? s->first : r);
        }
    }
    close_graph(l);
    if (l->loss == HR_NONE) {
        hr_graph_destroy(l->g);
        return NULL;
    }
    hr_graph_result(l->g, l->loss, "loss");
    hr_error error;
    hr_status status = hr_graph_differentiate(l->g, l->loss, HR_NONE, l->param, PARAMS, l->grad);
    for (uint32_t i = 0; status == HR_OK && i < PARAMS; i++) {
        if (l->grad[i] != HR_NONE) {
            hr_graph_result(l->g, l->grad[i], i ? "db" : "da");
        }
    }
    status = status == HR_OK ? hr_graph_freeze(l->g) : status;
    hr_graph_error(l->g, &error);
    test_count_check();
    if (status != HR_OK) {
        test_fail(__FILE__, __LINE__, "seed %llu: %.900s", (unsigned long long)s->seed,
                  error.message);
    }
    return l->g;
}

/* ---- comparing; each gives 0 and a reason in `why` when it does not hold ---- */

typedef struct numbers_of {
    float *value[PARAMS];
    int64_t count[PARAMS];
} numbers_of;

static int agree(hri_interp *it, const naive *n, const life *l, char *why, size_t size) {
    for (int i = -1; i < PARAMS; i++) {
        const hr_value v = i < 0 ? l->loss : l->grad[i];
        const hr_meta m = hr_graph_meta(l->g, v);
        double largest = 1e-2;
        for (int64_t k = 0; v != HR_NONE && k < hr_shape_count(&m.shape); k++) {
            largest = fmax(largest, fabs(n->data[v][k]));
        }
        for (int64_t k = 0; v != HR_NONE && k < hr_shape_count(&m.shape); k++) {
            const double is = (double)((const float *)hri_interp_data(it, v))[k];
            const double want = n->data[v][k];
            test_count_check();
            if (is != want && !(fabs(is - want) <= 2e-3 * largest)) {
                snprintf(why, size, "%s[%lld] is %.8g, in double %.8g",
                         i < 0 ? "loss" : (i ? "db" : "da"), (long long)k, is, want);
                return 0;
            }
        }
    }
    return 1;
}

static void set_params(naive *n, const life *l, const numbers_of *x, const numbers_of *way,
                       double step) {
    for (uint32_t i = 0; i < PARAMS; i++) {
        for (int64_t k = 0; k < x->count[i]; k++) {
            n->data[l->param[i]][k] =
                (double)x->value[i][k] + step * (double)(way ? way->value[i][k] : 0.0f);
        }
    }
}

static int slope_holds(naive *n, const life *l, const numbers_of *x, const numbers_of *way,
                       char *why, size_t size) {
    const double h = 1e-6;
    double slope = 0.0, scale = 1e-2;
    for (uint32_t i = 0; i < PARAMS; i++) {
        for (int64_t k = 0; l->grad[i] != HR_NONE && k < x->count[i]; k++) {
            const double part = n->data[l->grad[i]][k] * (double)way->value[i][k];
            slope += part;
            scale += fabs(part);
        }
    }
    set_params(n, l, x, way, h);
    naive_run(n, 7, 1);
    const double up = n->data[l->loss][0];
    set_params(n, l, x, way, -h);
    naive_run(n, 7, 1);
    const double want = (up - n->data[l->loss][0]) / (2 * h);
    test_count_check();
    if (!(fabs(slope - want) <= 1e-4 * scale)) {
        snprintf(why, size, "the slope is %.8g, differences say %.8g", slope, want);
        return 0;
    }
    return 1;
}

static int same_bits(hri_interp *a, hri_interp *b, const life *l, char *why, size_t size) {
    for (uint32_t i = 0; i < PARAMS; i++) {
        const hr_meta m = hr_graph_meta(l->g, l->grad[i]);
        test_count_check();
        if (l->grad[i] != HR_NONE && memcmp(hri_interp_data(a, l->grad[i]),
                                            hri_interp_data(b, l->grad[i]), hr_meta_bytes(&m))) {
            snprintf(why, size, "three threads give other bits than one");
            return 0;
        }
    }
    return 1;
}

static numbers_of draw(const life *l, uint64_t *random) {
    numbers_of x;
    for (uint32_t i = 0; i < PARAMS; i++) {
        const hr_meta m = hr_graph_meta(l->g, l->param[i]);
        x.count[i] = hr_shape_count(&m.shape);
        x.value[i] = malloc((size_t)x.count[i] * sizeof(float));
        for (int64_t k = 0; k < x.count[i]; k++) {
            x.value[i][k] = (float)uniform(random, -1.0, 1.0);
        }
    }
    return x;
}

static void forget(numbers_of *x) {
    for (uint32_t i = 0; i < PARAMS; i++) {
        free(x->value[i]);
    }
}

/* One draw of the parameters. */
static int holds_once(const life *l, uint64_t *random, char *why, size_t size) {
    numbers_of x = draw(l, random), way = draw(l, random);
    hri_threads *three;
    hri_interp *one_it, *three_it;
    naive n;
    CHECK_OK(hri_threads_create(3, &three));
    CHECK_OK(hri_interp_create(l->g, NULL, 7, &one_it));
    CHECK_OK(hri_interp_create(l->g, three, 7, &three_it));
    naive_init(&n, l->g);
    for (uint32_t i = 0; i < PARAMS; i++) {
        const size_t bytes = (size_t)x.count[i] * sizeof(float);
        memcpy(hri_interp_data(one_it, l->param[i]), x.value[i], bytes);
        memcpy(hri_interp_data(three_it, l->param[i]), x.value[i], bytes);
    }
    CHECK_OK(hri_interp_run(one_it, 1, NULL));
    CHECK_OK(hri_interp_run(three_it, 1, NULL));
    set_params(&n, l, &x, NULL, 0.0);
    naive_run(&n, 7, 1);
    const int holds = agree(one_it, &n, l, why, size) &&
                      same_bits(one_it, three_it, l, why, size) &&
                      slope_holds(&n, l, &x, &way, why, size);
    naive_deinit(&n);
    hri_interp_destroy(one_it);
    hri_interp_destroy(three_it);
    hri_threads_destroy(three);
    forget(&x);
    forget(&way);
    return holds;
}

static int holds(const script *s, char *why, size_t size) {
    life l;
    uint64_t random = s->seed ^ 0x9e3779b97f4a7c15u;
    int held = 0;
    if (!build(s, &l)) {
        return 1;
    }
    for (int i = 0; i < DRAWS && !held; i++) {
        held = holds_once(&l, &random, why, size);
    }
    hr_graph_destroy(l.g);
    return held;
}

/* ---- shrinking ---- */

static void put_text(void *user, const char *text) {
    (void)user;
    fputs(text, stdout);
}

static void check_script(script s) {
    char why[256] = "";
    if (holds(&s, why, sizeof why)) {
        return;
    }
    for (uint32_t i = 0; i < s.nodes; i++) {
        script fewer = s;
        char other[256];
        fewer.left_out |= 1u << i;
        if (!holds(&fewer, other, sizeof other)) {
            s = fewer;
            memcpy(why, other, sizeof why);
        }
    }
    life l;
    if (build(&s, &l)) {
        hr_graph_print(l.g, HR_GRAPH_TEXT, put_text, NULL);
        hr_graph_destroy(l.g);
    }
    test_fail(__FILE__, __LINE__,
              "%s; --seed %llu: graph seed %llu, %u nodes without 0x%x, first %s \"%s\"", why,
              (unsigned long long)test_seed(), (unsigned long long)s.seed, s.nodes, s.left_out,
              s.first ? s.first->op->name : "any", s.first ? s.first->c->name : "");
}

/* ---- the properties ---- */

TEST(graphs, every_op_with_a_gradient_composes_with_others) {
    list_recipes();
    const hr_op *last = NULL;
    int ops = 0;
    for (size_t i = 0; i < recipe_count; i++) {
        ops += recipes[i].op != last;
        last = recipes[i].op;
        check_script((script){.seed = test_seed() + 31 * i, .nodes = 3, .first = &recipes[i]});
    }
    printf("        %d ops, %zu recipes\n", ops, recipe_count);
}

TEST(graphs, random_graphs_are_what_double_precision_says) {
    list_recipes();
    for (uint64_t i = 0; i < 600; i++) {
        uint64_t state = test_seed() * 7919 + i;
        const uint64_t seed = test_random(&state);
        check_script((script){.seed = seed, .nodes = 1 + (uint32_t)(seed % NODES)});
    }
}
