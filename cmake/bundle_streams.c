/* The standard streams under the names that bundle.cmake gives them in other libraries' archives. */
#include <stdio.h>

extern FILE *hri_bundle_stdin, *hri_bundle_stdout, *hri_bundle_stderr;
FILE *hri_bundle_stdin, *hri_bundle_stdout, *hri_bundle_stderr;

__attribute__((constructor)) static void find_streams(void) {
    hri_bundle_stdin = stdin;
    hri_bundle_stdout = stdout;
    hri_bundle_stderr = stderr;
}
