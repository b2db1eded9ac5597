/* The table of a checkpoint (data/tabular.h) in its text: every column with its kind, numbers and values.
 *
 *   "table": {"inputs": [{"name": "area", "kind": "number", "mean": 83.1, "std": 20.9},
 *                        {"name": "city", "kind": "onehot", "values": ["Bonn", "Ulm"]}],
 *             "targets": [{"name": "price", "kind": "number", "mean": 301.5, "std": 88.2}], "key": "id"} */
#ifndef HRI_WEIGHTS_CHECKPOINT_TABLE_H
#define HRI_WEIGHTS_CHECKPOINT_TABLE_H

#include "base/json.h"
#include "base/json_stream.h"
#include "data/tabular.h"

/* From the token that begins it.  HR_E_FORMAT or HR_E_RANGE with the reason; *out is the caller's. */
HR_MUST_CHECK hr_status hri_checkpoint_read_table(hri_json_stream *s, const hri_json_token *first,
                                                  hri_tabular **out, hri_prose *why);
void hri_checkpoint_put_table(hri_json *j, const hri_tabular *t);

#endif
