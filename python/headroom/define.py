"""Graphs built in Python: values, every op of the library's table by its name, ops of your own in NumPy.

    def net(g: hr.Graph, batch: int, training: bool) -> None:
        x, y = g.input("x", (batch, 20)), g.input("y", (batch,), "i32")
        h = g.relu(g.matmul(x, g.param("w", (20, 64), std=0.1)))
        logits = g.matmul(h, g.param("v", (64, 3), std=0.1))
        g.result(g.cross_entropy(logits, y), "loss")

There is no wrapper an op: g.conv2d(x, w, stride=2) looks "conv2d" up in the table, where its attributes are (`hr.ops()`)."""
from __future__ import annotations

import ctypes as c
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Optional, Sequence, Union

from .errors import Error, UsageError
from .library import NUMPY, TYPES, call, check, each, fill, library, make_meta, make_shape, shape_of, text

Number = Union[int, float]


class Value:
    """A value of a graph.  + - * / @ and unary minus add nodes; numbers become constants."""

    def __init__(self, graph: "Graph", id_: int) -> None:
        self.graph, self.id = graph, id_

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(library().hr_graph_meta(self.graph.handle, self.id).shape)

    @property
    def type(self) -> str:
        return TYPES[library().hr_graph_meta(self.graph.handle, self.id).type]

    @property
    def name(self) -> str:
        return text(library().hr_graph_name(self.graph.handle, self.id))

    def _other(self, x: Union["Value", Number]) -> "Value":
        return x if isinstance(x, Value) else self.graph.fill((), x, self.type)

    def __add__(self, x: Union["Value", Number]) -> "Value":
        return self.graph.node("add", self, self._other(x))

    def __sub__(self, x: Union["Value", Number]) -> "Value":
        return self.graph.node("sub", self, self._other(x))

    def __rsub__(self, x: Union["Value", Number]) -> "Value":
        return self.graph.node("sub", self._other(x), self)

    def __mul__(self, x: Union["Value", Number]) -> "Value":
        return self.graph.node("mul", self, self._other(x))

    def __truediv__(self, x: Union["Value", Number]) -> "Value":
        return self.graph.node("div", self, self._other(x))

    def __rtruediv__(self, x: Union["Value", Number]) -> "Value":
        return self.graph.node("div", self._other(x), self)

    def __matmul__(self, x: "Value") -> "Value":
        return self.graph.node("matmul", self, x)

    def __neg__(self) -> "Value":
        return self.graph.node("mul", self, self._other(-1.0))

    __radd__, __rmul__ = __add__, __mul__

    def __repr__(self) -> str:
        return f"<{self.name or 'value'} {self.type}[{','.join(map(str, self.shape))}]>"


def attributes(given: dict[str, Any]) -> bytes:
    """stride=2, pad=(1, 1, 1, 1), causal=True as the text that the library reads."""
    from .graph import attribute

    return ",".join(f"{k.replace('_', '-')}={attribute(v)}" for k, v in given.items() if v is not None).encode()


