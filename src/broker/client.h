/* A connection to the broker for our own commands: one question, one answer. */
#ifndef HRI_BROKER_CLIENT_H
#define HRI_BROKER_CLIENT_H

#include <headroom/status.h>
#include "base/prose.h"
#include "broker/wire.h"

typedef struct hri_client {
    int fd; /* -1: none */
    uint32_t next_id;
} hri_client;

/* HR_E_NOT_FOUND: no broker runs there. */
HR_MUST_CHECK hr_status hri_client_open(const char *folder, hri_client *out, hri_prose *why);
/* {.fd = -1} is allowed. */
void hri_client_close(hri_client *client);
/* Sends *wire and puts the answer in its place.  HR_E_AGAIN: no answer after timeout_ms, the question stands;
 * hri_client_hear waits on.  HR_E_IO: the broker has gone. */
HR_MUST_CHECK hr_status hri_client_ask(hri_client *client, hri_wire *wire, uint64_t timeout_ms);
HR_MUST_CHECK hr_status hri_client_hear(hri_client *client, hri_wire *wire, uint64_t timeout_ms);

#endif
