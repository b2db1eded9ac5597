/* Saving and loading plans; see plan_file.h. */
#include "job/plan_file.h"

#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"

static const char *const kinds[] = {"whole",     "part", "last",      "evaluate", "update",
                                    "gradients", "fold", "fold_last", "round",    "round_last"};

static const hri_json_limits limits = {.max_bytes = HRI_PROBLEM_FILE_BYTES,
                                       .max_values = HRI_PROBLEM_FILE_VALUES};

/* The options of training. */
static const char *text_of(const hri_plan_job *j) {
    return j->o.training ? j->o.training : "";
}

/* hri_free() it; NULL: there is no memory, or nothing to print. */
static char *print_json(const json_t *value) {
    const size_t bytes = value ? json_dumpb(value, NULL, 0, JSON_COMPACT) : 0;
    char *text = bytes ? hri_malloc(bytes + 1) : NULL;
    if (text) {
        json_dumpb(value, text, bytes, JSON_COMPACT);
        text[bytes] = '\0';
    }
    return text;
}

/* ---- writing ---- */

/* Texts of our own JSON become members; all of it is built with jansson, which owns its memory. */
static hr_status plan_member(json_t *object, const hri_plan *plan) {
    char *text;
    const hr_status status = hri_plan_print(plan, &text);
    if (status != HR_OK) {
        return status;
    }
    json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    hri_free(text);
    return value && json_object_set_new(object, "plan", value) == 0 ? HR_OK : HR_E_NOMEM_HOST;
}

static hr_status times_member(json_t *object, const hri_problem *p) {
    json_t *list = json_array();
    int bad = list == NULL;
    for (uint32_t n = 0; n < p->op_count && !bad; n++) {
        for (uint32_t i = 0; i < p->ops[n].variant_count && !bad; i++) {
            bad = json_array_append_new(list, json_real(p->ops[n].variants[i].time_ns));
        }
    }
    return !bad && json_object_set_new(object, "times_ns", list) == 0 ? HR_OK : HR_E_NOMEM_HOST;
}

/* Three numbers an op: what it takes more alone, and the shares that neighbours save.  Nothing where there is none of it. */
static hr_status company_member(json_t *object, const hri_problem *p) {
    int any = 0, bad = 0;
    for (uint32_t n = 0; n < p->op_count; n++) {
        any |= p->ops[n].alone_ns > 0 || p->ops[n].joins > 0 || p->ops[n].beside;
    }
    json_t *list = any ? json_array() : NULL;
    bad = any && !list;
    for (uint32_t n = 0; n < p->op_count && any && !bad; n++) {
        bad = json_array_append_new(list, json_real(p->ops[n].alone_ns)) ||
              json_array_append_new(list, json_real(p->ops[n].joins)) ||
              json_array_append_new(list, json_real(p->ops[n].beside_share));
    }
    return !bad && (!any || json_object_set_new(object, "company", list) == 0) ? HR_OK
                                                                               : HR_E_NOMEM_HOST;
}

static hr_status piece_member(json_t *list, const hri_fit_piece *piece, const hri_plan *plan) {
    json_t *object =
        json_pack("{s:s, s:I}", "kind", kinds[piece->kind], "samples", (json_int_t)piece->samples);
    if (!object || json_array_append_new(list, object) != 0) {
        return HR_E_NOMEM_HOST;
    }
    hr_status status = times_member(object, &piece->x.problem);
    status = status == HR_OK ? company_member(object, &piece->x.problem) : status;
    return status == HR_OK ? plan_member(object, plan) : status;
}

static hr_status model_members(json_t *root, const hri_plan_job *j, const hri_fit_plans *plans) {
    json_t *list = json_array();
    hr_status status =
        list && json_object_set_new(root, "pieces", list) == 0 &&
                json_object_set_new(root, "model", json_string(hr_model_text(j->model))) == 0 &&
                json_object_set_new(root, "batch", json_integer(j->job.batch)) == 0 &&
                json_object_set_new(root, "options", json_string(text_of(j))) == 0 &&
                json_object_set_new(root, "part", json_integer(plans->c->part)) == 0 &&
                json_object_set_new(root, "threads", json_integer(plans->c->threads)) == 0
            ? HR_OK
            : HR_E_NOMEM_HOST;
    for (uint32_t i = 0; i < plans->c->count && status == HR_OK; i++) {
        status = piece_member(list, &plans->c->pieces[i], plans->plans[i]);
    }
    return status;
}

hr_status hri_plan_file_print(const hri_plan_job *j, const hri_fit_plans *plans,
                              const hri_plan *plan, char **out, hri_prose *why) {
    json_t *root = json_pack("{s:i}", "version", 1);
    hr_status status = root ? HR_OK : HR_E_NOMEM_HOST;
    if (status == HR_OK) {
        status = j->model ? model_members(root, j, plans) : plan_member(root, plan);
    }
    char *text = status == HR_OK ? print_json(root) : NULL;
    json_decref(root);
    if (!text) {
        return hri_prose_set(why, status == HR_OK ? HR_E_NOMEM_HOST : status,
                             "out of host memory to write the plan");
    }
    *out = text;
    return HR_OK;
}

hr_status hri_plan_file_save(const hri_plan_job *j, const hri_fit_plans *plans,
                             const hri_plan *plan, const char *path, hri_prose *why) {
    char *text = NULL;
    hr_status status = hri_plan_file_print(j, plans, plan, &text, why);
    if (status == HR_OK) {
        status = hri_file_write(path, text, strlen(text), why);
        hri_free(text);
    }
    return status;
}

