"""Every public class and function refuses every wrong argument in words, or a reason is listed why it need not."""

import pytest

from tests.helpers.wrong_arguments import cases_of, members, outcome

MEMBERS = members()

# Why a member, a parameter of any member or one of its parameters takes what its type does not say. The keys are
# "Class", "*.parameter" and "Class.parameter"; with "=label" they are for one kind of wrong.
REASONS: dict[str, str] = {
    **dict.fromkeys(
        (
            "Application",
            "BuildResult",
            "BuiltTowers",
            "ClusterMember",
            "LargestBatch",
            "LearningRateRange",
            "MeasuredChoice",
            "Peers",
            "WorkerServer",
            "Measurement",
            "ReducerChoice",
            "StepGradients",
            "PredictOutput",
            "TowerHandle",
            "TowerHandles",
            "TrafficReport",
            "RemoteStats",
            "VariableRecorder",
            "pair_variables",
            "call_in_towers",
            "distribute.TowerContext",
            "require_tower_context",
            "select_device",
            "select_device_mirrored",
        ),
        "it is made or called by tpack, from what was checked before",
    ),
    **dict.fromkeys(
        ("copy_to_each", "on_device_of", "sum_column"),
        "it is called for each gradient of each tower, in a reducer, which checked them",
    ),
    **dict.fromkeys(
        ("DistributedValues", "Mirrored", "MirroredVariable", "PerDevice", "TowerLocalVariable", "regroup"),
        "it is made by a strategy, of values of any kind",
    ),
    **dict.fromkeys(
        ("CropTransform", "FlipTransform", "ResizeTransform", "TransformList"),
        "it is made for each image, by an augmentor that checked its own arguments",
    ),
    **dict.fromkeys(
        ("*.interp=hugely negative", "*.border=hugely negative", "ColorSpace.mode=hugely negative"),
        "it is a constant of OpenCV, which knows it",
    ),
    **dict.fromkeys(
        (
            "*.index=hugely negative",
            "*.idx=hugely negative",
            "*.img_index=hugely negative",
            "*.coords_index=hugely negative",
            "*.image=hugely negative",
            "*.label=hugely negative",
        ),
        "a place is counted from the end if it is negative, and what a point has is known when one comes",
    ),
    **dict.fromkeys(("*.seed=hugely negative", "*.tf_random_seed=hugely negative"), "any integer is a seed"),
    **dict.fromkeys(
        ("DistributedTrainerParameterServer.gpus", "DistributedTrainerReplicated.gpus"),
        "a process without parameter servers is told of that first",
    ),
    "create_scalar_summary": "it is called with every value of every statistic, and NaN is one",
    "GradientOptions.aggregation_method=hugely negative": "it is a constant of TensorFlow, which knows it",
    "*.device=hugely negative": "a negative number is the CPU",
    **dict.fromkeys(
        (
            "DistributedMovingAverage.num_updates=a number",
            "increment_var.amount=a number",
            "check_labels.labels=a number",
        ),
        "a number will do for a tensor or an array",
    ),
}


def reason(case):
    """Return why a wrong argument need not be refused; None if it must."""
    keys = (case.name, f"*.{case.parameter}", f"{case.name}.{case.parameter}")
    keys = (*keys, f"{case.name}.{case.parameter}={case.label}", f"*.{case.parameter}={case.label}")
    return next((REASONS[key] for key in keys if key in REASONS), None)


@pytest.mark.parametrize("key", sorted(MEMBERS))
def test_wrong_arguments_are_refused_in_words(key):
    module, member = MEMBERS[key]
    cases = [case for case in cases_of(key, module, member) if reason(case) is None]
    told = {str(case): what for case in cases if (what := outcome(case, member)) is not None}
    assert told == {}


def test_every_reason_is_needed():
    used = {}
    for key, (module, member) in MEMBERS.items():
        for case in cases_of(key, module, member):
            used[reason(case)] = True
    assert set(REASONS.values()) <= set(used)