class Graph:
    """A graph under construction.  Mistakes are raised by the call that makes them."""

    def __init__(self, handle: Optional[c.c_void_p] = None) -> None:
        self.borrowed = handle is not None
        self.handle = handle or c.c_void_p()
        self.customs: list[Any] = []
        if not self.borrowed:
            check(library().hr_graph_create(c.byref(self.handle)))

    def _checked(self, id_: int) -> Value:
        if not id_:
            self.raise_error()
        return Value(self, id_)

    def raise_error(self) -> None:
        from . import _c

        why = _c.hr_error()
        library().hr_graph_error(self.handle, c.byref(why))
        raise UsageError(text(why.message) or "the graph could not be built", text(library().hr_status_name(why.code)))

    def input(self, name: str, shape: Sequence[int], type: str = "f32") -> Value:
        """Fed in every step; dimension 0 is the batch."""
        return self._checked(library().hr_graph_input(self.handle, name.encode(), TYPES.index(type), make_shape(shape)))

    def _persistent(self, kind: str, name: str, shape: Sequence[int], type_: str, init: Any) -> Value:
        make = getattr(library(), f"hr_graph_{kind}")
        return self._checked(make(self.handle, name.encode(), TYPES.index(type_), make_shape(shape), init))

    def param(self, name: str, shape: Sequence[int], type: str = "f32", *, std: Optional[float] = None,
              uniform: Optional[tuple[float, float]] = None, value: float = 0.0) -> Value:
        """Trained.  Begins as normal(std), uniform(low, high) or the constant `value`."""
        return self._persistent("param", name, shape, type, initial(std, uniform, value))

    def state(self, name: str, shape: Sequence[int], type: str = "f32", *, std: Optional[float] = None,
              uniform: Optional[tuple[float, float]] = None, value: float = 0.0) -> Value:
        """Lives on from step to step and is not trained."""
        return self._persistent("state", name, shape, type, initial(std, uniform, value))

    def constant(self, array: Any) -> Value:
        import numpy as np

        a = np.asarray(array, order="C")
        if a.dtype.name not in NUMPY:
            a = np.asarray(a, "float32" if a.dtype.kind == "f" else "int32")
        return self._checked(library().hr_graph_constant(self.handle, NUMPY.index(a.dtype.name), make_shape(a.shape), a.ctypes.data))

    def fill(self, shape: Sequence[int], number: Number, type: str = "f32") -> Value:
        return self._checked(library().hr_graph_fill(self.handle, TYPES.index(type), make_shape(shape), float(number)))

    def node(self, op: str, *inputs: Optional[Value], **given: Any) -> Value:
        """Any op of the table; the first output.  None leaves an input out.  output() gives the others."""
        ids = (c.c_uint32 * max(1, len(inputs)))(*[v.id if v is not None else 0 for v in inputs])
        return self._checked(library().hr_graph_node(self.handle, op.encode(), ids, len(inputs), attributes(given)))

    def output(self, value: Value, index: int) -> Value:
        return self._checked(library().hr_graph_output(self.handle, value.id, index))

    def custom(self, op: "Custom", *inputs: Value) -> Value:
        """A node of an op of your own; the first output."""
        self.customs.append(op)
        ids = (c.c_uint32 * len(inputs))(*[v.id for v in inputs])
        return self._checked(library().hr_graph_custom(self.handle, op.handle, ids, len(inputs)))

    def result(self, value: Value, name: str) -> None:
        library().hr_graph_result(self.handle, value.id, name.encode())

    @contextmanager
    def scope(self, part: str) -> Iterator[None]:
        """Names inside begin with `part` and a dot."""
        library().hr_graph_push(self.handle, part.encode())
        try:
            yield
        finally:
            library().hr_graph_pop(self.handle)

    def has(self, name: str) -> bool:
        return bool(library().hr_graph_find(self.handle, name.encode()))

    def find(self, name: str) -> Value:
        """An input, parameter, state or result by its name."""
        found = library().hr_graph_find(self.handle, name.encode())
        if not found:
            raise UsageError(f"the graph has no input, parameter, state or result {name!r}")
        return Value(self, found)

    def gradients(self, loss: Value, wrt: Sequence[Value]) -> list[Optional[Value]]:
        """Adds the nodes of the gradient; None where the loss does not depend on a value."""
        ids = (c.c_uint32 * len(wrt))(*[v.id for v in wrt])
        out = (c.c_uint32 * len(wrt))()
        if library().hr_graph_differentiate(self.handle, loss.id, 0, ids, len(wrt), out) != 0:
            self.raise_error()
        return [Value(self, g) if g else None for g in out]

    def freeze(self) -> "Graph":
        """Checks everything and makes the graph read-only."""
        if library().hr_graph_freeze(self.handle) != 0:
            self.raise_error()
        return self

    def close(self) -> None:
        if not self.borrowed and self.handle:
            library().hr_graph_destroy(self.handle)
            self.handle = c.c_void_p()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # at the end of the interpreter there may be no library any more
            pass

    def __getattr__(self, op: str) -> Callable[..., Value]:
        if op.startswith("_") or op not in ops():
            raise AttributeError(f"there is no op {op!r}: hr.ops() lists them")

        def build(*inputs: Optional[Value], **given: Any) -> Value:
            return self.node(op, *inputs, **given)

        build.__name__, build.__doc__ = op, str(ops()[op])
        return build

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *ops()]


def initial(std: Optional[float], uniform: Optional[tuple[float, float]], value: float) -> Any:
    from . import _c

    if std is not None:
        return _c.hr_init(kind=_c.HR_INIT_NORMAL, a=0.0, b=std)
    if uniform is not None:
        return _c.hr_init(kind=_c.HR_INIT_UNIFORM, a=uniform[0], b=uniform[1])
    return _c.hr_init(kind=_c.HR_INIT_CONSTANT, a=value, b=0.0)


