"""A layer's variables as attributes."""

import pytest

from tpack.models.weights import VariableHolder


def test_variables_are_attributes_in_the_order_given() -> None:
    holder = VariableHolder(W=1, b=2)
    holder.gamma = 3
    assert (holder.W, holder.b, holder.gamma) == (1, 2, 3)
    assert holder.all() == [1, 2, 3]
    assert repr(holder) == "VariableHolder(W, b, gamma)"


def test_a_variable_that_is_not_there_lists_the_others() -> None:
    with pytest.raises(AttributeError, match="no variable 'beta' here, only W, b"):
        VariableHolder(W=1, b=2).beta  # noqa: B018


def test_a_variable_given_again_replaces_the_first() -> None:
    holder = VariableHolder(W=1)
    holder.W = 2
    assert holder.all() == [2]
