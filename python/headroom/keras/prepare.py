"""Layers that prepare data inside the model: sizes, bins, and what is drawn anew for every image."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..build import Build, Const, Tensor
from ..build.tensor import window
from ..graph import Refused
from ..size import Size
from .call import Call, layer
from .images import ahead, back, behind, channels_last, pads_of, scaled


@layer("Resizing", "Resize")
def resizing(b: Build, c: Call) -> Tensor:
    """The layer, and ops.image.resize."""
    op, x = c.op, channels_last(b, c.op, b.cast(c.x(), "f32"))
    size = tuple(op.size) if hasattr(op, "size") else (op.height, op.width)
    other = [name for name in ("antialias", "crop_to_aspect_ratio", "pad_to_aspect_ratio") if getattr(op, name, False)]
    if op.interpolation not in ("nearest", "bilinear", "bicubic") or other or x.rank != 4:
        raise Refused(f"{type(op).__name__} of {x.rank} dimensions by {op.interpolation}" + "".join(f", {name}" for name in other))
    return back(b, op, behind(b, scaled(b, ahead(b, x), size, op.interpolation)))


@layer("RGBToGrayscale")
def grayscale(b: Build, c: Call) -> Tensor:
    x = channels_last(b, c.op, b.cast(c.x(), "f32"))
    return back(b, c.op, b.along(x, x.rank - 1, np.array([[0.2989, 0.5870, 0.1140]])))


@layer("PadImages", "CropImages")
def framed(b: Build, c: Call) -> Tensor:
    """Zeros around, or what is inside; of each side or of both what the target leaves."""
    op, x = c.op, channels_last(b, c.op, c.x())
    crop, first = type(op).__name__ == "CropImages", c.x().rank - 3
    word, out = "cropping" if crop else "padding", {}
    for d, (one, two, to) in enumerate((("top", "bottom", op.target_height), ("left", "right", op.target_width)), first):
        u, v = getattr(op, f"{one}_{word}"), getattr(op, f"{two}_{word}")
        room = abs((to or x.shape[d]) - x.shape[d]) if to is not None else None
        u = room - v if u is None and room is not None and v is not None else u or 0
        v = room - u if v is None and room is not None else v or 0
        out[d] = (-u, -v) if crop else (u, v)
    return back(b, op, b.pad(x, out))


@layer("ExtractPatches")
def extract_patches(b: Build, c: Call) -> Tensor:
    """Patches beside each other, as vision transformers cut them."""
    op, x = c.op, channels_last(b, c.op, c.x())
    kh, kw = (op.size, op.size) if isinstance(op.size, int) else op.size
    strides = (op.strides, op.strides) if isinstance(op.strides, int) else tuple(op.strides or (kh, kw))
    if x.rank != 4:
        raise Refused("ops.image.extract_patches of something that is no batch of images")
    if strides != (kh, kw) or op.dilation_rate not in (1, (1, 1)) or op.padding != "valid":
        return back(b, op, overlapping(b, op, x, (kh, kw), strides))
    n, height, width, channels = x.shape
    h, w = height // kh, width // kw
    x = b.slice(b.slice(x, 1, 0, h * kh), 2, 0, w * kw)
    y = b.permute(b.reshape(x, (n, h, kh, w, kw, channels)), (0, 1, 3, 2, 4, 5))
    return back(b, op, b.reshape(y, (n, h, w, kh * kw * channels)))


def overlapping(b: Build, op: Any, x: Tensor, kernel: tuple, strides: tuple) -> Tensor:
    """Shifted images, one for each place of the patch, beside each other."""
    rate = (op.dilation_rate,) * 2 if isinstance(op.dilation_rate, int) else tuple(op.dilation_rate)
    pads = pads_of(op.padding, x.shape[1:3], kernel, strides, rate)
    x = b.pad(x, {1: pads[0], 2: pads[1]})
    h, w = (window(x.shape[1 + i], kernel[i], strides[i], 0, 0, rate[i]) for i in (0, 1))
    return b.concat([b.slice(b.slice(x, 1, i * rate[0], h, strides[0]), 2, k * rate[1], w, strides[1])
                     for i in range(kernel[0]) for k in range(kernel[1])], 3)


@layer("CenterCrop")
def center_crop(b: Build, c: Call) -> Tensor:
    op, x = c.op, channels_last(b, c.op, b.cast(c.x(), "f32"))
    height, width = x.shape[1:3]
    if x.rank != 4 or height < op.height or width < op.width:
        raise Refused(f"CenterCrop to {op.height} x {op.width} of images that are smaller")
    x = b.slice(x, 1, int((height - op.height) / 2), op.height)
    return back(b, op, b.slice(x, 2, int((width - op.width) / 2), op.width))


@layer("RandomFlip")
def random_flip(b: Build, c: Call) -> Any:
    """Each image by a draw of its own, half of them."""
    x = c.x()
    if not c.training:
        return x
    if x.rank != 4:
        raise Refused("RandomFlip of something that is no batch of images")
    first = 2 if getattr(c.op, "data_format", None) == "channels_first" else 1
    for d, name in ((first, "vertical"), (first + 1, "horizontal")):
        if name in c.op.mode:
            draw = b.random((Size(1), 1, 1, 1), "uniform", 0.0, 1.0)
            x = b.where(b.compare("greater", draw, Const(np.float32(0.5))), x, b.flip(x, d))
    return x


@layer("Discretization")
def discretization(b: Build, c: Call) -> Tensor:
    """How many of the borders are not above it."""
    borders = c.op.bin_boundaries
    if c.op.output_mode not in ("int", "one_hot") or borders is None:
        raise Refused(f"Discretization with output_mode={c.op.output_mode!r}, or without bin_boundaries")
    x = b.unsqueeze(b.cast(c.x(), "f32"), c.x().rank)
    above = b.compare("less", x, Const(np.asarray(borders, "float32")))
    bins = b.cast(b.reduce("sum", b.affine(above, -1.0, 1.0), [x.rank - 1], False), "i32")
    if c.op.output_mode == "int":
        return bins
    return b.one_hot(b.squeeze(bins, [-1]) if bins.rank > 1 and bins.shape[-1] == 1 else bins, len(borders) + 1)


AUGMENTING = ("RandomBrightness", "RandomColorDegeneration", "RandomColorJitter", "RandomContrast", "RandomCrop", "RandomElasticTransform",
              "RandomErasing", "RandomGaussianBlur", "RandomGrayscale", "RandomHue", "RandomInvert", "RandomPerspective",
              "RandomPosterization", "RandomRotation", "RandomSaturation", "RandomSharpness", "RandomShear", "RandomTranslation",
              "RandomZoom", "AugMix", "AutoContrast", "CutMix", "Equalization", "MixUp", "RandAugment", "Solarization")


@layer(*AUGMENTING)
def augmenting(b: Build, c: Call) -> Any:
    """Left out in evaluation, as Keras does."""
    if not c.training:
        return c.x()
    raise Refused(f"{type(c.op).__name__}: random augmentation is part of the data here, not of the model; leave it out and give "
                  "--augment, or augment= in Python")
