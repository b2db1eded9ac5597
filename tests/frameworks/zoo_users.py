"""PyTorch modules of the kind that people write themselves, small.  models(): name -> (builder, inputs of a batch, loss)."""
from __future__ import annotations

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class LSTMClassifier(nn.Module):
    """The last hidden state of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 12)
        self.rnn = nn.LSTM(12, 16, num_layers=2, batch_first=True)
        self.fc = nn.Linear(16, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        _, (h, _) = self.rnn(self.embed(ids))
        return self.fc(h[-1])


class GRUSequence(nn.Module):
    """A label for every step, with a state that the user gives."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(6, 10, bidirectional=True)
        self.norm, self.fc = nn.LayerNorm(20), nn.Linear(20, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.transpose(0, 1)
        h0 = torch.zeros(2, x.size(1), 10, device=x.device)
        y, _ = self.rnn(x, h0)
        return self.fc(self.norm(y)).transpose(0, 1)


class CellLoop(nn.Module):
    """A loop over cells, and a plain recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru, self.rnn = nn.LSTMCell(5, 8), nn.GRUCell(8, 8), nn.RNN(8, 7, batch_first=True)
        self.fc = nn.Linear(7, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, c, g = x.new_zeros(x.size(0), 8), x.new_zeros(x.size(0), 8), x.new_zeros(x.size(0), 8)
        out = []
        for t in range(x.size(1)):
            h, c = self.lstm(x[:, t], (h, c))
            g = self.gru(h, g)
            out.append(g)
        y, last = self.rnn(torch.stack(out, 1))
        return self.fc(y[:, -1] + last[0])


class PaddedEncoder(nn.Module):
    """nn.TransformerEncoder with a key padding mask made of the ids."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 16, padding_idx=0)
        layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.1, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.fc = nn.Linear(16, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        pad = ids == 0
        y = self.encoder(self.embed(ids) * math.sqrt(16), src_key_padding_mask=pad)
        keep = (~pad).unsqueeze(-1).float()
        return self.fc((y * keep).sum(1) / keep.sum(1).clamp(min=1))


class Translator(nn.Module):
    """nn.Transformer whole: an encoder and a decoder with a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        self.src, self.tgt = nn.Embedding(30, 16), nn.Embedding(30, 16)
        self.model = nn.Transformer(16, 2, 1, 1, 32, dropout=0.1, batch_first=True)
        self.fc = nn.Linear(16, 30)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(y.size(1))
        return self.fc(self.model(self.src(x), self.tgt(y), tgt_mask=mask))


class SkipUNet(nn.Module):
    """Skips by concat, F.interpolate up, sizes that do not divide."""

    def __init__(self) -> None:
        super().__init__()

        def two(i: int, o: int) -> nn.Module:
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.LeakyReLU(0.1, inplace=True),
                                 nn.Conv2d(o, o, 3, padding=1), nn.InstanceNorm2d(o, affine=True), nn.ELU())

        self.a, self.b, self.c = two(3, 6), two(6, 8), two(8, 10)
        self.up = two(18, 8)
        self.top = two(14, 6)
        self.head = nn.Conv2d(6, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        c = self.c(F.avg_pool2d(b, 2))
        y = F.interpolate(c, size=b.shape[-2:], mode="bilinear", align_corners=False)
        y = self.up(torch.cat([y, b], dim=1))
        y = F.interpolate(y, size=a.shape[-2:], mode="nearest")
        return self.head(self.top(torch.cat((y, a), 1)))


class SqueezeExcite(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(c, c // 4, 1), nn.Conv2d(c // 4, c, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * F.hardsigmoid(self.up(F.relu(self.down(F.adaptive_avg_pool2d(x, 1)))))


class MobileLike(nn.Module):
    """Inverted bottlenecks with hardswish and squeeze and excite."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish())
        self.expand = nn.Sequential(nn.Conv2d(8, 24, 1, bias=False), nn.BatchNorm2d(24), nn.Hardswish(inplace=True),
                                    nn.Conv2d(24, 24, 5, padding=2, groups=24, bias=False), nn.BatchNorm2d(24), nn.ReLU6(),
                                    SqueezeExcite(24), nn.Conv2d(24, 8, 1, bias=False), nn.BatchNorm2d(8))
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(8, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        return self.head(x + self.expand(x))


class Audio(nn.Module):
    """1-D convolutions over a wave: strides, dilation, groups, a transposed one, pools."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(1, 8, 9, stride=4, padding=4), nn.BatchNorm1d(8), nn.GELU(), nn.MaxPool1d(2),
                                 nn.Conv1d(8, 8, 3, padding=2, dilation=2, groups=2), nn.GroupNorm(2, 8), nn.SiLU(),
                                 nn.AvgPool1d(2), nn.ConvTranspose1d(8, 6, 4, stride=2, padding=1), nn.Softplus(),
                                 nn.AdaptiveMaxPool1d(4))
        self.fc = nn.Linear(24, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.net(x.unsqueeze(1)).flatten(1))


class Volume(nn.Module):
    """3-D convolutions, norm and pools."""

    def __init__(self) -> None:
        super().__init__()
        self.c1, self.bn = nn.Conv3d(1, 4, 3, padding=1), nn.BatchNorm3d(4)
        self.c2 = nn.Conv3d(4, 6, (3, 3, 1), stride=(2, 1, 1), padding=(1, 0, 0))
        self.fc = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool3d(F.relu(self.bn(self.c1(x))), 2)
        x = F.avg_pool3d(torch.tanh(self.c2(x)), (1, 2, 1))
        return self.fc(F.adaptive_avg_pool3d(x, 1).flatten(1))


class Siamese(nn.Module):
    """One branch called twice, a distance of both."""

    def __init__(self) -> None:
        super().__init__()
        self.branch = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Mish(), nn.Flatten(), nn.Linear(4 * 36, 8))
        self.fc = nn.Linear(2, 2)

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        u, v = self.branch(a), self.branch(b)
        near = F.cosine_similarity(u, v, dim=1)
        far = F.pairwise_distance(F.normalize(u, dim=-1), F.normalize(v, dim=-1))
        return self.fc(torch.stack((near, far), dim=-1))


class EinsumAttention(nn.Module):
    """Attention as people write it: einsum, rearranged heads, masked_fill, relative positions."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(12, 36, bias=False), nn.Linear(12, 12)
        self.bias = nn.Parameter(torch.randn(3, 8, 8) * 0.1)
        self.register_buffer("hidden", torch.ones(8, 8).triu(1).bool())
        self.fc = nn.Linear(12, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(x).reshape(b, t, 3, 3, 4).unbind(2)
        scores = torch.einsum("bihd,bjhd->bhij", q, k) / 4 ** 0.5 + self.bias
        weights = scores.masked_fill(self.hidden, float("-inf")).softmax(dim=-1)
        y = torch.einsum("b h i j, b j h d -> b i h d", weights, v).reshape(b, t, c)
        pooled = torch.einsum("btc->bc", self.out(y)) / t
        return self.fc(pooled)


class TiedAutoencoder(nn.Module):
    """The decoder is the encoder's weight the other way; the loss is the module's own."""

    def __init__(self) -> None:
        super().__init__()
        self.w1, self.w2 = nn.Parameter(torch.randn(16, 24) * 0.2), nn.Parameter(torch.randn(6, 16) * 0.2)
        self.b = nn.ParameterList([nn.Parameter(torch.zeros(n)) for n in (16, 6, 16, 24)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.tanh(F.linear(x, self.w1, self.b[0]))
        z = F.linear(h, self.w2, self.b[1])
        y = torch.sigmoid(F.linear(torch.tanh(F.linear(z, self.w2.t(), self.b[2])), self.w1.t(), self.b[3]))
        return F.mse_loss(y, torch.sigmoid(x)) + 1e-3 * z.abs().mean()


class VAE(nn.Module):
    """exp, a divergence, binary cross entropy; noise is an input so that the step can be repeated."""

    def __init__(self) -> None:
        super().__init__()
        self.enc, self.dec = nn.Linear(20, 12), nn.Linear(6, 20)

    def forward(self, x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        mu, logvar = torch.chunk(self.enc(x), 2, dim=-1)
        y = self.dec(mu + noise * torch.exp(0.5 * logvar))
        fit = F.binary_cross_entropy_with_logits(y, torch.sigmoid(x), reduction="mean")
        return fit - 0.5 * torch.mean(1 + logvar - mu.pow(2) - logvar.exp())


class Choices(nn.Module):
    """where, clamp, argmax, topk, gather, scatter, cumsum, sort of numbers that depend on data."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.table = nn.Linear(10, 12), nn.Linear(12, 12), nn.Embedding(12, 12)
        self.out = nn.Linear(12, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.fc1(x)
        h = torch.where(h > 0, h, 0.1 * h.clamp(-2.0, 2.0))
        best = h.argmax(dim=-1)
        h = h + self.table(best)
        values, places = torch.topk(h, 3, dim=-1)
        picked = torch.gather(self.fc2(h), -1, places)
        back = torch.zeros_like(h).scatter(-1, places, picked * torch.softmax(values, -1))
        one = F.one_hot(best, 12).to(h.dtype)
        ordered, _ = torch.sort(h, dim=-1, descending=True)
        return self.out(back + one * torch.cumsum(h, dim=-1) + ordered.flip(-1).roll(1, -1))


class Rows(nn.Module):
    """Indexing: a row a sample, by several tensors, with steps, negative; an index_add."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.fc = nn.Embedding(20, 8), nn.Linear(8, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        last = (ids != 0).sum(1) - 1
        end = x[torch.arange(x.shape[0]), last]
        odd = x[:, 1::2].mean(1) + x[..., [3, 1, 0, 2, 7, 6, 5, 4]].amax(1)
        sums = torch.zeros(x.shape[0], 4, 8).index_add(1, torch.tensor([0, 1, 2, 3, 0, 1]), x[:, :6])
        return self.fc(end + odd + sums.prod(1) + x[:, -1] - x.std(1))


class Grouped(nn.Module):
    """Grouped keys with rotary positions, a sliding window and RMS norm."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm = nn.Embedding(30, 16), nn.RMSNorm(16)
        self.q, self.k, self.v, self.o = nn.Linear(16, 16), nn.Linear(16, 8), nn.Linear(16, 8), nn.Linear(16, 16)
        angle = torch.outer(torch.arange(10.0), 100.0 ** -torch.arange(0, 1, 0.5))
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def turn(self, x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, -1)
        return torch.cat((a * self.cos - b * self.sin, b * self.cos + a * self.sin), -1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.embed(ids))
        b, t, _ = x.shape
        q = self.turn(self.q(x).view(b, t, 4, 4).transpose(1, 2))
        k = self.turn(self.k(x).view(b, t, 2, 4).transpose(1, 2))
        v = self.v(x).view(b, t, 2, 4).transpose(1, 2)
        near = torch.ones(t, t, dtype=torch.bool).tril() & torch.ones(t, t, dtype=torch.bool).triu(-3)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=near, dropout_p=0.1 if self.training else 0.0, enable_gqa=True)
        return x + self.o(y.transpose(1, 2).reshape(b, t, 16))


class CrossAttention(nn.Module):
    """nn.MultiheadAttention between two sequences, weights returned."""

    def __init__(self) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(12, 3, dropout=0.1, kdim=10, vdim=10, batch_first=True)
        self.query, self.fc = nn.Parameter(torch.randn(1, 4, 12)), nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, weights = self.attend(self.query.expand(x.shape[0], -1, -1), x, x)
        return self.fc(y.mean(1)) + weights.var(dim=-1).mean()


class ViTLike(nn.Module):
    """Patches by unfold, a class token, positions, blocks with stochastic depth of the user's own."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cls = nn.Linear(48, 16), nn.Parameter(torch.randn(1, 1, 16))
        self.pos, self.norm = nn.Parameter(torch.randn(1, 17, 16) * 0.02), nn.LayerNorm(16)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(approximate="tanh"), nn.Dropout(0.1), nn.Linear(32, 16))
        self.gamma, self.fc = nn.Parameter(torch.full((16,), 0.1)), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b = x.shape[0]
        p = x.unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 1, 4, 5).reshape(b, 16, 48)
        y = torch.cat([self.cls.repeat(b, 1, 1), self.embed(p)], 1) + self.pos
        y = y + self.gamma * self.mlp(self.norm(y))
        return self.fc(y[:, 0])


class PixelShuffler(nn.Module):
    """Super-resolution: depth to space, reflection and replication padding, a skip of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.pad, self.edge = nn.ReflectionPad2d(1), nn.ReplicationPad2d(2)
        self.c1, self.c2, self.act = nn.Conv2d(1, 6, 3), nn.Conv2d(6, 4, 5), nn.PReLU()
        self.shuffle = nn.PixelShuffle(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.shuffle(self.c2(self.edge(self.act(self.c1(self.pad(x))))))
        return y + F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)


class Experts(nn.Module):
    """Two of four experts for every token, all of them computed (a dense mixture)."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 4)
        self.up, self.down = nn.Parameter(torch.randn(4, 8, 12) * 0.3), nn.Parameter(torch.randn(4, 12, 8) * 0.3)
        self.fc = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        probabilities = F.softmax(self.gate(x), -1)
        top, which = probabilities.topk(2, -1)
        weight = torch.zeros_like(probabilities).scatter_(-1, which, top / top.sum(-1, keepdim=True))
        h = F.silu(torch.einsum("btc,ecd->bted", x, self.up))
        y = torch.einsum("bted,edc,bte->btc", h, self.down, weight)
        return self.fc(y.mean(dim=1))


def floats(*dims: int):
    return lambda n: (torch.randn(n, *dims),)


def ids(length: int, vocabulary: int, low: int = 1):
    return lambda n: (torch.randint(low, vocabulary, (n, length)),)


def padded(length: int, vocabulary: int):
    def make(n: int) -> tuple:
        x = torch.randint(1, vocabulary, (n, length))
        for i in range(n):
            x[i, length - i % (length // 2):] = 0
        return (x,)

    return make


def models() -> dict:
    import zoo_users_more

    ce = "cross_entropy"
    return {
        "lstm_classifier": (LSTMClassifier, ids(9, 50), ce),
        "gru_sequence": (GRUSequence, floats(7, 6), ce),
        "cell_loop": (CellLoop, floats(4, 5), ce),
        "padded_encoder": (PaddedEncoder, padded(10, 40), ce),
        "translator": (Translator, lambda n: (torch.randint(0, 30, (n, 9)), torch.randint(0, 30, (n, 7))), ce),
        "skip_unet": (SkipUNet, floats(3, 22, 22), ce),
        "mobile_like": (MobileLike, floats(3, 16, 16), ce),
        "audio": (Audio, floats(160), ce),
        "volume": (Volume, floats(1, 8, 8, 6), ce),
        "siamese": (Siamese, lambda n: (torch.randn(n, 1, 8, 8), torch.randn(n, 1, 8, 8)), ce),
        "einsum_attention": (EinsumAttention, floats(8, 12), ce),
        "tied_autoencoder": (TiedAutoencoder, floats(24), "own"),
        "vae": (VAE, lambda n: (torch.randn(n, 20), torch.randn(n, 6)), "own"),
        "choices": (Choices, floats(10), ce),
        "rows": (Rows, padded(12, 20), ce),
        "grouped": (Grouped, ids(10, 30), ce),
        "cross_attention": (CrossAttention, floats(6, 10), ce),
        "vit_like": (ViTLike, floats(3, 16, 16), ce),
        "pixel_shuffler": (PixelShuffler, floats(1, 9, 9), "squares"),
        "experts": (Experts, floats(5, 8), ce),
    } | zoo_users_more.models()
