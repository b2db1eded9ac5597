/* The answer for people: the verdict, a sum that adds up, what else there is, the next command. */
#include "show/plan.h"

#include <math.h>
#include <stdio.h>

#include <headroom/bytes.h>

#include "base/bytes_up.h"
#include "base/prose.h"
#include "base/table.h"
#include "show/show.h"

#define MIB (UINT64_C(1) << 20)

typedef struct page {
    hri_out *out;
    const hri_term *term;
    const hri_plan_speller *speller;
} page;

/* ---- sizes that still add up when they are rounded ---- */

typedef struct unit {
    double bytes;
    const char *name;
} unit;

static unit unit_for(uint64_t bytes) {
    return bytes >= 10240 * MIB ? (unit){1073741824.0, "GiB"}
           : bytes >= MIB       ? (unit){1048576.0, "MiB"}
                                : (unit){1024.0, "KiB"};
}

static long long hundredths(uint64_t bytes, const unit *u) {
    return llround((double)bytes / u->bytes * 100.0);
}

static void cell_size(hri_table *t, hri_style style, long long count, const unit *u) {
    hri_table_cell(t, style, "%lld.%02lld %s", count / 100, count % 100, u->name);
}

static const char *shown(uint64_t bytes, char *buf, size_t size) {
    return hr_bytes_print(bytes, buf, size);
}

/* ---- the sum ---- */

static hr_status show_sum(const page *p, const hri_plan_job *j, const hri_plan_answer *a,
                          const char *assumed) {
    static const char *const headings[] = {"PART", ">BYTES", "WHAT"};
    const hri_plan_row *r = &a->row;
    const unit u = unit_for(r->peak_bytes);
    const long long whole = hundredths(r->peak_bytes, &u);
    const struct {
        const char *name;
        uint64_t bytes;
        const char *what;
    } parts[] = {
        {"runtime", r->runtime_bytes - j->data_bytes,
         j->threads ? "process code, stacks and bookkeeping"
                    : "context, libraries and kernels of the device"},
        {"input", j->data_bytes,
         assumed ? "of synthetic data, which is assumed; --data SRC counts yours"
                 : "input pipelines: reading, decoding, queued batches"},
        {j->model ? "parameters" : "persistent", a->weights_bytes,
         j->model ? "model parameters" : "values that outlive the step"},
        {"optimizer", a->states_bytes,
         "optimizer state, running statistics, gradient accumulators"},
        {"constants", a->constants_bytes, "constants of the graph"},
        {"other run", a->others_bytes, "parameters and optimizer state of the other run"},
    };
    hri_table table;
    long long used = 0;
    hri_table_init(&table, headings, 3);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const long long count = hundredths(parts[i].bytes, &u);
        used += count;
        if (count) {
            hri_table_cell(&table, HRI_STYLE_PLAIN, "%s", parts[i].name);
            cell_size(&table, HRI_STYLE_PLAIN, count, &u);
            hri_table_cell(&table, HRI_STYLE_DIM, "%s", parts[i].what);
        }
    }
    hri_table_cell(&table, HRI_STYLE_PLAIN, "step");
    cell_size(&table, HRI_STYLE_PLAIN, whole - used, &u);
    hri_table_cell(&table, HRI_STYLE_DIM,
                   "activations, gradients, workspaces, inputs, page rounding");
    hri_table_cell(&table, HRI_STYLE_BOLD, "peak");
    cell_size(&table, HRI_STYLE_BOLD, whole, &u);
    hri_table_cell(&table, HRI_STYLE_DIM, "reached in %s",
                   a->peak_op[0] ? a->peak_op : "the minimum");
    const hr_status status = hri_table_print(&table, p->out, p->term, 2, 0);
    hri_table_deinit(&table);
    return status;
}

/* ---- verdicts ---- */

