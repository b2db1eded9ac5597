"""Builds the wheel: `pip wheel python/` (or `pip install python/`) compiles libheadroom and the command and packs them with the package.

One wheel a platform for every Python 3: the package is ctypes over libheadroom.so, which has jansson, jpeg, png, zstd and zlib inside,
hidden.  The tag says the glibc of this machine.  A backend of PEP 517 and 660 that needs cmake, ninja, a C compiler and those
libraries' archives, and no Python package."""
from __future__ import annotations

import base64
import hashlib
import os
import platform
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, Optional

HERE = Path(__file__).resolve().parent
TOP = HERE.parent
FILES = ("libheadroom.so", "headroom", "libheadroom-run.so")


def version() -> str:
    """The one version: of the library and of the package."""
    cmake = re.search(r"project\(headroom VERSION ([\d.]+)", (TOP / "CMakeLists.txt").read_text())
    ours = re.search(r'__version__ = "(.+)"', (HERE / "headroom/__init__.py").read_text())
    assert cmake and ours
    if cmake.group(1) != ours.group(1):
        raise SystemExit(f"the library is version {cmake.group(1)}, the package is version {ours.group(1)}: make them equal")
    return ours.group(1)


def tag() -> str:
    """$HEADROOM_GLIBC: the version that the compiler links for, where that is not this machine's (tools/manylinux)."""
    libc = os.environ.get("HEADROOM_GLIBC") or (os.confstr("CS_GNU_LIBC_VERSION") or "glibc 2.17").split()[1]
    major, minor = libc.split(".")[:2]
    return f"py3-none-manylinux_{major}_{minor}_{machine()}"


def machine() -> str:
    """$HEADROOM_MACHINE: the processor that the compiler compiles for."""
    return os.environ.get("HEADROOM_MACHINE") or platform.machine()


def compiled() -> Path:
    other = os.environ.get("HEADROOM_GLIBC")
    folder = TOP / (f"build/wheel-{other}-{machine()}" if other else "build/wheel")
    configure = ["cmake", "-S", str(TOP), "-B", str(folder), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DHEADROOM_BUNDLE=ON",
                 "-DHEADROOM_TESTS=OFF"]
    if machine() != platform.machine():
        configure += ["-DCMAKE_SYSTEM_NAME=Linux", f"-DCMAKE_SYSTEM_PROCESSOR={machine()}", f"-DOBJCOPY={machine()}-linux-gnu-objcopy"]
    for command in (configure, ["cmake", "--build", str(folder), "--target", "libheadroom.so", "headroom_cli"]):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            sys.stderr.write(done.stdout[-4000:])
            raise SystemExit(f"{command[0]} failed: wheels need cmake, ninja, a C compiler, and libjansson, libjpeg, libpng, libzstd and "
                             "zlib with their archives (.a)")
    return folder


def metadata() -> str:
    return "\n".join([
        "Metadata-Version: 2.1", "Name: headroom", f"Version: {version()}",
        "Summary: Neural networks trained inside a stated amount of memory", "Requires-Python: >=3.10",
        "Provides-Extra: torch", "Requires-Dist: torch>=2.5; extra == 'torch'", "Requires-Dist: numpy; extra == 'torch'",
        "Provides-Extra: keras", "Requires-Dist: keras>=3.5; extra == 'keras'", "Requires-Dist: numpy; extra == 'keras'",
        "Description-Content-Type: text/markdown", "", (TOP / "docs/python.md").read_text()])


def information() -> dict[str, bytes]:
    """The files of dist-info."""
    wheel = f"Wheel-Version: 1.0\nGenerator: headroom\nRoot-Is-Purelib: false\nTag: {tag()}\n"
    points = "[console_scripts]\nheadroom = headroom.__main__:main\n\n[torch_dynamo_backends]\nheadroom = headroom.compiled:backend\n"
    return {"METADATA": metadata().encode(), "WHEEL": wheel.encode(), "entry_points.txt": points.encode(),
            "LICENSE": (TOP / "LICENSE").read_bytes()}


class Wheel:
    """A zip file with the hashes of what is in it."""

    def __init__(self, folder: str) -> None:
        self.name = f"headroom-{version()}-{tag()}.whl"
        self.info = f"headroom-{version()}.dist-info"
        self.file = zipfile.ZipFile(os.path.join(folder, self.name), "w", zipfile.ZIP_DEFLATED)
        self.record: list[str] = []

    def add(self, name: str, data: bytes, mode: int = 0o644) -> None:
        entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))  # the same bytes from the same source
        entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
        self.file.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")

    def finish(self) -> str:
        for name, data in information().items():
            self.add(f"{self.info}/{name}", data)
        self.record.append(f"{self.info}/RECORD,,")
        self.file.writestr(f"{self.info}/RECORD", "\n".join(self.record) + "\n")
        self.file.close()
        return self.name


def build_wheel(wheel_directory: str, config_settings: Optional[dict[str, Any]] = None, metadata_directory: Optional[str] = None) -> str:
    built = compiled()
    wheel = Wheel(wheel_directory)
    for path in sorted((HERE / "headroom").rglob("*")):
        if path.suffix in (".py", ".pyi") or path.name == "py.typed":
            wheel.add(str(path.relative_to(HERE)), path.read_bytes())
    for name in FILES:
        wheel.add(f"headroom/lib/{name}", (built / name).resolve().read_bytes(), 0o755)
    return wheel.finish()


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Optional[dict[str, Any]] = None) -> str:
    """What pip asks first, without compiling."""
    folder = Path(metadata_directory, f"headroom-{version()}.dist-info")
    folder.mkdir()
    for name, data in information().items():
        (folder / name).write_bytes(data)
    return folder.name


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_editable(wheel_directory: str, config_settings: Optional[dict[str, Any]] = None, metadata_directory: Optional[str] = None) -> str:
    """Points to this folder; the library is that of build/ or build/dev."""
    wheel = Wheel(wheel_directory)
    wheel.add("headroom.pth", f"{HERE}\n".encode())
    return wheel.finish()


def build_sdist(sdist_directory: str, config_settings: Optional[dict[str, Any]] = None) -> str:
    raise SystemExit("the source is the repository: build a wheel of it")


def get_requires_for_build_wheel(config_settings: Optional[dict[str, Any]] = None) -> list[str]:
    return []


get_requires_for_build_editable = get_requires_for_build_wheel
