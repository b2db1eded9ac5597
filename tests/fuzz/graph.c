/* Graph and model files: whatever the text, a refusal or a graph that writes itself and is read back to the same text. */
#include <stdlib.h>
#include <string.h>

#include "graph/text.h"
#include "models/common/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static hr_status collect(void *user, const char *text, size_t bytes) {
    return hri_chars_append(user, text, bytes);
}

static void must(int holds) {
    if (!holds) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hr_graph *g, *again;
    if (hr_graph_parse((const char *)data, size, &g, NULL) == HR_OK) {
        hri_chars a = {0}, b = {0};
        must(hr_graph_write(g, collect, &a, NULL) == HR_OK);
        must(hr_graph_parse(a.items, a.count, &again, NULL) == HR_OK);
        must(hr_graph_write(again, collect, &b, NULL) == HR_OK);
        must(a.count == b.count && !memcmp(a.items, b.items, a.count));
        hri_chars_deinit(&a);
        hri_chars_deinit(&b);
        hr_graph_destroy(again);
        hr_graph_destroy(g);
    }
    hr_model *m = hri_calloc(1, sizeof *m);
    if (m && hri_model_file_parse((const char *)data, size, m, NULL) == HR_OK &&
        hr_graph_create(&g) == HR_OK) {
        (void)!hr_model_build(m, g, 2, 1);
        hr_graph_destroy(g);
    }
    hr_model_close(m);
    return 0;
}
