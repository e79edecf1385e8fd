"""tensorpack's names of 2017 to 2019, for older scripts, and nothing else.

The core does not import this package: `tpack.utils.renames` loads its modules when an older name is used. Each such
name is logged once, with its present spelling.

- ``table``: renamed and removed names and modules, and their present places;
- ``arguments``: renamed arguments;
- ``methods``: older names of methods of users' classes, such as ``_build_graph`` and ``get_data``;
- ``trainers``: ``Trainer(config).train()``;
- ``code``: code for such scripts alone.
"""

from tpack.legacy.table import NAMES
from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {f"code.{module}": names for module, names in NAMES.items()})
