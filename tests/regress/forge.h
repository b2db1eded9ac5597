/* Safetensors files that lie: the header of a good one is changed, its data stays.
 *
 *   json_t *header = forge_read(path);             the header as jansson has it
 *   json_t *text = forge_text(header);             the text "headroom" in it, parsed
 *   ... change both ...
 *   forge_write(path, out, header, text);          text may be NULL: as it is in the header
 *   json_decref(header), json_decref(text);
 */
#ifndef HR_TEST_FORGE_H
#define HR_TEST_FORGE_H

#include <jansson.h>

json_t *forge_read(const char *path);
json_t *forge_text(const json_t *header);
void forge_write(const char *from, const char *to, json_t *header, const json_t *text);
/* A small trained model in FOLDER/NAME, on random images of two classes; returns its last checkpoint's path (static). */
const char *forge_train(const char *folder, const char *name, const char *flags);
/* FOLDER/x.npy (8 images of 4 x 4 x 1, u8) and FOLDER/y.npy (labels, i32). */
void forge_data(const char *folder);

#endif
