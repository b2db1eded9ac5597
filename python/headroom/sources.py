"""Data: the library's own sources by their text, arrays, datasets, loaders and iterators of Python.

Whatever it is, it becomes one pipeline of single samples with a budget of its own, which the plan counts: elements that wait, are
shuffled or are on their way never take more.  Arrays are read where they lie.  Python code is called from the pipeline's threads;
what it raises ends the call with the number of the sample, and is the __cause__ of the DataError."""
from __future__ import annotations

import ctypes as c
import itertools
from typing import Any, Iterable, Iterator, Optional, Sequence

from .errors import DataError, UsageError
from .library import NUMPY, TYPES, UNKNOWN, check, error, fill, library, make_meta, shape_of
from .models import Input

LEAST_BYTES = 1 << 20
LOOKED_AT, ROWS = 256 << 20, 4096  # bytes of arrays that are looked through for negative numbers, so many rows at a time


class Data:
    """Made by `hr.data`.  One of: text, text followed by a function, named arrays, a dataset with indices, an iterable."""

    def __init__(self, text: Optional[str] = None, arrays: Any = None, dataset: Any = None, stream: Any = None,
                 shuffle: Optional[bool] = None, buffer: int = 0, chain: Optional["Chain"] = None) -> None:
        self.text, self.arrays, self.dataset, self.stream, self.chain = text, arrays, dataset, stream, chain
        self.shuffle, self.buffer = shuffle, buffer
        self.labels, self.weights = 1, 0  # how many of the last fields are labels, and behind them weights of samples
        self._first: Any = None

    def __repr__(self) -> str:
        if self.text is not None:
            return f"hr.data({self.text!r})"
        if self.chain is not None:
            return f"hr.data({self.chain.text!r}, map=...)"
        kind = "arrays" if self.arrays is not None else type(self.dataset if self.dataset is not None else self.stream).__name__
        count = self.count()
        return f"<data: {kind}{f' of {count} samples' if count is not None else ''}>"

    def count(self) -> Optional[int]:
        """Samples in an epoch; None: not known."""
        if self.chain is not None:
            return self.chain.first()[0]
        if self.arrays is not None:
            return len(next(iter(self.arrays.values())) if isinstance(self.arrays, dict) else self.arrays[0])
        return len(self.dataset) if self.dataset is not None else None

    def example(self, count: int = 2) -> Optional[list[Any]]:
        """A few samples of each field as arrays with a batch in front; None for text."""
        import numpy as np

        if self.text is not None:
            return None
        if self.chain is not None:
            return [array(f)[None] for f in fields_of(self.chain.first()[1])]
        if self.arrays is not None:
            return [array(p[:count]) for p in self._parts()]
        if self.dataset is not None:
            rows = [[array(f) for f in fields_of(self.dataset[i])] for i in range(min(count, len(self.dataset)))]
            return [np.stack(column) for column in zip(*rows)]
        return [array(f) for f in fields_of(self.peek())]

    def none_negative(self, inputs: Sequence[Input]) -> bool:
        """Whether no integer that the model reads is negative: all labels count.  What is not in arrays, or takes long to look
        through, is not known."""
        if self.arrays is None or self.chain is not None:
            return False
        parts = self._parts()
        to = names_of(self.arrays if isinstance(self.arrays, dict) else tuple(parts), inputs)
        whole = [p for p, t in zip(parts, to) if t.type != "f32"]
        if sum(int(getattr(p, "nbytes", LOOKED_AT + 1)) for p in whole) > LOOKED_AT:
            return False
        return all(array(p[:1]).dtype.kind in "iu" and not any((array(p[i:i + ROWS]) < 0).any() for i in range(0, len(p), ROWS))
                   for p in whole)

    def _parts(self) -> list[Any]:
        assert self.arrays is not None
        return list(self.arrays.values()) if isinstance(self.arrays, dict) else list(self.arrays)

    def peek(self) -> Any:
        """The first item of an iterable, which is not lost."""
        if self._first is None:
            self._first = iter(self.stream)
            try:
                item = next(self._first)
            except StopIteration:
                raise DataError("the data has no samples") from None
            self._first = itertools.chain([item], self._first)
            self._item = item
        return self._item

    def begin(self) -> Iterator[Any]:
        """An iterator over one epoch."""
        if self._first is not None:
            first, self._first = self._first, None
            return iter(first)
        return iter(self.stream)

    def reader(self, inputs: Sequence[Input]) -> Any:
        """What reads its samples for a model with these inputs."""
        return Reader(self, inputs)

    def open(self, inputs: Sequence[Input], training: bool, batch: int = 0, budget_bytes: int = 0, seed: int = 0,
             skip_bad: bool = False) -> "Pipeline":
        """The pipeline, for a model with these inputs."""
        assert self.text is None
        return Pipeline(self, inputs, training, batch, budget_bytes, seed, skip_bad)


