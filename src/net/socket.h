/* Sockets between ranks: all close-on-exec and non-blocking, every wait with an end, every call with a fault point.
 *
 * A place is "@name" (a UNIX socket without a file: nothing is left behind when its owner is killed; the other side's user is
 * compared with ours) or "host:port". */
#ifndef HRI_NET_SOCKET_H
#define HRI_NET_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <headroom/status.h>
#include "base/prose.h"

enum { HRI_PLACE_BYTES = 288 };

/* 127.0.0.0/8, ::1, localhost. */
bool hri_place_is_loopback(const char *place);
/* Listens at the place and at no other address; "host:0" and "@" get a free one, written to out_place. */
HR_MUST_CHECK hr_status hri_socket_listen(const char *place, int *out_fd,
                                          char out_place[HRI_PLACE_BYTES], hri_prose *why);
/* Tries again until `until_ns`, since the other side may come later.  HR_E_PEER: nobody answered. */
HR_MUST_CHECK hr_status hri_socket_connect(const char *place, uint64_t until_ns, int *out_fd,
                                           hri_prose *why);
/* HR_E_AGAIN: nobody is there. */
HR_MUST_CHECK hr_status hri_socket_accept(int listener, int *out_fd);
/* "host:0" with this side's own address of a connection. */
HR_MUST_CHECK hr_status hri_socket_own_place(int fd, char out[HRI_PLACE_BYTES]);

/* How many bytes went; 0: none now.  HR_E_EOF as -1: the other side is gone. */
enum { HRI_SOCKET_GONE = -1 };
int64_t hri_socket_send(int fd, const void *data, size_t bytes);
int64_t hri_socket_receive(int fd, void *data, size_t bytes);
/* All of it, or HR_E_PEER (gone), HR_E_AGAIN (the time is over). */
HR_MUST_CHECK hr_status hri_socket_send_all(int fd, const void *data, size_t bytes,
                                            uint64_t until_ns);
HR_MUST_CHECK hr_status hri_socket_receive_all(int fd, void *data, size_t bytes, uint64_t until_ns);
/* One descriptor with one byte. */
HR_MUST_CHECK hr_status hri_socket_send_fd(int fd, int what, uint64_t until_ns);
HR_MUST_CHECK hr_status hri_socket_receive_fd(int fd, int *what, uint64_t until_ns);
/* Waits for events (poll.h); HR_E_AGAIN: the time is over. */
HR_MUST_CHECK hr_status hri_socket_wait(int fd, short events, uint64_t until_ns);

#endif
