/* One value of the option table: text to value, checked, and back.  For options*.c; others use options.h. */
#ifndef HRI_BASE_FIELD_H
#define HRI_BASE_FIELD_H

#include "base/options.h"

typedef union hri_field_value {
    bool truth;
    int64_t integer;
    double number;
    const char *text; /* STRING and SIZE */
    uint64_t bytes;
    int choice;
    hri_list list;
    hri_dims dims;
} hri_field_value;

/* Reads `text`; texts and lists are copied into `arena`.  `label` is what sentences call the field.  Lists
 * are split at commas, with a backslash before one that belongs to an item.  No range is checked. */
HR_MUST_CHECK hr_status hri_value_parse(const hri_field *field, const char *label, const char *text,
                                        hri_arena *arena, hri_field_value *out, hri_prose *why);
/* HR_E_RANGE outside [min, max] of the field. */
HR_MUST_CHECK hr_status hri_value_check(const hri_field *field, const char *label,
                                        const hri_field_value *value, hri_prose *why);
void hri_value_store(const hri_field *field, const hri_field_value *value, void *target);
hri_field_value hri_value_load(const hri_field *field, const void *target);
/* Does it stand for the field's word ("auto")? */
bool hri_value_is_word(const hri_field *field, const hri_field_value *value);
/* Is it set: not empty, not zero, true? */
bool hri_value_is_set(const hri_field *field, const hri_field_value *value);
/* The bytes of a target that these fields fill. */
size_t hri_fields_bytes(const hri_field *fields);
/* The same as a text that grows. */
void hri_value_add(const hri_field *field, const hri_field_value *value, hri_text *out);
/* Do two readings of one field give the same value? */
HR_MUST_CHECK hr_status hri_value_same(const hri_field *field, const hri_field_value *a,
                                       const hri_field_value *b, bool *same);
/* As hri_options_print. */
size_t hri_value_print(const hri_field *field, const hri_field_value *value, char *buf,
                       size_t size);

#endif