def data(*sources: Any, shuffle: Optional[bool] = None, buffer: int = 0, map: Any = None) -> Data:
    """Data for fit, evaluate and predict.

    hr.data("images:flowers | decode(224)")   a source of the library, with stages or without (docs/data.md)
    hr.data(x, y)                             arrays: NumPy, or anything with DLPack; one an input, labels last; hr.data((a, b), y) too
    hr.data({"image": x, "label": y})         the same by the names of the model's inputs
    hr.data(dataset)                          len() and [i]: a torch Dataset, a list of (x, y)
    hr.data(loader)                           an iterable of samples or of batches: DataLoader, tf.data, a generator function

    shuffle: default is to shuffle arrays and datasets in training and nothing else.  buffer: shuffles an iterable through this many
    samples.  A generator function is called for each epoch; an iterator that can be read once serves one.

    map: a function of your own, in NumPy for example, as the last stage: it gets the fields of one sample and returns those of another.  It
    is called from the pipeline's threads, and what it returns counts in the pipeline's budget; what it allocates meanwhile does not.  After
    a text it gets the fields in the order of the source (image, label), without a batch."""
    if map is not None:
        return mapped(data(*sources, shuffle=shuffle, buffer=buffer), map, shuffle)
    if len(sources) == 1:
        one = sources[0]
        if isinstance(one, Data):
            return one
        if isinstance(one, str):
            return Data(text=one)
        if isinstance(one, tuple) and one and is_array(one[-1]) and all(is_array(a) for a in spread(one)):
            return data(*spread(one), shuffle=shuffle, buffer=buffer)
        if isinstance(one, dict):
            return Data(arrays={k: array(v) for k, v in one.items()}, shuffle=shuffle)
        if is_array(one):
            return Data(arrays=[array(one)], shuffle=shuffle)
        if callable(one) and not hasattr(one, "__iter__") and not hasattr(one, "__getitem__"):
            return Data(stream=Called(one), shuffle=shuffle, buffer=buffer)
        if any(k.__name__ == "PyDataset" for k in type(one).__mro__):
            return Data(stream=Batches(one), shuffle=shuffle, buffer=buffer)
        if hasattr(one, "__getitem__") and hasattr(one, "__len__") and not hasattr(one, "batch_size"):
            return Data(dataset=one, shuffle=shuffle)
        if hasattr(one, "__iter__"):
            return Data(stream=one, shuffle=shuffle, buffer=buffer)
        raise UsageError(f"{type(one).__name__} is no data: give arrays, a dataset, an iterable or a text such as 'images:DIR'")
    arrays = [array(s) for s in spread(sources)]
    if not arrays:
        raise UsageError("hr.data() needs arrays, a dataset, an iterable or a text such as 'images:DIR'")
    if len({len(a) for a in arrays}) != 1:
        raise UsageError(f"arrays of {', '.join(str(len(a)) for a in arrays)} samples do not go together")
    return Data(arrays=arrays, shuffle=shuffle)


