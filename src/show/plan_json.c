/* The answer as JSON: every key of the design, and the parts that add up. */
#include <headroom/bytes.h>
#include <string.h>

#include "base/bytes_up.h"
#include "show/plan.h"

static void put_row(hri_json *json, const hri_plan_row *r) {
    hri_json_bool(json, "fits", r->fits);
    hri_json_u64(json, "budget_bytes", r->budget_bytes);
    if (!r->fits) {
        return;
    }
    hri_json_u64(json, "peak_bytes", r->peak_bytes);
    hri_json_u64(json, "micro_batches", r->micro_batches);
    hri_json_u64(json, "recomputed_ops", r->recomputed_ops);
    hri_json_u64(json, "offloaded_bytes", r->offloaded_bytes);
    hri_json_double(json, "time_ratio", r->time_ratio);
}

static void put_rows(hri_json *json, const char *key, const hri_plan_row *rows, uint32_t count) {
    hri_json_array(json, key);
    for (uint32_t i = 0; i < count; i++) {
        hri_json_object(json, NULL);
        put_row(json, &rows[i]);
        hri_json_end(json);
    }
    hri_json_end(json);
}

static void put_head(hri_json *json, const hri_plan_job *j, const hri_plan_answer *a) {
    hri_json_bool(json, "fits", a->fits);
    hri_json_string(json, "model", j->model ? hr_model_text(j->model) : NULL);
    if (!j->model) {
        hri_json_string(json, "problem", j->what);
    }
    hri_json_string(json, "device", j->device_name[0] ? j->device_name : NULL);
    hri_json_string(json, "precision",
                    j->model ? hri_plan_precisions[j->job.options.precision] : NULL);
    hri_json_string(json, "optimizer",
                    j->model ? hri_plan_optimizers[j->job.options.optimizer] : NULL);
    hri_json_u64(json, "batch", j->model ? (uint64_t)j->job.batch : 0);
}

/* Of several GPUs: what each holds; the budget is that of each. */
static void put_devices(hri_json *json, const hri_plan_job *j, const hri_plan_row *r) {
    const char *name;
    uint32_t replicas;
    uint64_t peak;
    if (!j->other_count) {
        return;
    }
    hri_json_array(json, "devices");
    for (uint32_t i = 0; hri_plan_job_device(j, r, i, &name, &replicas, &peak); i++) {
        hri_json_object(json, NULL);
        hri_json_string(json, "name", name);
        hri_json_u64(json, "replicas", replicas);
        hri_json_u64(json, "peak_bytes", peak);
        hri_json_end(json);
    }
    hri_json_end(json);
}

static void put_compression(hri_json *json, const hri_plan_job *j, const hri_plan_answer *a) {
    const int moments = j->model && j->job.options.moments != HR_MOMENTS_F32;
    const hri_quantized_bytes *q = &a->quantized;
    if (!moments && !j->passes.count && !q->layers) {
        return;
    }
    hri_json_object(json, "compression");
    if (moments) {
        hri_json_string(json, "moments", hri_plan_moments[j->job.options.moments]);
    }
    if (moments && a->fits) {
        hri_json_u64(json, "moments_saved_bytes", a->moments_saved_bytes);
    }
    for (size_t i = 0; i < j->passes.count; i++) {
        hri_text text = {0};
        const char *name = j->passes.of[i].pass->name;
        hri_pass_print(&j->passes.of[i], &text);
        if (hri_text_status(&text) == HR_OK) {
            hri_json_string(json, name, hri_text_get(&text) + strlen(name) + 1);
        }
        hri_text_deinit(&text);
    }
    if (a->lora_layers) {
        hri_json_u64(json, "lora_layers", a->lora_layers);
        hri_json_u64(json, "lora_file_bytes", a->lora_bytes);
        hri_json_u64(json, "lora_frozen_bytes", a->frozen_bytes);
        hri_json_u64(json, "lora_saved_bytes", a->frozen_saved_bytes);
    }
    if (a->frozen_bytes && !a->lora_layers) {
        hri_json_u64(json, "frozen_bytes", a->frozen_bytes);
        hri_json_u64(json, "frozen_saved_bytes", a->frozen_saved_bytes);
    }
    if (a->pruned_weights) {
        hri_json_u64(json, "prune_weights", a->pruned_weights);
        hri_json_u64(json, "prune_mask_bytes", a->mask_bytes);
        hri_json_u64(json, "prune_file_saved_bytes", a->pruned_file_bytes);
    }
    if (a->qat_layers) {
        hri_json_u64(json, "qat_layers", a->qat_layers);
        hri_json_u64(json, "qat_ranges", a->qat_ranges);
        hri_json_u64(json, "qat_range_bytes", a->qat_range_bytes);
        hri_json_u64(json, "qat_gradient_bit_bytes", a->qat_bit_bytes);
        hri_json_u64(json, "qat_weight_bytes", a->qat_weight_bytes);
    }
    if (q->layers) {
        hri_json_u64(json, "quantize_layers", q->layers);
        hri_json_u64(json, "quantize_real_layers", q->real_layers);
        hri_json_u64(json, "quantize_file_bytes", q->file);
        hri_json_u64(json, "quantize_file_bytes_before", q->file_before);
        hri_json_u64(json, "quantize_inference_bytes", q->infer);
        hri_json_u64(json, "quantize_inference_bytes_before", q->infer_before);
        hri_json_u64(json, "quantize_parameter_bytes", q->weights);
        hri_json_u64(json, "quantize_parameter_bytes_before", q->weights_before);
    }
    hri_json_end(json);
}

