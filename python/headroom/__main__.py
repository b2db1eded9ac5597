"""python -m headroom COMMAND: the headroom command, and three commands that need Python:

python -m headroom export MODULE:FUNCTION -o my.hr --input 'f32[N,3,224,224]'

export (a model as a model file), load (trained weights back), onnx (a model file as ONNX, for inference)."""
from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from typing import Any, Callable, Optional, Sequence

from .errors import Error, Refused, UsageError
from .library import program
from .models import is_torch

OURS = ("export", "load", "onnx")
KERAS = (".keras", ".h5", ".hdf5")
MORE = 4  # times as many samples where the first comparison settles nothing


def spec(text: str) -> tuple[str, list]:
    """'f32[N,3,224,224]' -> its type and sizes, 'N' for the batch."""
    m = re.fullmatch(r"(f32|i32|i64|bool)\[\s*N\s*((?:,\s*\d+\s*)*)\]", text)
    if not m:
        raise argparse.ArgumentTypeError(f"{text!r} is no input: write it as f32[N,3,224,224]; N, the batch, comes first")
    return m.group(1), ["N"] + [int(d) for d in m.group(2).split(",")[1:]]


def module_of(name: str, whose: str) -> Any:
    """The module; one that is missing, or that it needs and is missing, is named."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as e:
        missing = e.name or name
        own = name == missing or name.startswith(missing + ".")
        raise UsageError(f"{whose}: no module {missing} in this folder or on Python's path" if own
                    else f"{whose} needs the module {missing}, which is not installed") from None


def found(text: str) -> Any:
    """MODULE:NAME, called when it is a function or a class."""
    module, _, name = text.partition(":")
    if not name:
        raise UsageError(f"{text!r}: write MODULE:NAME, with NAME a function that returns the model")
    sys.path.insert(0, ".")
    thing = module_of(module.removesuffix(".py").replace("/", "."), module)
    for part in name.split("."):
        if not hasattr(thing, part):
            raise UsageError(f"{module} has no {name}")
        thing = getattr(thing, part)
    is_model = hasattr(thing, "state_dict") or hasattr(thing, "get_weights")
    return thing if is_model and not isinstance(thing, type) else thing()


def export_torch(model: Any, a: argparse.Namespace) -> int:
    import torch

    from . import torch as front
    from .check import rows_of
    from .torch.check import check

    if not a.input:
        raise UsageError("a PyTorch module needs --input, such as --input 'f32[N,3,224,224]'; once for each input")
    torch.manual_seed(0)

    def drawn(batch: int, most: Sequence[int]) -> list:
        """`most`: of each input of whole numbers one more than the largest."""
        out = []
        for (type_, dims), n in zip(a.input, most):
            shape = [batch if d == "N" else d for d in dims]
            if type_ == "bool":  # no row of one kind alone: a mask hides some
                out.append(torch.arange(torch.Size(shape).numel()).reshape(shape) % 2 == 1)
            else:
                out.append(torch.randn(shape) if type_ == "f32" else torch.randint(min(1, n - 1), n, shape))
        return out

    example = drawn(a.batch, [a.vocabulary or 2 for _ in a.input])
    e = front.export(model, example, a.loss, name=a.name, dim=a.class_dim, custom_ops=a.custom_ops)
    # as many as the tables have rows; 0 is often padding
    most = [a.vocabulary or (rows_of(e.model.train, name) if type_ in ("i32", "i64") else 0)
            for (name, _, _), (type_, _) in zip(e.inputs, a.input)]
    return finish(e, lambda batch: check(model, e, drawn(batch, most)), a)


def export_keras(model: Any, a: argparse.Namespace) -> int:
    from . import keras as front

    shapes = [tuple(dims[1:]) for _, dims in a.input] or None
    types = [{"f32": "float32", "bool": "bool"}.get(t, "int32") for t, _ in a.input] or None
    e = front.export(model, loss=a.loss, name=a.name, batch=a.batch, shapes=shapes, types=types)
    return finish(e, lambda batch: front.check(model, e, batch), a)


def export_onnx(a: argparse.Namespace) -> int:
    from .onnx import read
    from .onnx.check import check

    e = read(a.model, a.loss, a.nameless, a.batch, a.name, [dims[1:] for _, dims in a.input] or None)
    return finish(e, lambda batch: check(a.model, e, batch), a)


def compared(e: Any, checked: Callable[[int], Any], a: argparse.Namespace) -> Any:
    """One step of both sides.  A batch norm over few numbers makes large differences of small ones: what differs then is compared once
    more, with more samples."""
    from .before import Asked, bytes_of, needed

    r, more = checked(a.batch), MORE * a.batch
    if r is None or not r.counted or r.missing or r.fair(a.tolerance) or needed(*bytes_of(e), more, True) > Asked().limit():
        return r
    again = checked(more)
    if not again.fair(a.tolerance):
        return r
    print(f"note: compared with {more} samples; with {a.batch}, gradients differ by {r.gradient:.1e}, and the framework's own single "
          f"precision by {r.own:.1e} from its double", file=sys.stderr)
    return again


def finish(e: Any, checked: Callable[[int], Any], a: argparse.Namespace) -> int:
    for note in e.notes:
        print(f"note: {note}", file=sys.stderr)
    params = sum(v.size for n, v in e.weights.items()
                 if any(n in f.named and f.named[n].entry.kind == "param" for f in (e.model.train, e.model.eval)))
    nodes = sum(1 for x in e.model.train.live() if x.kind == "node")
    print(f"{e.model.name}: {params} parameters, {nodes} nodes")
    r = None if a.no_check else compared(e, checked, a)
    if r is None and not a.no_check:
        print("note: not compared, because onnxruntime is not installed", file=sys.stderr)
    if r is not None:
        if r.counted:
            print(f"compared with its framework, largest relative differences: loss {r.loss:.1e}, {r.counted} gradients "
                  f"{r.gradient:.1e} ({r.gradient_of}), running statistics {r.statistics:.1e}, evaluation {r.eval:.1e}")
        else:
            whose = "ONNX Runtime" if a.model.endswith(".onnx") else "its framework"
            print(f"compared with {whose}, largest relative difference: evaluation "
                  f"{r.eval:.1e}" + ("" if a.model.endswith(".onnx") else "; gradients are compared only on Keras's torch backend"))
        if r.fair(a.tolerance) and not r.good(a.tolerance):
            print("note: that is as near to double precision as the framework's own single precision, whose gradients are "
                  f"{r.own:.1e} away from it", file=sys.stderr)
        elif not r.good(a.tolerance):
            print(f"not written: the model does not compute what its framework does (tolerance {a.tolerance:g})"
                  + (f"; no gradient for {', '.join(r.missing[:5])}" if r.missing else "") + (f"; {r.unlike}" if r.unlike else ""),
                  file=sys.stderr)
            return 1
    print("inputs: " + ", ".join(f"{n} {v.type}[{','.join(map(str, v.shape))}]" for n, v in e.model.train.named.items()
                                 if v.entry.kind == "input"))
    beside = e.save(a.output)
    model = a.output if os.path.dirname(a.output) else f"./{a.output}"
    print(f"wrote {a.output} and {beside}\nnext: headroom train {model} --data SRC --budget SIZE")
    return 0


def keras_of(path: str, **how: Any) -> Any:
    if not os.path.exists(path):
        raise UsageError(f"{path}: no such file or directory")
    try:
        import keras
    except ModuleNotFoundError as e:
        raise UsageError(f"{path} needs the module {e.name}, which is not installed") from None
    try:
        return keras.saving.load_model(path, **how)
    except OSError as e:
        raise UsageError(f"{path}: {(str(e).strip().splitlines() or [type(e).__name__])[0][:300]}") from None
    except (TypeError, ValueError, KeyError, AttributeError) as e:
        text = str(e)
        if "Could not locate class" in text or "Could not locate function" in text:
            name = text.split("Could not locate ", 1)[1].split(".")[0]
            raise UsageError(f"{path} needs the {name}, which Keras does not know; --import MODULE imports the module that registers it "
                             "(keras.saving.register_keras_serializable)") from None
        raise UsageError(f"{path}: {(text.strip().splitlines() or [type(e).__name__])[0][:300]}") from None


def imported(modules: Sequence[str]) -> None:
    """Modules whose classes a file needs."""
    sys.path.insert(0, ".")
    for name in modules:
        module_of(name.removesuffix(".py").replace("/", "."), name)


def export(a: argparse.Namespace) -> int:
    imported(a.imports)
    if a.model.endswith(KERAS):
        return export_keras(keras_of(a.model, compile=False), a)
    if a.model.endswith(".onnx"):
        return export_onnx(a)
    model = found(a.model)
    return export_torch(model, a) if is_torch(model) else export_keras(model, a)


def load(a: argparse.Namespace) -> int:
    imported(a.imports)
    model = keras_of(a.model) if a.model.endswith(KERAS) else found(a.model)
    if is_torch(model):
        import torch

        from . import torch as front

        missing = front.load(model, a.checkpoint)
        torch.save(model.state_dict(), a.output)
    else:
        from . import keras as other

        missing = other.load(model, a.checkpoint)
        model.save(a.output)
    print(f"wrote {a.output}" + (f"; not in {a.checkpoint}, left as they were: {', '.join(missing[:5])}" if missing else ""))
    return 0


def onnx(a: argparse.Namespace) -> int:
    from . import file, safetensors
    from .onnx import write

    weights, _ = safetensors.read(safetensors.of_run(a.weights))
    write(file.read(a.model), weights, a.output, not a.channels_last)
    print(f"wrote {a.output}")
    return 0


def importing(p: argparse.ArgumentParser) -> None:
    p.add_argument("--import", dest="imports", action="append", default=[], metavar="MODULE",
                   help="import this first: a module that registers classes which a .keras file needs")


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="python -m headroom", description="Models of PyTorch and Keras as model files.")
    sub = p.add_subparsers(dest="command", required=True)
    e = sub.add_parser("export", help="write a model file and its weights")
    e.add_argument("model", help="MODULE:FUNCTION that returns the model, a .keras, .h5 or .onnx file")
    e.add_argument("-o", "--output", required=True, metavar="my.hr")
    e.add_argument("--input", type=spec, action="append", default=[], metavar="f32[N,3,224,224]",
                   help="type (f32, i32, i64, bool) and shape of an input; N is the batch")
    e.add_argument("--loss", default="cross_entropy", help="cross_entropy, mean_squared_error, binary_cross_entropy, or own: "
                   "the model returns its loss")
    e.add_argument("--class-dim", type=int, help="the dimension of the output that holds the classes")
    e.add_argument("--name", help="of the model; default: its class")
    e.add_argument("--batch", type=int, default=5, help="batch of the example (default 5)")
    e.add_argument("--vocabulary", type=int, default=0,
                   help="ids of the example are below this (default: the rows of the tables that they look up, at most 100)")
    e.add_argument("--tolerance", type=float, default=1e-4, help="largest relative difference allowed (default 1e-4)")
    e.add_argument("--no-check", action="store_true", help="do not compare with the framework")
    e.add_argument("--custom-ops", action="store_true", help="PyTorch: ops without a counterpart run in PyTorch on the host; such a model "
                   "file is opened from Python only")
    e.add_argument("--nameless", action="store_true", help="ONNX: take weights that carry no name of the source")
    importing(e)
    e.set_defaults(run=export)
    b = sub.add_parser("load", help="weights of a checkpoint back into the model: a state dict of PyTorch or a .keras file")
    b.add_argument("model", help="MODULE:FUNCTION that returns the model, or a .keras or .h5 file")
    b.add_argument("checkpoint", metavar="run", help="the folder of a run, or a file of weights")
    b.add_argument("-o", "--output", required=True, metavar="my.pt")
    importing(b)
    b.set_defaults(run=load)
    o = sub.add_parser("onnx", help="write a model file as ONNX, for inference")
    o.add_argument("model", metavar="my.hr")
    o.add_argument("weights", metavar="my.safetensors", help="the weights: those beside it, a checkpoint, or the folder of a "
                   "run")
    o.add_argument("-o", "--output", required=True, metavar="my.onnx")
    o.add_argument("--channels-last", action="store_true", help="images are (N, H, W, C); default: (N, C, H, W)")
    o.set_defaults(run=onnx)
    return p


def command(words: Sequence[str]) -> int:
    """Becomes the headroom program."""
    path = program()
    if path is None:
        print("the headroom program was not found: install the wheel, build it (`make`), or put it on the PATH", file=sys.stderr)
        return 2
    os.execv(path, [path, *words])


def main(arguments: Optional[Sequence[str]] = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] not in OURS:
        return command(words)
    a = parser().parse_args(words)
    try:
        return int(a.run(a))
    except Refused as e:
        print(f"cannot take this model: {e}", file=sys.stderr)
        return 2
    except UsageError as e:
        print(e, file=sys.stderr)
        return 2
    except OSError as e:
        print(f"{e.filename}: {(e.strerror or str(e)).lower()}" if e.filename else e, file=sys.stderr)
        return 2
    except (Error, ValueError) as e:
        print(f"{type(e).__name__}: {e}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
