"""Losses and optimizers of other frameworks, read by class and settings.  What has no counterpart is refused by name."""
from __future__ import annotations

from typing import Any

from .errors import Refused
from .groups import left_out, named, one_setting, pass_text

LOSSES = {
    "crossentropyloss": "cross_entropy", "mseloss": "mean_squared_error", "bcewithlogitsloss": "binary_cross_entropy",
    "sparsecategoricalcrossentropy": "cross_entropy", "meansquarederror": "mean_squared_error", "mse": "mean_squared_error",
    "binarycrossentropy": "binary_cross_entropy", "crossentropy": "cross_entropy",
    "own": "own", "squares": "squares",
}
MEANS = ("mean", "batchmean", "sum_over_batch_size", "mean_with_sample_weight")


def _given(loss: Any) -> str:
    return str(loss if isinstance(loss, str) else getattr(loss, "__name__", None) or type(loss).__name__)


def _ours(loss: Any) -> str:
    """What it is called here; "": no name, and no class or function of torch or Keras, that is known.  The name of a function of the
    user's says nothing."""
    module = getattr(loss, "__module__", "") or ""
    if not isinstance(loss, str) and module.partition(".")[0] not in ("torch", "keras"):
        return ""
    return LOSSES.get(_given(loss).replace("_", "").lower(), "")


def known_loss(loss: Any) -> bool:
    return loss is None or bool(_ours(loss))


def plain_loss(loss: Any) -> bool:
    """A loss that is here as it stands: one that is known, with no setting but those that are read."""
    return known_loss(loss) and (isinstance(loss, str) or not special(loss))


def special(loss: Any) -> str:
    """The setting of a loss object that changes what it computes, as it would be written; "": none does."""
    for key in ("weight", "pos_weight"):
        if getattr(loss, key, None) is not None:
            return f"{key}=..."
    ignored = getattr(loss, "ignore_index", None)
    if isinstance(ignored, int) and ignored >= 0:  # labels below 0 count nowhere
        return f"ignore_index={ignored}"
    if getattr(loss, "ignore_class", None) is not None:
        return f"ignore_class={loss.ignore_class}"
    if getattr(loss, "__module__", "").startswith("keras.") and getattr(loss, "label_smoothing", 0):
        return f"label_smoothing={loss.label_smoothing}"
    reduction = getattr(loss, "reduction", "mean")
    return "" if reduction in MEANS else f"reduction={reduction!r}"


def loss_name(loss: Any) -> str:
    """The name of a loss here: of a string, a torch.nn loss, a Keras loss or its name.  None: cross entropy."""
    if loss is None:
        return "cross_entropy"
    given = _given(loss)
    found = _ours(loss)
    if not found:
        raise Refused(f"the loss {given}: there are cross_entropy, mean_squared_error, binary_cross_entropy, and own for a model that "
                      "returns its loss")
    if not isinstance(loss, str) and special(loss):
        raise Refused(f"{given} with {special(loss)}")
    return found


def is_cross_entropy(loss: Any) -> bool:
    return loss is None or _ours(loss) == "cross_entropy"


def smoothing(loss: Any) -> float:
    return float(getattr(loss, "label_smoothing", 0.0) or 0.0) if not isinstance(loss, str) else 0.0


def _refuse(kind: str, settings: dict[str, Any], *keys: str) -> None:
    for key in keys:
        if settings.get(key):
            raise Refused(f"{kind} with {key}={settings[key]}")


def torch_groups(optimizer: Any, module: Any, scheduled: bool) -> dict[str, Any]:
    """Rates and decays of the groups, over those of the first and the largest decay.  `scheduled`: rates are those that a scheduler
    began with."""
    kind, groups = type(optimizer).__name__, [g for g in optimizer.param_groups if g["params"]]
    rates = [float(g.get("initial_lr", g["lr"]) if scheduled else g["lr"]) for g in groups]
    decays = [float(g.get("weight_decay", 0)) for g in groups]
    if not all(r > 0 for r in rates):
        raise Refused(f"{kind} with lr={min(rates):g}: the optimizer of a scheduler needs schedule=, which is that scheduler; parameters "
                      "that are not to be trained have requires_grad=False")
    found: dict[str, Any] = {"rate": rates[0], "decay": max(decays), "decay_all": True}
    if module is None:
        if len(set(rates)) > 1 or len(set(decays)) > 1:
            raise Refused(f"{kind} with {len(groups)} parameter groups needs the module that they are of")
        return found
    text = pass_text(named(kind, groups, module), rates, decays)
    out = left_out(groups, module)
    return {**found, **({"passes": text} if text else {}), **({"left_out": out} if out else {})}


