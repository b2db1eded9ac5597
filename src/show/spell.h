/* Between the options of the library and the flags of the command line: names, and sentences that have them.
 *
 * The library speaks of options ("val_split leaves no training samples"); users read what they typed ("--val-split leaves
 * ..."). */
#ifndef HRI_SHOW_SPELL_H
#define HRI_SHOW_SPELL_H

#include "base/options.h"
#include "job/answer.h"

/* The flags of some changes, for hri_options_changed: out has room for as many. */
void hri_spell_changes(const hri_way_change *changes, size_t count, hri_change *out);
/* Adds "--batch 27 --budget 64MiB". */
HR_MUST_CHECK hr_status hri_spell_flags(const hri_field *fields, const hri_change *changes,
                                        size_t count, hri_text *out);
/* Adds a sentence of the library as the command line says it: the option that it begins with, of so many bytes, and those
 * in `backquotes`. */
void hri_spell_sentence(const char *text, size_t option_bytes, hri_text *out);

#endif
