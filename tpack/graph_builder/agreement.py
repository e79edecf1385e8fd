"""Check that towers agree on the variables they train.

Gradients are reduced by position. Two towers that return different variables, or the same ones in another order, would
be summed into nonsense without any error from TensorFlow.
"""

from collections.abc import Sequence
from typing import Any

from tpack.errors import TowerMismatchError
from tpack.graph_builder.base import GradsAndVars
from tpack.tower.context import TowerContext
from tpack.tower.recorder import pair_variables


def check_shared_variables(tower_grads: Sequence[GradsAndVars]) -> None:
    """Check that all towers return gradients of the same variables in the same order.

    Args:
        tower_grads: K lists of N (gradient, variable) pairs.

    Shapes:
        K x N x 2.

    Raises:
        TowerMismatchError: They differ. The message names the variables that only some towers have.

    Source:
        The check of the same purpose in tensorpack's builders, which compares names.
    """
    _check_alike([[variable for _, variable in grads] for grads in tower_grads])


def check_own_variables(tower_grads: Sequence[GradsAndVars], towers: Sequence[TowerContext]) -> None:
    """Check that each tower returns gradients of its own copies of the same variables in the same order.

    Args:
        tower_grads: K lists of N (gradient, variable) pairs.
        towers: the K towers; their records say which variable is a copy of which.

    Shapes:
        K x N x 2.

    Raises:
        TowerMismatchError: The towers created different variables, or return gradients of different ones.

    Source:
        As `check_shared_variables`.
    """
    as_main = []
    for grads, tower in zip(tower_grads, towers, strict=True):
        pairs = pair_variables(towers[0].recorder, tower.recorder)
        main_of = {id(copy): main for main, copy in pairs}
        as_main.append([main_of.get(id(variable), variable) for _, variable in grads])
    _check_alike(as_main)


def _check_alike(tower_variables: Sequence[Sequence[Any]]) -> None:
    main = tower_variables[0]
    for index, variables in enumerate(tower_variables):
        if len(main) == len(variables) and all(a is b for a, b in zip(main, variables, strict=True)):
            continue
        only_main = _names_missing(main, variables)
        only_other = _names_missing(variables, main)
        if only_main or only_other:
            raise TowerMismatchError(
                f"towers must train the same variables: tower 0 alone has gradients of [{', '.join(only_main)}], tower "
                f"{index} alone of [{', '.join(only_other)}]"
            )
        raise TowerMismatchError(
            f"towers 0 and {index} return the gradients of the same variables in a different order or number: "
            f"{_names(main)} and {_names(variables)}"
        )


def _names_missing(variables: Sequence[Any], others: Sequence[Any]) -> list[str]:
    known = {id(variable) for variable in others}
    return [variable.op.name for variable in variables if id(variable) not in known]


def _names(variables: Sequence[Any]) -> list[str]:
    return [variable.op.name for variable in variables]