static void show_fits(const page *p, const hri_plan_job *j, const hri_plan_answer *a) {
    char budget[32], peak[32], room[32];
    const hri_plan_row *r = &a->row;
    shown(r->peak_bytes, peak, sizeof peak);
    if (j->budget_bytes) {
        hri_show_title(p->out, p->term, "fits: needs %s of the %s budget, %s of headroom", peak,
                       shown(j->budget_bytes, budget, sizeof budget),
                       shown(j->budget_bytes - r->peak_bytes, room, sizeof room));
    } else {
        hri_show_title(p->out, p->term, "no budget given: needs %s", peak);
    }
}

/* The budget left no room to find out more. */
static void show_bounded_refusal(const page *p, const hri_plan_job *j, const hri_plan_answer *a) {
    char budget[32], least[32], less[32];
    hri_show_title(p->out, p->term,
                   "does not fit: the budget of %s is at least %s short; the minimum is %s or more",
                   shown(j->budget_bytes, budget, sizeof budget),
                   hri_bytes_print_up(a->at_least_bytes - j->budget_bytes, less, sizeof less),
                   hri_bytes_print_up(a->at_least_bytes, least, sizeof least));
    hri_out_text(p->out, "the exact minimum is not known: planning this model takes more memory "
                         "than the budget allows\n");
}

/* What no plan can go below, where the smallest that was found is above that. */
static void show_floor(const page *p, const hri_plan_job *j, const hri_plan_answer *a) {
    char floor[32], op[32];
    hri_out_printf(p->out, "no plan can need less than %s: %s",
                   shown(j->floor_bytes, floor, sizeof floor), a->floor_op);
    if (a->floor_op_bytes) {
        hri_out_printf(p->out, " (%s) needs %s on top of parameters and optimizer state",
                       a->floor_kind, shown(a->floor_op_bytes, op, sizeof op));
    }
    hri_out_text(p->out, "\n");
}

static void show_refusal(const page *p, const hri_plan_job *j, const hri_plan_answer *a) {
    char budget[32], least[32], less[32], op[32];
    if (a->at_least_bytes) {
        show_bounded_refusal(p, j, a);
        return;
    }
    hri_show_title(p->out, p->term,
                   "does not fit: the budget of %s is %s short of the minimum of %s",
                   shown(j->budget_bytes, budget, sizeof budget),
                   hri_bytes_print_up(a->row.peak_bytes - j->budget_bytes, less, sizeof less),
                   hri_bytes_print_up(a->row.peak_bytes, least, sizeof least));
    if (a->row.peak_bytes > j->floor_bytes) {
        show_floor(p, j, a);
    } else if (a->floor_op_bytes) {
        hri_out_printf(p->out,
                       "the minimum is set by %s (%s): it needs %s on top of parameters "
                       "and optimizer state\n",
                       a->floor_op, a->floor_kind, shown(a->floor_op_bytes, op, sizeof op));
    } else {
        hri_out_printf(p->out, "the minimum is set by %s\n", a->floor_op);
    }
}

/* Where the replicas are: threads, slices of a GPU, or devices of their own. */
static void show_replicas(const page *p, const hri_plan_job *j, const hri_plan_row *r) {
    char text[32], budget[32];
    const char *name;
    uint32_t count;
    uint64_t peak;
    for (uint32_t i = 0; hri_plan_job_device(j, r, i, &name, &count, &peak); i++) {
        hri_out_printf(p->out, "%s: %u replica%s, %s of %s\n", name, count, hri_plural(count),
                       shown(peak, text, sizeof text),
                       shown(r->budget_bytes, budget, sizeof budget));
    }
    if (j->other_count) {
        return;
    }
    if (r->replica_bytes) {
        hri_out_printf(p->out, "the %u replicas are %s, %s each\n", j->job.replicas,
                       j->engine ? "slices of this GPU" : "threads of this process",
                       shown(r->replica_bytes, text, sizeof text));
    } else if (j->job.replicas > 1) {
        hri_out_printf(p->out, "each of the %u replicas needs a device like this\n",
                       j->job.replicas);
    }
}

