/* Between the files that build the graph of a step; see headroom/train.h.
 *
 *   step.c      model, precision, gradients, sums, factor, updates
 *   update.c    the update of one parameter, and its states
 *   prune.c     masks of parameters that are pruned
 *   replica.c   the same cut in two where several replicas share a step: gradients of one part, and folding them in
 *   round.c     the same in one graph, where each replica folds a slice of every gradient: exchanged, folded, updated
 *   bucket.c    exchanges and gathers of it, small tensors together
 *   head.c      the loss of a language model with its gradients
 *   turn.c      weights of products with a bias, turned where they are cast */
#ifndef HRI_STEP_STEP_INT_H
#define HRI_STEP_STEP_INT_H

#include <headroom/train.h>
#include "graph/graph.h"
#include "passes/common/pass.h"
#include "step/shard.h"

enum { HRI_STEP_PIECES = 16, HRI_STEP_RATES = 16 };

typedef struct hri_step_maker {
    const hr_train_options *o;
    hr_step_kind kind;
    const hri_shard
        *shard; /* of ROUND, ROUND_LAST and their EVALUATE; NULL: nothing is in slices */
    hr_graph *g;
    hri_pass_map map; /* of the pass `precision` */
    hr_value loss;
    size_t count; /* trainable parameters that the loss depends on, after differentiate */
    hr_value *params, *reads, *grads;
    hr_value rate, update, scale, weight, first, factor; /* HR_NONE: not needed */
    hr_value one, zero, average;                         /* constants, made when needed */
    struct {
        double factor;
        hr_value value;
    } rates[HRI_STEP_RATES]; /* those of layers with a rate of their own, made when needed */
    size_t rate_count;
} hri_step_maker;

hr_value hri_step_constant(hri_step_maker *m, hr_value *kept, double number);
hr_value hri_step_input(hri_step_maker *m, const char *name);
/* The summands of a gradient, `most` of them: those of the "add" nodes that made it.  Returns their number. */
size_t hri_step_pieces(const hr_graph *g, hr_value grad, hr_value *pieces, size_t count,
                       size_t most);
/* Every persistent value of `from` in a new graph, under the same name.  On failure the new graph has the reason. */
void hri_step_copy_values(const hr_graph *from, hr_graph *to);
/* Casts of weights that products with a bias read become turned ones, and all their readers read them so. */
HR_MUST_CHECK hr_status hri_step_turn_weights(hr_graph *g);
/* From m->grads on: sums or velocities, and the update where the kind has one. */
void hri_step_add_up(hri_step_maker *m);

/* "<param>.<what>", like the parameter (or its slice), zeros, f32; or of another shape. */
hr_value hri_step_state(hri_step_maker *m, hr_value param, const char *what, hr_keep keep);
hr_value hri_step_state_of(hri_step_maker *m, hr_value param, const char *what, hr_keep keep,
                           hr_shape shape);
/* Do gradients go into velocities as they come? */
int hri_step_feeds_velocity(const hri_step_maker *m);
/* Gradients that are complete are 0 where their parameter is pruned, and within clip_value. */
void hri_step_mask_gradients(hri_step_maker *m);
int hri_step_is_pruned(const hri_step_maker *m, hr_value param);
/* Is any of them? */
int hri_step_prunes(const hri_step_maker *m);
/* Behind the update of param, which gave `now` and the optimizer's states: now and then another mask.  whole: all of what
 * `now` is a slice of; HR_NONE: it is no slice.  Returns what `now` became. */
hr_value hri_step_prune(hri_step_maker *m, hr_value param, hr_value now, hr_value whole);
/* Behind all of it, whole: its average, where it has one. */
void hri_step_average(hri_step_maker *m, hr_value param, hr_value now);
/* The update of one parameter of so many elements, or of a slice of it: its new value.  `now` is the value that w, which
 * names it, has now. */
hr_value hri_step_update(hri_step_maker *m, hr_value w, int64_t elements, hr_value now,
                         hr_value grad);
/* The last summand of a velocity, and what it does to the parameter: its new value. */
hr_value hri_step_update_last(hri_step_maker *m, hr_value w, hr_value now, hr_value velocity,
                              hr_value piece, hr_value weight);
/* Inputs of the updates, from m->grads the factor if there is one. */
void hri_step_make_inputs(hri_step_maker *m);
/* Does the model change a state here?  Input `i` of the node is such a state? */
int hri_step_changes_state(const hri_node_record *n);
int hri_step_is_changed(const hri_node_record *n, uint32_t input);
/* HR_E_UNSUPPORTED, on the graph, where replicas cannot do what node `node` does to a state later. */
HR_MUST_CHECK hr_status hri_step_check_change(const hri_step_maker *m, uint32_t node);

/* A loss over many classes becomes one op with its gradients: changes m->loss.  Returns what the loss is multiplied by;
 * HR_NONE: 1.  Failures are on the graph. */
hr_value hri_step_join_head(hri_step_maker *m);

/* Parameters in slices, each gathered where it is read: replaces m->g and m->map. */
HR_MUST_CHECK hr_status hri_step_slice_params(hri_step_maker *m);
/* The whole of what is perhaps a slice, in the shape of `like`. */
hr_value hri_step_whole(hri_step_maker *m, hr_value v, hr_value like);
/* The tensor of shape `to` of which every rank has a slice. */
hr_value hri_step_gather(hr_graph *g, hr_value slice, const hr_shape *to, uint32_t ranks);
/* HR_STEP_ROUND, HR_STEP_ROUND_LAST, from m->grads on. */
HR_MUST_CHECK hr_status hri_step_round(hri_step_maker *m);

/* What ranks exchange of some values, in the order in which these are made: this rank's slices of the x of the first ranks,
 * (rows, slice); whole: all of it.  Failures are on the graph. */
typedef struct hri_step_moved {
    hr_value value, rows;
} hri_step_moved;
void hri_step_exchange(hri_step_maker *m, hri_step_moved *list, size_t count, int whole);
/* The wholes of shape `shape` of slices that ranks have, in the memory of `into`, or as values of their own (HR_NONE). */
typedef struct hri_step_gathered {
    hr_value slice, into, whole;
    hr_shape shape;
} hri_step_gathered;
void hri_step_gather_all(hri_step_maker *m, hri_step_gathered *list, size_t count);

/* HR_STEP_GRADIENTS: what the part gives is kept, and nothing else is changed. */
HR_MUST_CHECK hr_status hri_step_keep(hri_step_maker *m);
/* HR_STEP_FOLD, HR_STEP_FOLD_LAST: replaces m->g by a graph that reads what was kept.  On failure m->g has the reason. */
HR_MUST_CHECK hr_status hri_step_fold(hri_step_maker *m);

#endif
