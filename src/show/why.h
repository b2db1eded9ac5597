/* `headroom why`: the story of a refusal or an end, in words and as JSON. */
#ifndef HRI_SHOW_WHY_H
#define HRI_SHOW_WHY_H

#include "base/json.h"
#include "base/out.h"
#include "govern/story.h"

void hri_why_text(const hri_story *story, hri_out *out);
/* Into an object that is open. */
void hri_why_json(const hri_story *story, hri_json *json);
/* The command that would work; "" where none is known to. */
void hri_why_next(const hri_story *story, hri_text *out);

#endif
