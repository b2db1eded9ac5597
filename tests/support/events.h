/* A reader of TensorBoard event files that shares nothing with the writer: its checksum goes bit by bit, its protobuf
 * is a loop over fields.  What does not parse fails the case. */
#ifndef HR_TEST_EVENTS_H
#define HR_TEST_EVENTS_H

typedef struct test_events {
    char
        log[16384]; /* one word an event: "version", "start@4", "tag@step=value", "text:tag@step" */
    char text[2048]; /* the last text */
} test_events;

/* Adds what a file holds.  s NULL: only frames and checksums are looked at. */
void test_events_file(const char *path, test_events *s);
/* The event files of a folder in the order of their names, as TensorBoard takes them; how many there were. */
int test_events_folder(const char *folder, test_events *s);

#endif
