"""Names that are loaded when they are first used.

A package's `__init__.pyi` lists them, as type checkers and editors read them, one per line: `from a.b import C as C`.
Its `__init__.py` reads the same lines and loads a.b when C is first asked for (PEP 562, as in Scientific Python's SPEC
1). So a package costs what is used of it, and there is one list of what it offers. The package lazy_loader does the
same for stubs with relative imports, which are not used here; its errors lack the name that editors correct by.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

_LINE = re.compile(r"^from (\S+) import (\w+) as \2$", re.MULTILINE)


def lazily(package: str, file: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """`__all__`, `__getattr__` and `__dir__` of a package, from the stub beside its `file`.

    Submodules (`from package import name as name`) can be reached as attributes, but are not in `__all__`.
    """
    where = {name: module for module, name in _LINE.findall(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))}

    def load(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=import_module(package))
        module = where[name]
        value = import_module(f"{package}.{name}") if module == package else getattr(import_module(module), name)
        vars(import_module(package))[name] = value
        return value

    def names() -> list[str]:
        return sorted({*vars(import_module(package)), *where})

    return sorted(name for name, module in where.items() if module != package), load, names
