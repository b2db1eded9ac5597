/* Notes: texts that a pass leaves on a graph for those who take it further; see graph.h. */
#include <string.h>

#include "graph/graph.h"

void hri_graph_note(hr_graph *g, const char *name, const char *text) {
    if (g->error.code != HR_OK) {
        return;
    }
    hri_note *note = HRI_ARENA_ARRAY(&g->arena, hri_note, 1);
    char *own = hri_arena_strdup(&g->arena, name), *words = hri_arena_strdup(&g->arena, text);
    if (!note || !own || !words) {
        hri_graph_fail(g, HR_E_NOMEM_HOST, "out of host memory for the graph");
        return;
    }
    *note = (hri_note){own, words, g->notes};
    g->notes = note;
}

const char *hri_graph_find_note(const hr_graph *g, const char *name) {
    const hri_note *n = g->notes;
    while (n && strcmp(n->name, name) != 0) {
        n = n->next;
    }
    return n ? n->text : NULL;
}

void hri_graph_copy_notes(const hr_graph *from, hr_graph *to) {
    for (const hri_note *n = from->notes; n; n = n->next) {
        hri_graph_note(to, n->name, n->text);
    }
}
