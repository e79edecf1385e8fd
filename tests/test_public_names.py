"""The one list of public names."""

from types import ModuleType

import tpack
from tpack.public_names import FOR_STAR, GROUPS, names_by_package


def test_every_name_stands_in_one_group():
    names = [name for packages in GROUPS.values() for names in packages.values() for name in names.split()]
    assert len(names) > 200
    assert sorted(names) == sorted(set(names)) == sorted(set(tpack.__all__) - set(FOR_STAR))


def test_names_of_a_package_are_gathered_over_the_groups():
    by_package = names_by_package()
    assert {"TowerTrainer", "TrainConfig", "StrategyBuilder"} <= set(by_package["train"])
    assert sum(map(len, by_package.values())) == len(tpack.__all__) - len(FOR_STAR)


def test_a_star_gives_everything():
    names = {}
    exec("from tpack import *", names)
    assert set(tpack.__all__) <= set(names)
    assert len(tpack.__all__) == len(set(tpack.__all__))
    assert names["summary"] is tpack.summary and isinstance(names["optimizer"], ModuleType)
    assert set(tpack.__all__) <= set(dir(tpack))
