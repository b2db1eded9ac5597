/* Model files with custom ops: read by the program that defines them, refused by any other; what a plan says of them. */
#include <headroom/headroom.h>

#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "pictures.h"
#include "test.h"

static const char head[] = "headroom model 1\nname \"odd\"\nclasses 3\ncustom \"twice\" \"2 x\"\n";
static const char body[] = "%1 = input \"x\" f32[N,4]\n"
                           "%2 = input \"label\" i32[N]\n"
                           "%3 = param \"w\" f32[3,4] normal 0 0.5\n"
                           "%4 = matmul(%1 %3) {transpose-b=true} @\"\"\n"
                           "%5 = twice(%4) @\"odd\"\n"
                           "%6 %7 = cross_entropy(%5 %2) @\"\"\n"
                           "result \"logits\" %5\n"
                           "result \"loss\" %6\n";

static hr_status shape(void *user, const hr_meta *in, uint32_t count, hr_meta *out,
                       const char **why) {
    (void)user;
    (void)count;
    (void)why;
    out[0] = in[0];
    return HR_OK;
}

static hr_status run(void *user, const hr_custom_call *c) {
    (void)user;
    for (int64_t i = 0; i < hr_shape_count(&c->in_meta[0].shape); i++) {
        ((float *)c->out[0])[i] = 2 * ((const float *)c->in[0])[i];
    }
    return HR_OK;
}

static void slope(void *user, hr_graph *g, hr_custom_grad *c) {
    c->din[0] = hr_graph_custom(g, *(hr_custom **)user, &c->dout[0], 1);
}

static hr_custom *make(const char *name, hr_custom **self) {
    const hr_custom_options o = {.size = sizeof o,
                                 .name = name,
                                 .input_count = 1,
                                 .output_count = 1,
                                 .shape = shape,
                                 .slope = slope,
                                 .run = run,
                                 .workspace_bytes = 1 << 16,
                                 .workspace_ratio = 3,
                                 .user = self};
    CHECK_OK(hr_custom_create(&o, self));
    return *self;
}

static hr_status parse(const char *lines, const hr_custom *op, hr_model **out, hr_error *why) {
    char text[2048];
    snprintf(text, sizeof text, "%sform train\n%sform eval\n%s", head, lines, lines);
    return hr_model_parse_custom(text, strlen(text), &op, op ? 1 : 0, out, why);
}

TEST(custom_ops, of_a_model_file_run_in_the_program_that_defines_them) {
    hr_custom *self, *twice = make("twice", &self);
    hr_model *m;
    hr_error why = {.code = HR_OK};
    CHECK_OK(parse(body, twice, &m, &why));
    hr_graph *g;
    CHECK_OK(hr_graph_create(&g));
    CHECK_OK(hr_model_build(m, g, 5, 1));
    CHECK(hr_graph_find(g, "loss") != HR_NONE);
    hr_graph_destroy(g);
    CHECK_EQ(hr_model_fingerprint(m), 0); /* it cannot be written by us */
    hr_model_close(m);
    hr_custom_destroy(twice);
}

static void refused(const char *lines, const hr_custom *op, hr_status status, const char *words) {
    hr_model *m = NULL;
    hr_error why = {.code = HR_OK};
    CHECK_STATUS(parse(lines, op, &m, &why), status);
    CHECK(m == NULL);
    CHECK(strstr(why.message, words) != NULL);
}

TEST(custom_ops, of_a_model_file_are_refused_by_a_program_without_them) {
    hr_custom *self, *other = make("thrice", &self);
    refused(body, NULL, HR_E_NOT_FOUND,
            "a custom op can only be run by the program that defines it");
    refused(body, other, HR_E_NOT_FOUND, "unknown op \"twice\"");
    hr_custom_destroy(other);
}

static void changed(const char *from, const char *to, char *out, size_t size) {
    const char *at = strstr(body, from);
    snprintf(out, size, "%.*s%s%s", (int)(at - body), body, to, at + strlen(from));
}

TEST(custom_ops, of_a_model_file_are_checked) {
    hr_custom *self, *twice = make("twice", &self);
    char lines[1024];
    changed("twice(%4)", "twice(%4) {p=1}", lines, sizeof lines);
    refused(lines, twice, HR_E_FORMAT, "a custom op has no attributes");
    changed("twice(%4)", "twice(%4 %4)", lines, sizeof lines);
    refused(lines, twice, HR_E_INVALID, "twice");
    hr_custom_destroy(twice);
}

/* A job with such a model. */
typedef struct job {
    hr_custom *self, *twice;
    hr_model *model;
    hr_ctx *ctx;
    hr_job_options o;
} job;

static void job_open(job *j) {
    hr_error why = {.code = HR_OK};
    j->twice = make("twice", &j->self);
    CHECK_OK(parse(body, j->twice, &j->model, &why));
    CHECK_OK(hr_ctx_create(NULL, &j->ctx));
    j->o = (hr_job_options){.size = sizeof j->o,
                            .custom_model = j->model,
                            .device = "host",
                            .no_measure = 1,
                            .batch = 8};
}

static void job_close(job *j) {
    hr_ctx_destroy(j->ctx);
    hr_model_close(j->model);
    hr_custom_destroy(j->twice);
}

TEST(custom_ops, cost_what_the_plan_says) {
    job j;
    hr_plan *plan;
    hr_error why = {.code = HR_OK};
    job_open(&j);
    if (hr_job_plan(j.ctx, &j.o, &plan, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    hr_plan_summary s = {.size = sizeof s};
    CHECK_OK(hr_plan_get_summary(plan, &s));
    CHECK_EQ(s.custom_ops, 2);                                         /* forward and backward */
    CHECK_EQ(s.custom_workspace_bytes, (1 << 16) + 3 * 2 * 8 * 3 * 4); /* x and y (8, 3) */
    CHECK(s.custom_ns > 0);
    hr_plan_destroy(plan);
    job_close(&j);
}

TEST(custom_ops, train_where_nothing_is_saved) {
    job j;
    hr_plan *plan;
    hr_error why = {.code = HR_OK};
    job_open(&j);
    j.o.data = "synthetic:32";
    j.o.epochs = 1;
    if (hr_job_plan(j.ctx, &j.o, &plan, &why) != HR_OK || hr_job_train(plan, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    hr_plan_destroy(plan);
    j.o.folder = test_folder(); /* a checkpoint would have to hold the op */
    CHECK_STATUS(hr_job_plan(j.ctx, &j.o, &plan, &why), HR_E_UNSUPPORTED);
    job_close(&j);
}

TEST(custom_ops, of_a_model_file_leave_nothing_behind_without_memory) {
    hr_custom *self, *twice = make("twice", &self);
    const int64_t live = hri_fault_live_allocs();
    hr_status status = HR_E_NOMEM_HOST;
    for (uint64_t nth = 1; status != HR_OK; nth += 3) {
        hr_model *m = NULL;
        hri_fault_set(HRI_FAULT_ALLOC, nth, 1);
        status = parse(body, twice, &m, NULL);
        hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
        CHECK(status == HR_OK || m == NULL);
        hr_model_close(m);
        CHECK_EQ(hri_fault_live_allocs(), live);
    }
    hr_custom_destroy(twice);
}