/* What LoRA and freezing train and save, in training, on disk and in inference. */
static void show_lora(const page *p, const hri_plan_answer *a) {
    char trained[32], frozen[32], saved[32];
    if (!a->lora_layers && a->frozen_bytes) {
        hri_out_printf(p->out, "--freeze leaves %s of parameters as they are, ",
                       shown(a->frozen_bytes, frozen, sizeof frozen));
        hri_out_printf(p->out, "which saves %s of optimizer state\n",
                       shown(a->frozen_saved_bytes, saved, sizeof saved));
    }
    if (!a->lora_layers) {
        return;
    }
    hri_out_printf(p->out, "--lora trains adapters of %llu layers, %s in their file; ",
                   (unsigned long long)a->lora_layers,
                   shown(a->lora_bytes, trained, sizeof trained));
    hri_out_printf(p->out, "%s of parameters are frozen, which saves %s of optimizer state\n",
                   shown(a->frozen_bytes, frozen, sizeof frozen),
                   shown(a->frozen_saved_bytes, saved, sizeof saved));
    hri_out_text(p->out, "merged into the model, adapters take no memory in inference\n");
}

/* What pruning costs and saves: nothing but the file of the weights gets smaller, and only when that is compressed. */
static void show_masks(const page *p, const hri_plan_answer *a) {
    char masks[32], saved[32];
    if (a->pruned_weights) {
        hri_out_printf(p->out, "--prune masks %llu weights: %s more in training and checkpoints, ",
                       (unsigned long long)a->pruned_weights,
                       shown(a->mask_bytes, masks, sizeof masks));
        hri_out_printf(p->out, "nothing less in inference, about %s less in a compressed file\n",
                       shown(a->pruned_file_bytes, saved, sizeof saved));
    }
}

/* What fake quantization costs; what the file saves afterwards --quantize says. */
static void show_qat(const page *p, const hri_plan_answer *a) {
    char ranges[32], bits[32], weight[32];
    if (a->qat_layers) {
        hri_out_printf(p->out, "--qat rounds %llu layers and %llu activations: %s of ranges, ",
                       (unsigned long long)a->qat_layers, (unsigned long long)a->qat_ranges,
                       shown(a->qat_range_bytes, ranges, sizeof ranges));
        hri_out_printf(p->out, "%s of bits for gradients, up to %s for a rounded weight\n",
                       shown(a->qat_bit_bytes, bits, sizeof bits),
                       shown(a->qat_weight_bytes, weight, sizeof weight));
    }
}

/* What a quantized file has less, on disk and while it runs. */
static void show_quantized(const page *p, const hri_plan_job *j, const hri_plan_answer *a) {
    const hri_quantized_bytes *q = &a->quantized;
    char before[32], after[32];
    if (!q->layers) {
        return;
    }
    hri_out_printf(p->out, "--quantize makes %llu layers smaller after training:\n",
                   (unsigned long long)q->layers);
    hri_out_printf(p->out, "  file       %s -> %s, saves %lld bytes\n",
                   shown(q->file_before, before, sizeof before),
                   shown(q->file, after, sizeof after), (long long)(q->file_before - q->file));
    hri_out_printf(p->out, "  inference  %s -> %s for %lld sample%s, saves %lld bytes; ",
                   shown(q->infer_before, before, sizeof before),
                   shown(q->infer, after, sizeof after), (long long)j->job.batch,
                   hri_plural((uint64_t)j->job.batch), (long long)(q->infer_before - q->infer));
    hri_out_printf(p->out, "%s -> %s of it parameters\n",
                   shown(q->weights_before, before, sizeof before),
                   shown(q->weights, after, sizeof after));
    if (q->real_layers) {
        hri_out_printf(p->out, "  %llu layers stay in f32\n", (unsigned long long)q->real_layers);
    }
    hri_out_text(p->out, "  training   nothing\n");
}

