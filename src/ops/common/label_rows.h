/* Which labels a cross entropy reads of an input: those between two places of each row, the last dimension.
 *
 * A loss over the next token reads all but the first, shifted by a border or by a shorter box of both sides:
 *
 *   ids = reshape(slice(pad(labels)))      a border of negative numbers, which count nowhere; a box along the rows
 *
 * What is made of labels in any other way is not found, and nobody knows then how many of them count but the loss itself. */
#ifndef HRI_OPS_COMMON_LABEL_ROWS_H
#define HRI_OPS_COMMON_LABEL_ROWS_H

#include "graph/graph.h"

typedef struct hri_label_rows {
    hr_value input;
    int64_t row;      /* labels of a row; 1 where a sample has one */
    int64_t from, to; /* those that are read */
} hri_label_rows;

/* Is it a cross entropy, a mean over the labels that count?  Its ids then. */
int hri_labels_meant(const hri_node_record *n, hr_value *ids);
/* Where the ids come from; 0: they are made in another way. */
int hri_label_rows_of(const hr_graph *g, hr_value ids, hri_label_rows *out);

#endif
