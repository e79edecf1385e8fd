"""Change the values of variables in a session, again and again."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tpack.errors import ConfigError
from tpack.tfutils.graph_lookup import near_names
from tpack.tfutils.variable_values import assign_values, fit_values


class SessionUpdate:
    """Assign arrays to variables of a session by name.

    Args:
        sess: the session.
        vars_to_update: the variables that may be assigned to.
        ignore_mismatch: reshape values where that is possible, skip what does not fit, and warn, where it would be an
            error.
    """

    def __init__(self, sess: Any, vars_to_update: Sequence[Any], ignore_mismatch: bool = False) -> None:
        self._session = sess
        self._variables = {variable.op.name: variable for variable in vars_to_update}
        self._ignore_mismatch = ignore_mismatch

    def update(self, prms: Mapping[str, Any]) -> None:
        """Assign values; if one does not fit, none is assigned.

        Args:
            prms: variable name, with or without ``:0``, to array.

        Raises:
            ConfigError: A name is not one of the variables; near names are listed.
            CheckpointError: Values do not fit their variables. The message is a table of all that do not.
        """
        pairs = [(self._find(name), np.asarray(value)) for name, value in prms.items()]
        fitting = fit_values(pairs, cast=True, skip_mismatch=self._ignore_mismatch, source="the update")
        assign_values(self._session, fitting)

    def _find(self, name: str) -> Any:
        name = name.removesuffix(":0")
        if name not in self._variables:
            raise ConfigError(f"{name!r} is not one of the variables to update{near_names(name, self._variables)}")
        return self._variables[name]
