from tpack.reduction.gradients import ReduceOp


def test_divisor_is_the_number_of_towers_for_a_mean_only() -> None:
    assert ReduceOp.MEAN.divisor(8) == 8
    assert ReduceOp.SUM.divisor(8) == 1
