"""The models of the parity records in plain torch, with the parameter names of headroom's.

Nothing but torch is needed.  A model string is headroom's: "resnet18:size=64,classes=10".
"""
import math

import torch
from torch import nn
from torch.nn import functional as F


class Mlp(nn.Module):
    def __init__(self, size=28, channels=1, width=512, layers=2, classes=10):
        super().__init__()
        sizes = [size * size * channels] + [width] * layers
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.head = nn.Linear(sizes[-1], classes)

    def forward(self, x):
        x = x.permute(0, 2, 3, 1).flatten(1)
        for layer in self.layers:
            x = F.relu(layer(x))
        return self.head(x)


class LeNet(nn.Module):
    def __init__(self, size=28, channels=1, classes=10):
        super().__init__()
        side = (size // 2 - 4) // 2
        self.conv1 = nn.Conv2d(channels, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * side * side, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class Block(nn.Module):
    """The basic block of resnet18 and resnet34."""

    def __init__(self, before, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = None
        if stride != 1 or before != width:
            self.downsample = nn.Sequential(
                nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    def __init__(self, size=224, channels=3, width=64, classes=1000):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        before = width
        for i in range(4):
            out = width << i
            stage = nn.Sequential(Block(before, out, 2 if i else 1), Block(out, out, 1))
            setattr(self, f"layer{i + 1}", stage)
            before = out
        self.fc = nn.Linear(before, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return self.fc(x.mean((2, 3)))


class DoubleConv(nn.Module):
    def __init__(self, before, middle, out):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(before, middle, 3, padding=1, bias=False), nn.BatchNorm2d(middle), nn.ReLU(),
            nn.Conv2d(middle, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU())

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, before, out):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(before, out, out))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, before, middle, out):
        super().__init__()
        self.conv = DoubleConv(before, middle, out)

    def forward(self, x, skip):
        x = F.interpolate(x, size=skip.shape[2:], mode="bilinear", align_corners=False)
        return self.conv(torch.cat([skip, x], 1))


class OutConv(nn.Module):
    def __init__(self, before, classes):
        super().__init__()
        self.conv = nn.Conv2d(before, classes, 1)

    def forward(self, x):
        return self.conv(x)


class UNet(nn.Module):
    def __init__(self, size=256, channels=3, classes=2, width=64, depth=4):
        super().__init__()
        self.depth = depth
        self.inc = DoubleConv(channels, width, width)
        before = width
        for i in range(1, depth + 1):
            out = width << (i if i < depth else i - 1)
            setattr(self, f"down{i}", Down(before, out))
            before = out
        for i in reversed(range(depth)):
            out = width << max(i - 1, 0)
            setattr(self, f"up{depth - i}", Up(2 * (width << i), width << i, out))
        self.outc = OutConv(width, classes)

    def forward(self, x):
        skips = [self.inc(x)]
        for i in range(1, self.depth + 1):
            skips.append(getattr(self, f"down{i}")(skips[-1]))
        x = skips.pop()
        for i in range(1, self.depth + 1):
            x = getattr(self, f"up{i}")(x, skips.pop())
        return self.outc(x)


class EncoderBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ln_2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Identity(),
                                 nn.Linear(4 * width, width))

    def forward(self, x):
        y = self.ln_1(x)
        x = x + self.self_attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    def __init__(self, places, layers, width, heads):
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.zeros(1, places, width))
        self.layers = nn.Sequential()
        for i in range(layers):
            self.layers.add_module(f"encoder_layer_{i}", EncoderBlock(width, heads))
        self.ln = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x):
        return self.ln(self.layers(x + self.pos_embedding))


class Vit(nn.Module):
    def __init__(self, size=224, channels=3, patch=16, classes=1000, layers=12, width=192, heads=3):
        super().__init__()
        self.conv_proj = nn.Conv2d(channels, width, patch, patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.encoder = Encoder((size // patch) ** 2 + 1, layers, width, heads)
        self.heads = nn.Sequential()
        self.heads.add_module("head", nn.Linear(width, classes))

    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1)
        return self.heads(self.encoder(x)[:, 0])


class Conv1D(nn.Module):
    """A linear layer whose weight lies as (in, out)."""

    def __init__(self, before, out):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(before, out))
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(self, x):
        return x @ self.weight + self.bias


class GptAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = Conv1D(width, 3 * width)
        self.c_proj = Conv1D(width, width)

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = (y.reshape(n, t, self.heads, -1).transpose(1, 2)
                   for y in self.c_attn(x).split(width, 2))
        p = q @ k.transpose(2, 3) / math.sqrt(width // self.heads)
        p = p.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), -math.inf).softmax(-1)
        return self.c_proj((p.to(v.dtype) @ v).transpose(1, 2).reshape(n, t, width))


class GptMlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = Conv1D(width, 4 * width)
        self.c_proj = Conv1D(4 * width, width)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = GptAttention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = GptMlp(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    def __init__(self, context=32, vocab=128, layers=2, width=32, heads=4):
        super().__init__()
        self.wte = nn.Embedding(vocab, width)
        self.wpe = nn.Embedding(context, width)
        self.h = nn.ModuleList(GptBlock(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T


FAMILIES = {"mlp": Mlp, "lenet": LeNet, "resnet18": ResNet18, "unet": UNet, "vit-tiny": Vit,
            "gpt2-nano": Gpt2}


def build(text):
    """The model of a string, and its keys."""
    name, _, tail = text.partition(":")
    keys = {k: int(v) for k, v in (piece.split("=") for piece in tail.split(",") if piece)}
    return FAMILIES[name](**keys), name, keys