static void put_bytes(hri_json *json, const hri_plan_job *j, const hri_plan_answer *a) {
    const hri_plan_row *r = &a->row;
    if (j->budget_bytes) {
        hri_json_u64(json, "budget_bytes", j->budget_bytes);
    } else {
        hri_json_null(json, "budget_bytes");
    }
    hri_json_u64(json, "peak_bytes", r->peak_bytes);
    hri_json_u64(json, "floor_bytes", j->floor_bytes);
    const uint64_t smallest = hri_plan_job_known_smallest(j); /* choices, or nothing fits */
    if (smallest) {
        hri_json_u64(json, "smallest_bytes", smallest);
    } else {
        hri_json_null(json, "smallest_bytes");
    }
    if (a->at_least_bytes) { /* there was no room to find it */
        hri_json_u64(json, "smallest_at_least_bytes", a->at_least_bytes);
    }
    hri_json_u64(json, "unplanned_peak_bytes", j->unplanned_bytes);
    hri_json_u64(json, "runtime_bytes", r->runtime_bytes);
    hri_json_u64(json, "persistent_bytes", r->persistent_bytes);
    hri_json_u64(json, "arena_bytes", r->arena_bytes);
    hri_json_u64(json, "live_peak_bytes", r->live_peak_bytes);
    hri_json_u64(json, "input_bytes", r->input_bytes);
    hri_json_u64(json, "host_peak_bytes", r->host_peak_bytes);
    if (r->planning_bytes) { /* the budget is the process's, and planning is done in it too */
        hri_json_u64(json, "planning_bytes", r->planning_bytes);
    }
    if (r->threads) {
        hri_json_u64(json, "threads", r->threads);
    }
    if (j->job.replicas > 1) {
        hri_json_u64(json, "replicas", j->job.replicas);
    }
    if (j->job.replicas > 1 && j->job.shard != HRI_SHARD_NONE) {
        hri_json_string(json, "shard", hri_shard_names[j->job.shard]);
    }
    if (r->net_bytes) { /* received by a replica in a step */
        hri_json_u64(json, "net_bytes", r->net_bytes);
    }
    if (r->net_count) {
        hri_json_u64(json, "net_exchanges", r->net_count);
        hri_json_double(json, "net_ns", r->net_ns);
        hri_json_double(json, "net_exposed_ns", r->net_exposed_ns);
    }
    if (r->replica_bytes) { /* of those of this process, each */
        hri_json_u64(json, "replica_bytes", r->replica_bytes);
    }
    put_devices(json, j, r);
    put_compression(json, j, a);
    if (a->custom_ops) {
        hri_json_u64(json, "custom_ops", a->custom_ops);
        hri_json_double(json, "custom_ms", a->custom_ns / 1e6);
        hri_json_u64(json, "custom_workspace_bytes", a->custom_workspace_bytes);
    }
    if (j->host_budget_bytes) {
        hri_json_u64(json, "host_budget_bytes", j->host_budget_bytes);
    } else {
        hri_json_null(json, "host_budget_bytes");
    }
    /* runtime + persistent + arena is the peak; so is the sum of these */
    hri_json_object(json, "parts");
    hri_json_u64(json, "runtime", r->runtime_bytes);
    if (a->fits) {
        hri_json_u64(json, "weights", a->weights_bytes);
        hri_json_u64(json, "states", a->states_bytes);
        hri_json_u64(json, "constants", a->constants_bytes);
        if (a->others_bytes) {
            hri_json_u64(json, "others", a->others_bytes);
        }
    } else {
        hri_json_u64(json, "persistent", r->persistent_bytes);
    }
    hri_json_u64(json, "step", r->arena_bytes);
    hri_json_end(json);
}

