"""The one list of public names."""

from types import ModuleType

import tpack
from tpack.public_names import FOR_STAR, GROUPS, ONLY_BY_NAME, names_by_package


def test_every_name_stands_in_one_group():
    names = [name for packages in GROUPS.values() for names in packages.values() for name in names.split()]
    assert len(names) > 200
    assert sorted(names) == sorted(set(names)) == sorted({*tpack.__all__, *ONLY_BY_NAME} - set(FOR_STAR))


def test_names_of_a_package_are_gathered_over_the_groups():
    by_package = names_by_package()
    assert {"TowerTrainer", "TrainConfig", "StrategyBuilder"} <= set(by_package["train"])
    assert sum(map(len, by_package.values())) == len({*tpack.__all__, *ONLY_BY_NAME}) - len(FOR_STAR)


def test_a_star_gives_no_modules_but_three():
    names = {}
    exec("from tpack import *", names)
    modules = {name for name, value in names.items() if isinstance(value, ModuleType)}
    assert modules == {"dataset", "imgaug", "logger"}
    assert all(isinstance(getattr(tpack, name), ModuleType) for name in ONLY_BY_NAME)
    assert set(ONLY_BY_NAME) <= set(dir(tpack))
