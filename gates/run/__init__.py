"""Run tools and kernels, and keep their raw output. Imports none of parse, judge, render.

Called, ``gates.run("stage2")`` runs a task: see ``gates.api.run``.
"""

import sys

from gates.callable_module import CallableModule

sys.modules[__name__].__class__ = CallableModule
