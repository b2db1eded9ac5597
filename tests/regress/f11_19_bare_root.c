/* On a bare root (no pseudo-terminals, no HOME, nothing on standard input) the program answers as elsewhere.  That tests
 * which need a terminal are skipped there is tests/golden/golden.c's: a missing /dev/pts ends in test_skip. */
#include "program.h"
#include "sets.h"
#include "pictures.h"
#include "test.h"

TEST(f11_19, an_empty_standard_input_is_bad_input) {
    const char *folder = test_folder();
    set_of_run(folder);
    static const char *const streams[] = {"< /dev/null", "<&-", "< /", "0< set"};
    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
        program_outcome o = program_run(&(program_options){.folder = folder, .as_shell = 1},
                                        "env -i \"$HEADROOM\" predict run - %s", streams[i]);
        program_expect(&o, 2, "standard input");
        program_end(&o);
    }
}
