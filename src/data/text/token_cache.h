/* Text files as files of tokens, kept between runs: what text:...,tokenizer=FILE reads.
 *
 * A folder of token files (token_stream.h), each named for the path, size and time of a text file and for everything that its tokenizer
 * does, so that a change of either is another file.  What is missing is made, in bounded memory, and renamed into its place when it is whole: a
 * run that was stopped goes on with the next file.  Files in it are the user's to delete. */
#ifndef HRI_DATA_TEXT_TOKEN_CACHE_H
#define HRI_DATA_TEXT_TOKEN_CACHE_H

#include "data/formats/filelist.h"
#include "data/tokenizer.h"

/* Opens the token files of all texts, in their order.  folder NULL: "tokens" in the cache directory.  HR_E_NOT_FOUND without one;
 * HR_E_IO, HR_E_FORMAT with file and place.  `s` is told the progress. */
HR_MUST_CHECK hr_status hri_token_cache_open(hri_stage *s, const hri_filelist *texts,
                                             const hri_tokenizer *t, const char *folder,
                                             hri_filelist *out, hri_prose *why);

#endif
