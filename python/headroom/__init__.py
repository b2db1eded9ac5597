"""Headroom's front ends: models of PyTorch, Keras and ONNX as model files (.hr) that `headroom` plans, trains and serves.

    import headroom.torch as ht
    exported = ht.export(module, (example,))
    exported.save("my.hr")                            my.safetensors beside it
    ...  headroom train my.hr --data images:flowers --budget 2GiB --out run
    ht.load(module, "run/best.safetensors")

Nothing is imported before it is needed; this package depends on nothing."""

__version__ = "0.1.0"
