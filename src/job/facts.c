/* What the history of a training depends on, as its user would say it: for the checkpoint, and for going on from it.
 *
 * The one idea: one list of names and values ("--batch" "8").  Two trainings are the same when their lists are; what differs
 * is named by its flag.  Threads, budget, how long it trains and what is written beside are not in it: they change no bit. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/options.h"
#include "device/device.h"
#include "job/train.h"
#include "step/options.h"

typedef struct list {
    hri_arena *texts;
    hri_fact *facts;
    size_t count;
    int failed;
} list;

static void add(list *l, const char *name, const char *format, ...) HR_PRINTF(3, 4);
static void add(list *l, const char *name, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const char *value = l->facts ? hri_arena_vprintf(l->texts, format, args) : NULL;
    va_end(args);
    if (!value || l->count == HRI_CHECKPOINT_FACTS_MAX) {
        l->failed = 1;
        return;
    }
    l->facts[l->count++] = (hri_fact){name, value};
}

/* An option of training under the name it is typed with: files of before have it so. */
static const char *typed(list *l, const char *name) {
    static const char *const flags[] = {"optimizer", "rate",    "schedule",   "warmup",
                                        "every",     "gamma",   "final-rate", "momentum",
                                        "nesterov",  "decay",   "clip",       "steps",
                                        "precision", "moments", "clip-value"};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (!strcmp(flags[i], name)) {
            return hri_arena_printf(l->texts, "--%s", name);
        }
    }
    return hri_arena_printf(l->texts, "--options %s", name);
}

static hr_status add_options(const hri_train_job *j, list *l) {
    hri_options o;
    hr_train_options copy = j->plan->job.options, zero;
    const hr_status status = hri_options_init(&o, hri_train_fields, &zero, NULL);
    if (status != HR_OK) {
        return status;
    }
    o.target = &copy; /* printing reads the target alone */
    for (const hri_field *f = hri_train_fields; f->name; f++) {
        char value[64];
        const char *name = typed(l, f->name);
        hri_options_print(&o, f, value, sizeof value);
        const int added = !strcmp(f->name, "moments") || !strcmp(f->name, "clip-value") ||
                          !strcmp(f->name, "power") || !strcmp(f->name, "relative-step") ||
                          !strcmp(f->name, "update-clip") || !strcmp(f->name, "root-epsilon");
        if (!name) {
            l->failed = 1;
        } else if (strcmp(f->name, "precision") != 0 && /* it is named with the flags */
                   (!added || strcmp(value, f->value) != 0)) {
            add(l, name, "%s", value); /* files of before have not what was added later */
        }
    }
    o.target = &zero;
    hri_options_deinit(&o);
    return HR_OK;
}

