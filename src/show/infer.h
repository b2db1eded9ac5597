/* An evaluation for people and scripts, and what it shares with a prediction: memory, speed, names of classes. */
#ifndef HRI_SHOW_INFER_H
#define HRI_SHOW_INFER_H

#include <headroom/predictor.h>
#include "base/text.h"
#include "show/show.h"

/* A pass over data, and who made it. */
typedef struct hri_infer_sheet {
    hr_predictor *predictor;
    const hr_infer_info *info;
    const hr_infer_result *result;
    int32_t split; /* hr_split, of an evaluation */
} hri_infer_sheet;

/* The names of hr_split; ends with NULL. */
extern const char *const hri_splits[];

/* "star", or the number of a class without a name. */
const char *hri_infer_class(const hri_infer_sheet *s, int64_t number, char *buf, size_t size);
/* Keys of planned and measured memory and speed. */
void hri_infer_json(const hri_infer_sheet *s, hri_json *json);

/* What was predicted and the memory it took, as a sentence. */
const char *hri_infer_sum(const hri_infer_sheet *s, char *buf, size_t size);

/* The members of the object of a refusal; smallest_bytes 0: not known. */
void hri_infer_refusal_json(const char *model, const char *checkpoint, uint64_t budget_bytes,
                            const char *reason, uint64_t smallest_bytes, hri_json *json);

/* Is this where a confusion matrix is printed rather than written: "-"? */
bool hri_confusion_is_shown(const char *path);
/* How good it is, what it took, the classes with the most errors, and the matrix where it is asked for. */
HR_MUST_CHECK hr_status hri_evaluation_show(const hri_infer_sheet *s, const char *confusion,
                                            hri_out *out, const hri_term *term);
/* The command to type next; data: as it was typed. */
void hri_evaluation_next(const hri_infer_sheet *s, const char *data, hri_text *out);
/* The members of the object. */
void hri_evaluation_json(const hri_infer_sheet *s, const char *confusion, hri_json *json);

#endif
