"""What there is: devices, and what works on this machine."""
from __future__ import annotations

import ctypes as c
from typing import Any

from .event import plain
from .library import call, check, context, each, fill, library, text


class Device:
    """A device: name, description, total_bytes, free_bytes, and the other numbers of `headroom devices`."""

    def __init__(self, numbers: dict[str, Any]) -> None:
        self.numbers = numbers

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "numbers" or name not in self.numbers:
            raise AttributeError(name)
        return self.numbers[name]

    def __repr__(self) -> str:
        n = self.numbers
        return f"<{n['name']}: {n['description']}, {n['free_bytes'] / 2**30:.1f} of {n['total_bytes'] / 2**30:.1f} GiB free>"


def devices() -> list[Device]:
    """The devices that a plan can be made for, the host among them."""
    from . import _c

    found = []
    for i in range(library().hr_device_count(context())):
        info = fill(_c.hr_device_info)
        check(library().hr_device_get_info(library().hr_device_at(context(), i), c.byref(info)),
              lambda why: library().hr_ctx_error(context(), why))
        found.append(Device(plain(info)))
    return found


class Report:
    """What the doctor found.  `ok`: no check failed.  checks: (subject, name, result, detail); components: libraries."""

    def __init__(self, machine: dict[str, Any], checks: list[tuple[str, str, str, str]], components: list[dict[str, Any]]) -> None:
        self.machine, self.checks, self.components = machine, checks, components

    @property
    def ok(self) -> bool:
        return not any(result == "failed" for _, _, result, _ in self.checks)

    def __str__(self) -> str:
        lines = [f"{self.machine['system']}, {self.machine['processor']}, {self.machine['cores_usable']} cores"]
        lines += [f"{result:8}{subject}: {name}{f' ({detail})' if detail else ''}" for subject, name, result, detail in self.checks]
        lines += [f"{x['found']:8}{x['name']} {x['version']} {x['detail']}".rstrip() for x in self.components]
        return "\n".join(lines)

    __repr__ = __str__


def doctor() -> Report:
    """Tries every device and the cache directory, and leaves the machine as it was."""
    from . import _c

    machine = fill(_c.hr_machine_info)
    check(library().hr_machine_get_info(c.byref(machine)))
    handle = c.c_void_p()
    call("hr_doctor_create", context(), None, c.byref(handle))
    try:
        checks = [(text(x.subject), text(x.name), ("ok", "failed", "skipped")[x.result], text(x.detail))
                  for x in each("hr_doctor_get_check", _c.hr_check, handle)]
        components = [{**plain(x), "found": ("ok", "missing", "broken")[x.found]}
                      for x in each("hr_doctor_get_component", _c.hr_component, handle)]
    finally:
        library().hr_doctor_destroy(handle)
    return Report(plain(machine), checks, components)