def mapped(source: Data, function: Any, shuffle: Optional[bool]) -> Data:
    """The same data through a function."""
    if source.text is not None:
        return Data(chain=Chain(source.text, function), shuffle=shuffle)
    if source.chain is not None:
        raise UsageError("map: the data has a function already; call one from the other")
    if source.stream is not None:
        return Data(stream=Called(lambda: (function(*fields_of(item)) for item in source.begin())), shuffle=source.shuffle,
                    buffer=source.buffer)
    return Data(dataset=Through(source, function), shuffle=source.shuffle)


class Through:
    """Arrays or a dataset with a function behind them."""

    def __init__(self, source: Data, function: Any) -> None:
        self.source, self.function = source, function

    def __len__(self) -> int:
        return self.source.count() or 0

    def __getitem__(self, i: int) -> Any:
        if self.source.arrays is None:
            return self.function(*fields_of(self.source.dataset[i]))
        return self.function(*[a[i] for a in fields_of(self.source.arrays)])


def field_array(at: int) -> Any:
    """A copy of an hr_field."""
    import numpy as np

    from . import _c

    f = _c.hr_field.from_address(at)
    raw = np.frombuffer((c.c_char * f.bytes).from_address(f.data), NUMPY[f.meta.type]) if f.bytes else np.empty(0, NUMPY[f.meta.type])
    return raw.reshape(shape_of(f.meta.shape)).copy()


class Chain:
    """A source of the library with a function behind it."""

    def __init__(self, text: str, function: Any) -> None:
        self.text, self.function = text, function
        self._first: Optional[tuple[Optional[int], Any]] = None

    def apply(self, element: int) -> Any:
        """What the function makes of an hr_element.  Its arrays are copies: the element goes when this returns."""
        lib, fields = library(), []
        for i in range(lib.hr_element_field_count(element)):
            fields.append(field_array(lib.hr_element_field(element, i)))
        return self.function(*fields)

    def first(self) -> tuple[Optional[int], Any]:
        """How many samples there are (None: not known), and what the function makes of the first one."""
        if self._first is None:
            from . import _c

            handle, element, why = c.c_void_p(), c.c_void_p(), _c.hr_error()
            o = fill(_c.hr_pipeline_options, workers=1)
            status = library().hr_pipeline_open(c.byref(o), self.text.encode(), c.byref(why), c.byref(handle))
            if status != 0:
                raise error(status, why)
            try:
                check(library().hr_pipeline_next(handle, c.byref(element)), lambda w: library().hr_pipeline_error(handle, w))
                count = library().hr_pipeline_count(handle)
                self._first = (None if count == UNKNOWN else count), self.apply(element.value or 0)
            finally:
                library().hr_element_unref(element)
                library().hr_pipeline_destroy(handle)
        return self._first

    def arranged(self, shuffle: bool, batch: int) -> str:
        """The text with what training adds, before the first stage that makes something: there only positions are shuffled."""
        stages = [s.strip() for s in self.text.split("|")]
        makes = ("decode", "resize", "crop", "flip", "rotate", "jitter", "normalise", "load", "prefetch")
        at = next((i for i, s in enumerate(stages) if s.startswith(makes)), len(stages))
        added = ["shuffle"] if shuffle and "shuffle" not in self.text else []
        if batch > 1 and (self.first()[0] or 0) >= batch:
            added.append(f"whole({batch})")
        return " | ".join(stages[:at] + added + stages[at:])


class Called:
    """A generator function as an iterable."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __iter__(self) -> Iterator[Any]:
        return iter(self.function())


class Batches:
    """A PyDataset of Keras: its items are batches."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __iter__(self) -> Iterator[Any]:
        if hasattr(self.dataset, "on_epoch_begin"):
            self.dataset.on_epoch_begin()
        for i in range(len(self.dataset)):
            yield self.dataset[i]
        if hasattr(self.dataset, "on_epoch_end"):
            self.dataset.on_epoch_end()