/* ---- reading ---- */

typedef struct times {
    const json_t *list;
    size_t at;
} times;

static double next_time(void *user, const hri_problem_op *op, uint32_t variant) {
    times *t = user;
    (void)op;
    (void)variant;
    const json_t *value = json_array_get(t->list, t->at++);
    const double time = value ? json_number_value(value) : -1;
    return time >= 0 && time < 1e30 ? time : -1;
}

static void next_company(void *user, uint32_t op, hri_problem_company *company) {
    const json_t *list = user;
    const size_t at = 3 * (size_t)op;
    if (at + 2 < json_array_size(list)) {
        *company = (hri_problem_company){json_number_value(json_array_get(list, at)),
                                         json_number_value(json_array_get(list, at + 1)),
                                         json_number_value(json_array_get(list, at + 2))};
    }
}

static hr_status parse_plan(const json_t *object, const hri_problem *p, hri_plan **out,
                            hri_prose *why) {
    char *text = print_json(json_object_get(object, "plan"));
    if (!text) {
        return hri_prose_set(why, HR_E_FORMAT, "it contains no plan");
    }
    const hr_status status = hri_plan_parse(text, strlen(text), p, out, why);
    hri_free(text);
    return status;
}

static hr_status check_head(const hri_plan_job *j, const json_t *root, hri_prose *why) {
    const char *model, *text;
    uint64_t batch;
    hr_status status = hri_json_get_string(root, "model", &model, why);
    if (status == HR_OK) {
        status = hri_json_get_string(root, "options", &text, why);
    }
    if (status == HR_OK) {
        status = hri_json_get_u64(root, "batch", &batch, why);
    }
    if (status != HR_OK) {
        return status;
    }
    const bool same = !strcmp(text, text_of(j));
    if (strcmp(model, hr_model_text(j->model)) != 0 || batch != (uint64_t)j->job.batch || !same) {
        return hri_prose_set(why, HR_E_INVALID, "it was made for %.200s, batch %llu, %.100s", model,
                             (unsigned long long)batch, text);
    }
    return HR_OK;
}

static hr_status load_pieces(hri_plan_job *j, const json_t *root, hri_fit_plans *out,
                             hri_prose *why) {
    uint64_t part, threads = 0;
    hri_fit_case *c = NULL;
    hri_plan *plans[HRI_FIT_PIECES] = {0};
    const json_t *list = json_object_get(root, "pieces");
    hr_status status = hri_json_get_u64(root, "part", &part, why);
    if (status == HR_OK && (part == 0 || part > (uint64_t)j->job.batch)) {
        status = hri_prose_set(why, HR_E_RANGE, "micro-batches of %llu samples are invalid",
                               (unsigned long long)part);
    }
    if (status == HR_OK) {
        status = hri_fit_case_get(&j->fit, (int64_t)part, &c, why);
    }
    if (status == HR_OK && json_object_get(root, "threads")) {
        status = hri_json_get_u64(root, "threads", &threads, why);
    }
    if (status == HR_OK && threads > 1024) {
        status =
            hri_prose_set(why, HR_E_RANGE, "%llu threads is invalid", (unsigned long long)threads);
    }
    if (status == HR_OK) {
        status = hri_fit_case_set_threads(&j->fit, c, (uint32_t)threads, why);
    }
    if (status != HR_OK) {
        return status;
    }
    if (json_array_size(list) != c->count) {
        return hri_prose_set(why, HR_E_INVALID, "it has %zu graphs instead of %u",
                             json_array_size(list), c->count);
    }
    for (uint32_t i = 0; i < c->count && status == HR_OK; i++) {
        const json_t *object = json_array_get(list, i);
        times t = {.list = json_object_get(object, "times_ns")};
        hri_problem_retime(&c->pieces[i].x.problem, next_time, &t);
        hri_problem_recompany(&c->pieces[i].x.problem, next_company,
                              json_object_get(object, "company"));
        status = parse_plan(object, &c->pieces[i].x.problem, &plans[i], why);
    }
    if (status == HR_OK) {
        hri_fit_plans_adopt(&j->fit, c, plans, out);
    } else {
        for (uint32_t i = 0; i < c->count; i++) {
            hri_plan_destroy(plans[i]);
        }
    }
    return status;
}

hr_status hri_plan_file_parse(hri_plan_job *j, const char *text, size_t bytes, hri_fit_plans *plans,
                              hri_prose *why) {
    json_t *root;
    hr_status status = hri_json_parse(text, bytes, &limits, &root, why);
    if (status != HR_OK) {
        return status;
    }
    status = check_head(j, root, why);
    status = status == HR_OK ? load_pieces(j, root, plans, why) : status;
    json_decref(root);
    return status;
}

hr_status hri_plan_file_load(hri_plan_job *j, const char *path, hri_fit_plans *plans,
                             hri_plan **plan, hri_prose *why) {
    json_t *root;
    hri_prose reason = {0};
    hr_status status = hri_json_load(path, &limits, &root, why);
    if (status != HR_OK) {
        return status;
    }
    if (j->model) {
        status = check_head(j, root, &reason);
        if (status == HR_OK) {
            status = load_pieces(j, root, plans, &reason);
        }
    } else {
        status = parse_plan(root, &j->problem, plan, &reason);
    }
    json_decref(root);
    return status == HR_OK ? HR_OK : hri_prose_set(why, status, "%.200s: %s", path, reason.text);
}
