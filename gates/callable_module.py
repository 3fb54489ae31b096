"""Modules that can be called, so that ``gates.run`` is at once the package of the runners and the function.

Importing any ``gates.run.…`` binds the name ``gates.run`` to the package, whatever was bound before. A function
of that name would work until then and no longer; a package that can be called works in every order of imports.
Use: ``sys.modules[__name__].__class__ = CallableModule`` (a documented way to customise a module).
"""

from __future__ import annotations

from types import ModuleType
from typing import Any


class CallableModule(ModuleType):
    """A module of ``gates`` that is called as the function of its name in ``gates.api``."""

    @property
    def __wrapped__(self) -> Any:  # what inspect.signature and help() show
        from gates import api

        return getattr(api, self.__name__.rpartition(".")[2])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)