def is_array(x: Any) -> bool:
    return hasattr(x, "shape") and (hasattr(x, "__dlpack__") or hasattr(x, "__array__") or hasattr(x, "__array_interface__"))


def array(x: Any) -> Any:
    """An array or tensor of the host as a NumPy array, without a copy where that is possible."""
    import numpy as np

    if isinstance(x, np.ndarray):
        return x
    if getattr(x, "requires_grad", False):
        x = x.detach()
    if hasattr(x, "__dlpack_device__") and not isinstance(x, np.generic):
        kind = x.__dlpack_device__()[0]
        if int(kind) not in (1, 3):
            raise UsageError(f"a tensor on device {getattr(x, 'device', kind)}: data lies on the host; move it there first (.cpu())")
        try:
            return np.from_dlpack(x)
        except (BufferError, TypeError, RuntimeError):
            x = x.float() if "bfloat16" in str(getattr(x, "dtype", "")) else x
    return np.asarray(x)


def fields_of(item: Any) -> list[Any]:
    """(x, y), ((a, b), y), {"image": x, "label": y} or one array as a list of fields."""
    if isinstance(item, dict):
        return list(item.values())
    return spread(item) if isinstance(item, (tuple, list)) else [item]


def spread(item: Any) -> list[Any]:
    """Inputs that stand in a tuple of their own, as Keras has them, next to the labels."""
    found: list[Any] = []
    for field in item:
        several = isinstance(field, (tuple, list)) and len(field) > 0 and all(is_array(a) for a in field)
        found.extend(field if several else [field])
    return found


def names_of(item: Any, inputs: Sequence[Input]) -> list[Input]:
    """The inputs that the fields of an item go to: by name, else in order."""
    if isinstance(item, dict):
        known = {i.name: i for i in inputs}
        missing = [k for k in item if k not in known]
        if missing:
            raise UsageError(f"the model has no input {missing[0]!r}; it has {', '.join(known)}")
        return [known[k] for k in item]
    count = len(fields_of(item))
    if count > len(inputs):
        raise UsageError(f"{count} fields for a model with {len(inputs)} inputs: {', '.join(map(repr, inputs))}")
    return list(inputs[:count])


def sample_type(dtype: Any, to: Input) -> str:
    """What a field is handed on as: bytes stay bytes, real numbers are f32, whole numbers are i32."""
    if dtype.name == "uint8":
        return "u8"
    return "f32" if dtype.kind == "f" or to.type == "f32" else "i32"


def shaped(x: Any, to: Input, type_: str) -> Any:
    """One sample as it lies in memory."""
    import numpy as np

    x = array(x)
    return np.asarray(x.transpose(to.order) if to.order else x, NUMPY[TYPES.index(type_)], order="C")


class Field:
    """A field of a sample where it lies; `owner` keeps it there."""

    __slots__ = ("address", "owner", "size")

    def __init__(self, address: int, size: int, owner: Any) -> None:
        self.address, self.size, self.owner = address, size, owner