static void show_cost(const page *p, const hri_plan_job *j, const hri_plan_answer *a) {
    const hri_plan_row *r = &a->row;
    char text[32];
    hri_out_printf(p->out, "step time %.3fx unconstrained", r->time_ratio);
    if (r->recomputed_ops) {
        hri_out_printf(p->out, "; %llu ops recomputed", (unsigned long long)r->recomputed_ops);
    }
    if (r->offloaded_bytes) {
        hri_out_printf(p->out, "; %s offloaded", shown(r->offloaded_bytes, text, sizeof text));
    }
    if (r->spill_bytes) {
        hri_out_printf(p->out, " (a file of %s)", shown(r->spill_bytes, text, sizeof text));
    }
    if (r->micro_batches > 1) {
        hri_out_printf(p->out, "; %u micro-batches of %lld sample%s", r->micro_batches,
                       (long long)r->part, hri_plural((uint64_t)r->part));
        if (j->job.replicas > 1) {
            hri_out_printf(p->out, " on %u replicas", j->job.replicas);
        }
    } else if (j->model) {
        hri_out_text(p->out, "; batch not split");
    }
    hri_out_text(p->out, "\n");
    show_replicas(p, j, r);
    if (j->job.shard != HRI_SHARD_NONE) {
        hri_out_printf(p->out, "shard: each replica holds a slice of %s\n",
                       j->job.shard == HRI_SHARD_WEIGHTS
                           ? "parameters, optimizer states and gradients"
                           : "optimizer states and gradients");
    }
    if (a->moments_saved_bytes) {
        hri_out_printf(p->out, "--moments %s saves %s of optimizer state, in checkpoints as well\n",
                       hri_plan_moments[j->job.options.moments],
                       shown(a->moments_saved_bytes, text, sizeof text));
    }
    show_lora(p, a);
    show_masks(p, a);
    show_qat(p, a);
    show_quantized(p, j, a);
    if (r->net_count) {
        hri_out_printf(p->out, "net: %s per replica and step in %llu exchanges, about %.3g ms%s%s",
                       shown(r->net_bytes, text, sizeof text), (unsigned long long)r->net_count,
                       r->net_ns / 1e6, j->o.link ? " over " : "", j->o.link ? j->o.link : "");
        hri_out_printf(p->out, ", %.3g ms of it not overlapped with computation\n",
                       r->net_exposed_ns / 1e6);
    } else if (r->net_bytes) {
        hri_out_printf(p->out, "each replica receives %s of gradients per step\n",
                       shown(r->net_bytes, text, sizeof text));
    }
    if (a->custom_ops) {
        hri_out_printf(p->out,
                       "custom ops: %u nodes run outside Headroom on the host, %.3g ms per step",
                       a->custom_ops, a->custom_ns / 1e6);
        hri_out_printf(p->out, "; %s of workspace for them\n",
                       shown(a->custom_workspace_bytes, text, sizeof text));
    }
    if (j->host_budget_bytes && (r->offloaded_bytes || j->o.host_budget)) {
        char budget[32];
        hri_out_printf(p->out, "host memory: %s of %s\n",
                       shown(r->host_peak_bytes, text, sizeof text),
                       shown(j->host_budget_bytes, budget, sizeof budget));
    }
}

/* ---- tables ---- */

static void row_cells(hri_table *t, const hri_plan_row *r, uint64_t unplanned) {
    char text[32];
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s",
                   hri_bytes_print_up(r->budget_bytes, text, sizeof text));
    hri_table_cell(t, HRI_STYLE_PLAIN, "%.0f %%",
                   unplanned ? 100.0 * (double)r->budget_bytes / (double)unplanned : 0.0);
    if (!r->fits) {
        hri_table_cell(t, HRI_STYLE_BAD, "not found");
        for (int i = 0; i < 3; i++) {
            hri_table_cell(t, HRI_STYLE_PLAIN, "-");
        }
        return;
    }
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s", hri_bytes_print_up(r->peak_bytes, text, sizeof text));
    hri_table_cell(t, HRI_STYLE_PLAIN, "%.3f", r->time_ratio);
    hri_table_cell(t, HRI_STYLE_PLAIN, "%u", r->micro_batches);
    hri_table_cell(t, HRI_STYLE_PLAIN, "%llu", (unsigned long long)r->recomputed_ops);
}

