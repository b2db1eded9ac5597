#!/usr/bin/env python3
"""make_family_losses.py [NAME...]: writes tests/e2e/parity/families/NAME.json, the losses that torchvision's and transformers' own models
have in 8 steps of training in f32.

Needs PyTorch, torchvision, transformers and numpy.  Weights and batches are counted as in make_losses.py, by the names that these
libraries give their parameters: a name or a layout that differs here shows in the first loss.  The rate is one
with which PyTorch in f32 and in f64 agree.
"""
import json
import pathlib
import sys

import torch
import torchvision
from torch import nn
from torch.nn import functional as F
from torchvision.models import convnext, densenet, resnet, vgg

from make_losses import CYCLE, SEED, batch, weight

STEPS = 8
RATES = ("0.01", "0.001", "0.0001", "0.00001", "0.000001", "0.0000001")
FIRST = {"vgg11": "0.001", "convnext_tiny": "0.001", "llama-nano": "0.01", "llama-long": "0.01", "bert-masked": "0.01", "bert-class": "0.01",
         "lstm": "0.01", "lstm-class": "0.01", "vgg11_bn": "0.00001",
         "mobilenet_v2": "0.0000001"}  # where to begin; others: 0.000001


def vgg_of(norm):
    model = vgg.VGG(vgg.make_layers([8, "M", 16, "M", 32, 32, "M", 64, 64, "M", 64, 64, "M"], batch_norm=norm), num_classes=10)
    model.classifier = nn.Sequential(nn.Linear(64 * 49, 64), nn.ReLU(), nn.Identity(), nn.Linear(64, 64), nn.ReLU(), nn.Identity(),
                                     nn.Linear(64, 10))
    return model


def convnext_of():
    sizes = ((32, 64, 1), (64, 128, 1), (128, 256, 2), (256, None, 1))
    return convnext.ConvNeXt([convnext.CNBlockConfig(*s) for s in sizes], num_classes=10)


def llama_of(width, hidden, layers, heads, groups, context):
    from transformers import LlamaConfig, LlamaForCausalLM
    return LlamaForCausalLM(LlamaConfig(vocab_size=128, hidden_size=width, intermediate_size=hidden, num_hidden_layers=layers,
                                        num_attention_heads=heads, num_key_value_heads=groups, max_position_embeddings=context,
                                        rms_norm_eps=1e-5, attn_implementation="eager"))


def bert_of(classes):
    from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification
    config = BertConfig(vocab_size=128, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
                        max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=classes or 2,
                        pad_token_id=0 if classes else None, attn_implementation="eager")
    return BertForSequenceClassification(config) if classes else BertForMaskedLM(config)


class Lstm(nn.Module):
    """What the family lstm is: torch's own layers under these names."""

    def __init__(self, layers, both, classes):
        super().__init__()
        self.embedding = nn.Embedding(128, 24)
        self.lstm = nn.LSTM(24, 32, layers, batch_first=True, bidirectional=both)
        self.fc = nn.Linear(64 if both else 32, classes or 128)
        self.classes = classes

    def forward(self, tokens):
        x, _ = self.lstm(self.embedding(tokens))
        if self.classes:
            counts = (tokens != 0).unsqueeze(-1).to(x.dtype)
            x = (x * counts).sum(1) / counts.sum(1).clamp(min=1)
        return self.fc(x)


def of(name, **keys):
    return lambda: getattr(torchvision.models, name)(num_classes=10, **keys)


