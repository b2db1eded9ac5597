/* What kind of source has which labels; see labels.h. */
#include "loop/labels.h"

#include <string.h>

int hri_labels_all_count(const hri_source *s) {
    static const char *const kinds[] = {"images",    "mnist",  "cifar10",
                                        "synthetic", "tokens", "texts"};
    if (hri_source_has_stage(s, "rename")) {
        return 0; /* any field may have become the label */
    }
    if (!s->label.name[0]) {
        return 1; /* the next token: all but the last of each sample */
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (!strcmp(s->kind, kinds[i])) {
            return 1;
        }
    }
    return s->labels_known &&
           (s->labels.negative == 0 ||
            (s->target == HRI_TARGET_NUMBERS && strcmp(s->kind, "csv") != 0)); /* there: missing */
}
