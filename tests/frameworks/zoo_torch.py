"""Thirty PyTorch models as people bring them: random weights, small sizes.  MODELS: name -> (builder, inputs of a batch, loss)."""
from __future__ import annotations

from typing import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F


class ResidualMLP(nn.Module):
    def __init__(self, width: int = 64, depth: int = 3) -> None:
        super().__init__()
        self.inp = nn.Linear(20, width)
        self.blocks = nn.ModuleList(nn.Sequential(nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, width))
                                    for _ in range(depth))
        self.out = nn.Linear(width, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.inp(x)
        for block in self.blocks:
            x = x + block(x)
        return self.out(x)


class LSTMText(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(100, 32, padding_idx=0)
        self.rnn = nn.LSTM(32, 48, num_layers=2, bidirectional=True, dropout=0.2, batch_first=True)
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(96, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        h, _ = self.rnn(self.emb(ids))
        return self.fc(self.drop(h.mean(1)))


def block(i: int, o: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.d1, self.d2, self.mid = block(3, 8), block(8, 16), block(16, 32)
        self.up2, self.u2 = nn.ConvTranspose2d(32, 16, 2, stride=2), block(32, 16)
        self.up1 = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.c1, self.u1, self.head = nn.Conv2d(16, 8, 1), block(16, 8), nn.Conv2d(8, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        m = self.mid(F.max_pool2d(b, 2))
        y = self.u2(torch.cat([self.up2(m), b], 1))
        y = self.u1(torch.cat([self.c1(self.up1(y)), a], 1))
        return self.head(y)


class TiedLM(nn.Module):
    def __init__(self, vocabulary: int = 120, width: int = 32, length: int = 16) -> None:
        super().__init__()
        self.tok = nn.Embedding(vocabulary, width)
        self.pos = nn.Parameter(torch.randn(length, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1, batch_first=True, norm_first=True)
        self.enc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tok.weight
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length), persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.enc(self.tok(ids) + self.pos, mask=self.mask, is_causal=True))


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c, self.bn, self.fc = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn(self.c(x))
        y += 1
        y.relu_()
        z = torch.zeros_like(y)
        z[:, :4] = y[:, 4:]
        z[:, 4:].add_(y[:, :4])
        z.mul_(0.5)
        z = F.dropout(z, 0.2, self.training, inplace=True)
        return self.fc(z.flatten(2).mean(-1))


class Buffers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(10, 16), nn.Linear(16, 3)
        self.register_buffer("ema", torch.zeros(16))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("scale", torch.full((16,), 0.5), persistent=False)
        self.const = torch.arange(16.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.tanh(self.fc1(x)) * self.scale + self.const * 1e-3
        if self.training:
            with torch.no_grad():
                self.ema.mul_(0.9).add_(h.mean(0), alpha=0.1)
                self.count += 1
        return self.fc2(h - self.ema)


class OddPad(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c1 = nn.Conv2d(3, 8, 3, stride=2)
        self.c2 = nn.Conv2d(8, 8, 4, padding="same", dilation=2)
        self.c3 = nn.Conv2d(8, 16, (1, 5), padding=(0, 2), groups=4, padding_mode="reflect")
        self.gn, self.act = nn.GroupNorm(4, 16), nn.PReLU(16)
        self.pool = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.ap = nn.AvgPool2d(3, 2, padding=1, ceil_mode=True, count_include_pad=False)
        self.ad, self.fc, self.d2 = nn.AdaptiveAvgPool2d((3, 2)), nn.Linear(96, 4), nn.Dropout2d(0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.silu(self.c1(F.pad(x, (0, 1, 0, 1))))
        x = F.leaky_relu(self.c2(x), 0.1)
        x = self.ap(self.pool(self.act(self.gn(self.c3(x)))))
        return self.fc(self.d2(self.ad(x)).flatten(1))


class Branch(nn.Module):
    """A branch on data: nothing can export this."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return self.a(x)
        return self.b(x)


class Take(nn.Module):
    """One entry of what a model returns, as a tensor."""

    def __init__(self, m: nn.Module, key: object, **more: object) -> None:
        super().__init__()
        self.m, self.key, self.more = m, key, more

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.m(x, **self.more)[self.key]


class TakePair(nn.Module):
    def __init__(self, m: nn.Module) -> None:
        super().__init__()
        self.m = m

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.m(input_ids=x, decoder_input_ids=y, use_cache=False).logits


class Levels(nn.Module):
    def __init__(self, m: nn.Module) -> None:
        super().__init__()
        self.m = m

    def forward(self, x: torch.Tensor) -> tuple:
        return tuple(self.m(x).values())


class Heads(nn.Module):
    """GoogLeNet returns a named tuple in training and a tensor in evaluation."""

    def __init__(self, m: nn.Module) -> None:
        super().__init__()
        self.m = m

    def forward(self, x: torch.Tensor) -> tuple:
        y = self.m(x)
        return tuple(y) if isinstance(y, tuple) else (y,)


def images(size: int) -> Callable:
    return lambda n: (torch.randn(n, 3, size, size),)


def ids(length: int = 16, vocabulary: int = 100) -> Callable:
    return lambda n: (torch.randint(1, vocabulary, (n, length)),)


def vision() -> dict:
    import torchvision.models as tv
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

    out: dict = {}
    for name in ("resnet18", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "densenet121", "squeezenet1_1",
                 "shufflenet_v2_x0_5", "convnext_tiny", "regnet_y_400mf", "vgg11_bn", "swin_t"):
        out[name] = (lambda name=name: getattr(tv, name)(weights=None, num_classes=10), images(64), "cross_entropy")
    out["googlenet"] = (lambda: Heads(tv.googlenet(weights=None, num_classes=10, aux_logits=True, init_weights=False)),
                        images(96), "squares")
    segment = tv.segmentation
    out["fcn_resnet50"] = (lambda: Take(segment.fcn_resnet50(weights=None, weights_backbone=None, num_classes=5), "out"),
                           images(64), "cross_entropy")
    out["deeplabv3_mobilenet"] = (lambda: Take(segment.deeplabv3_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=5), "out"), images(64), "cross_entropy")
    out["resnet18_fpn"] = (lambda: Levels(resnet_fpn_backbone(backbone_name="resnet18", weights=None, trainable_layers=5)),
                           images(64), "squares")
    return out


def language() -> dict:
    import transformers as tr

    small = dict(vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4)
    long = dict(small, max_position_embeddings=32)
    wav = dict(vocab_size=20, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
               conv_dim=(16, 16), conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2,
               num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, apply_spec_augment=False, layerdrop=0.0)
    ce = "cross_entropy"
    return {
        "hf_gpt2": (lambda: Take(tr.GPT2LMHeadModel(tr.GPT2Config(vocab_size=100, n_positions=32, n_embd=32, n_layer=2,
                                                                  n_head=4)), 0, use_cache=False), ids(), ce),
        "hf_bert": (lambda: Take(tr.BertForSequenceClassification(tr.BertConfig(**long)), 0), ids(), ce),
        "hf_llama": (lambda: Take(tr.LlamaForCausalLM(tr.LlamaConfig(num_key_value_heads=2, **long)), 0, use_cache=False),
                     ids(), ce),
        "hf_vit": (lambda: Take(tr.ViTForImageClassification(tr.ViTConfig(
            **{k: v for k, v in small.items() if k != "vocab_size"}, image_size=32, patch_size=8,
            hidden_dropout_prob=0.1)), 0), images(32), ce),
        "hf_t5": (lambda: TakePair(tr.T5ForConditionalGeneration(tr.T5Config(vocab_size=100, d_model=32, d_kv=8, d_ff=64,
                                                                             num_layers=2, num_heads=4))),
                  lambda n: (torch.randint(1, 100, (n, 16)), torch.randint(1, 100, (n, 12))), ce),
        "hf_mixtral": (lambda: Take(tr.MixtralForCausalLM(tr.MixtralConfig(num_key_value_heads=2, num_local_experts=4,
                                                                           **long)), 0, use_cache=False), ids(), ce),
        "hf_wav2vec2": (lambda: Take(tr.Wav2Vec2ForCTC(tr.Wav2Vec2Config(**wav)), 0), lambda n: (torch.randn(n, 800),),
                        ce),
    }


def own() -> dict:
    ce = "cross_entropy"
    return {
        "residual_mlp": (ResidualMLP, lambda n: (torch.randn(n, 20),), ce),
        "lstm_text": (LSTMText, ids(), ce),
        "unet": (UNet, images(32), ce),
        "tied_lm": (TiedLM, ids(), ce),
        "inplace": (InPlace, images(16), ce),
        "buffers": (Buffers, lambda n: (torch.randn(n, 10),), ce),
        "odd_pad": (OddPad, images(33), ce),
        "branch": (Branch, lambda n: (torch.randn(n, 8),), ce),
    }


def models() -> dict:
    return {**vision(), **language(), **own()}


def drawn(module: nn.Module) -> nn.Module:
    """Norms away from scale 1, shift 0 and statistics 0 and 1: there a scale before a relu and another norm has gradient 0 but for
    eps, so that a comparison sees nothing but rounding, and an evaluation would not notice statistics that were mixed up.  The last
    norm of a bottleneck is scaled down (people begin with 0 there), or 50 layers make 100 times as much of every rounding."""
    for m in module.modules():
        if isinstance(m, nn.modules.batchnorm._BatchNorm):
            with torch.no_grad():
                m.weight.uniform_(0.5, 1.5)
                m.bias.uniform_(-0.5, 0.5)
                m.running_mean.uniform_(-0.2, 0.2)
                m.running_var.uniform_(0.5, 1.5)
    for m in module.modules():
        if hasattr(m, "bn3"):
            m.bn3.weight.data.mul_(0.25)
    return module
