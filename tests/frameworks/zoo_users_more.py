"""More modules of the kind that people write: masks, several inputs, losses and random numbers of their own, sizes of the batch in
arithmetic.  models(): name -> (builder, inputs of a batch, loss)."""
from __future__ import annotations

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class SetAttention(nn.Module):
    """Rows of zeros are padding: nn.MultiheadAttention with a key padding mask made of the data, a class token in front."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cls = nn.Linear(6, 16), nn.Parameter(torch.randn(1, 1, 16) * 0.02)
        self.attend, self.norm = nn.MultiheadAttention(16, 4, dropout=0.1, batch_first=True), nn.LayerNorm(16)
        self.mlp, self.fc = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pad = (x == 0).all(dim=-1)
        pad = torch.cat([torch.zeros_like(pad[:, :1]), pad], dim=1)
        y = torch.cat([self.cls.expand(x.size(0), -1, -1), self.embed(x)], dim=1)
        h = self.norm(y)
        y = y + self.attend(h, h, h, key_padding_mask=pad, need_weights=False)[0]
        return self.fc((y + self.mlp(y))[:, 0])


class UpUNet(nn.Module):
    """ConvTranspose2d up, F.pad to the skip's size, and a loss of its own: binary cross entropy and Dice."""

    def __init__(self) -> None:
        super().__init__()

        def two(i: int, o: int) -> nn.Module:
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True), nn.Dropout2d(0.1),
                                 nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True))

        self.a, self.b, self.c = two(1, 6), two(6, 8), two(8, 12)
        self.up1, self.d1 = nn.ConvTranspose2d(12, 8, 2, stride=2), two(16, 8)
        self.up2, self.d2 = nn.ConvTranspose2d(8, 6, 3, stride=2, padding=1, output_padding=1), two(12, 6)
        self.head = nn.Conv2d(6, 1, 1)

    @staticmethod
    def meet(x: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
        dy, dx = skip.size(2) - x.size(2), skip.size(3) - x.size(3)
        return torch.cat([skip, F.pad(x, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])], dim=1)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        y = self.d1(self.meet(self.up1(self.c(F.max_pool2d(b, 2))), b))
        logits = self.head(self.d2(self.meet(self.up2(y), a)))
        truth = (mask > 0).float()
        p = torch.sigmoid(logits).flatten(1)
        dice = (2 * (p * truth.flatten(1)).sum(1) + 1) / (p.sum(1) + truth.flatten(1).sum(1) + 1)
        return F.binary_cross_entropy_with_logits(logits, truth) + (1 - dice).mean()


class Speech(nn.Module):
    """1-D convolutions with weight norm and dilation, statistics over time, label smoothing."""

    def __init__(self) -> None:
        super().__init__()
        norm = nn.utils.parametrizations.weight_norm
        self.front = norm(nn.Conv1d(1, 8, 10, stride=5))
        self.layers = nn.ModuleList(nn.Sequential(nn.Conv1d(8, 8, 3, dilation=d, padding="same"), nn.PReLU(8), nn.BatchNorm1d(8))
                                    for d in (1, 2, 4))
        self.attend, self.fc = nn.Conv1d(8, 1, 1), nn.Linear(24, 5)
        self.loss = nn.CrossEntropyLoss(label_smoothing=0.1)

    def forward(self, wave: torch.Tensor, who: torch.Tensor) -> torch.Tensor:
        wave = (wave - wave.mean(-1, keepdim=True)) / (wave.std(-1, keepdim=True) + 1e-5)
        x = F.leaky_relu(self.front(wave.unsqueeze(1)), 0.2)
        for f in self.layers:
            x = x + f(x)
        w = torch.softmax(self.attend(x), dim=-1)
        pooled = torch.cat([x.mean(-1), x.var(-1, unbiased=False).clamp(min=1e-6).sqrt(), (x * w).sum(-1)], dim=1)
        return self.loss(self.fc(pooled), who)


