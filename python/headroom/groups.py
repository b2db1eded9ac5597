"""Parameter groups of torch's optimizers: a rate and a decay for each parameter, and parameters that no group has."""
from __future__ import annotations

from typing import Any

from .errors import Refused

OWN = ("params", "param_names", "lr", "initial_lr", "weight_decay", "name", "foreach", "fused", "capturable", "differentiable",
       "max_lr", "min_lr", "base_momentum", "max_momentum")


def one_setting(kind: str, groups: list[dict[str, Any]]) -> dict[str, Any]:
    """The settings that all groups share; rates and decays may differ."""
    first = groups[0]
    for g in groups[1:]:
        for key, value in g.items():
            if key not in OWN and value != first.get(key):
                raise Refused(f"{kind} whose parameter groups differ in {key} ({first.get(key)} and {value}): lr and weight_decay may")
    return first


def named(kind: str, groups: list[dict[str, Any]], module: Any) -> list[list[str]]:
    """The parameters of each group by their names in the module."""
    names = {id(p): n for n, p in module.named_parameters()}
    found = []
    for g in groups:
        strangers = sum(id(p) not in names for p in g["params"])
        if strangers:
            raise Refused(f"{kind} with {strangers} parameters that are not the module's")
        found.append([names[id(p)] for p in g["params"]])
    return found


def left_out(groups: list[dict[str, Any]], module: Any) -> list[str]:
    """Parameters that no group has: torch does not train them."""
    there = {id(p) for g in groups for p in g["params"]}
    return [n for n, p in module.named_parameters() if p.requires_grad and id(p) not in there]


def means(pattern: str, name: str) -> bool:
    """Whether a pattern of the library's without stars means the parameter: as its last parts, or those of a layer around it."""
    return f".{pattern}." in f".{name}."


def entries(factors: dict[str, float]) -> str:
    """PATTERN=FACTOR for each parameter whose factor is not 1, and for those that such a pattern means as well.  A later entry wins, so
    longer names come last."""
    wanted = {n for n, f in factors.items() if f != 1.0}
    for name in list(wanted):
        wanted |= {n for n, f in factors.items() if f != factors[name] and means(name, n)}
    return "+".join(f"{n}={factors[n]:.17g}" for n in sorted(wanted, key=lambda n: (n.count("."), n)))


def pass_text(names: list[list[str]], rates: list[float], decays: list[float]) -> str:
    """The pass `layer-rates` for these groups, over the first rate and the largest decay; "": one setting for all."""
    rate, decay = rates[0], max(decays)
    by_rate = entries({n: r / rate for group, r in zip(names, rates) for n in group})
    by_decay = entries({n: d / decay for group, d in zip(names, decays) for n in group}) if decay else ""
    parts = [f"{key}={text}" for key, text in (("rates", by_rate), ("decays", by_decay)) if text]
    return f"layer-rates:{','.join(parts)}" if parts else ""