class Reader:
    """Samples of Python's data as a model takes them: `to` are the inputs that their fields go to, `metas` what they are."""

    def __init__(self, source: Data, inputs: Sequence[Input]) -> None:
        self.source = source
        first = source.example(1) or []
        item: Any = source.chain.first()[1] if source.chain is not None else source.arrays if source.arrays is not None else \
            source.dataset[0] if source.dataset is not None else source.peek()
        self.to = names_of(item, inputs)
        if len(self.to) != len(first):
            raise UsageError("samples do not have the same fields")
        self.batched = source.stream is not None and first[0].ndim == len(self.to[0].shape) + 1
        metas = []
        for a, to in zip(first, self.to):
            dims = a.shape[1:] if source.stream is None or self.batched else a.shape
            metas.append((sample_type(a.dtype, to), tuple(dims[d] for d in to.order) if to.order else tuple(dims)))
        self.metas: list[tuple[str, tuple[int, ...]]] = metas
        self.samples: Iterator[Any] = iter(())
        self.epoch = -1

    def read(self, epoch: int, index: int) -> list[Field]:
        """The fields of a sample; StopIteration at the end of a stream."""
        return self.shaped(self._streamed(epoch, index) if self.source.count() is None else self._indexed(index))

    def shaped(self, fields: Sequence[Any]) -> list[Field]:
        """Fields as the model takes them; ValueError if they are not like those of the first sample."""
        if len(fields) != len(self.to):
            raise ValueError(f"it has {len(fields)} fields, the first one had {len(self.to)}")
        found = []
        for x, to, (type_, dims) in zip(fields, self.to, self.metas):
            a = shaped(x, to, type_)
            if a.shape != dims:
                raise ValueError(f"{to.name} is {a.shape}, the first one was {dims}")
            found.append(Field(a.ctypes.data, a.nbytes, a))
        return found

    def _indexed(self, index: int) -> list[Any]:
        if self.source.arrays is None:
            return fields_of(self.source.dataset[index])
        parts = self.source.arrays.values() if isinstance(self.source.arrays, dict) else self.source.arrays
        return [a[index] for a in parts]

    def _streamed(self, epoch: int, index: int) -> list[Any]:
        if epoch != self.epoch or index == 0:
            self.epoch, self.samples = epoch, self._rows()
        return next(self.samples)  # type: ignore[no-any-return]

    def _rows(self) -> Iterator[list[Any]]:
        for item in self.source.begin():
            parts = fields_of(item)
            if not self.batched:
                yield parts
                continue
            arrays = [array(p) for p in parts]
            yield from ([a[k] for a in arrays] for k in range(len(arrays[0])))