def torch_optimizer(optimizer: Any, module: Any = None, scheduled: bool = False) -> dict[str, Any]:
    kind = type(optimizer).__name__
    s = one_setting(kind, optimizer.param_groups)
    _refuse(kind, s, "dampening", "amsgrad", "maximize", "centered")
    common = torch_groups(optimizer, module, scheduled)
    if kind == "SGD":
        return {"optimizer": "sgd", "momentum": float(s["momentum"]), "nesterov": bool(s["nesterov"]), **common}
    if kind in ("Adam", "AdamW"):
        decoupled = kind == "AdamW" or bool(s.get("decoupled_weight_decay"))
        return {"optimizer": "adamw" if decoupled else "adam", "beta1": float(s["betas"][0]), "beta2": float(s["betas"][1]),
                "epsilon": float(s["eps"]), **common}
    if kind == "RMSprop":
        return {"optimizer": "rmsprop", "alpha": float(s["alpha"]), "epsilon": float(s["eps"]), "momentum": float(s["momentum"]),
                **common}
    raise Refused(f"the optimizer {kind}: there are SGD, Adam, AdamW and RMSprop")


def keras_optimizer(optimizer: Any) -> dict[str, Any]:
    kind, s = type(optimizer).__name__, optimizer.get_config()
    if kind == "LossScaleOptimizer":
        return keras_optimizer(optimizer.inner_optimizer)
    _refuse(kind, s, "amsgrad", "centered", "use_ema", "clipnorm", "gradient_accumulation_steps")
    common: dict[str, Any] = {"decay": float(s.get("weight_decay") or 0), "decay_all": True}
    if isinstance(s["learning_rate"], (int, float)):
        common["rate"] = float(s["learning_rate"])
    elif s.get("momentum"):
        raise Refused(f"{kind} of Keras with momentum and a schedule: its velocity has the rates of earlier steps in it; give "
                      "optimizer= and schedule= to fit, which change the rate alone")
    else:  # of the number of the step, from 0
        schedule = optimizer._learning_rate
        common |= {"schedule": lambda step: float(schedule(step)), "rate": float(schedule(0)) or 1e-3}
    if s.get("global_clipnorm"):
        common["clip"] = float(s["global_clipnorm"])
    if s.get("clipvalue"):
        common["clip_value"] = float(s["clipvalue"])
    if kind == "SGD":
        if common["decay"]:
            raise Refused("SGD of Keras with weight_decay, which is decoupled there")
        return {"optimizer": "sgd", "momentum": float(s["momentum"]), "nesterov": bool(s["nesterov"]), **common}
    if kind in ("Adam", "AdamW"):
        decoupled = kind == "AdamW" or bool(common["decay"])  # Keras always decouples
        return {"optimizer": "adamw" if decoupled else "adam", "beta1": float(s["beta_1"]), "beta2": float(s["beta_2"]),
                "epsilon": float(s["epsilon"]), **common}
    if kind == "RMSprop":
        return {"optimizer": "rmsprop", "alpha": float(s["rho"]), "epsilon": 0.0, "root_epsilon": float(s["epsilon"]),
                "momentum": float(s["momentum"]), **common}
    raise Refused(f"the optimizer {kind}: there are SGD, Adam, AdamW and RMSprop")


def optimizer_options(optimizer: Any, module: Any = None, scheduled: bool = False) -> dict[str, Any]:
    """Keyword arguments of fit for an optimizer object of torch or Keras; `module`: whose parameters the groups have."""
    return torch_optimizer(optimizer, module, scheduled) if hasattr(optimizer, "param_groups") else keras_optimizer(optimizer)


def compiled(model: Any) -> dict[str, Any]:
    """Loss and optimizer that a Keras model was compiled with; {} if it was not."""
    if not getattr(model, "compiled", False):
        return {}
    found = {"loss": getattr(model, "loss", None), "optimizer": getattr(model, "optimizer", None)}
    return {k: v for k, v in found.items() if v is not None}
