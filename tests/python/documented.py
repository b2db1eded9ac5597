"""The examples of docs/python.md, by name."""
import os
import re
import subprocess
import sys

SOURCE = os.environ.get("HEADROOM_SOURCE", os.path.join(os.path.dirname(__file__), "..", ".."))


def example(name: str) -> str:
    with open(os.path.join(SOURCE, "docs/python.md")) as file:
        return re.search(rf"<!-- example: {name} -->\n```python\n(.*?)```", file.read(), re.S).group(1)


def run(name: str, folder: str) -> subprocess.CompletedProcess:
    """In a process of its own, as a user would."""
    path = os.path.join(folder, f"example_{name}.py")
    with open(path, "w") as file:
        file.write(example(name))
    return subprocess.run([sys.executable, "-W", "ignore", path], cwd=folder, capture_output=True, text=True)
