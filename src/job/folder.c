/* The folder of a run: chosen, made, locked, looked into; see train.h. */
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "job/train.h"

/* Makes and locks it; a second training of one plan, asked to write into the folder of the first, gets one beside it. */
static hr_status lock_folder(hri_train_job *j, const char *path, hri_folder_kind kind,
                             hri_prose *why) {
    hri_text own = {0};
    hri_text_add(&own, "%s%s", path, j->beside && !strcmp(path, j->beside) ? "-also" : "");
    hr_status status = hri_text_status(&own);
    if (status == HR_OK) {
        status = hri_folder_open(hri_text_get(&own), kind, &j->lock, why);
    }
    if (status == HR_OK) {
        j->folder = hri_strdup(hri_text_get(&own));
        status = j->folder ? HR_OK : HR_E_NOMEM_HOST;
    }
    hri_text_deinit(&own);
    return status;
}

/* runs/NAME-1, runs/NAME-2, ... for "runs/NAME-#": the first that is free, or to resume the last that is not.  Another
 * program may take one at the same time: then it is the next. */
static hr_status choose_folder(hri_train_job *j, hri_prose *why) {
    const char *pattern = j->o.folder, *mark = strrchr(pattern, '#');
    const int resume = j->o.start == HR_START_RESUME;
    hri_text next = {0}, last = {0};
    hr_status status = HR_E_EXISTS;
    for (unsigned n = 1; n < 100000 && status == HR_E_EXISTS; n++) {
        hri_text_clear(&next);
        hri_text_add(&next, "%.*s%u%s", (int)(mark - pattern), pattern, n, mark + 1);
        status = hri_text_status(&next);
        if (status != HR_OK) {
            break;
        }
        const int there = access(hri_text_get(&next), F_OK) == 0;
        const int taken = j->beside && !strcmp(hri_text_get(&next), j->beside);
        if (there && resume) {
            hri_text_clear(&last);
            hri_text_add(&last, "%s", hri_text_get(&next));
            status = hri_text_status(&last) == HR_OK ? HR_E_EXISTS : HR_E_NOMEM_HOST;
        } else if (resume && last.used) {
            status = lock_folder(j, hri_text_get(&last), HRI_FOLDER_ANY, why);
        } else {
            status = there && !taken ? HR_E_EXISTS
                                     : lock_folder(j, hri_text_get(&next), HRI_FOLDER_NEW, why);
        }
    }
    hri_text_deinit(&next);
    hri_text_deinit(&last);
    return status;
}

hr_status hri_train_last_path(const char *folder, hri_text *out) {
    const size_t length = strlen(folder);
    const int pattern = length > 2 && !strcmp(folder + length - 2, "-#");
    hri_text next = {0};
    hr_status status = HR_OK;
    hri_text_add(&next, "%s", folder);
    for (unsigned n = 1; pattern && n < 100000 && status == HR_OK; n++) {
        hri_text_clear(&next);
        hri_text_add(&next, "%.*s%u", (int)length - 1, folder, n);
        status = hri_text_status(&next);
        if (status == HR_OK && access(hri_text_get(&next), F_OK) != 0) {
            hri_text_clear(&next);
            hri_text_add(&next, "%.*s%u", (int)length - 1, folder, n - 1);
            break;
        }
    }
    hri_text_add(out, "%s/" HRI_CHECKPOINT_LAST, hri_text_get(&next));
    status = status == HR_OK ? hri_text_status(&next) : status;
    hri_text_deinit(&next);
    return status == HR_OK ? hri_text_status(out) : status;
}

/* The folder is ours from here on; what is in it is looked at now. */
static hr_status look_into_folder(hri_train_job *j, const char *path) {
    hri_prose why = {""};
    const int there = hri_file_exists(path), resume = j->o.start == HR_START_RESUME;
    if (there && resume) {
        const hr_status status = hri_checkpoint_open(path, &j->resume, &why);
        j->resumes = status == HR_OK;
        if (status != HR_OK) {
            return hri_train_failed(j, status, &why);
        }
    } else if (there && j->o.start != HR_START_OVERWRITE) {
        return hri_why_set(&j->why, HR_CAUSE_USAGE, HR_E_EXISTS,
                           "%s already contains a run; use `start=resume` to continue it or "
                           "`start=overwrite` "
                           "to start over",
                           j->folder);
    } else if (resume) {
        hri_listener_warn(&j->listener, "resume",
                          " has no effect: %s has no checkpoint; starting over", j->folder);
    }
    if (j->resumes && j->o.init && !j->weights.used) {
        hri_listener_warn(&j->listener, "init", " has no effect: the run continues from %s", path);
    }
    return HR_OK;
}

/* A rank that is not the first reads what is there, and nothing else. */
static hr_status read_folder(hri_train_job *j) {
    char *path = NULL;
    hri_prose why = {""};
    hr_status status = hri_path_join(j->o.folder, HRI_CHECKPOINT_LAST, &path);
    if (status == HR_OK && j->o.start == HR_START_RESUME && hri_file_exists(path)) {
        status = hri_checkpoint_open(path, &j->resume, &why);
        j->resumes = status == HR_OK;
    }
    hri_free(path);
    return status == HR_OK ? HR_OK : hri_train_failed(j, status, &why);
}

hr_status hri_train_open_folder(hri_train_job *j) {
    char *path = NULL;
    hri_prose why = {""};
    const hri_about about = {.graph = j->graph,
                             .source = j->source.text,
                             .classes = (const char *const *)j->source.classes,
                             .class_count = j->source.classes ? j->source.class_count : 0};
    if (!j->o.folder) {
        return HR_OK;
    }
    const size_t end = strlen(j->o.folder);
    if (j->who.size > 1 && j->o.start == HR_START_RESUME && end > 2 &&
        !strcmp(j->o.folder + end - 2, "-#")) {
        return hri_why_set(&j->why, HR_CAUSE_USAGE, HR_E_INVALID,
                           "several processes resume from a directory that is named: `folder`");
    }
    if (j->who.rank > 0) {
        return read_folder(j);
    }
    hr_status status = hri_about_check(&about, &why); /* what could be saved and not be read */
    if (status == HR_OK) {
        const size_t length = strlen(j->o.folder);
        const int pattern = length > 2 && !strcmp(j->o.folder + length - 2, "-#");
        status =
            pattern ? choose_folder(j, &why) : lock_folder(j, j->o.folder, HRI_FOLDER_ANY, &why);
    }
    if (status == HR_OK) {
        status = hri_path_join(j->folder, HRI_CHECKPOINT_LAST, &path);
    }
    if (status != HR_OK) {
        return hri_train_failed(j, status, &why);
    }
    status = look_into_folder(j, path);
    hri_free(path);
    return status;
}
