/* What the tests of parity with PyTorch share: records in tests/e2e/parity, weights by the rule of
 * tools/parity/make_losses.py, and the comparison: at most 1e-4 of every loss apart in f32, 2e-2 in bf16. */
#ifndef TESTS_SUPPORT_PARITY_H
#define TESTS_SUPPORT_PARITY_H

#include <headroom/graph.h>
#include "base/json.h"

enum { PARITY_STEPS = 20 };

/* tests/e2e/parity/<name>.json below the source folder; the caller has it. */
json_t *parity_load(const char *root, const char *name);
const char *parity_text(const json_t *object, const char *key);
uint64_t parity_number(const json_t *object, const char *key);
/* One parameter, as it lies in memory. */
void parity_weight(const char *name, const hr_shape *shape, float *out);
/* losses[0 .. steps) with those of one run of a record. */
void parity_compare(const json_t *run, const float *losses, size_t steps);

#endif