class Tagger(nn.Module):
    """A tag for every word: a bidirectional GRU of two layers, features of the characters, padding that counts nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.letters = nn.Embedding(30, 10, padding_idx=0), nn.Embedding(12, 6, padding_idx=0)
        self.conv, self.rnn = nn.Conv1d(6, 8, 3, padding=1), nn.GRU(18, 9, num_layers=2, bidirectional=True, batch_first=True)
        self.drop, self.fc = nn.Dropout(0.2), nn.Linear(18, 5)

    def forward(self, words: torch.Tensor, letters: torch.Tensor, tags: torch.Tensor) -> torch.Tensor:
        b, t, k = letters.shape
        h = self.conv(self.letters(letters.reshape(b * t, k)).transpose(1, 2)).amax(-1).view(b, t, 8)
        y, _ = self.rnn(self.drop(torch.cat([self.words(words), h], dim=-1)))
        tags = torch.where(words == 0, torch.full_like(tags, -100), tags)
        return F.cross_entropy(self.fc(y).transpose(1, 2), tags, ignore_index=-100)


class Triplet(nn.Module):
    """One network on three inputs, unit vectors, a margin."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2), nn.BatchNorm2d(4), nn.Hardtanh(-2, 2), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
                                 nn.Linear(16, 8))

    def forward(self, a: torch.Tensor, p: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        a, p, n = (F.normalize(self.net(x), p=2, dim=1) for x in (a, p, n))
        far = (a - p).pow(2).sum(1).sqrt() - (a - n).pow(2).sum(1).sqrt()
        return F.relu(far + 0.5).sum() / a.shape[0] + 0.01 * F.triplet_margin_loss(a, p, n, margin=2.0)


class Mixer(nn.Module):
    """einsum with an ellipsis, of three operands, with a diagonal; a bilinear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.channels = nn.Parameter(torch.randn(6, 6) * 0.3), nn.Parameter(torch.randn(2, 4, 4) * 0.3)
        self.core, self.pair, self.fc = nn.Parameter(torch.randn(8, 3) * 0.3), nn.Bilinear(8, 8, 5), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.einsum("...tc,ts->...sc", x, self.tokens)
        y = torch.einsum("bthc,hcd->bthd", y.unflatten(-1, (2, 4)), self.channels).flatten(-2)
        gram = torch.einsum("btc,cr,bsc->brts", y, self.core, x)
        trace = torch.einsum("brtt->br", gram).mean(-1, keepdim=True)
        return self.fc(self.pair(y.mean(1), x.mean(1)) + torch.tanh(trace))


class Denoiser(nn.Module):
    """A diffusion model's block: group norm and SiLU, sines of the time, attention over pixels; noise is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 16))
        self.inp, self.n1, self.c1 = nn.Conv2d(2, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.Conv2d(8, 8, 3, padding=1)
        self.n2, self.c2 = nn.GroupNorm(2, 8), nn.Conv2d(8, 8, 3, padding=1)
        self.qkv, self.proj, self.n3 = nn.Conv2d(8, 24, 1), nn.Conv2d(8, 8, 1), nn.GroupNorm(1, 8)
        self.down, self.out = nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.Conv2d(16, 2, 3, padding=1)
        self.register_buffer("alphas", torch.cumprod(1 - torch.linspace(1e-4, 0.2, 10), 0))

    def forward(self, x: torch.Tensor, noise: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        a = self.alphas[t].view(-1, 1, 1, 1)
        noisy = a.sqrt() * x + (1 - a).sqrt() * noise
        angle = t[:, None].float() * torch.exp(-math.log(100.0) * torch.arange(4, device=x.device) / 4)[None]
        scale, shift = self.time(torch.cat([angle.sin(), angle.cos()], dim=-1))[:, :, None, None].chunk(2, dim=1)
        h0 = self.inp(noisy)
        h = self.c1(F.silu(self.n1(h0)))
        h = h0 + self.c2(F.silu(self.n2(h) * (1 + scale) + shift))
        b, c, height, width = h.shape
        q, k, v = self.qkv(self.n3(h)).reshape(b, 3, 2, c // 2, height * width).transpose(-1, -2).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v).transpose(-1, -2).reshape(b, c, height, width)
        h = h + self.proj(y)
        up = F.interpolate(self.down(h), scale_factor=2.0, mode="nearest")
        return F.mse_loss(self.out(torch.cat([up, h], dim=1)), noise)


class Excited(nn.Module):
    """Squeeze and excite, a blur that is a buffer, a scale a layer, stochastic depth as timm writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.bn = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8, momentum=0.01, eps=1e-3)
        self.deep, self.point = nn.Conv2d(8, 8, 5, padding=2, groups=8), nn.Conv2d(8, 8, 1)
        self.squeeze, self.excite = nn.Linear(8, 4), nn.Linear(4, 8)
        self.gamma, self.fc = nn.Parameter(1e-1 * torch.ones(8, 1, 1)), nn.Linear(8, 4)
        f = torch.tensor([1.0, 2.0, 1.0])
        self.register_buffer("blur", (f[:, None] * f[None] / 16).repeat(8, 1, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu6(self.bn(self.stem(x)))
        y = F.gelu(self.deep(x))
        s = torch.sigmoid(self.excite(F.silu(self.squeeze(y.mean((2, 3))))))
        y = self.gamma * self.point(y * s[..., None, None])
        if self.training:
            keep = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(0.8)
            y = y * keep.div_(0.8)
        x = F.conv2d(F.pad(x + y, (1, 1, 1, 1), mode="reflect"), self.blur, stride=2, groups=8)
        return self.fc(F.adaptive_max_pool2d(x, 1).squeeze(-1).squeeze(-1))


class Film(nn.Module):
    """Depthwise 3-D convolutions and (2 + 1)-D ones."""

    def __init__(self) -> None:
        super().__init__()
        self.inp, self.bn = nn.Conv3d(2, 6, (1, 3, 3), padding=(0, 1, 1), bias=False), nn.BatchNorm3d(6)
        self.time, self.deep = nn.Conv3d(6, 6, (3, 1, 1), padding=(1, 0, 0)), nn.Conv3d(6, 6, 3, padding=1, groups=6)
        self.drop, self.fc = nn.Dropout3d(0.2), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.time(F.relu(self.bn(self.inp(x)))))
        x = x + self.drop(F.hardswish(self.deep(x)))
        x = F.max_pool3d(x, kernel_size=(1, 2, 2), stride=(1, 2, 2))
        return self.fc(x.mean(dim=[2, 3, 4]))


class Recommender(nn.Module):
    """nn.EmbeddingBag over lists with padding and with weights, embeddings, products of all pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = nn.EmbeddingBag(40, 8, mode="mean", padding_idx=0)
        self.liked = nn.EmbeddingBag(40, 8, mode="sum")
        self.user, self.bias = nn.Embedding(20, 8), nn.Embedding(20, 1)
        self.dense = nn.Sequential(nn.Linear(5, 8), nn.Tanh())
        self.register_buffer("places", torch.tril_indices(4, 4, -1))
        self.top = nn.Sequential(nn.Linear(14, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, seen: torch.Tensor, user: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
        d = self.dense(dense)
        liked = self.liked(seen, per_sample_weights=torch.sigmoid(dense[:, :4]).repeat(1, 2)[:, :seen.size(1)])
        z = torch.stack([d, self.seen(seen), liked, self.user(user)], dim=1)
        pairs = torch.bmm(z, z.transpose(1, 2))[:, self.places[0], self.places[1]]
        return self.top(torch.cat([d, pairs], dim=1)) + self.bias(user)


class TiedConv(nn.Module):
    """A convolutional autoencoder whose decoder has the encoder's kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.w1, self.w2 = nn.Parameter(torch.randn(6, 1, 3, 3) * 0.3), nn.Parameter(torch.randn(8, 6, 3, 3) * 0.2)
        self.b1, self.b2, self.b3, self.b4 = (nn.Parameter(torch.zeros(n)) for n in (6, 8, 6, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.elu(F.conv2d(x, self.w1, self.b1, stride=2, padding=1))
        h = F.elu(F.conv2d(h, self.w2, self.b2, stride=2, padding=1))
        sparse = h.abs().mean()
        y = F.elu(F.conv_transpose2d(h, self.w2, self.b3, stride=2, padding=1, output_padding=1))
        y = F.conv_transpose2d(y, self.w1, self.b4, stride=2, padding=1, output_padding=1)
        return F.smooth_l1_loss(y, x) + 1e-3 * sparse


class Positions(nn.Module):
    """Learned positions and nn.TransformerEncoder with a mask of its own, norms first, tied output."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(25, 16), nn.Embedding(12, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 24, dropout=0.1, activation=F.gelu, batch_first=True, norm_first=True, bias=False)
        self.encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(16), enable_nested_tensor=False)
        away = (torch.arange(12)[:, None] - torch.arange(12)[None]).abs()
        self.register_buffer("mask", torch.where(away > 4, float("-inf"), -0.1 * away.float()))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        t = ids.size(1)
        x = self.tokens(ids) * math.sqrt(16) + self.places(torch.arange(t, device=ids.device)).unsqueeze(0)
        return self.encoder(x, mask=self.mask[:t, :t]) @ self.tokens.weight.t()


class Transformer2d(nn.Module):
    """A spatial transformer: the image is sampled where a small network says."""

    def __init__(self) -> None:
        super().__init__()
        self.where = nn.Sequential(nn.Conv2d(1, 4, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(64, 6))
        self.where[-1].weight.data.mul_(0.1)
        self.where[-1].bias.data.copy_(torch.tensor([0.9, 0.1, 0.05, -0.1, 0.8, 0.02]))
        self.conv, self.fc = nn.Conv2d(1, 4, 3), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        grid = F.affine_grid(self.where(x).view(-1, 2, 3), list(x.size()), align_corners=False)
        x = F.grid_sample(x, grid, align_corners=False)
        return self.fc(torch.tanh(self.conv(x)).mean((2, 3)))


class SampledVAE(nn.Module):
    """The usual variational autoencoder: it draws its own noise."""

    def __init__(self) -> None:
        super().__init__()
        self.enc, self.mu, self.logvar, self.dec = nn.Linear(12, 16), nn.Linear(16, 4), nn.Linear(16, 4), nn.Linear(4, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.relu(self.enc(x + 0.1 * torch.rand(x.shape) if self.training else x))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar) if self.training else mu
        fit = F.mse_loss(self.dec(z), x, reduction="sum")
        kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        return (fit + kl) / x.size(0)


class Contrast(nn.Module):
    """Statistics over the batch: unbiased variance, covariance, arithmetic with the number of samples."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 12), nn.Softsign(), nn.Linear(12, 6))

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        n = a.shape[0]
        u, v = self.net(a), self.net(b)
        spread = sum(F.relu(1 - torch.sqrt(z.var(dim=0) + 1e-4)).mean() for z in (u, v))
        c = u - u.mean(0)
        cov = (c.T @ c) / (n - 1)
        off = cov.pow(2).sum() - cov.diagonal().pow(2).sum()
        return F.mse_loss(u, v) + spread + off / 6 + (u * (1.0 / n)).sum().abs() * 0.1 + v.std(0).mean() / math.sqrt(6)


class PairedTowers(nn.Module):
    """Two towers and the products of all pairs of the batch, each with its own as the label; a temperature is learnt."""

    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2), nn.GELU(), nn.Flatten(), nn.Linear(4 * 16, 8))
        self.words, self.text, self.scale = nn.Embedding(20, 8), nn.Linear(8, 8), nn.Parameter(torch.tensor(math.log(10.0)))

    def forward(self, image: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        u, v = F.normalize(self.image(image), dim=-1), F.normalize(self.text(self.words(ids).mean(1)), dim=-1)
        logits = self.scale.exp() * u @ v.T
        n = image.shape[0]
        own = torch.arange(n)
        loss = (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2
        apart = (u @ u.T).masked_fill(torch.eye(n, dtype=torch.bool), 0.0)
        return loss + 0.1 * apart.pow(2).sum() / (n * (n - 1))


class Prototypes(nn.Module):
    """Distances to learnt points, a graph's normalised neighbours, an LSTM with a projection."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(5, 10, proj_size=4, batch_first=True, bidirectional=True)
        self.points, self.mix = nn.Parameter(torch.randn(6, 8)), nn.Linear(8, 8)
        self.register_buffer("edges", (torch.rand(7, 7, generator=torch.Generator().manual_seed(1)) > 0.5).float())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, (h, _) = self.rnn(x)
        edges = self.edges + self.edges.T + torch.eye(7)
        degree = edges.sum(-1).rsqrt()
        y = F.relu(self.mix(degree[:, None] * edges * degree[None] @ y)) + torch.asinh(y)
        return -torch.cdist(y.mean(1) + h.transpose(0, 1).flatten(1), self.points)


def padded_rows(n: int) -> tuple:
    x = torch.randn(n, 7, 6)
    for i in range(n):
        x[i, 7 - i % 4:] = 0
    return (x,)


def tagged(n: int) -> tuple:
    words = torch.randint(1, 30, (n, 8))
    for i in range(n):
        words[i, 8 - i % 5:] = 0
    return words, torch.randint(0, 12, (n, 8, 5)), torch.randint(0, 5, (n, 8))


def models() -> dict:
    ce, own = "cross_entropy", "own"

    def reals(*shapes: tuple):
        return lambda n: tuple(torch.randn(n, *s) for s in shapes)

    return {
        "set_attention": (SetAttention, padded_rows, ce),
        "up_unet": (UpUNet, reals((1, 22, 18), (1, 22, 18)), own),
        "speech": (Speech, lambda n: (torch.randn(n, 200), torch.randint(0, 5, (n,))), own),
        "tagger": (Tagger, tagged, own),
        "triplet": (Triplet, reals((1, 12, 12), (1, 12, 12), (1, 12, 12)), own),
        "mixer": (Mixer, reals((6, 8)), ce),
        "denoiser": (Denoiser, lambda n: (torch.randn(n, 2, 8, 8), torch.randn(n, 2, 8, 8), torch.randint(0, 10, (n,))), own),
        "excited": (Excited, reals((3, 20, 20)), ce),
        "film": (Film, reals((2, 4, 8, 8)), ce),
        "recommender": (Recommender, lambda n: (torch.randint(0, 40, (n, 6)), torch.randint(0, 20, (n,)), torch.randn(n, 5)), ce),
        "tied_conv": (TiedConv, reals((1, 12, 12)), own),
        "positions": (Positions, lambda n: (torch.randint(0, 25, (n, 12)),), ce),
        "spatial_transformer": (Transformer2d, reals((1, 12, 12)), ce),
        "sampled_vae": (SampledVAE, reals((12,)), own),
        "contrast": (Contrast, reals((10,), (10,)), own),
        "paired_towers": (PairedTowers, lambda n: (torch.randn(n, 1, 10, 10), torch.randint(0, 20, (n, 5))), own),
        "prototypes": (Prototypes, reals((7, 5)), ce),
    }
