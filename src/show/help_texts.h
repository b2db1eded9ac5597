/* What `headroom help COMMAND` says below the summary, where that is long. */
#ifndef HRI_SHOW_HELP_TEXTS_H
#define HRI_SHOW_HELP_TEXTS_H

extern const char hri_help_eval[], hri_help_predict[], hri_help_generate[], hri_help_data[],
    hri_help_train[], hri_help_run[], hri_help_report[];

#endif
