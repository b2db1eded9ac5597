/* Which algorithms of the GPU's libraries a training runs, carried from run to run: --choices FILE, or choices.txt beside
 * the checkpoint, so that a training that goes on elsewhere goes on with the same ones where they are there. */
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "cli/common/train_job.h"

int hri_train_choices_find(hri_train_job *j) {
    hr_status status = HR_OK;
    if (j->flags.choices) {
        j->choices = hri_strdup(j->flags.choices);
        status = j->choices ? HR_OK : HR_E_NOMEM_HOST;
    } else if (j->folder) {
        status = hri_path_join(j->folder, "choices.txt", &j->choices);
    }
    if (status != HR_OK) {
        return hri_cli_failed(j->cli, NULL, "--choices", status);
    }
    const int there = j->choices && hri_file_exists(j->choices);
    j->ask.gpu_choices = there && (j->flags.choices || j->resumes) ? j->choices : NULL;
    return HRI_EXIT_YES;
}

int hri_train_choices_write(hri_train_job *j) {
    hri_prose why = {""};
    if (j->plan.engine) {
        hri_gpu_environment e;
        hri_gpu_environment_get(hri_engine_gpu(j->plan.engine), &e);
        if (e.untried) {
            hri_say_warning(
                j->cli,
                "%u of %u GPU algorithms could not be tried for want of memory: results "
                "may differ in their last bits from those of another run",
                e.untried, e.noted);
        }
    }
    if (!j->plan.engine || !j->choices || j->ask.gpu_choices) {
        return HRI_EXIT_YES;
    }
    hr_status status = HR_OK;
    if (!j->flags.choices) {
        status = hri_path_make_folders(j->folder, &why);
    }
    if (status == HR_OK) {
        status = hri_gpu_choices_write(hri_engine_gpu(j->plan.engine), j->choices, &why);
    }
    if (status != HR_OK) {
        hri_say_error(j->cli, "%s", why.text[0] ? why.text : hr_status_text(status));
        return hri_cli_exit_code(status);
    }
    return HRI_EXIT_YES;
}
