/* What `headroom help COMMAND` says below the summary, where that is long. */
#ifndef HRI_SHOW_HELP_TEXTS_H
#define HRI_SHOW_HELP_TEXTS_H

extern const char hri_help_eval[], hri_help_predict[], hri_help_generate[], hri_help_data[],
    hri_help_train[], hri_help_run[], hri_help_report[], hri_help_devices[], hri_help_diff[],
    hri_help_doctor[], hri_help_limit[], hri_help_pack[], hri_help_plan[], hri_help_profile[],
    hri_help_summary[], hri_help_tokenize[], hri_help_top[], hri_help_why[], hri_help_find_rate[];

#endif
