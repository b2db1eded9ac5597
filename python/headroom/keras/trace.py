"""A symbolic trace of a Keras 3 model, on any backend: the operations of its call, in order.

The model is called on KerasTensors.  Layers of Keras that our table names stay whole, with their configuration; all others, layers and
models of the user, nested models and wrappers are opened: their call() runs on the same symbolic tensors and leaves its own nodes.
Private names of Keras are replaced for the time of the call (class Patches); tests/frameworks fails when a version of Keras moves
them."""
from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from typing import Any, Iterator, Optional, Sequence

import keras
from keras import ops, tree
from keras.src.backend.common.masking import set_keras_mask
from keras.src.backend.common.stateless_scope import in_stateless_scope

from ..graph import Refused
from ..place import raised_at
from ..size import Size
from .batch import OPEN, is_batch, size_of_batch, sized
from .call import LAYERS
from .elements import is_own
from .goal import Goal
from .loops import OPENED


def whole(operation: Any) -> bool:
    """Operations, and the layers of Keras that stand in our table; what does not is opened: its call() is made of operations."""
    return not isinstance(operation, keras.Layer) or \
        (type(operation).__module__.startswith("keras.src.layers") and type(operation).__name__ in LAYERS
         and not getattr(operation, "lora_enabled", False))


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


def unrolled(self: Any, sequences: Any, initial_state: Any = None, mask: Any = None, training: Any = False) -> Any:
    """A recurrent layer with a cell of the user's, or with several: its steps one after the other."""
    if self.stateful or mask is not None:
        raise Refused("a recurrent layer of such a cell with stateful=True" if self.stateful else
                      "a mask for a recurrent layer of such a cell; there are LSTM, GRU and SimpleRNN")
    length = sequences.shape[1]
    state = initial_state if initial_state is not None else tree.map_structure(as_symbol, self.get_initial_state(batch_size=1))
    state, ys = list(state) if isinstance(state, (list, tuple)) else [state], []
    for t in reversed(range(length)) if self.go_backwards else range(length):
        y, state = self.cell(sequences[:, t], state, **({"training": training} if self.cell._call_has_training_arg else {}))
        state = list(state) if isinstance(state, (list, tuple)) else [state]
        ys.append(y)
    self._maybe_reset_dropout_masks(self.cell)
    out = ops.stack(ys, axis=1) if self.return_sequences else ys[-1]
    return [out, *state] if self.return_state else out


def raised(e: Exception) -> str:
    """The user's line that a refusal came from."""
    at = raised_at(e)
    return f", {at}" if at else ""


