/* Networks in one line: whatever the text, a refusal with a reason or a network that builds or refuses in time. */
#include <stdlib.h>
#include <string.h>

#include "models/common/line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 5);
    if (!text) {
        return 0;
    }
    memcpy(text, "net:", 4);
    memcpy(text + 4, data, size);
    text[size + 4] = '\0';
    hri_line *line = NULL;
    hri_prose why = {""};
    const hr_status status = hri_line_read(text, &line, &why);
    if (status == HR_OK) {
        hr_graph *g;
        if (hr_graph_create(&g) == HR_OK) {
            hr_error error;
            const int built = hri_line_build(line, g, 2, 1) == HR_OK;
            hr_graph_error(g, &error);
            if (!built && !error.message[0]) {
                abort();
            }
            hr_graph_destroy(g);
        }
    } else if (status == HR_E_INVALID && !why.text[0]) {
        abort();
    }
    hri_line_free(line);
    free(text);
    return 0;
}
