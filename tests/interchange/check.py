"""check.py same A B: two files hold the same tensors.      check.py copy A B: A read and written by the package.
check.py pth A B: A written as B by torch.save.
check.py torch MODEL A: the model of tools/parity/models.py takes the file, strictly.  Exits 77 when something needed
cannot be imported."""
import sys

try:
    if sys.argv[1] in ("torch", "pth"):
        import safetensors.torch as st
        import torch
    else:
        import numpy as np
        import safetensors.numpy as st
except ImportError as missing:
    print(missing)
    sys.exit(77)

if sys.argv[1] == "same":
    a, b = st.load_file(sys.argv[2]), st.load_file(sys.argv[3])
    assert a.keys() == b.keys(), a.keys() ^ b.keys()
    for name in a:
        assert a[name].dtype == b[name].dtype and a[name].shape == b[name].shape, name
        assert a[name].tobytes() == b[name].tobytes(), name
    print(len(a), "tensors")
elif sys.argv[1] == "copy":
    st.save_file({k: np.ascontiguousarray(v) for k, v in st.load_file(sys.argv[2]).items()}, sys.argv[3])
elif sys.argv[1] == "pth":
    torch.save({"epoch": 1, "state_dict": st.load_file(sys.argv[2])}, sys.argv[3])
else:
    import models

    tensors = st.load_file(sys.argv[3])
    models.build(sys.argv[2])[0].load_state_dict(tensors, strict=True)
    print(len(tensors), "tensors")
