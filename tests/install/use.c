/* The least program against the installed library. */
#include <stdio.h>
#include <headroom/headroom.h>

int main(void) {
    return puts(hr_version()) < 0 || hr_status_name(HR_OK) == NULL;
}
