/* Plans: the verdict in bytes, and everything behind it.
 *
 * A plan answers "does it fit?", with yes or with no.  job.h makes plans for training and inference; hr_plan_problem
 * makes one for a problem that comes from another system.  A plan has every number that `headroom plan` prints.  If the
 * job fits, it also says what runs when and where every byte is.
 *
 *   hr_plan_summary s = {.size = sizeof s};
 *   hr_plan_get_summary(plan, &s);
 *   if (s.fits) ... s.peak_bytes, s.time_ratio ... else ... s.minimum_bytes, s.minimum_op, hr_plan_get_way() ...
 *
 * A plan covers several graphs: the whole batch, or a micro-batch and the last one; and evaluation.  They run one after
 * another in the same arena.  Each graph has values (what is computed), buffers (where a value is, and from when until
 * when) and actions (what happens, in order): run an op for the first time or again, start a copy to another memory or
 * back, wait for a copy.  Lifetimes are counted in actions, not in time.
 *
 * Strings are valid as long as the plan.  Threads: a plan is used by one thread at a time. */
#ifndef HEADROOM_PLAN_H
#define HEADROOM_PLAN_H

#include <headroom/event.h>
#include <headroom/graph.h>

HR_BEGIN_DECLS

typedef struct hr_plan hr_plan;

/* Close its trainers first.  NULL is allowed. */
HR_API void hr_plan_destroy(hr_plan *plan);

/* ---- the numbers ---- */

/* peak       = runtime + pipeline + persistent + arena
 * persistent = parameter + state (optimizer, running statistics, accumulators) + constant + other_jobs, if it fits
 * If the job does not fit, these describe the smallest plan that was found. */
typedef struct hr_plan_summary {
    size_t size;
    int32_t fits;
    int32_t proven; /* does not fit: 1 if the minimum proves it, 0 if the search found no plan */
    const char *model, *device, *precision, *optimizer; /* "" for a problem */
    int64_t batch, micro_batch;                         /* samples */
    uint32_t micro_batches;                             /* 1: batch not split */
    int32_t measured; /* 1: kernel times were measured on this device; 0: analytic model */

    uint64_t budget_bytes; /* the limit minus what others were granted; HR_UNKNOWN: none */
    uint64_t peak_bytes;
    uint64_t runtime_bytes;    /* the process before any tensor: code, stacks, context, libraries */
    uint64_t pipeline_bytes;   /* input pipelines, where they share the memory of the device */
    uint64_t persistent_bytes; /* outlives a step */
    uint64_t arena_bytes;      /* activations, gradients, workspaces, inputs */
    uint64_t parameter_bytes, state_bytes, constant_bytes, other_jobs_bytes;
    uint64_t live_bytes;        /* lower bound for any packing: most bytes alive at one action */
    uint64_t input_bytes;       /* part of arena_bytes */
    uint64_t host_bytes;        /* peak of host memory, including offloaded values */
    uint64_t host_budget_bytes; /* GPU; 0: none */
    uint64_t offloaded_bytes, spilled_bytes;
    uint64_t minimum_bytes;       /* no smaller budget has a plan */
    uint64_t unconstrained_bytes; /* every value kept until its last use, nothing recomputed */
    uint64_t
        smallest_bytes; /* the smallest budget with a plan that was found; HR_UNKNOWN: not looked for */
    uint64_t
        planning_bytes; /* host: the most that the process uses while it plans; 0: not counted */
    uint64_t recomputed_ops; /* per step */

    double step_ns;          /* predicted */
    double time_ratio;       /* over an unconstrained step */
    double time_bound_ratio; /* no plan within this budget is faster */
    int64_t largest_batch;   /* that fits without splitting; -1: not explored */

    const char *peak_op;    /* where the peak is reached */
    const char *minimum_op; /* sets the minimum: "bn1.batch_norm_relu_grad" */
    const char *minimum_kind;
    uint64_t minimum_op_bytes; /* that it needs on top of persistent values */
    const char *unsplit_op; /* depends on the whole batch and so prevents splitting; "" if none */

    uint32_t graph_count, memory_count; /* 0: without details */
    uint32_t way_count, choice_count, curve_count;
    uint32_t threads;     /* host: that it is planned for; 0: not the host */
    uint64_t fingerprint; /* of what runs and where it lies: equal plans, equal fingerprints */
    /* Custom ops (headroom/custom.h): nodes of a step that run one, gradients included, their time, and the most workspace
     * that one asks for. */
    uint32_t custom_ops, reserved;
    double custom_ns;
    uint64_t custom_workspace_bytes;
} hr_plan_summary;

