"""tensorpack's names of 2017 to 2019, for scripts that were written then; all of them, and nothing else, is here.

The core does not import this package: `tpack.utils.renames` loads its modules when an older name is used. Each such
name is logged once, with its present spelling.

- ``table``: the names and modules that were renamed or removed, and where to find what they stand for;
- ``arguments``: arguments that have other names;
- ``methods``: methods that users' classes define under older names, such as ``_build_graph`` and ``get_data``;
- ``trainers``: ``Trainer(config).train()``;
- ``code``: what tpack has for such scripts alone.
"""

from tpack.legacy.table import NAMES
from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {f"code.{module}": names for module, names in NAMES.items()})
