/* Small data sets and a trained model in the folder of a case, for tests that type commands. */
#ifndef HR_REGRESS_SETS_H
#define HR_REGRESS_SETS_H

/* FOLDER/name/{a,b}/N.png: `each` pictures of 28 x 28 pixels a class. */
void set_of_pictures(const char *folder, const char *name, int each);
/* FOLDER/name: an npy file whose header is as given ("{'descr': '<f4', ...}"), with `bytes` zero bytes behind it. */
void set_of_npy(const char *folder, const char *name, unsigned char version, const char *header,
                unsigned bytes);
/* FOLDER/run, trained for a step on FOLDER/set (made too). */
void set_of_run(const char *folder);

#endif
