"""Find the copies that other towers have of a variable.

A replicated trainer gives every tower variables of its own and keeps them equal by applying the same updates to all. A
callback that sets one of them in the middle of an epoch has to set all.
"""

from __future__ import annotations

from typing import Any

from tpack.tower.recorder import pair_variables


def copies_of(trainer: Any, variable: Any) -> list[Any]:
    """Return the copies of a main tower's variable, one for each other tower that has its own; often none.

    Args:
        trainer: whose towers are looked at. One without towers has no copies.
        variable: any variable of the graph.
    """
    towers = getattr(trainer, "towers", None)
    contexts = [handle.context for handle in towers.training()] if towers else []
    if not contexts or not any(known is variable for known in contexts[0].recorder.variables):
        return []
    pairs = [
        pair
        for other in contexts[1:]
        if other.has_own_variables
        for pair in pair_variables(contexts[0].recorder, other.recorder)
    ]
    return [copy for main, copy in pairs if main is variable]