static hr_status put_spelled(hri_json *json, const hri_plan_speller *s, const hri_plan_way *w) {
    hri_text flags = {0}, command = {0};
    hr_status status = s->flags(s->user, w, &flags);
    if (status == HR_OK) {
        status = s->command(s->user, w, &command);
    }
    if (status == HR_OK) {
        hri_json_string(json, "flags", hri_text_get(&flags));
        hri_json_string(json, "command", hri_text_get(&command));
    }
    hri_text_deinit(&flags);
    hri_text_deinit(&command);
    return status;
}

static hr_status put_ways(hri_json *json, const hri_plan_answer *a, const hri_plan_speller *s) {
    hr_status status = HR_OK;
    hri_json_array(json, "ways_out");
    for (uint32_t i = 0; i < a->way_count && status == HR_OK; i++) {
        const hri_plan_way *w = &a->ways[i];
        hri_json_object(json, NULL);
        if (s) {
            status = put_spelled(json, s, w);
        } else {
            hri_json_object(json, "changes");
            for (uint32_t k = 0; k < w->change_count; k++) {
                hri_json_string(json, w->changes[k].key, w->changes[k].value);
            }
            hri_json_end(json);
        }
        hri_json_string(json, "what", w->text);
        hri_json_i64(json, "batch", w->batch);
        put_row(json, &w->row);
        hri_json_end(json);
    }
    hri_json_end(json);
    return status;
}

static void put_trial(hri_json *json, const hri_plan_answer *a, const hri_plan_trial *t) {
    hri_json_u64(json, "steps", t->steps);
    hri_json_u64(json, "planned_arena_bytes", t->measured.planned_bytes);
    hri_json_u64(json, "measured_arena_bytes", t->measured.arena_bytes);
    hri_json_u64(json, "planned_peak_bytes", a->row.peak_bytes);
    hri_json_u64(json, "measured_peak_bytes", t->measured.peak_bytes);
    hri_json_double(json, "seconds", t->seconds);
    hri_json_array(json, "losses");
    for (uint64_t i = 0; i < t->steps; i++) {
        hri_json_double(json, NULL, (double)t->losses[i]);
    }
    hri_json_end(json);
}

void hri_plan_print_refusal(const hri_plan_job *j, const hri_plan_answer *a, hri_text *out) {
    char budget[32], least[32];
    if (a->at_least_bytes) {
        hri_text_add(out, "%s does not fit: the budget is %s, the minimum is %s or more", j->what,
                     hr_bytes_print(j->budget_bytes, budget, sizeof budget),
                     hri_bytes_print_up(a->at_least_bytes, least, sizeof least));
        return;
    }
    hri_text_add(out, "%s does not fit: the budget is %s, the minimum is %s", j->what,
                 hr_bytes_print(j->budget_bytes, budget, sizeof budget),
                 hri_bytes_print_up(a->row.peak_bytes, least, sizeof least));
}

hr_status hri_plan_print_json(const hri_plan_sheet *s, hri_json *json) {
    const hri_plan_job *j = s->job;
    const hri_plan_answer *a = s->answer;
    const hri_plan_row *r = &a->row;
    hr_status status = HR_OK;
    put_head(json, j, a);
    if (s->assumed) {
        hri_json_string(json, "assumed_data", s->assumed);
    }
    put_bytes(json, j, a);
    hri_json_u64(json, "micro_batches", r->micro_batches);
    hri_json_u64(json, "recomputed_ops", r->recomputed_ops);
    hri_json_u64(json, "offloaded_bytes", r->offloaded_bytes);
    hri_json_u64(json, "spill_bytes", r->spill_bytes);
    hri_json_double(json, "time_ratio", r->time_ratio);
    hri_json_double(json, "time_bound_ratio", r->bound_ratio);
    hri_json_double(json, "step_ns", r->time_ns);
    hri_json_string(json, "peak_op", a->fits ? a->peak_op : a->floor_op);
    hri_json_string(json, "floor_op", a->floor_op);
    if (!a->fits) {
        hri_json_bool(json, "impossible", a->impossible);
        const uint64_t least = a->at_least_bytes ? a->at_least_bytes : r->peak_bytes;
        hri_json_u64(json, "short_bytes", least - j->budget_bytes);
    }
    if (a->largest_batch >= 0) {
        hri_json_i64(json, "largest_batch", a->largest_batch);
    } else {
        hri_json_null(json, "largest_batch");
    }
    put_rows(json, "choices", a->choices, a->choice_count);
    if (a->way_count) {
        status = put_ways(json, a, s->speller);
    }
    if (a->point_count) {
        put_rows(json, "curve", a->points, a->point_count);
    }
    if (s->trial) {
        hri_json_object(json, "try");
        put_trial(json, a, s->trial);
        hri_json_end(json);
    }
    if (s->saved) {
        hri_json_object(json, "compared");
        hri_json_string(json, "file", s->saved->path);
        put_row(json, &s->saved->row);
        hri_json_end(json);
    }
    return status;
}
