/* See shrink.h. */
#include "job/shrink.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "models/common/file.h"
#include "plan/from_graph.h"
#include "plan/plan.h"

typedef struct shrinking {
    const hri_shrink_job *job;
    hri_checkpoint checkpoint;
    hr_model *before, *after;
    hri_shrinking x;
    hri_shrink_result r;
    hri_why *why;
} shrinking;

static hr_status failed(const shrinking *s, hr_status status, const hri_prose *prose) {
    return hri_why_prose(s->why, hri_cause_of_input(status), status, NULL, prose);
}

/* What is there is not to blame: the machine is. */
static hr_status not_written(const shrinking *s, hr_status status, const hri_prose *prose) {
    return hri_why_prose(s->why, hri_cause_of(status), status, NULL, prose);
}

static hr_status failed_error(const shrinking *s, hr_status status, const hr_error *error) {
    return hri_why_error(s->why, hri_cause_of(status), status, NULL, error);
}

/* ---- how large it is ---- */

/* What the run was trained with, as its user said it; NULL: the file does not say. */
static const char *fact(const shrinking *s, const char *name) {
    const hri_about *a = &s->checkpoint.about;
    for (size_t i = 0; i < a->run_count; i++) {
        if (!strcmp(a->run[i].name, name)) {
            return a->run[i].value;
        }
    }
    return NULL;
}

static void take_habits(shrinking *s) {
    const char *optimizer = fact(s, "--optimizer"), *batch = fact(s, "--batch");
    const long long said = batch ? atoll(batch) : 0;
    s->r.batch = s->job->batch > 0 ? s->job->batch : said > 0 ? (int64_t)said : 32;
    snprintf(s->r.optimizer, sizeof s->r.optimizer, "%s", optimizer ? optimizer : "sgd");
    s->r.had_state = s->checkpoint.whole;
}

static hr_status plan_bytes(const shrinking *s, const hr_graph *g, uint64_t *out) {
    const hri_machine machine = {.threads = 1};
    const hri_plan_options o = {.no_recompute = 1, .no_offload = 1, .keep_order = 1, .effort = 1};
    hri_graph_problem problem = {0};
    hri_plan *plan = NULL;
    hri_prose prose = {""};
    hr_status status = hri_problem_from_graph(g, &machine, &problem, &prose);
    if (status == HR_OK) {
        status = hri_plan_make(&problem.problem, &o, &plan, NULL, &prose);
    }
    *out = status == HR_OK ? plan->arena_bytes : 0;
    hri_plan_destroy(plan);
    hri_graph_problem_deinit(&problem);
    return status == HR_OK ? HR_OK : failed(s, status, &prose);
}

static hr_status measure_step(const shrinking *s, hr_model *m, hr_step_kind kind, int64_t batch,
                              hri_shrink_side *out) {
    char text[32];
    hr_train_options o = {.size = sizeof o};
    hr_error error = {.code = HR_OK};
    hr_graph *g = NULL;
    snprintf(text, sizeof text, "optimizer=%s", s->r.optimizer);
    hr_status status = hr_train_options_parse(text, &o, &error);
    status =
        status == HR_OK ? hr_step_build(&o, hr_model_build, m, kind, batch, &g, &error) : status;
    if (status != HR_OK) {
        return failed_error(s, status, &error);
    }
    status =
        plan_bytes(s, g, kind == HR_STEP_EVALUATE ? &out->inference_bytes : &out->training_bytes);
    for (uint32_t i = 0; i < g->node_count && kind == HR_STEP_EVALUATE; i++) {
        out->flops += g->nodes[i].live ? hri_op_cost(&g->nodes[i].sig).flops : 0;
    }
    for (hr_value v = 1; v < g->value_count && kind == HR_STEP_EVALUATE; v++) {
        if (hri_keep_of(g, v) == HR_KEEP_MODEL) {
            out->file_bytes += hr_meta_bytes(&g->values[v].meta);
            out->parameters += g->values[v].kind == HR_VALUE_PARAM
                                   ? (uint64_t)hr_shape_count(&g->values[v].meta.shape)
                                   : 0;
        }
    }
    hr_graph_destroy(g);
    return status;
}

static hr_status measure(const shrinking *s, hr_model *m, hri_shrink_side *out) {
    const hr_status status = measure_step(s, m, HR_STEP_EVALUATE, 1, out);
    return status == HR_OK ? measure_step(s, m, HR_STEP_WHOLE, s->r.batch, out) : status;
}

/* ---- its files ---- */

/* "dir/small.safetensors" -> "dir/small.hr" */
static hr_status name_model_file(shrinking *s) {
    static const char end[] = ".safetensors";
    const size_t n = strlen(s->job->out), k = sizeof end - 1;
    const size_t stem = n > k && !strcmp(s->job->out + n - k, end) ? n - k : n;
    if (stem + 4 > sizeof s->r.model_path) {
        return hri_why_option(s->why, HR_E_RANGE, "out", ": the path is too long");
    }
    snprintf(s->r.model_path, sizeof s->r.model_path, "%.*s.hr", (int)stem, s->job->out);
    return HR_OK;
}

