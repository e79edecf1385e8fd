"""The contract of predictors."""

import pytest

from tpack.predict import PredictorBase


class Doubling(PredictorBase):
    def _do_call(self, dp):
        return [2 * value for value in dp]


def test_call_returns_outputs_or_both():
    predictor = Doubling()
    assert predictor(1, 2) == [2, 4]
    predictor.return_input = True
    assert predictor(1, 2) == ((1, 2), [2, 4])


def test_what_is_not_overridden_says_so():
    with pytest.raises(NotImplementedError, match="PredictorBase does not override _do_call"):
        PredictorBase()(1)