static void add_job(const hri_train_job *j, list *l) {
    const hr_job_options *o = &j->o;
    const uint64_t parts = j->row.micro_batches;
    add(l, HRI_FACT_MODEL, "%s", j->about.model);
    add(l, "--batch", "%lld", (long long)(j->batch / o->accumulate));
    add(l, "--accumulate", "%lld", (long long)o->accumulate);
    add(l, "--micro-batches", "%llu", (unsigned long long)parts);
    add(l, "--ghost-norm", "%s", parts > 1 && o->split_norm ? "on" : "off");
    add(l, "--precision", "%s", hri_plan_precisions[j->plan->job.options.precision]);
    add(l, "--exact", "%s", j->plan->engine && o->exact_f32 ? "on" : "off");
    add(l, "--seed", "%lld", (long long)o->seed);
    const hri_seeds *s = &j->seeds;
    if (s->data != o->seed || s->init != o->seed || s->dropout != o->seed ||
        s->augment != o->seed) {
        add(l, "--seeds", "data=%llu,init=%llu,dropout=%llu,augment=%llu",
            (unsigned long long)s->data, (unsigned long long)s->init,
            (unsigned long long)s->dropout, (unsigned long long)s->augment);
    }
    add(l, "--smoothing", "%.17g", o->smoothing);
    if (j->loss.kind) { /* runs of before have neither */
        char loss[HRI_LOSS_TEXT];
        add(l, "--loss", "%s", hri_loss_print(&j->loss, loss, sizeof loss));
    }
    for (size_t i = 0; i < j->plan->passes.count; i++) {
        const hri_pass_options *p = &j->plan->passes.of[i];
        hri_text text = {0};
        const char *name = hri_arena_printf(l->texts, "--%s", p->pass->name);
        hri_pass_print(p, &text);
        if (name && hri_text_status(&text) == HR_OK) {
            add(l, name, "%s", hri_text_get(&text) + strlen(p->pass->name) + 1);
        } else {
            l->failed = 1;
        }
        hri_text_deinit(&text);
    }
    if (j->class_weights) {
        uint64_t hash = 0;
        for (int64_t c = 0; c < j->want.classes; c++) {
            uint32_t bits;
            memcpy(&bits, &j->class_weights[c], sizeof bits);
            hash = hri_hash_u64(hash ^ bits);
        }
        add(l, "--class-weights", "%016llx", (unsigned long long)hash);
    }
    if (j->best_by != HRI_BEST_BY_LOSS && j->wanted.of[j->best_by].kind != HRI_WANTED_LOSS) {
        add(l, "--best-by", "%s", j->wanted.of[j->best_by].name); /* the best so far is of it */
    }
    if (j->mix.mixup > 0) {
        add(l, "--mixup", "%.17g", j->mix.mixup);
    }
    if (j->mix.cutmix > 0) {
        add(l, "--cutmix", "%.17g", j->mix.cutmix);
    }
    add(l, "--augment", "%s", j->augment.used ? hri_text_get(&j->augment) : "none");
    add(l, "--val-split", "%.17g", o->val_split);
    add(l, "--skip-bad", "%s", o->skip_bad ? "on" : "off");
}

static void add_environment(const hri_train_job *j, list *l) {
    hr_device_info info = {.size = sizeof info};
    if (j->plan->device && hr_device_get_info(j->plan->device, &info) == HR_OK) {
        /* Of a host the bits do not depend on which it is. */
        const int host = (hri_device_can(j->plan->device) & HRI_CAN_POINT) != 0;
        add(l, "device", "%s", host ? "host" : info.description);
    }
    if (j->plan->engine) {
        hri_gpu_environment e;
        hri_gpu_environment_get(hri_engine_gpu(j->plan->engine), &e);
        add(l, "cuBLASLt", "%s", e.cublaslt);
        add(l, "cuDNN", "%s", e.cudnn);
        add(l, "GPU algorithms", "%s", e.choices); /* the bits that they give */
    }
}

hr_status hri_train_facts(hri_train_job *j) {
    list run = {.texts = &j->facts}, here = {.texts = &j->facts};
    run.facts = HRI_ARENA_ARRAY(&j->facts, hri_fact, HRI_CHECKPOINT_FACTS_MAX);
    here.facts = HRI_ARENA_ARRAY(&j->facts, hri_fact, HRI_CHECKPOINT_FACTS_MAX);
    add_job(j, &run);
    const hr_status status = add_options(j, &run);
    add(&run, HRI_FACT_DATA, "%016llx",
        (unsigned long long)hr_pipeline_fingerprint(hri_supply_pipeline(j->train)));
    add_environment(j, &here);
    if (status != HR_OK || run.failed || here.failed) {
        return status != HR_OK ? status : HR_E_NOMEM_HOST;
    }
    j->about.run = run.facts;
    j->about.run_count = run.count;
    j->about.environment = here.facts;
    j->about.environment_count = here.count;
    return HR_OK;
}

int64_t hri_train_facts_batch(const hri_about *about) {
    for (size_t i = 0; i < about->run_count; i++) {
        char *end;
        if (!strcmp(about->run[i].name, "--batch")) {
            const long long n = strtoll(about->run[i].value, &end, 10);
            return *end || n < 1 || n > 1000000 ? 0 : n;
        }
    }
    return 0;
}
