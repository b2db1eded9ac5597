/* Headroom: neural networks trained inside a stated amount of memory.  This header includes the whole public API, in
 * reading order. */
#ifndef HEADROOM_HEADROOM_H
#define HEADROOM_HEADROOM_H

#include <headroom/status.h>
#include <headroom/bytes.h>
#include <headroom/context.h>
#include <headroom/device.h>
#include <headroom/memory.h>
#include <headroom/replay.h>
#include <headroom/budget.h>
#include <headroom/graph.h>
#include <headroom/ops.h>
#include <headroom/custom.h>
#include <headroom/run.h>
#include <headroom/data.h>
#include <headroom/train.h>
#include <headroom/model.h>
#include <headroom/event.h>
#include <headroom/plan.h>
#include <headroom/job.h>
#include <headroom/predictor.h>
#include <headroom/quantize.h>
#include <headroom/generator.h>
#include <headroom/trainer.h>
#include <headroom/checkpoint.h>
#include <headroom/doctor.h>

#endif