static hr_status show_rows(const page *p, const hri_plan_job *j, const char *title,
                           const hri_plan_row *rows, uint32_t count) {
    static const char *const headings[] = {">BUDGET", ">OF FULL",       ">PEAK",
                                           ">TIME",   ">MICRO-BATCHES", ">RECOMPUTED"};
    hri_table table;
    if (!count) {
        return HR_OK;
    }
    hri_out_printf(p->out, "\n%s\n", title);
    hri_table_init(&table, headings, 6);
    for (uint32_t i = 0; i < count; i++) {
        row_cells(&table, &rows[i], j->unplanned_bytes);
    }
    const hr_status status = hri_table_print(&table, p->out, p->term, 2, 1);
    hri_table_deinit(&table);
    return status;
}

static void spell_cell(const page *p, hri_table *table, const hri_plan_way *w) {
    hri_text text = {0};
    hr_status status = HR_OK;
    if (p->speller) {
        status = p->speller->flags(p->speller->user, w, &text);
    } else {
        for (uint32_t i = 0; i < w->change_count; i++) {
            hri_text_add(&text, "%s%s=%s", i ? " " : "", w->changes[i].key, w->changes[i].value);
        }
        status = hri_text_status(&text);
    }
    table->failed |= status != HR_OK;
    hri_table_cell(table, HRI_STYLE_BOLD, "%s", hri_text_get(&text));
    hri_text_deinit(&text);
}

static hr_status show_ways(const page *p, const hri_plan_answer *a) {
    static const char *const headings[] = {"CHANGE", ">PEAK", ">TIME", "EFFECT"};
    hri_table table;
    char text[32];
    if (!a->way_count) {
        return HR_OK;
    }
    hri_out_text(p->out, "\nwhat would fit (each one planned and checked)\n");
    hri_table_init(&table, headings, 4);
    for (uint32_t i = 0; i < a->way_count; i++) {
        const hri_plan_way *w = &a->ways[i];
        spell_cell(p, &table, w);
        hri_table_cell(&table, HRI_STYLE_PLAIN, "%s", shown(w->row.peak_bytes, text, sizeof text));
        hri_table_cell(&table, HRI_STYLE_PLAIN, "%.3f", w->row.time_ratio);
        hri_table_cell(&table, HRI_STYLE_DIM, "%s", w->text);
    }
    const hr_status status = hri_table_print(&table, p->out, p->term, 2, 1);
    hri_table_deinit(&table);
    return status;
}

static void show_trial(const page *p, const hri_plan_job *j, const hri_plan_answer *a,
                       const hri_plan_trial *t) {
    char planned[32], arena[32], rss[32], peak[32];
    hri_out_printf(p->out, "\nran %llu steps in %.2f s: loss %.6g to %.6g\n",
                   (unsigned long long)t->steps, t->seconds, (double)t->losses[0],
                   (double)t->losses[t->steps - 1]);
    hri_out_printf(p->out, "  arena    planned %s, measured %s\n",
                   shown(t->measured.planned_bytes, planned, sizeof planned),
                   shown(t->measured.arena_bytes, arena, sizeof arena));
    hri_out_printf(
        p->out, "  process  planned %s, %s %s%s\n", shown(a->row.peak_bytes, peak, sizeof peak),
        j->engine ? "on the device" : "peak resident",
        shown(t->measured.peak_bytes, rss, sizeof rss),
        j->budget_bytes && t->measured.peak_bytes > j->budget_bytes ? ": OVER THE BUDGET" : "");
}

static void show_saved(const page *p, const hri_plan_answer *a, const hri_plan_saved *s) {
    char here[32], there[32];
    hri_out_printf(p->out, "\ncompared with %s\n", s->path);
    hri_out_printf(p->out, "  peak   %s, there %s\n", shown(a->row.peak_bytes, here, sizeof here),
                   shown(s->row.peak_bytes, there, sizeof there));
    hri_out_printf(p->out, "  time   x %.3f, there x %.3f\n", a->row.time_ratio, s->row.time_ratio);
    hri_out_printf(p->out, "  micro-batches  %u, there %u; recomputed ops %llu, there %llu\n",
                   a->row.micro_batches, s->row.micro_batches,
                   (unsigned long long)a->row.recomputed_ops,
                   (unsigned long long)s->row.recomputed_ops);
}