HR_API HR_MUST_CHECK hr_status hr_plan_get_summary(const hr_plan *plan, hr_plan_summary *out);

/* The same job with another budget, planned and checked. */
typedef struct hr_plan_choice {
    size_t size;
    uint64_t budget_bytes, peak_bytes;
    uint64_t recomputed_ops, offloaded_bytes;
    double time_ratio;
    int32_t fits;
    uint32_t micro_batches;
} hr_plan_choice;

/* Filled by hr_job_explore; until HR_E_EOF.  Along the curve the budget rises and the time does not. */
HR_API HR_MUST_CHECK hr_status hr_plan_get_choice(const hr_plan *plan, size_t index,
                                                  hr_plan_choice *out);
HR_API HR_MUST_CHECK hr_status hr_plan_get_curve(const hr_plan *plan, size_t index,
                                                 hr_plan_choice *out);

/* A change with which a refused job fits, planned and checked.  Same order as the command prints. */
typedef struct hr_plan_way {
    size_t size;
    const char *effect;    /* "no optimizer state" */
    uint64_t budget_bytes; /* that it needs */
    uint64_t peak_bytes;
    double time_ratio;
    int32_t needs_more;     /* 1: a larger budget than the given one */
    int32_t changes_result; /* 1: a different model, batch or optimizer; never applied unasked */
    uint32_t change_count, micro_batches;
} hr_plan_way;

/* Until HR_E_EOF; none if the job fits. */
HR_API HR_MUST_CHECK hr_status hr_plan_get_way(const hr_plan *plan, size_t index, hr_plan_way *out);
/* Changes are keys of hr_job_options or of its `training` text: "batch" = "27", "momentum" = "0".  The command prints
 * them as flags, Python as keyword arguments.  Until HR_E_EOF. */
HR_API HR_MUST_CHECK hr_status hr_plan_get_way_change(const hr_plan *plan, size_t way, size_t index,
                                                      const char **key, const char **value);

/* ---- the details ----
 *
 * Only if it fits, and only until a trainer is opened: planning records count in a host budget, so opening a trainer
 * frees them.  Then these return HR_E_NOT_FOUND; the summary stays.  hr_plan_save keeps a plan. */

typedef enum hr_plan_graph_kind {
    HR_PLAN_GRAPH_WHOLE = 0,
    HR_PLAN_GRAPH_PART,
    HR_PLAN_GRAPH_LAST,
    HR_PLAN_GRAPH_EVALUATE
} hr_plan_graph_kind;

typedef struct hr_plan_graph {
    size_t size;
    const hr_graph *graph; /* frozen, owned by the plan; NULL for a problem */
    int32_t kind;          /* hr_plan_graph_kind */
    uint32_t job;
    int64_t samples;
    uint64_t runs; /* per step; 0: evaluation */
    uint64_t arena_bytes;
    double time_ns, base_time_ns; /* predicted; without recomputation and copies */
    uint32_t value_count, buffer_count, action_count, peak_action;
} hr_plan_graph;

HR_API HR_MUST_CHECK hr_status hr_plan_get_graph(const hr_plan *plan, size_t index,
                                                 hr_plan_graph *out);

/* A place for buffers.  Memory 0 is the arena. */
typedef struct hr_plan_memory {
    size_t size;
    const char *name; /* "cuda:0", "host", "file" */
    uint64_t bytes;
    double out_bytes_per_ns, in_bytes_per_ns; /* copies from and to the arena */
} hr_plan_memory;

HR_API HR_MUST_CHECK hr_status hr_plan_get_memory(const hr_plan *plan, size_t index,
                                                  hr_plan_memory *out);

#define HR_PLAN_NONE UINT32_MAX

typedef enum hr_plan_role {
    HR_PLAN_ROLE_MADE = 0, /* by an op of this graph */
    HR_PLAN_ROLE_INPUT,
    HR_PLAN_ROLE_CONSTANT,
    HR_PLAN_ROLE_PERSISTENT
} hr_plan_role;

typedef struct hr_plan_value {
    size_t size;
    const char *name;
    uint64_t bytes;
    int32_t role;      /* hr_plan_role */
    uint32_t producer; /* op number, as in hr_plan_action.op; HR_PLAN_NONE */
    hr_value value;    /* in the graph; HR_NONE for a problem */
    uint32_t made;     /* how often it is computed; above 1 it is recomputed */
} hr_plan_value;

typedef struct hr_plan_buffer {
    size_t size;
    uint64_t offset, bytes;
    uint32_t memory;      /* index for hr_plan_get_memory */
    uint32_t value;       /* what it holds first; HR_PLAN_NONE: workspace */
    uint32_t first, last; /* actions during which it exists */
} hr_plan_buffer;

