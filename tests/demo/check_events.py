"""check_events.py EVENTS RUN.jsonl: TensorBoard itself reads the event files, and finds what the JSON lines say."""
import json
import logging
import sys

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    print("this Python has no tensorboard")
    sys.exit(77)

logging.disable(logging.WARNING)  # that a run was resumed is what is tested here
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
with open(sys.argv[2], encoding="utf-8") as f:
    lines = [json.loads(line) for line in f]
for tag, event, key in (("train/loss", "step", "loss"), ("train/rate", "step", "rate"),
                        ("validation/accuracy", "validation", "accuracy")):
    wanted = {line["step"]: line[key] for line in lines if line["event"] == event}
    found = {point.step: point.value for point in events.Scalars(tag)}
    if wanted.keys() != found.keys() or any(abs(wanted[s] - found[s]) > 1e-6 * (1 + abs(wanted[s])) for s in wanted):
        sys.exit(f"check_events.py: {tag}: {found} is not {wanted}")
text = events.Tensors("run")[0].tensor_proto.string_val[0].decode()
if "| model | mlp" not in text:
    sys.exit(f"check_events.py: the text of the run is {text!r}")
print(f"{len(events.Tags()['scalars'])} curves are right")
