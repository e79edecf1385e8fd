"""tensorpack's names of 2017 to 2019, for scripts that were written then; all of them, and nothing else, is here.

The classes of today know nothing of these names but one line each that asks this package. Each name that is used says
once, in the log, how it is spelled today.

- ``table``: the names and modules that are no more, and where to find what they stand for;
- ``arguments``: arguments that have other names;
- ``methods``: methods that users' classes define under older names, such as ``_build_graph`` and ``get_data``;
- ``trainers``: ``Trainer(config).train()``, and costs that are an attribute;
- ``code``: what is not in tpack otherwise, and is here for such scripts alone.
"""

from tpack.older_names.table import NAMES, load

__all__ = sorted(name for names in NAMES.values() for name in names)

__getattr__ = load


def __dir__() -> list[str]:
    return [*globals(), *__all__]
