"""Which loops this process has compiled or loaded."""

from __future__ import annotations

import importlib
import pkgutil

from numba.core.dispatcher import Dispatcher

from comband import _kernels


def compiled() -> set[tuple[str, str]]:
    """Names and types. Those from the cache count as well: a fresh process has none, wherever it gets them from."""
    modules = [
        importlib.import_module(f"comband._kernels.{one.name}") for one in pkgutil.iter_modules(_kernels.__path__)
    ]
    kernels = [value for module in modules for value in vars(module).values() if isinstance(value, Dispatcher)]
    return {(kernel.py_func.__qualname__, str(sig)) for kernel in kernels for sig in kernel.signatures}
