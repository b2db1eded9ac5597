/* See outputs.h. */
#include "cli/common/outputs.h"

#include "cli/common/spell.h"

int hri_cli_output_check(hri_cli *cli, const char *flag, const char *path, hri_output_kind kind) {
    hri_why why = {0};
    const hr_status status = hri_output_check(&why, flag + 2, path, kind); /* without its dashes */
    return status == HR_OK ? HRI_EXIT_YES : hri_cli_why(cli, &why, status);
}
