/* The process around the program: its streams and its signals. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#include "base/stack.h"
#include "cli/common/program.h"

/* A result must never land in a file that happened to get the number of a closed stream.  A closed stdout becomes one
 * that refuses to be written, and is reported as such. */
static void hold_streams(void) {
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 2 ? O_WRONLY : O_RDONLY) != fd) {
            return;
        }
    }
}

int main(int argc, char **argv) {
    hold_streams();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an errno of the write that meets it */
    signal(SIGXFSZ, SIG_IGN); /* so is a limit on the size of files */
    hri_prose why = {""};
    if (hri_stack_raise(&why) != HR_OK) {
        fprintf(stderr, "headroom: %s\n", why.text);
        return 2;
    }
    return hri_program_run(argc, argv, STDOUT_FILENO);
}
