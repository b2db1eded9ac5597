/* One rank of tests/net/run: ranks WIRE ROUNDS; started by any launcher.  Prints "rank R of N over WIRE: good", or why not, and exits 3. */
#include <stdio.h>
#include <stdlib.h>

#include "net/net.h"
#include "net_rounds.h"

int main(int argc, char **argv) {
    hri_net_options o = {.wire = argc > 1 ? argv[1] : "auto", .meet_ns = 20000000000u};
    hri_prose why = {0};
    hri_net *net = NULL;
    hr_status status = hri_who_am_i(&o.who, &why);
    status = status == HR_OK ? hri_net_open(&o, &net, &why) : status;
    if (status != HR_OK) {
        fprintf(stderr, "%s: %s\n", hr_status_name(status), why.text);
        return 3;
    }
    status = net_rounds(net, argc > 2 ? atoi(argv[2]) : 20);
    hri_net_end end = {.text = ""};
    hri_net_cause(net, &end);
    printf("rank %u of %u over %s: %s%s\n", hri_net_rank(net), hri_net_size(net), hri_net_wire(net),
           status == HR_OK ? "good" : hr_status_name(status), end.text);
    hri_net_close(net);
    return status == HR_OK ? 0 : 3;
}
