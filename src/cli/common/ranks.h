/* headroom train as one of several processes: starting them, and who of them speaks. */
#ifndef HRI_CLI_RANKS_H
#define HRI_CLI_RANKS_H

#include "cli/common/cli.h"
#include "manual/train_flags.h"
#include "job/together.h"

/* The wire of the library's options; NULL: replicas are threads of this process. */
const char *hri_ranks_net(const hri_train_flags *f);
/* Where --net asks for processes and nobody has started them: runs the command once a replica; true, with its exit code. */
bool hri_ranks_launch(hri_cli *cli, const hri_train_flags *f, const char *model, int *code);
/* This process is one of several. */
bool hri_ranks_many(const hri_train_flags *f);
/* This one has failed before they met: the others learn why. */
void hri_ranks_decline(hri_cli *cli, const hri_train_flags *f);
/* Rank 0 is gone without a word, and this one speaks in its place. */
bool hri_ranks_stands_in(const hri_together *t, const char *message);
/* Only rank 0 speaks: the others' streams lead nowhere until one of them has something to say that no other can. */
void hri_ranks_mute(const hri_train_flags *f);

#endif
