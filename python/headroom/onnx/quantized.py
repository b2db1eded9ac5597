"""The weights of `headroom quantize` as ONNX: every value that is bytes goes through QuantizeLinear and DequantizeLinear, weights and
biases come out of DequantizeLinear, and batch norms are gone.  Runtimes that know this form compute in integers.

Names and numbers are the file's: `conv1.weight` (i8) with `conv1.weight_scale` and `conv1.bias`; activations `<node>.scale` and
`<node>.zero_point`.  Scales of activations are scalars, `axis` is always written, biases are int32 with the product of both scales."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ..graph import Entry, Refused
from .writer import NCHW, Name, Writer, is_true, pads_of, two

SAME_RANGE = ("max_pool", "reshape", "transpose")


def layer_of(weight: str) -> str:
    return weight[:-len(".weight")] if weight.endswith(".weight") else weight


class QuantizedWriter(Writer):
    """A Writer for weights that are quantized."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.ranges: dict = {}  # by value: the names of scale and zero point, and the scale
        self.names: dict = {}  # by node: as the library names it
        copies: dict = {}
        for e in self.model.eval.entries:
            if e.kind == "node":
                name = f"{e.scope}.{e.op}" if e.scope else e.op
                copies[name] = copies.get(name, 0) + 1
                self.names[id(e)] = f"{name}.{copies[name] - 1}" if copies[name] > 1 else name

    def entry(self, e: Entry) -> None:
        if e.kind in ("param", "state"):
            layer = e.name[:-len(".bias")] if e.name.endswith(".bias") else e.name
            used = f"{layer_of(layer)}.weight_scale" not in self.weights  # else the layer writes it
            if used and e.name in self.weights:
                super().entry(e)
            return
        if self.is_layer(e):
            self.layer(e)
            self.ranks[id(e), 0] = self.rank_made(e, 0)
        elif e.op == "batch_norm_inference" and e.inputs[1].entry.name not in self.weights:  # folded
            self.values[id(e), 0] = self.get(e, 0)
            self.ranks[id(e), 0] = self.rank(e.inputs[0])
        else:
            super().entry(e)
        self.range_of(e)

    def is_layer(self, e: Entry) -> bool:
        weight = e.inputs[1].entry.name if e.op in ("conv2d", "matmul") and len(e.inputs) > 1 else ""
        return bool(weight) and f"{layer_of(weight)}.weight_scale" in self.weights

    # ---- ranges ----

    def range_of(self, e: Entry) -> None:
        """QuantizeLinear and DequantizeLinear behind what is bytes."""
        name = e.name if e.kind == "input" else self.names.get(id(e), "")
        found: Optional[tuple] = None
        if f"{name}.scale" in self.weights:
            scale, zero = self.weights[f"{name}.scale"], self.weights[f"{name}.zero_point"]
            found = (self.initializer(np.asarray(scale, "float32").reshape(()), f"{name}_scale"),
                     self.initializer(np.asarray(zero, "uint8").reshape(()), f"{name}_zero_point"), float(np.asarray(scale)))
        elif e.op in SAME_RANGE:
            v = e.inputs[0]
            found = self.ranges.get((id(v.entry), v.index))
        if found is None:
            return
        value = self.values[id(e), 0]
        q = self.node("QuantizeLinear", [value.name, found[0], found[1]])
        self.values[id(e), 0] = Name(self.node("DequantizeLinear", [q, found[0], found[1]]), value.order)
        self.ranges[id(e), 0] = found

    # ---- layers ----

    def weight(self, layer: str, array: np.ndarray, axis: int) -> str:
        scale = np.asarray(self.weights[f"{layer}.weight_scale"], "float32")
        names = [self.initializer(array, f"{layer}.weight_quantized"), self.initializer(scale, f"{layer}.weight_scale"),
                 self.initializer(np.zeros(len(scale), "int8"), f"{layer}.weight_zero_point")]
        return self.node("DequantizeLinear", names, axis=axis)

    def bias(self, layer: str, unit: float) -> str:
        scale = np.float32(unit) * np.asarray(self.weights[f"{layer}.weight_scale"], "float32")
        bias = np.asarray(self.weights[f"{layer}.bias"], "float32")
        whole = np.rint(np.clip(bias / scale, -2.0**29, 2.0**29)).astype("int32")
        names = [self.initializer(whole, f"{layer}.bias_quantized"), self.initializer(scale, f"{layer}.bias_scale"),
                 self.initializer(np.zeros(len(scale), "int32"), f"{layer}.bias_zero_point")]
        return self.node("DequantizeLinear", names, axis=0)

    def layer(self, e: Entry) -> None:
        x, name = e.inputs[0], e.inputs[1].entry.name
        layer, array = layer_of(name), np.asarray(self.weights[name])
        known = self.ranges.get((id(x.entry), x.index))
        if known is None:
            raise Refused(f"the range of what {layer} reads is not in the weights: they are of another model")
        if e.op == "conv2d":
            inputs = [self.lie(self.get(e, 0), NCHW), self.weight(layer, array, 0), self.bias(layer, known[2])]
            self.put(e, self.node("Conv", inputs, strides=two(e, "stride", 1), pads=pads_of(e), dilations=two(e, "dilation", 1),
                                  group=int(e.attributes.get("groups", 1))), NCHW)
            return
        turned = is_true(e, "transpose-b")
        if self.rank(x) != 2:
            raise Refused(f"{layer} is a linear layer over {self.rank(x)} dimensions: only 2 can be written quantized")
        inputs = [self.plain(self.get(e, 0)), self.weight(layer, array, 0 if turned else 1), self.bias(layer, known[2])]
        self.put(e, self.node("Gemm", inputs, transB=int(turned)))
