"""A symbolic trace of a Keras 3 model, on any backend: the operations of its call, in order.

The model is called on KerasTensors.  Layers that Keras itself defines stay whole, with their configuration; layers and models
of the user, nested models and wrappers are opened: their call() runs on the same symbolic tensors and leaves its own nodes.
Two private names of Keras are replaced for the time of the call (`Layer.symbolic_call` and the Node that
keras.src.layers.layer uses); tests/frameworks fails when a version of Keras moves them."""
from __future__ import annotations

import contextlib
from typing import Any, Iterator, Optional, Sequence

import keras
from keras import ops, tree

from ..graph import Refused

OPENED = ("Functional", "Sequential", "Model", "Bidirectional", "TimeDistributed")


def whole(operation: Any) -> bool:
    home = type(operation).__module__
    return not isinstance(operation, keras.Layer) or \
        (home.startswith("keras.src.layers") and type(operation).__name__ not in OPENED)


def each_step(self: Any, inputs: Any, training: Any = None, mask: Any = None) -> Any:
    """TimeDistributed: the steps are further samples, so the layer is called once."""
    inner = list(self.layer._flatten_layers())
    if training and any(isinstance(x, keras.layers.BatchNormalization) for x in inner):
        raise Refused("TimeDistributed around batch norm, which has statistics for each step")
    if any(isinstance(x, keras.layers.RNN) for x in inner) and mask is not None:
        raise Refused("TimeDistributed around a recurrent layer, with a mask")
    y = self.layer(ops.reshape(inputs, (-1, *inputs.shape[2:])), **({"training": training} if self.layer._call_has_training_arg
                                                                    else {}))
    return ops.reshape(y, (-1, inputs.shape[1], *y.shape[1:]))


def open_call(self: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        if isinstance(self, keras.layers.TimeDistributed):
            return each_step(self, *args, **kwargs)
        return self.call(*args, **kwargs)
    except Refused as e:
        raise e if e.where else Refused(e.what, f"layer {self.path}") from None
    except Exception as e:
        lines = str(e).strip().splitlines() or [type(e).__name__]
        raise Refused(f"its call() cannot be traced with symbolic tensors: {lines[0]}", f"layer {self.path} ({type(self).__name__})") from e


@contextlib.contextmanager
def opened() -> Iterator[None]:
    """Inside, a layer that is not whole leaves no node of its own, and exceptions come through as they are."""
    from keras.src.layers import layer as module

    call, node = keras.Layer.symbolic_call, module.Node
    filtered = keras.config.is_traceback_filtering_enabled()
    fused = [n for n in ("_can_attempt_fused_lstm", "_can_attempt_fused_gru") if hasattr(keras.layers.Bidirectional, n)]
    kept = [getattr(keras.layers.Bidirectional, n) for n in fused]

    def symbolic(self: Any, *args: Any, **kwargs: Any) -> Any:
        return call(self, *args, **kwargs) if whole(self) else open_call(self, *args, **kwargs)

    def made(operation: Any, **rest: Any) -> Any:
        return node(operation=operation, **rest) if whole(operation) else None

    keras.Layer.symbolic_call, module.Node = symbolic, made
    keras.config.disable_traceback_filtering()
    for n in fused:
        setattr(keras.layers.Bidirectional, n, lambda *args: False)
    try:
        yield
    finally:
        keras.Layer.symbolic_call, module.Node = call, node
        if filtered:
            keras.config.enable_traceback_filtering()
        for n, f in zip(fused, kept):
            setattr(keras.layers.Bidirectional, n, f)


def inputs_of(model: Any, shapes: Optional[Sequence[tuple]]) -> list:
    """Symbolic inputs with an open batch; `shapes` (without the batch) where the model does not know its own."""
    if getattr(model, "inputs", None):
        return [keras.KerasTensor((None, *t.shape[1:]), dtype=t.dtype, name=t.name) for t in model.inputs]
    if not shapes:
        built = (getattr(model, "_build_shapes_dict", None) or {}).values()
        shapes = [s[1:] for s in built if isinstance(s, (tuple, list)) and s and not isinstance(s[0], (tuple, list))]
    if not shapes:
        raise ValueError("the model does not know the shape of its input: call it once, or give --input")
    return [keras.KerasTensor((None, *s), dtype="float32", name=f"input_{i}") for i, s in enumerate(shapes)]


def trace(model: Any, training: bool, shapes: Optional[Sequence[tuple]] = None) -> tuple[list, list, Any]:
    """Inputs, nodes in order, and the structure of outputs."""
    xs = inputs_of(model, shapes)
    if hasattr(model, "_inputs_struct"):
        argument = tree.pack_sequence_as(model._inputs_struct, xs)
    else:
        argument = xs[0] if len(xs) == 1 else xs
    with opened():
        out = model.call(argument, training=training) if whole(model) else model(argument, training=training)
    return xs, _ordered(out), out


def _maker(t: Any) -> Any:
    history = getattr(t, "_keras_history", None)
    if history is None or history.operation is None:
        return None
    return history.operation._inbound_nodes[history.node_index]


def _ordered(out: Any) -> list:
    order: list = []
    seen: set = set()
    for t in tree.flatten(out):
        stack = [(_maker(t), False)]
        while stack:
            node, done = stack.pop()
            if node is None or id(node) in seen:
                continue
            if done:
                seen.add(id(node))
                order.append(node)
                continue
            stack.append((node, True))
            stack += [(_maker(a), False) for a in node.input_tensors]
    return [n for n in order if type(n.operation).__name__ != "InputLayer"]