class Op:
    """An op of the table: name, formula, number of inputs, attributes with their defaults."""

    def __init__(self, info: Any, found: Sequence[Any]) -> None:
        self.name, self.formula = text(info.name), text(info.formula)
        self.input_min, self.input_max, self.output_count = info.input_min, info.input_max, info.output_count
        self.has_gradient = bool(info.has_gradient)
        self.attributes = {text(a.name).replace("-", "_"): (text(a.value), text(a.help)) for a in found}

    def __repr__(self) -> str:
        few = str(self.input_min) if self.input_min == self.input_max else f"{self.input_min} to {self.input_max}"
        lines = [f"{self.name}: {self.formula}", f"  inputs: {few}, outputs: {self.output_count}"]
        lines += [f"  {k}={v or '0'}: {help_}" for k, (v, help_) in self.attributes.items()]
        return "\n".join(lines)


_ops: dict[str, Op] = {}


def ops() -> dict[str, Op]:
    """The library's table of ops, by name."""
    from . import _c

    if not _ops:
        for i, info in enumerate(each("hr_op_list", _c.hr_op_info)):
            _ops[text(info.name)] = Op(info, each("hr_op_list_attribute", _c.hr_op_attribute, i))
    return _ops


Meta = tuple[str, tuple[int, ...]]


class Custom:
    """An op of your own, in NumPy.

    forward(*inputs) returns the output array, or a tuple of them; it must depend on its inputs alone, because it may run twice.
    shape(*metas) gives the outputs' types and shapes, each ("f32", (n, m)); default: one output like input 0.
    backward(*inputs, *outputs, *gradients) returns the gradient of each input (None: it has none); default: no gradient flows.
    coupled: samples of a batch depend on one another, so the batch is never split.

    It is planned, recomputed and split like any other op, and runs on the host.  What it allocates in NumPy is not in the plan:
    state `workspace_bytes` for it, or `workspace_ratio`, over the bytes of inputs and outputs."""

    def __init__(self, name: str, forward: Callable[..., Any], *, inputs: int = 1, outputs: int = 1,
                 shape: Optional[Callable[..., Any]] = None, backward: Optional[Callable[..., Any]] = None,
                 coupled: bool = False, flops_per_element: float = 0.0, workspace_bytes: int = 0,
                 workspace_ratio: float = 0.0) -> None:
        from . import _c

        self.name, self.forward, self.inputs, self.outputs, self.shape = name, forward, inputs, outputs, shape
        self.failure: Optional[BaseException] = None
        self.words: dict[str, bytes] = {}
        self.behind: Optional[Custom] = None
        if backward is not None:
            self.behind = Custom(f"{name}_grad"[:40], backward, inputs=inputs + 2 * outputs, outputs=inputs,
                                 shape=lambda *metas: metas[:inputs], coupled=coupled, workspace_bytes=workspace_bytes,
                                 workspace_ratio=workspace_ratio)
        # ctypes callbacks live as long as C may call them: as long as this object.
        self.functions = (_c.hr_custom_options_shape(self._shape), _c.hr_custom_options_slope(self._slope),
                          _c.hr_custom_options_run(self._run))
        o = fill(_c.hr_custom_options, name=name.encode(), input_count=inputs, output_count=outputs, coupled=coupled,
                 flops_per_element=flops_per_element, workspace_bytes=workspace_bytes, workspace_ratio=workspace_ratio)
        o.shape, o.run = self.functions[0], self.functions[2]
        if backward is not None:
            o.slope = self.functions[1]
        self.handle = c.c_void_p()
        check(library().hr_custom_create(c.byref(o), c.byref(self.handle)))

    def __del__(self) -> None:
        try:
            library().hr_custom_destroy(self.handle)
        except Exception:
            pass

    def _refuse(self, e: BaseException, why: int) -> int:
        from . import _c

        self.failure = e
        if why:
            self.words["why"] = f"{type(e).__name__}: {e}".encode()[:1000]
            c.c_char_p.from_address(why).value = self.words["why"]
        return _c.HR_E_SHAPE

    def _shape(self, _user: Any, in_: int, count: int, out: int, why: int) -> int:
        from . import _c

        try:
            metas = [(TYPES[m.type], shape_of(m.shape)) for m in (_c.hr_meta * count).from_address(in_)]
            made = self.shape(*metas) if self.shape is not None else [metas[0]]
            made = [made] if isinstance(made, tuple) and isinstance(made[0], str) else made
            for slot, (type_, dims) in zip((_c.hr_meta * self.outputs).from_address(out), made):
                c.memmove(c.byref(slot), c.byref(make_meta(type_, dims)), c.sizeof(slot))
            return 0
        except BaseException as e:
            return self._refuse(e, why)

    def _slope(self, _user: Any, graph: int, address: int) -> None:
        from . import _c

        try:
            grad = _c.hr_custom_grad.from_address(address)
            g = Graph(c.c_void_p(graph))
            ins = (c.c_uint32 * self.inputs).from_address(getattr(grad, "in"))
            outs = (c.c_uint32 * self.outputs).from_address(grad.out)
            douts = (c.c_uint32 * self.outputs).from_address(grad.dout)
            values = [Value(g, v) for v in [*ins, *outs]]
            values += [Value(g, d) if d else g.fill(v.shape, 0.0, v.type) for d, v in zip(douts, values[self.inputs:])]
            assert self.behind is not None
            first = g.custom(self.behind, *values)
            found = (c.c_uint32 * self.inputs).from_address(grad.din)
            for i in range(self.inputs):
                if grad.need >> i & 1:
                    found[i] = g.output(first, i).id
        except BaseException as e:  # the graph has its own sticky error
            self.failure = e

    def _run(self, _user: Any, address: int) -> int:
        from . import _c

        try:
            call_ = _c.hr_custom_call.from_address(address)
            metas = (_c.hr_meta * call_.in_count).from_address(call_.in_meta)
            arrays = [array_at(p, m) for p, m in zip((c.c_void_p * call_.in_count).from_address(getattr(call_, "in")), metas)]
            for a in arrays:
                a.flags.writeable = False
            made = self.forward(*arrays)
            made = list(made) if isinstance(made, (tuple, list)) else [made]
            metas = (_c.hr_meta * call_.out_count).from_address(call_.out_meta)
            outs = (c.c_void_p * call_.out_count).from_address(call_.out)
            if len(made) != len(outs):
                raise ValueError(f"{self.name} returned {len(made)} arrays, not {len(outs)}")
            for p, m, a in zip(outs, metas, made):
                if p:
                    array_at(p, m)[...] = 0 if a is None else a
            return 0
        except BaseException as e:
            self.failure = e
            return _c.HR_E_INVALID

    def raise_failure(self) -> None:
        """What forward, shape or backward raised inside the library."""
        for op in (self, self.behind):
            if op is not None and op.failure is not None:
                failure, op.failure = op.failure, None
                raise failure


