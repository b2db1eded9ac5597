/* The textual form of pipelines: any text is read or refused with a sentence, and leaves the pipeline as it was. 
 * Nothing is built, so no text opens a file. */
#include <stdlib.h>
#include <string.h>
#include <headroom/data.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds) {
    if (!holds) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 1 << 20, .workers = 1};
    hr_pipeline *p;
    char *text = malloc(size + 1);
    if (!text || hr_pipeline_create(&o, &p) != HR_OK) {
        free(text);
        return 0;
    }
    if (size) {
        memcpy(text, data, size);
    }
    text[size] = 0;
    hr_pipeline_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    hr_pipeline_get_stats(p, &before);
    if (hr_pipeline_add(p, text) != HR_OK) {
        hr_error error;
        hr_pipeline_error(p, &error);
        must(error.message[0] != 0);
        hr_pipeline_get_stats(p, &after);
        must(before.stage_count == after.stage_count);
        must(hr_pipeline_add(p, "range:3 | batch(2)") ==
             HR_OK); /* it goes on as if nothing had been said */
    }
    hr_pipeline_destroy(p);
    free(text);
    return 0;
}