class Pipeline:
    """An hr_pipeline over Python's data, and all that must live as long as it."""

    def __init__(self, source: Data, inputs: Sequence[Input], training: bool, batch: int, budget_bytes: int, seed: int,
                 skip_bad: bool) -> None:
        from . import _c

        self.source, self.failure = source, None  # type: Data, Optional[BaseException]
        self.kept: list[Any] = []
        self.handle = c.c_void_p()
        self.reader = source.reader(inputs)
        self.to, self.metas = self.reader.to, self.reader.metas
        each = sum(library().hr_meta_bytes(c.byref(make_meta(*m))) + 64 for m in self.metas)
        o = fill(_c.hr_pipeline_options, budget_bytes=budget_bytes or max(LEAST_BYTES, 2 * (batch or 32) * each), seed=seed,
                 skip_bad=skip_bad, workers=0)
        check(library().hr_pipeline_create(c.byref(o), c.byref(self.handle)))
        try:
            self._source(each, batch if training else 0)
            self._stages(training, batch)
            self.check(library().hr_pipeline_build(self.handle))
        except BaseException:
            self.close()
            raise

    def check(self, status: int) -> None:
        check(status, lambda why: library().hr_pipeline_error(self.handle, why))

    def _source(self, each: int, batch: int) -> None:
        """Arrays that lie as the model reads them are read in C, everything else by calling Python."""
        if self.source.chain is not None:
            self._chain(self.source.chain, each, batch)
            return
        if self.source.arrays is not None and not any(i.order for i in self.to):
            import numpy as np

            parts = self.source.arrays.values() if isinstance(self.source.arrays, dict) else self.source.arrays
            self._arrays([np.ascontiguousarray(a, NUMPY[TYPES.index(t)]) for a, (t, _) in zip(parts, self.metas)])
            return
        self._callback(each)

    def _arrays(self, parts: Sequence[Any]) -> None:
        from . import _c

        fields = (_c.hr_field * len(parts))()
        for f, a, to, (type_, dims) in zip(fields, parts, self.to, self.metas):
            f.name, f.bytes, f.data = to.name.encode(), a.nbytes, a.ctypes.data
            f.meta = make_meta(type_, (len(a), *dims))
        self.kept += parts
        self.check(library().hr_pipeline_arrays(self.handle, fields, len(parts)))

    def _outputs(self, each: int) -> Any:
        """What a function of Python's makes, for the library."""
        from . import _c

        names = (c.c_char_p * len(self.to))(*[i.name.encode() for i in self.to])
        metas = (_c.hr_meta * len(self.to))(*[make_meta(*m) for m in self.metas])
        o = fill(_c.hr_map_options, name=b"python", outputs=c.addressof(metas), names=c.addressof(names),
                 output_count=len(self.to), output_bytes=each)
        self.kept += [names, metas]
        return o

    def _chain(self, chain: Chain, each: int, batch: int) -> None:
        from . import _c

        shuffle = batch > 0 if self.source.shuffle is None else self.source.shuffle
        self.check(library().hr_pipeline_add(self.handle, chain.arranged(shuffle, batch).encode()))
        self.numbers = itertools.count()
        function = _c.hr_map_fn(lambda _user, element, emit: self._guarded(emit, next(self.numbers),
                                                                          lambda: self.reader.shaped(fields_of(chain.apply(element)))))
        self.kept.append(function)
        self.check(library().hr_pipeline_map(self.handle, function, None, c.byref(self._outputs(each))))

    def _callback(self, each: int) -> None:
        from . import _c

        count, o = self.source.count(), self._outputs(each)
        function = _c.hr_source_fn(lambda _user, epoch, index, emit: self._guarded(emit, index, lambda: self.reader.read(epoch, index)))
        self.kept.append(function)
        self.check(library().hr_pipeline_callback(self.handle, function, None, UNKNOWN if count is None else count,
                                                  c.byref(o)))

    def _stages(self, training: bool, batch: int) -> None:
        stages = []
        indexed = self.source.stream is None and self.source.chain is None
        if (training if self.source.shuffle is None else self.source.shuffle) and indexed:
            stages.append("shuffle")
        elif self.source.buffer and not indexed:
            stages.append(f"shuffle(buffer={self.source.buffer})")
        if training and self.source.chain is None and batch > 1 and (self.source.count() or 0) >= batch:
            stages.append(f"whole({batch})")
        if stages:
            self.check(library().hr_pipeline_add(self.handle, " | ".join(stages).encode()))

    # ---- called by the library, from its threads ----

    def _emit(self, emit: int, fields: Sequence[Field]) -> int:
        for f, to, m in zip(fields, self.to, self.metas):
            place = c.c_void_p()
            meta = make_meta(*m)
            status = library().hr_emit_field(emit, to.name.encode(), c.byref(meta), c.byref(place))
            if status != 0:
                return int(status)
            if f.size:
                c.memmove(place, f.address, f.size)
        return 0

    def _guarded(self, emit: int, index: int, fields: Any) -> int:
        from . import _c

        try:
            return self._emit(emit, fields())
        except StopIteration:
            return _c.HR_E_EOF
        except BaseException as e:
            if self.failure is None:
                self.failure = e
            told = str(e) if type(e).__name__ == "Told" else f"{type(e).__name__}: {e}"
            library().hr_emit_explain(emit, f"sample {index}: {told}".encode()[:1000])
            return _c.HR_E_INVALID

    def raise_failure(self, error: BaseException) -> None:
        """Raises what the source raised, as the reason of `error`."""
        if self.failure is not None:
            failure, self.failure = self.failure, None
            if not isinstance(failure, Exception):
                raise failure
            raise DataError(str(error)) from failure

    def close(self) -> None:
        if self.handle:
            library().hr_pipeline_destroy(self.handle)
            self.handle = c.c_void_p()


def as_data(source: Any) -> Optional[Data]:
    return None if source is None else data(source)


__all__ = ["Data", "Iterable", "Pipeline", "array", "as_data", "data"]
