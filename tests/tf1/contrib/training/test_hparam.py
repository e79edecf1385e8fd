"""The wanted values are those of TensorFlow 1.15, which was asked the same."""

import pickle

import pytest

from tpack.errors import ConfigError
from tpack.tf1.contrib.training.hparam import HParams, parse_values


@pytest.fixture
def hparams():
    return HParams(a=1, b=2.0, c="x", d=[1, 2], e=True, f=None, g=[1.5])


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("a=3,b=4,c=hello,d=[3,4,5],e=false", {"a": 3, "b": 4.0, "c": "hello", "d": [3, 4, 5], "e": False}),
        ("e=1", {"e": True}),
        ("d=[]", {"d": []}),
        ("d=[7 8]", {"d": [7, 8]}),
        ("c=", {"c": ""}),
        ("c=a b", {"c": "a b"}),
        ("c=a=b", {"c": "a=b"}),
        ("g=[1]", {"g": [1.0]}),
        ("a = 5 , b= 6", {"a": 5, "b": 6.0}),
        ("", {}),
    ],
)
def test_text_changes_values(hparams, text, changed):
    before = hparams.values()
    assert hparams.parse(text) is hparams
    assert hparams.values() == {**before, **changed}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zz=1", "unknown hyper-parameter 'zz'"),
        ("a=x", "'a' got 'x' .* expected one of type int"),
        ("a=1.5", "expected one of type int"),
        ("b=x", "expected one of type float"),
        ("e=maybe", "expected one of type bool"),
        ("d=5", "expected a list"),
        ("d=[1,x]", "'d' got 'x'"),
        ("a=[1,2]", "expected one value and no list"),
        ("c=[1]", "expected one value and no list"),
        ("a=1,a=2", "comes twice"),
        ("d[0]=1,d[0]=2", "comes twice"),
        ("a=1,a[0]=2", "comes twice"),
        ("d[0]=[1]", "expected one value"),
        ("a[0]=1", "expected one of type int"),
        ("d[1]=9", "expected a list"),
        ("a", "malformed hyper-parameters 'a'"),
        ("a=", "'a' got ''"),
        ("f=3", "expected one of type NoneType"),
    ],
)
def test_text_that_does_not_fit_is_refused_and_changes_nothing(hparams, text, message):
    before = hparams.values()
    with pytest.raises(ConfigError, match=message):
        hparams.parse(text)
    assert hparams.values() == before


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [("b", 3, 3.0), ("c", b"by", "by"), ("e", False, False), ("f", 5, 5), ("d", [], []), ("a", 4, 4)],
)
def test_a_value_that_fits_is_set(hparams, name, value, wanted):
    hparams.set_hparam(name, value)
    assert getattr(hparams, name) == wanted
    assert type(getattr(hparams, name)) is type(wanted)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("a", "3"),
        ("a", 2.5),
        ("a", 2.0),
        ("a", True),
        ("a", None),
        ("a", [3]),
        ("b", "x"),
        ("b", True),
        ("b", None),
        ("c", 5),
        ("c", None),
        ("d", 5),
        ("d", (1, 2)),
        ("d", [1, "x"]),
        ("d", [2.5]),
        ("e", 1),
        ("e", "true"),
    ],
)
def test_a_value_of_another_type_is_refused(hparams, name, value):
    with pytest.raises(ConfigError, match=f"hyper-parameter {name!r} got .*expected"):
        hparams.set_hparam(name, value)


def test_dicts_and_json_change_all_values_or_none(hparams):
    assert hparams.parse_json('{"a": 5, "b": 1}') is hparams
    assert (hparams.a, hparams.b) == (5, 1.0)
    assert hparams.override_from_dict({"a": 7}).a == hparams.set_from_map({"a": 7}).a == 7
    with pytest.raises(KeyError, match="there is no hyper-parameter 'yy'"):
        hparams.override_from_dict({"a": 8, "yy": 7})
    with pytest.raises(ConfigError, match="expected an object of hyper-parameters"):
        hparams.parse_json("[1]")
    assert hparams.a == 7


def test_a_name_is_added_once_and_not_that_of_a_method(hparams):
    for name in ("a", "values"):
        with pytest.raises(ConfigError, match="is reserved, or was added before"):
            hparams.add_hparam(name, 1)
    with pytest.raises(ConfigError, match="'l' got an empty list"):
        hparams.add_hparam("l", [])
    hparams.add_hparam("n", (1, 2))
    assert hparams.n == (1, 2)


def test_a_default_must_be_of_the_type(hparams):
    assert [hparams.get("a"), hparams.get("q"), hparams.get("q", 3), hparams.get("b", 3)] == [1, None, 3, 2.0]
    assert hparams.get("d", []) == [1, 2]
    with pytest.raises(ConfigError, match="expected a list of int"):
        hparams.get("d", 3)
    with pytest.raises(ConfigError, match="expected one of type int"):
        hparams.get("a", "str")


def test_what_is_there_can_be_asked_shown_and_taken_away(hparams):
    assert "a" in hparams
    assert str(hparams) == "a=1,b=2.0,c=x,d=[1, 2],e=True,f=None,g=[1.5]"
    assert repr(HParams(b=1, a="x")) == "HParams([('a', 'x'), ('b', 1)])"
    assert HParams(a=1, n=(1, 2), fn=len).to_json(sort_keys=True) == '{"a": 1, "n": [1, 2]}'
    assert HParams(a=1).to_json(indent=1, separators=(",", ":")) == '{\n "a":1\n}'
    hparams.del_hparam("a")
    hparams.del_hparam("a")
    assert "a" not in hparams
    assert not hasattr(hparams, "a")


def test_it_travels_with_its_structure(hparams):
    hparams.set_model_structure("structure")
    copied = pickle.loads(pickle.dumps(hparams))
    assert copied.values() == hparams.values()
    assert copied.get_model_structure() == "structure"


def test_protocol_buffers_are_refused(hparams):
    for use in (hparams.to_proto, lambda: HParams.from_proto(None), lambda: HParams(hparam_def=3)):
        with pytest.raises(ConfigError, match="which TensorFlow has lost: use to_json and parse_json"):
            use()


def test_values_are_read_without_hyper_parameters_too():
    assert parse_values("a[1]=3,a[0]=2", {"a": int}) == {"a": {1: 3, 0: 2}}
    assert parse_values("a=[1,2],b=q", {"a": int, "b": str}) == {"a": [1, 2], "b": "q"}
    assert parse_values("a=2", {"a": bool}) == {"a": True}
    assert parse_values("zz[0]=1,zz=2,a=2", {"a": int}, ignore_unknown=True) == {"a": 2}
    for text in ("a='x,y'", "a=[1,[2]]"):
        with pytest.raises(ConfigError, match="malformed"):
            parse_values(text, {"a": str})
