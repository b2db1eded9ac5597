/* One run of the program, apart from what belongs to the process (signals, streams): tests run it in their own. */
#ifndef HRI_CLI_PROGRAM_H
#define HRI_CLI_PROGRAM_H

/* argv ends with a NULL and is changed.  Results go to out_fd, words to stderr.  Returns the exit code. */
int hri_program_run(int argc, char **argv, int out_fd);

#endif
