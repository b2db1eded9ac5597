/* LoRA adapters as files that peft reads: adapter_model.safetensors and adapter_config.json.
 *
 *   base_model.model.<prefix><layer>.lora_A.weight   F32 (rank, in)
 *   base_model.model.<prefix><layer>.lora_B.weight   F32 (out, rank)
 *   base_model.model.<prefix><name>                  parameters that are trained whole ("modules_to_save")
 *
 * The prefix is the one that Hugging Face's class of the model has ("transformer." for GPT-2).  Both files are replaced, the
 * tensors first. */
#ifndef HRI_WEIGHTS_ADAPTER_H
#define HRI_WEIGHTS_ADAPTER_H

#include "weights/checkpoint.h"

#define HRI_ADAPTER_TENSORS "adapter_model.safetensors"
#define HRI_ADAPTER_CONFIG  "adapter_config.json"

/* What is trained of g, a graph with the passes of `about`.  Without the pass lora nothing is written. */
HR_MUST_CHECK hr_status hri_adapter_save(const char *folder, const hr_graph *g,
                                         const hri_values *from, const hri_about *about,
                                         hri_prose *why);
/* The bytes of its tensors. */
uint64_t hri_adapter_bytes(const hr_graph *g);

#endif