/* The minimum is a budget that was planned for; where it was not looked for, only the bound below it is known. */
static void show_bounds(const page *p, const hri_plan_job *j, const hri_plan_answer *a) {
    char text[32], floor[32], least[32];
    const uint64_t smallest = hri_plan_job_known_smallest(j);
    hri_out_printf(p->out, "unconstrained training needs %s; ",
                   shown(j->unplanned_bytes, text, sizeof text));
    if (!smallest) {
        hri_out_printf(p->out, "no plan can need less than %s, set by %s\n",
                       shown(j->floor_bytes, floor, sizeof floor), a->floor_op);
    } else if (smallest == j->floor_bytes) {
        hri_out_printf(p->out, "the minimum is %s, set by %s\n",
                       hri_bytes_print_up(smallest, least, sizeof least), a->floor_op);
    } else {
        hri_out_printf(p->out, "the minimum is %s; no plan can need less than %s, set by %s\n",
                       hri_bytes_print_up(smallest, least, sizeof least),
                       shown(j->floor_bytes, floor, sizeof floor), a->floor_op);
    }
}

hr_status hri_plan_print_parts(const hri_plan_sheet *s, hri_out *out, const hri_term *term) {
    const page p = {.out = out, .term = term};
    const hri_plan_job *j = s->job;
    show_fits(&p, j, s->answer);
    hri_out_printf(out, "%s, batch %lld on %s\n", j->what, (long long)j->job.batch, j->device_name);
    const hr_status status = show_sum(&p, j, s->answer, s->assumed);
    show_cost(&p, j, s->answer);
    show_bounds(&p, j, s->answer);
    return status;
}

hr_status hri_plan_print_text(const hri_plan_sheet *s, hri_out *out, const hri_term *term) {
    const page p = {.out = out, .term = term, .speller = s->speller};
    const hri_plan_job *j = s->job;
    const hri_plan_answer *a = s->answer;
    char batch[32] = "";
    hr_status status = HR_OK;
    if (a->fits) {
        show_fits(&p, j, a);
    } else {
        show_refusal(&p, j, a);
    }
    if (j->model) {
        snprintf(batch, sizeof batch, ", batch %lld", (long long)j->job.batch);
    }
    hri_out_printf(out, "%s%s on %s\n", j->what, batch,
                   j->device_name[0] ? j->device_name : "any device");
    if (a->fits) {
        status = show_sum(&p, j, a, s->assumed);
        show_cost(&p, j, a);
        show_bounds(&p, j, a);
    } else if (s->assumed) {
        hri_out_text(out, "synthetic data is assumed; --data SRC counts yours\n");
    }
    if (s->alone) {
        hri_out_text(out, "of the step alone: a run's input, threads and checkpoints come on top; "
                          "--data SRC counts them\n");
    }
    if (!a->fits) {
        status = show_ways(&p, a);
    }
    if (a->largest_batch > 0) {
        hri_out_printf(out, "largest batch in this budget: %lld%s\n", (long long)a->largest_batch,
                       a->may_cut ? " (any size with micro-batches)" : "");
    } else if (a->largest_batch == 0) {
        hri_out_text(out, "largest batch in this budget: none, not even 1 sample fits\n");
    }
    if (status == HR_OK) {
        status = show_rows(&p, j, "other budgets", a->choices, a->choice_count);
    }
    if (status == HR_OK && s->curve) {
        status = show_rows(&p, j, "budget against time", a->points, a->point_count);
    }
    if (s->trial) {
        show_trial(&p, j, a, s->trial);
    }
    if (s->saved) {
        show_saved(&p, a, s->saved);
    }
    return status;
}