/* The model's text with the line that names its weights, which are its neighbour. */
static hr_status write_model_file(const shrinking *s, const char *text) {
    const char *classes = strstr(text, "\nclasses "), *slash = strrchr(s->job->out, '/');
    const char *behind = classes ? strchr(classes + 1, '\n') : NULL;
    hri_text file = {0};
    hri_prose prose = {""};
    if (!behind) {
        return hri_why_set(s->why, HR_CAUSE_BUG, HR_E_INTERNAL, "the model's text has no classes");
    }
    hri_text_add(&file, "%.*s\nweights \"%s\"%s", (int)(behind - text), text,
                 slash ? slash + 1 : s->job->out, behind);
    hr_status status = hri_text_status(&file);
    if (status == HR_OK) {
        status = hri_file_write(s->r.model_path, hri_text_get(&file), strlen(hri_text_get(&file)),
                                &prose);
    }
    hri_text_deinit(&file);
    return status == HR_OK ? HR_OK : not_written(s, status, &prose);
}

/* As training names a model that no name opens. */
static void name_model(const shrinking *s, char *name, size_t size) {
    snprintf(name, size, "%.80s:graph=%016llx", hr_model_name(s->after),
             (unsigned long long)hr_model_fingerprint(s->after));
    for (char *at = name; *at && *at != ':'; at++) {
        *at = isalnum((unsigned char)*at) || strchr("_.+-", *at) ? *at : '_';
    }
}

static hr_status write(shrinking *s) {
    char *text = NULL, name[120];
    size_t bytes = 0;
    hri_prose prose = {""};
    hr_status status = name_model_file(s);
    if (status != HR_OK) {
        return status;
    }
    status = hri_model_file_print(s->after, &text, &bytes, &prose);
    if (status == HR_OK) {
        hri_about about = s->checkpoint.about;
        name_model(s, name, sizeof name);
        about.model = name;
        about.graph = text;
        about.passes = NULL; /* they were for training */
        status = hri_shrinking_save(&s->x, s->job->out, &about, &prose);
    }
    status = status == HR_OK ? write_model_file(s, text) : not_written(s, status, &prose);
    hri_free(text);
    return status;
}

/* ---- the whole ---- */

static hr_status open(shrinking *s) {
    hri_prose prose = {""};
    hr_error error = {.code = HR_OK};
    hr_status status = hri_checkpoint_open(s->job->checkpoint, &s->checkpoint, &prose);
    status = status == HR_OK ? hri_checkpoint_model(&s->checkpoint, &s->before, &prose) : status;
    status = status == HR_OK
                 ? hri_shrinking_init(&s->x, &s->checkpoint, s->before, &s->job->how, &prose)
                 : status;
    if (status != HR_OK) {
        return failed(s, status, &prose);
    }
    const hr_model_options o = {.size = sizeof o,
                                .name = hr_model_name(s->before),
                                .build = hri_shrink_build,
                                .user = &s->x,
                                .classes = hr_model_classes(s->before)};
    status = hr_model_define(&o, &s->after, &error);
    return status == HR_OK ? HR_OK : failed_error(s, status, &error);
}

static hr_status check(const hri_shrink_job *job, hri_why *why) {
    const hri_shrink_options *o = &job->how;
    if (o->by == HRI_SHRINK_KEEP && !(o->keep > 0 && o->keep <= 1)) {
        return hri_why_option(why, HR_E_RANGE, "keep", ": %g is not above 0 and at most 1",
                              o->keep);
    }
    if (o->by == HRI_SHRINK_THRESHOLD && !(o->threshold >= 0)) {
        return hri_why_option(why, HR_E_RANGE, "threshold", ": %g is below 0", o->threshold);
    }
    return HR_OK;
}

hr_status hri_shrink(const hri_shrink_job *job, hri_shrink_result *out, hri_why *why) {
    shrinking s = {.job = job, .checkpoint = {.file = {.fd = -1}}, .why = why};
    hr_status status = check(job, why);
    status = status == HR_OK ? open(&s) : status;
    if (status == HR_OK) {
        take_habits(&s);
        s.r.report = s.x.report;
        status = measure(&s, s.before, &s.r.before);
    }
    status = status == HR_OK ? measure(&s, s.after, &s.r.after) : status;
    status = status == HR_OK && job->out ? write(&s) : status;
    hr_model_close(s.after);
    hri_shrinking_deinit(&s.x);
    hr_model_close(s.before);
    hri_checkpoint_close(&s.checkpoint);
    if (status == HR_OK) {
        *out = s.r;
    }
    return status;
}
