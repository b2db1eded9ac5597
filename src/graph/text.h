/* Graphs as text, one line per value and node; docs/graph-format.md is the page about it.
 *
 *   %1 = input "image" f32[8,28,28,1]
 *   %2 = param "conv1.weight" f32[5,5,1,6] uniform -0.2 0.2 layout=conv
 *   %3 = conv2d(%1 %2) {pad=2} @"conv1"
 *   %4 %5 = max_pool(%3) {size=2,stride=2} @""
 *   result "loss" %9
 *
 * Ids are consecutive, so a text has one meaning and a graph one text.  A line holds a whole value: reading one never
 * looks at another.  Where a model is written for any batch, numbers outside quotes may be written in terms of it: N, 4N,
 * 4N+1 (hri_graph_text_join makes such a text of two plain ones, hri_graph_text_expand a plain line of it).
 *
 * The text is not trusted: the reader builds with the ordinary builders, so what they check is checked, and what it needs
 * in memory is in proportion to the text. */
#ifndef HRI_GRAPH_TEXT_H
#define HRI_GRAPH_TEXT_H

#include "base/prose.h"
#include "base/vector.h"
#include "graph/custom.h"
#include "graph/graph.h"

HRI_VECTOR(hri_chars, char)

/* Bytes of a line at most (a constant of 64 KiB, in hexadecimal, is the longest), and of a constant. */
enum { HRI_GRAPH_TEXT_LINE = 160 << 10, HRI_GRAPH_TEXT_CONSTANT = 64 << 10 };

/* The lines of all values, nodes and results, appended. */
HR_MUST_CHECK hr_status hri_graph_text_write(const hr_graph *g, hri_chars *out, hri_prose *why);
/* "name" with what would end or confuse it escaped. */
HR_MUST_CHECK hr_status hri_graph_text_quote(hri_chars *out, const char *name);

/* A text being read. */
typedef struct hri_graph_text {
    const char *at, *end;
    size_t line;    /* of the line read last, from 1 */
    hri_chars copy; /* that line, expanded, with a NUL */
} hri_graph_text;

void hri_graph_text_open(hri_graph_text *t, const char *text, size_t bytes);
void hri_graph_text_close(hri_graph_text *t);
/* The next line that is neither empty nor a comment (#), in t->copy; `batch` > 0 stands for N.  HR_E_EOF at the end;
 * HR_E_FORMAT, with the line in *why, for one that is too long or has a NUL or a batch where there is none. */
HR_MUST_CHECK hr_status hri_graph_text_next(hri_graph_text *t, int64_t batch, hri_prose *why);

/* Pieces of a line.  Each moves *at behind what it took and the spaces after it, or returns 0 and leaves it.  A string is
 * unescaped where it stands, so it lives as long as the line. */
int hri_graph_text_word(char **at, const char *word);
const char *hri_graph_text_string(char **at);
int hri_graph_text_integer(char **at, int64_t *out);

/* What a reader may be told. */
typedef struct hri_graph_text_options {
    const char *off_op, *off_attribute; /* this boolean attribute of this op is switched off */
    const hr_custom *const *customs;    /* ops that are not in the table, by their names */
    size_t custom_count;
    int customs_named; /* the text says that it has some */
} hri_graph_text_options;

/* Adds what one line says to g: a value, a node or a result.  A failure names the line; the graph's sticky error counts. */
HR_MUST_CHECK hr_status hri_graph_text_add(hri_graph_text *t, hr_graph *g,
                                           const hri_graph_text_options *o, hri_prose *why);
/* 1 when the line in t->copy is one of a graph. */
int hri_graph_text_is_graph(const hri_graph_text *t);

/* Two texts of one model for two batches, as one in terms of N, appended.  HR_E_UNSUPPORTED, with the line, where they
 * differ in another way. */
HR_MUST_CHECK hr_status hri_graph_text_join(const hri_chars *first, int64_t first_batch,
                                            const hri_chars *second, int64_t second_batch,
                                            hri_chars *out, hri_prose *why);

#endif
