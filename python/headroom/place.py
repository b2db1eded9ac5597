"""Places in the user's own source: the lines of a stack that belong to no framework."""
from __future__ import annotations

import linecache
import os
import sys
import traceback
from typing import Any

FOREIGN = ("torch", "keras", "headroom", "contextlib", "unittest")


def foreign(file: str) -> bool:
    for name in FOREIGN:
        own = getattr(sys.modules.get(name), "__file__", None)
        if own and (file == own or own.endswith("__init__.py") and file.startswith(os.path.dirname(own) + os.sep)):
            return True
    return file.startswith("<")


def place(file: str, line: int) -> str:
    """FILE:LINE: `code`; empty for lines of frameworks and of this package."""
    if foreign(file):
        return ""
    code = linecache.getline(file, line).strip()
    return f"{file}:{line}" + (f": `{code}`" if code else "")


def caller() -> str:
    """The last line on the stack that is the user's."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        found = place(frame.f_code.co_filename, frame.f_lineno)
        if found:
            return found
        frame = frame.f_back
    return ""


def raised_at(e: BaseException) -> str:
    """The last line of the user's on the way to an exception."""
    frames = [place(f.f_code.co_filename, line) for f, line in traceback.walk_tb(e.__traceback__)]
    return next((found for found in reversed(frames) if found), "")