def open_call(self: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        if isinstance(self, keras.layers.TimeDistributed):
            return each_step(self, *args, **kwargs)
        if isinstance(self, keras.layers.RNN):
            return unrolled(self, *args, **kwargs)
        return self.call(*args, **kwargs)
    except Refused as e:
        raise e if e.where else Refused(e.what, f"layer {self.path or self.name}" + raised(e)) from None
    except Exception as e:
        lines = str(e).strip().splitlines() or [type(e).__name__]
        advice = "; write x = ops.slice_update(x, start, part)" if "item assignment" in lines[0] else ""
        raise Refused(f"its call() cannot be traced with symbolic tensors: {lines[0]}{advice}",
                      f"layer {self.path or self.name} ({type(self).__name__})" + raised(e)) from e


OPERATORS = {"__add__": ("add", False), "__radd__": ("add", True), "__sub__": ("subtract", False), "__rsub__": ("subtract", True),
             "__mul__": ("multiply", False), "__rmul__": ("multiply", True), "__truediv__": ("true_divide", False),
             "__rtruediv__": ("true_divide", True), "__pow__": ("power", False), "__matmul__": ("matmul", False),
             "__rmatmul__": ("matmul", True), "__floordiv__": ("floor_divide", False),
             "__rfloordiv__": ("floor_divide", True), "__mod__": ("mod", False), "__rmod__": ("mod", True),
             "__rpow__": ("power", True), "__lt__": ("less", False), "__le__": ("less_equal", False), "__gt__": ("greater", False),
             "__ge__": ("greater_equal", False), "__neg__": ("negative", False), "__abs__": ("absolute", False),
             "__getitem__": ("get_item", False)}


def get_item(x: Any, key: Any) -> Any:
    from keras.src.ops.numpy import GetItem

    return GetItem().symbolic_call(x, key if isinstance(key, (int, tuple, list)) else (key,))


def operator(f: Any, swapped: bool, plain: Any) -> Any:
    """scale * x with a variable in front: an operation of the graph, but for shapes that a whole layer computes itself."""
    def g(self: Any, *other: Any) -> Any:
        if in_stateless_scope():
            return plain(self, *other)
        return f(*other, self) if swapped else f(self, *other)

    return g


@contextlib.contextmanager
def without_own_activation(of: Any) -> Iterator[Any]:
    """A layer that ends with a function of the user's is called without it; the function, or None."""
    own = of.__dict__.get("activation")
    if not is_own(own) or not whole(of) or isinstance(of, keras.layers.RNN) or in_stateless_scope():
        yield None
        return
    of.__dict__["activation"] = keras.activations.linear
    try:
        yield own
    finally:
        of.__dict__["activation"] = own


def drawn(x: Any, rate: float, noise_shape: Any = None, seed: Any = None) -> Any:
    """Dropout inside a layer that is opened."""
    if not isinstance(x, keras.KerasTensor):
        return x
    return keras.layers.Dropout(rate, noise_shape=noise_shape)(x, training=True)


class Drawn(keras.Operation):
    """Numbers of an open shape that a layer draws itself: between low and high, or normal with mean low and deviation high."""

    def __init__(self, of: str, shape: tuple, low: float, high: float) -> None:
        super().__init__()
        self.of, self.shape, self.low, self.high = of, shape, low, high

    def compute_output_spec(self, x: Any) -> Any:
        return keras.KerasTensor(tuple(None if is_batch(d) else d for d in self.shape), dtype="float32")

    def call(self, x: Any) -> Any:
        raise NotImplementedError


class Read(keras.Operation):
    """A variable that is an argument of a layer, which Keras would make a known tensor."""

    def compute_output_spec(self, v: Any) -> Any:
        return keras.KerasTensor(v.shape, dtype=v.dtype)

    def call(self, v: Any) -> Any:
        raise NotImplementedError


def random_of(of: str, plain: Any) -> Any:
    def f(shape: Any, low: float = 0.0, high: float = 1.0, dtype: Any = None, seed: Any = None, **named: float) -> Any:
        low, high = named.get("mean", named.get("minval", low)), named.get("stddev", named.get("maxval", high))
        if not any(is_batch(d) for d in shape):
            return plain(shape, low, high, dtype=dtype, seed=seed)
        nothing = keras.KerasTensor((), dtype="float32")
        nothing.headroom_array = 0.0
        y = Drawn(of, tuple(shape), low, high).symbolic_call(nothing)
        y.headroom_size = next((d for d in shape if isinstance(d, Size)), Size(1))
        return y

    return f


def sizes_of(plain: Any) -> Any:
    """EinsumDense(output_shape=(None, 8)) says None for a length that its input shows: the letters of the equation say which it is."""
    def f(self: Any, input_shape: Any) -> tuple:
        shape, (left, right) = plain(self, input_shape), self.equation.replace(" ", "").split("->")
        given, known = left.split(",")[0], list(shape)
        letters, places = given.split("..."), right.split("...")
        sizes = dict(zip(letters[0], input_shape))
        sizes.update(zip(reversed(letters[-1]), reversed(list(input_shape))) if len(letters) > 1 else ())
        for of, order in ((places[0], 1), (places[-1][::-1], -1)) if len(places) > 1 else ((places[0], 1),):
            for i, letter in enumerate(of):
                at = i if order > 0 else len(known) - 1 - i
                known[at] = sizes.get(letter) if known[at] is None else known[at]
        return tuple(known)

    return f


@functools.cache
def attention_forgets() -> bool:
    """In some versions of Keras attention takes the masks off its arguments when it is called, so that later layers do not see them."""
    try:
        return "set_keras_mask(value, None)" in inspect.getsource(keras.layers.MultiHeadAttention.call)
    except OSError:  # installed without its source
        return False


class Patches:
    """The replaced names: Layer.symbolic_call and Layer.__call__, the Node that layers and operations make, arithmetic of variables
    and their assignment, and what draws random numbers."""

    def __init__(self) -> None:
        from keras.src.backend import random
        from keras.src.backend.common.variables import Variable
        from keras.src.layers import layer
        from keras.src.ops import numpy, operation

        self.modules, self.node = (layer, operation), layer.Node
        self.symbolic, self.call = keras.Layer.symbolic_call, keras.Layer.__call__
        self.within: list[str] = []  # paths of the layers that are being opened
        self.masks: dict[int, dict] = {}  # of a layer that is being called: those of its arguments, which Keras keeps out of the node
        self.count = 0  # nodes, in the order of their calls
        two = keras.layers.Bidirectional
        self.fused = {n: getattr(two, n) for n in ("_can_attempt_fused_lstm", "_can_attempt_fused_gru") if hasattr(two, n)}
        self.random = random
        self.draws = {n: getattr(random, n) for n in ("dropout", "normal", "uniform")}
        self.variable = Variable
        self.dunders = {n: getattr(Variable, n) for n in OPERATORS}
        self.assign, self.any = Variable.assign, numpy.any_symbolic_tensors
        self.readers: list[Any] = [m for n, m in sys.modules.items()
                                   if n.startswith("keras.src.ops.") and hasattr(m, "any_symbolic_tensors")]
        self.operation = keras.Operation.symbolic_call
        self.shaped = {n: getattr(ops, n) for n in OPEN}
        self.add_loss, self.losses = keras.Layer.add_loss, []
        self.einsum = keras.layers.EinsumDense.compute_output_shape
        self.filtered = keras.config.is_traceback_filtering_enabled()

    def read(self, x: Any) -> Any:
        return Read().symbolic_call(x) if isinstance(x, self.variable) else x

    def enter(self) -> None:
        patches = self

        def symbolic(self: Any, *args: Any, **kwargs: Any) -> Any:
            if whole(self):
                patches.masks[id(self)] = {k: m for k, m in kwargs.items() if k.endswith("_mask") and m is not None}
                made = patches.symbolic(self, *args, **kwargs)
                if isinstance(self, keras.layers.MultiHeadAttention) and attention_forgets():
                    tree.map_structure(lambda x: isinstance(x, keras.KerasTensor) and set_keras_mask(x, None), (args, kwargs))
                return made
            patches.within.append(self.path)
            try:
                return open_call(self, *args, **kwargs)
            finally:
                patches.within.pop()

        def noted(operation: Any, **rest: Any) -> Any:
            if not whole(operation):
                return None
            given = rest.get("call_kwargs") or {}
            masks = {k: m for k, m in patches.masks.pop(id(operation), {}).items() if given.get(k) is None}
            node = patches.node(operation=operation, **{**rest, "call_kwargs": {**given, **masks}} if masks else rest)
            inner = isinstance(operation, keras.Layer)
            node.headroom_layer = operation.path if inner else patches.within[-1] if patches.within else ""
            node.headroom_number = patches.count
            sized(operation, node.input_tensors, node.output_tensors)
            patches.count += 1
            return node

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            """A layer with weights that is called on known numbers (positions) is part of the graph all the same."""
            if self.weights and not any(isinstance(x, keras.KerasTensor) for x in tree.flatten((args, kwargs))):
                args, kwargs = tree.map_structure(as_symbol, (args, kwargs))
            if not in_stateless_scope():
                args, kwargs = tree.map_structure(patches.read, (args, kwargs))
            with without_own_activation(self) as after:
                made = patches.call(self, *args, **kwargs)
            made = made if after is None else after(made)
            if getattr(self, "activity_regularizer", None) is not None and not in_stateless_scope():
                patches.losses += [ops.divide(self.activity_regularizer(y), size_of_batch()) for y in tree.flatten(made)
                                   if isinstance(y, keras.KerasTensor)]
            return made

        def operation(self: Any, *args: Any, **kwargs: Any) -> Any:
            args = tuple(size_of_batch(x) if isinstance(x, Size) else x for x in args)
            f = OPENED.get(type(self).__name__)
            return f(self, *args, **kwargs) if f is not None else patches.operation(self, *args, **kwargs)

        def add_loss(self: Any, loss: Any) -> None:
            if in_stateless_scope():  # a whole layer that finds out its shapes
                return
            patches.losses += [ops.sum(x) for x in tree.flatten(loss)]

        def symbols(args: Any = None, kwargs: Any = None) -> bool:
            """Variables are part of the graph as tensors are, as long as no layer is computing its own shapes."""
            flat = tree.flatten((args or (), list((kwargs or {}).values())))
            return any(isinstance(x, keras.KerasTensor) for x in flat) or \
                not in_stateless_scope() and any(isinstance(x, patches.variable) for x in flat)

        def assign(self: Any, value: Any) -> Any:
            if in_stateless_scope():
                return patches.assign(self, value)
            raise Refused(f"it assigns to its variable {self.path} while it is called")

        keras.Layer.symbolic_call, keras.Layer.__call__ = symbolic, call
        keras.Operation.symbolic_call, keras.Layer.add_loss = operation, add_loss
        for n, f in OPEN.items():
            setattr(ops, n, functools.partial(f, self.shaped[n]))
        for m in self.modules:
            m.Node = noted
        for m in self.readers:
            m.any_symbolic_tensors = symbols
        for n, (f, swapped) in OPERATORS.items():
            setattr(self.variable, n, operator(get_item if f == "get_item" else getattr(ops, f), swapped, self.dunders[n]))
        self.variable.assign = assign
        self.random.dropout = drawn
        for of in ("normal", "uniform"):
            setattr(self.random, of, random_of(of, self.draws[of]))
        keras.layers.EinsumDense.compute_output_shape = sizes_of(self.einsum)
        for n in self.fused:
            setattr(keras.layers.Bidirectional, n, lambda *args: False)
        keras.config.disable_traceback_filtering()

    def leave(self) -> None:
        keras.Layer.symbolic_call, keras.Layer.__call__ = self.symbolic, self.call
        keras.Operation.symbolic_call, keras.Layer.add_loss = self.operation, self.add_loss
        for n, f in self.shaped.items():
            setattr(ops, n, f)
        for m in self.modules:
            m.Node = self.node
        keras.layers.EinsumDense.compute_output_shape = self.einsum
        for n, f in self.fused.items():
            setattr(keras.layers.Bidirectional, n, f)
        for m in self.readers:
            m.any_symbolic_tensors = self.any
        for n, f in self.dunders.items():
            setattr(self.variable, n, f)
        for n, f in self.draws.items():
            setattr(self.random, n, f)
        self.variable.assign = self.assign
        if self.filtered:
            keras.config.enable_traceback_filtering()


def as_symbol(x: Any) -> Any:
    if not keras.ops.is_tensor(x):
        return x
    t = keras.KerasTensor(tuple(x.shape), dtype=keras.backend.standardize_dtype(x.dtype))
    t.headroom_array = keras.ops.convert_to_numpy(x)
    return t


@contextlib.contextmanager
def opened() -> Iterator[Patches]:
    """Inside, a layer that is not whole leaves no node of its own, and exceptions come through as they are."""
    patches = Patches()
    patches.enter()
    try:
        yield patches
    finally:
        patches.leave()


def is_shape(x: Any) -> bool:
    return isinstance(x, (tuple, list)) and bool(x) and all(d is None or isinstance(d, int) for d in x)


def built_with(model: Any) -> Any:
    """The structure that a subclassed model was called with: shapes in place of tensors; None where it is not known."""
    known = list((getattr(model, "_build_shapes_dict", None) or {}).values())
    return known[0] if len(known) == 1 else known or None


def leaves(structure: Any, name: str = "") -> list[tuple[str, tuple]]:
    """Names and shapes in the order of keras.tree: keys of dicts sorted."""
    if is_shape(structure):
        return [(name, tuple(structure))]
    items = sorted(structure.items()) if isinstance(structure, dict) else [(f"input_{i}", s) for i, s in enumerate(structure)]
    return [leaf for key, inner in items for leaf in leaves(inner, str(key))]


def rebuilt(structure: Any, xs: Iterator) -> Any:
    if is_shape(structure):
        return next(xs)
    if isinstance(structure, dict):
        made = {k: rebuilt(structure[k], xs) for k in sorted(structure)}
        return {k: made[k] for k in structure}
    return type(structure)(rebuilt(s, xs) for s in structure)


def argument_of(model: Any, xs: Sequence[Any]) -> Any:
    """Tensors in the structure that the model is called with."""
    if hasattr(model, "_inputs_struct"):
        return tree.pack_sequence_as(model._inputs_struct, list(xs))
    structure = built_with(model)
    if structure is not None and len(leaves(structure)) == len(xs):
        return rebuilt(structure, iter(xs))
    return xs[0] if len(xs) == 1 else list(xs)


def inputs_of(model: Any, shapes: Optional[Sequence[tuple]], types: Optional[Sequence[str]]) -> list:
    """Symbolic inputs with an open batch; `shapes` (without the batch) where the model does not know its own."""
    if getattr(model, "inputs", None):
        found = [(str(t.name), tuple(t.shape), str(t.dtype)) for t in model.inputs]
    else:
        structure = built_with(model)
        found = [(name or "input_0", shape, "float32") for name, shape in (leaves(structure) if structure is not None else [])]
    if shapes and not found:
        found = [(f"input_{i}", (None, *shape), "float32") for i, shape in enumerate(shapes)]
    if not found:
        raise Refused("the model does not know the shape of its input: call it once, or give --input")
    if shapes and len(shapes) != len(found):
        raise Refused(f"{len(shapes)} inputs are given; the model has {len(found)}: {', '.join(n for n, _, _ in found)}")
    xs = []
    for i, (name, shape, dtype) in enumerate(found):
        shape = (None, *(shapes[i] if shapes else shape[1:]))
        if None in shape[1:]:
            flags = " ".join(f"--input '{'i' if 'float' not in t else 'f'}32[{','.join(['N', *(str(d or 128) for d in s[1:])])}]'"
                             for _, s, t in found)
            raise Refused(f"the input {name} is open in more than its batch; give the sizes of {'the input' if len(found) == 1 else 'all'}"
                          + (f" ({', '.join(n for n, _, _ in found)}, in this order)" if len(found) > 1 else "") + f", such as {flags}")
        xs.append(keras.KerasTensor(shape, dtype=types[i] if types else dtype, name=name))
    return xs


def trace(model: Any, training: bool, shapes: Optional[Sequence[tuple]] = None, types: Optional[Sequence[str]] = None,
          end: Any = None, rows: Optional[Sequence[int]] = None) -> tuple[list, list, Any, list]:
    """Inputs, nodes in order, the structure of outputs, and losses that layers add.  `end`: a function of labels and output whose
    result stands before the outputs; the labels, `rows` a sample (None: as the first output), are the last input.  Or a Goal, which
    has its own."""
    xs = inputs_of(model, shapes, types)
    argument = argument_of(model, xs)
    with opened() as patches:
        out = model.call(argument, training=training) if whole(model) else model(argument, training=training)
        if isinstance(end, Goal):
            given, outputs = end.inputs(), tree.flatten(out)
            xs, out = [*xs, *given], [end.total(given, outputs, training), *outputs]
        elif end is not None:
            outputs = tree.flatten(out)
            labels = keras.KerasTensor((None, *(outputs[0].shape[1:] if rows is None else rows)), dtype="float32", name="label")
            xs, out = [*xs, labels], [end(labels, outputs[0]), *outputs]
    return xs, _ordered([out, patches.losses]), out, patches.losses


def _maker(t: Any) -> Any:
    history = getattr(t, "_keras_history", None)
    if history is None or history.operation is None:
        return None
    return history.operation._inbound_nodes[history.node_index]


def _ordered(out: Any) -> list:
    """The nodes behind the outputs, as they were called: a layer that is called twice moves its statistics in that order."""
    found: dict = {}
    stack = [_maker(t) for t in tree.flatten(out)]
    while stack:
        node = stack.pop()
        if node is not None and id(node) not in found and type(node.operation).__name__ != "InputLayer":
            found[id(node)] = node
            stack += [_maker(a) for a in node.input_tensors]
    return sorted(found.values(), key=lambda n: n.headroom_number)