def array_at(address: Optional[int], meta: Any) -> Any:
    """Memory of the library as a NumPy array, without a copy.  bf16 comes as uint16."""
    import numpy as np

    type_ = np.dtype(NUMPY[meta.type] or "uint16")
    shape = shape_of(meta.shape)
    count = int(np.prod(shape, dtype=np.int64))
    if not count or not address:
        return np.zeros(shape, type_)
    raw: Any = (c.c_char * (count * type_.itemsize)).from_address(address)
    return np.frombuffer(raw, type_).reshape(shape)


def define(build: Callable[[Graph, int, bool], object], name: str, classes: int) -> tuple[c.c_void_p, list[Any]]:
    """hr_model_define over a Python function; the handle, and what must live as long as it."""
    from . import _c

    kept: list[Any] = []
    failure: list[BaseException] = []

    def called(_user: Any, graph: int, batch: int, training: int) -> int:
        g = Graph(c.c_void_p(graph))
        try:
            build(g, batch, bool(training))
        except BaseException as e:
            failure.append(e)
            return _c.HR_E_INVALID
        for op in g.customs:
            if op not in kept:
                kept.append(op)
        return 0

    function = _c.hr_build_fn(called)
    kept.append(function)
    o = fill(_c.hr_model_options, name=name.encode(), build=function, classes=classes)
    handle = c.c_void_p()
    try:
        call("hr_model_define", c.byref(o), c.byref(handle))
    except Error:
        if failure:
            raise failure[0] from None
        raise
    return handle, kept
