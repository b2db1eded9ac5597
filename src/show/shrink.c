/* See shrink.h. */
#include "show/shrink.h"

#include <headroom/bytes.h>

#include "base/number.h"
#include "base/table.h"
#include "see/summary.h"

const char hri_shrink_help[] =
    "CHECKPOINT is the directory of a run (its best parameters are used, or else its last) or a "
    "file in it. Whole channels are removed from convolutions and linear layers, and from all that "
    "goes with them: batch norms, biases, both sides of a residual sum, the inputs of the layers "
    "that follow. Channels of inputs, results, layer norms and attention stay.\n\nWithout --keep "
    "and --threshold only channels that nothing reads are removed, such as those that --prune left "
    "without weights: the model answers as before. --keep removes the channels with the smallest "
    "weights in every group that goes together, --threshold those whose weights are small next to "
    "the layer's mean; train the smaller model further afterwards. Optimizer state is not taken "
    "over.\n\nTwo files are written: a checkpoint for eval, predict and quantize, and next to it a "
    "model file (.hr) that train starts from. With --dry-run the table is all.";

static const char *percent(double before, double after, char *buf, size_t size) {
    hri_snprintf(buf, size, "%.1f %%", before > 0 ? 100.0 * after / before : 100.0);
    return buf;
}

static void add_bytes(hri_table *t, const char *what, uint64_t before, uint64_t after) {
    char a[32], b[32], c[32];
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s", what);
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s", hr_bytes_print(before, a, sizeof a));
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s", hr_bytes_print(after, b, sizeof b));
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s", percent((double)before, (double)after, c, sizeof c));
}

static void add_count(hri_table *t, const char *what, double before, double after,
                      const char *unit) {
    char a[32], b[32], c[32];
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s", what);
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s%s", hri_see_count(before, a, sizeof a), unit);
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s%s", hri_see_count(after, b, sizeof b), unit);
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s", percent(before, after, c, sizeof c));
}

static hr_status show_table(const hri_shrink_result *r, hri_out *out, const hri_term *term) {
    static const char *const headings[] = {"", ">BEFORE", ">AFTER", ">OF IT"};
    const hri_shrink_side *a = &r->before, *b = &r->after;
    hri_table t;
    hri_table_init(&t, headings, sizeof headings / sizeof headings[0]);
    add_count(&t, "parameters", (double)a->parameters, (double)b->parameters, "");
    add_count(&t, "arithmetic of one sample", a->flops, b->flops, "FLOP");
    add_bytes(&t, "training", a->training_bytes, b->training_bytes);
    add_bytes(&t, "inference", a->inference_bytes, b->inference_bytes);
    add_bytes(&t, "file", a->file_bytes, b->file_bytes);
    const hr_status status = hri_table_print(&t, out, term, 2, 1);
    hri_table_deinit(&t);
    return status;
}

hr_status hri_shrink_show(const hri_shrink_job *job, const hri_shrink_result *r, hri_out *out,
                          const hri_term *term) {
    const hri_shrink_report *p = &r->report;
    hri_out_printf(out, "%s %llu of %llu channels in %llu groups; nothing read %llu of them\n",
                   job->out ? "removed" : "would remove", (unsigned long long)p->units_gone,
                   (unsigned long long)p->units, (unsigned long long)p->groups,
                   (unsigned long long)p->unread);
    const hr_status status = show_table(r, out, term);
    hri_out_printf(out,
                   "  training: batch %lld, %s, nothing recomputed; inference: one sample; both "
                   "without the process itself\n",
                   (long long)r->batch, r->optimizer);
    if (job->out) {
        hri_out_printf(
            out, "%s: parameters, for eval, predict and quantize\n%s: the model, for train%s\n",
            job->out, r->model_path, r->had_state ? "; optimizer state starts over" : "");
    }
    return status;
}

static void put_side(hri_json *json, const char *name, const hri_shrink_side *s) {
    hri_json_object(json, name);
    hri_json_u64(json, "parameters", s->parameters);
    hri_json_double(json, "flops", s->flops);
    hri_json_u64(json, "training_bytes", s->training_bytes);
    hri_json_u64(json, "inference_bytes", s->inference_bytes);
    hri_json_u64(json, "file_bytes", s->file_bytes);
    hri_json_end(json);
}

void hri_shrink_json(const hri_shrink_job *job, const hri_shrink_result *r, hri_json *json) {
    hri_json_string(json, "file", job->out);
    hri_json_string(json, "model", job->out ? r->model_path : NULL);
    hri_json_u64(json, "groups", r->report.groups);
    hri_json_u64(json, "channels", r->report.units);
    hri_json_u64(json, "removed", r->report.units_gone);
    hri_json_u64(json, "unread", r->report.unread);
    hri_json_u64(json, "fixed_groups", r->report.fixed);
    hri_json_i64(json, "batch", r->batch);
    hri_json_string(json, "optimizer", r->optimizer);
    put_side(json, "before", &r->before);
    put_side(json, "after", &r->after);
}