RECORDS = {
    "resnet50": ("resnet50:size=32,classes=10,layers=1x1x1x1", 4,
                 lambda: resnet.ResNet(resnet.Bottleneck, [1, 1, 1, 1], num_classes=10)),
    "resnext50_32x4d": ("resnext50_32x4d:size=32,classes=10,layers=1x1x1x1", 4,
                        lambda: resnet.ResNet(resnet.Bottleneck, [1, 1, 1, 1], num_classes=10, groups=32, width_per_group=4)),
    "wide_resnet50_2": ("wide_resnet50_2:size=32,classes=10,layers=1x1x1x1", 4,
                        lambda: resnet.ResNet(resnet.Bottleneck, [1, 1, 1, 1], num_classes=10, width_per_group=128)),
    "vgg11": ("vgg11:size=32,width=8,hidden=64,classes=10,dropout=0", 4, lambda: vgg_of(False)),
    "vgg11_bn": ("vgg11_bn:size=32,width=8,hidden=64,classes=10,dropout=0", 8, lambda: vgg_of(True)),
    "mobilenet_v2": ("mobilenet_v2:size=64,classes=10,dropout=0", 4, of("mobilenet_v2", dropout=0.0)),
    "mobilenet_v3_large": ("mobilenet_v3_large:size=64,classes=10,dropout=0", 4, of("mobilenet_v3_large", dropout=0.0)),
    "mobilenet_v3_small": ("mobilenet_v3_small:size=64,classes=10,dropout=0", 4, of("mobilenet_v3_small", dropout=0.0)),
    "efficientnet_b0": ("efficientnet_b0:size=64,classes=10,dropout=0,drop=0", 4,
                        of("efficientnet_b0", dropout=0.0, stochastic_depth_prob=0.0)),
    "densenet121": ("densenet121:size=32,classes=10,layers=2x2x2x2", 4,
                    lambda: densenet.DenseNet(32, (2, 2, 2, 2), 64, num_classes=10)),
    "convnext_tiny": ("convnext_tiny:size=32,classes=10,layers=1x1x2x1,width=32,drop=0", 4, convnext_of),
    "llama-nano": ("llama-nano", 4, lambda: llama_of(32, 88, 2, 4, 2, 32)),
    "llama-long": ("llama-nano:context=150,width=256,heads=1,kv_heads=1,layers=1", 1, lambda: llama_of(256, 88, 1, 1, 1, 150)),
    "bert-masked": ("bert-nano:pad=-1,dropout=0", 4, lambda: bert_of(0)),
    "bert-class": ("bert-nano:classes=10,dropout=0", 4, lambda: bert_of(10)),
    "lstm": ("lstm-nano", 4, lambda: Lstm(1, False, 0)),
    "lstm-class": ("lstm-nano:layers=2,both=on,classes=10", 4, lambda: Lstm(2, True, 10)),
}
TEXTS = ("llama", "bert", "lstm")


def train(name, rate, double):
    text, samples, make = RECORDS[name]
    model = make()
    keys = dict(piece.split("=") for piece in text.partition(":")[2].split(",") if piece)
    with torch.no_grad():
        for key, p in model.named_parameters():
            p.copy_(weight(key, tuple(p.shape)))
    model.train()
    if double:
        model.double()
    optimizer = torch.optim.SGD(model.parameters(), lr=float(rate), momentum=0.9)
    losses = []
    for step in range(STEPS):
        if name.startswith(TEXTS):
            shape, classes = (samples, int(keys.get("context", 16 if name.startswith("lstm") else 32))), int(keys.get("classes", 0))
            x = batch(step % CYCLE, 0, shape, classes or 128)
            label = batch(step % CYCLE, 1, (samples,) if classes else shape, classes or 128)
        else:
            size = int(keys["size"])
            x = batch(step % CYCLE, 0, (samples, size, size, 3), 0).permute(0, 3, 1, 2).contiguous()
            label = batch(step % CYCLE, 1, (samples,), 10)
            x = x.double() if double else x
        # Padding is token 0 where a family has it.
        logits = model(x, attention_mask=(x != 0).long()) if name == "bert-class" else model(x)
        logits = logits.logits if name.startswith(("llama", "bert")) else logits
        loss = F.cross_entropy(logits.flatten(0, -2), label.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    folder = pathlib.Path(__file__).resolve().parents[2] / "tests" / "e2e" / "parity" / "families"
    folder.mkdir(exist_ok=True)
    torch.set_num_threads(1)
    for name in sys.argv[1:] or RECORDS:
        text, samples, _ = RECORDS[name]
        for rate in RATES[RATES.index(FIRST.get(name, "0.000001")):]:
            losses, exact = train(name, rate, False), train(name, rate, True)
            drift = max(abs(a - b) / b for a, b in zip(losses, exact))
            print(f"{name} rate {rate}: {losses[0]:.6f} to {losses[-1]:.6f}, {drift:.1e} from f64", flush=True)
            if drift <= 2e-5:
                break
        else:
            sys.exit("rounding alone changes these losses at every rate")
        run = {"options": f"optimizer=sgd,momentum=0.9,rate={rate},precision=f32", "losses": losses}
        record = {"version": 1, "torch": torch.__version__.split("+")[0], "torchvision": torchvision.__version__.split("+")[0],
                  "model": text, "batch": samples, "seed": SEED, "cycle": CYCLE, "runs": [run]}
        (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