typedef enum hr_plan_action_kind {
    HR_PLAN_RUN = 0, /* operands: inputs, outputs, workspace (HR_PLAN_NONE if there is none) */
    HR_PLAN_COPY,    /* starts a copy from operand 0 to operand 1 */
    HR_PLAN_WAIT     /* for the copy started by action `op` */
} hr_plan_action_kind;

typedef struct hr_plan_action {
    size_t size;
    int32_t kind;             /* hr_plan_action_kind */
    uint32_t queue;           /* 0: compute */
    const char *name;         /* "layer1.0.conv1.conv2d" */
    const char *op_kind;      /* "conv2d" */
    const char *variant;      /* of the kernel; "" if it has one only */
    uint32_t op;              /* op number */
    int32_t recomputed;       /* 1: this op has run before */
    double begin_ns, end_ns;  /* predicted, from the start of the graph */
    uint64_t live_bytes;      /* while it runs, including persistent values */
    const uint32_t *operands; /* buffers */
    uint64_t operand_count;
} hr_plan_action;

/* All until HR_E_EOF. */
HR_API HR_MUST_CHECK hr_status hr_plan_get_value(const hr_plan *plan, size_t graph, size_t index,
                                                 hr_plan_value *out);
HR_API HR_MUST_CHECK hr_status hr_plan_get_buffer(const hr_plan *plan, size_t graph, size_t index,
                                                  hr_plan_buffer *out);
HR_API HR_MUST_CHECK hr_status hr_plan_get_action(hr_plan *plan, size_t graph, size_t index,
                                                  hr_plan_action *out);

/* Proves the plan again, with the checker that shares no code with the planner.  HR_E_INVALID names action, op and
 * value. */
HR_API HR_MUST_CHECK hr_status hr_plan_check(const hr_plan *plan, hr_error *why);

/* ---- printing and saving ---- */

typedef enum hr_plan_format {
    HR_PLAN_TEXT = 0,  /* as the command prints it, without the "next" line */
    HR_PLAN_JSON,      /* as plan --json */
    HR_PLAN_CURVE_SVG, /* after hr_job_explore(HR_EXPLORE_CURVE) */
    HR_PLAN_MAP_SVG,   /* buffers over time, of the graph with the largest arena */
    HR_PLAN_PROBLEM,   /* JSON problem of the first graph, for hr_plan_problem; of a refusal too */
    HR_PLAN_DOT        /* the first graph for Graphviz; of a refusal too */
} hr_plan_format;

/* Added to a format: text with the colours of a terminal. */
enum { HR_PRINT_COLOR = 256 };

/* `columns`: width of HR_PLAN_TEXT; 0: 80.  HR_E_NOT_FOUND when the plan has no such thing: no details, no curve, no
 * graph. */
HR_API HR_MUST_CHECK hr_status hr_plan_print(hr_plan *plan, int32_t format, uint32_t columns,
                                             hr_write_fn *write, void *user);
/* Writes a file for hr_job_options.plan_file, atomically. */
HR_API HR_MUST_CHECK hr_status hr_plan_save(const hr_plan *plan, const char *path, hr_error *why);

/* Writes the page of `plan --html`: one file that a browser opens.  HR_E_NOT_FOUND: the plan has no details, because it does
 * not fit or a trainer was opened. */
HR_API HR_MUST_CHECK hr_status hr_plan_save_page(hr_plan *plan, const char *path, hr_error *why);

/* ---- planning for another system ---- */

/* Zero is the default in every field but text. */
typedef struct hr_problem_options {
    size_t size;
    const char *name; /* for messages, a path for example; NULL: "problem" */
    const char *text; /* JSON, see docs/problem-format.md */
    uint64_t text_bytes;
    const char *budget;      /* of the arena, including persistent values; NULL: unlimited */
    const char *host_budget; /* of the memory that values are offloaded to; NULL: unlimited */
    const char *plan_file;   /* use and verify a saved plan instead of searching */
    uint64_t effort;         /* search steps; 0: default */
    int32_t no_offload;
    int32_t reserved;
    hr_job_event_fn *on_event; /* ticks; may be NULL */
    void *user;
} hr_problem_options;

/* Pure: same problem and options, same plan.  HR_OK whether it fits or not.  HR_E_FORMAT, HR_E_RANGE or HR_E_INVALID
 * with the position in *why (may be NULL). */
HR_API HR_MUST_CHECK hr_status hr_plan_problem(const hr_problem_options *options, hr_plan **out,
                                               hr_error *why);

HR_END_DECLS
#endif
