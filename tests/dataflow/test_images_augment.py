"""Flows that augment images in data points."""

import pickle

import numpy as np
import pytest

from tests.helpers.flows import Counting
from tests.helpers.images import marked_pixel, picture
from tpack.dataflow import imgaug
from tpack.dataflow.base import DataFlow
from tpack.dataflow.images import AugmentImageComponent, AugmentImageComponents, AugmentImageCoordinates
from tpack.dataflow.iterator_state import StatelessError
from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError, DataPointError, InputError
from tpack.utils import serialize
from tpack.utils.rng import fix_rng_seed

COORDS = np.array([[3.5, 2.5], [0.0, 0.0], [8.0, 6.0]], np.float32)


@pytest.fixture(autouse=True)
def no_seed():
    """Leave no fixed seed behind."""
    yield
    fix_rng_seed(None)


def points(count=9):
    """Return data points: an image, its mask, coordinates, a number."""
    rng = np.random.default_rng(1)
    return [[picture(rng, (6, 8, 3)), picture(rng, (6, 8)), COORDS + k, k] for k in range(count)]


def augmentors():
    return [
        imgaug.RandomApplyAug(imgaug.Flip(horiz=True), 0.7),
        imgaug.RandomOrderAug([imgaug.RandomCrop((5, 6)), imgaug.Flip(vert=True)]),
    ]


def noisy():
    return [*augmentors(), imgaug.GaussianNoise(9)]


FLOWS = {
    "one": lambda ds: AugmentImageComponent(ds, noisy()),
    "one and coordinates": lambda ds: AugmentImageCoordinates(ds, noisy(), 0, 2),
    "several": lambda ds: AugmentImageComponents(ds, imgaug.AugmentorList(noisy()), (0, 1), (2,), copy=False),
}
every_flow = pytest.mark.parametrize("make", FLOWS.values(), ids=FLOWS)


def ready(ds):
    ds.reset_state()
    return ds


def assert_same_points(found, wanted):
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        for left, right in zip(one, other, strict=True):
            np.testing.assert_array_equal(left, right)


def test_component_is_augmented_and_the_rest_stays():
    fix_rng_seed(4)
    found = list(ready(AugmentImageComponent(DataFromList(points(), shuffle=False), augmentors(), 1)))
    fix_rng_seed(4)
    by_hand = imgaug.AugmentorList(augmentors())
    by_hand.reset_state()
    for point, original in zip(found, points(), strict=True):
        np.testing.assert_array_equal(point[1], by_hand.augment(original[1]))
        np.testing.assert_array_equal(point[0], original[0])
        assert point[3] == original[3]


def test_augmentors_are_given_one_or_many():
    source = DataFromList(points(2), shuffle=False)
    for given in (imgaug.Resize(3), [imgaug.Resize(3)], imgaug.AugmentorList([imgaug.Resize(3)])):
        assert {point[0].shape for point in ready(AugmentImageComponent(source, given))} == {(3, 3, 3)}


def test_component_may_have_a_key():
    source = DataFromList([{"image": points(1)[0][0], "label": 3}], shuffle=False)
    ((point,),) = [list(ready(AugmentImageComponent(source, [imgaug.Resize(3)], "image")))]
    assert (point["image"].shape, point["label"]) == ((3, 3, 3), 3)


def test_coordinates_go_with_the_image():
    rows = [(row, column) for row in range(6) for column in range(8)]
    source = DataFromList(
        [[marked_pixel(6, 8, *place), np.array([place[::-1]]) + 0.5] for place in rows], shuffle=False
    )
    changes = [imgaug.Flip(horiz=True), imgaug.Transpose(), imgaug.CenterPaste((12, 12)), imgaug.RandomCrop(11)]
    moved = 0
    for (image, coords), (row, column) in zip(ready(AugmentImageCoordinates(source, changes)), rows, strict=True):
        assert np.argwhere(image)[:, ::-1].tolist() == np.floor(coords).tolist()
        moved += coords.tolist() != [[column + 0.5, row + 0.5]]
    assert moved > 24


def test_several_images_are_augmented_alike():
    source = [[image, image.copy(), image[:, :, 0], COORDS] for image, *_ in points()]
    ds = AugmentImageComponents(DataFromList(source, shuffle=False), augmentors(), index=(0, 1, 2), coords_index=3)
    for (image, same, grey, coords), (original, *_) in zip(ready(ds), source, strict=True):
        np.testing.assert_array_equal(image, same)
        np.testing.assert_array_equal(image[:, :, 0], grey)
        # The second of the coordinates is the corner of the image, which stays one of its corners but for the crop.
        assert coords.shape == (3, 2)
        assert original.shape == (6, 8, 3)
        assert image.shape == (5, 6, 3)


@every_flow
def test_source_is_not_changed(make):
    source = points()
    for _ in range(2):
        list(ready(make(DataFromList(source, shuffle=False))))
    assert_same_points(source, points())


@pytest.mark.parametrize("copy", [True, False])
def test_copy_is_for_augmentors_that_change_what_they_get(copy):
    def blacken(img):
        img[...] = 0
        return img

    source, flip_coords = points(2), np.negative
    for kind, options in ((AugmentImageComponent, {}), (AugmentImageCoordinates, {"coords_index": 2})):
        ds = kind(DataFromList(source, shuffle=False), [imgaug.MapImage(blacken, flip_coords)], copy=copy, **options)
        list(ready(ds))
    assert all(point[0].any() == copy for point in source)


@every_flow
def test_runs_repeat_under_a_fixed_seed(make):
    runs = []
    for _ in range(2):
        fix_rng_seed(7)
        ds = ready(make(DataFromList(points())))
        runs.append([*ds, *ds])
    assert_same_points(*runs)


@every_flow
@pytest.mark.parametrize("stop", [0, 4, 9, 13])
def test_interrupted_run_sees_the_same_images(make, stop):
    """Three passes in one go, against a flow that goes on where another one was left."""
    fix_rng_seed(7)
    whole = ready(make(DataFromList(points())))
    wanted = [point for _ in range(3) for point in whole]
    fix_rng_seed(7)
    first = ready(make(DataFromList(points())))
    taken = [point for _ in range(stop // 9) for point in first]
    last_pass = iter(first)
    taken += [next(last_pass) for _ in range(stop % 9)]
    state = serialize.loads(serialize.dumps(first.state_dict()))
    fix_rng_seed(None)
    second = ready(make(DataFromList(points())))
    second.load_state_dict(state)
    while len(taken) < 27:
        taken += list(second)
    assert_same_points(taken, wanted)


@every_flow
def test_state_is_not_changed_later(make):
    ds = ready(make(DataFromList(points())))
    passing = iter(ds)
    next(passing)
    state = ds.state_dict()
    before = serialize.dumps(state)
    list(passing)
    assert serialize.dumps(state) == before


@every_flow
def test_other_states_are_refused_and_change_nothing(make):
    ds = ready(make(DataFromList(points())))
    state = ds.state_dict()
    before = serialize.dumps(state)
    for wrong, message in [
        ({**state, "flow": "MapData"}, "got the state of a MapData"),
        ({**state, "augmentors": []}, "got 0 states: expected 7"),
        ({**state, "augmentors": [None] * len(state["augmentors"])}, "number generator got state=None"),
        ({**state, "ds": 3}, "expected a state that state_dict"),
    ]:
        with pytest.raises(InputError, match=message):
            ds.load_state_dict(wrong)
    assert serialize.dumps(ds.state_dict()) == before


def test_flow_without_a_position_says_so():
    class Nowhere(DataFlow):
        def __iter__(self):
            yield from points()

    with pytest.raises(StatelessError, match="Nowhere cannot tell its position"):
        ready(AugmentImageComponent(Nowhere(), augmentors())).state_dict()


@every_flow
def test_length_and_resets_are_those_of_the_wrapped(make):
    inner = Counting(5)
    ds = ready(make(inner))
    assert (len(ds), inner.num_resets, inner.num_passes) == (5, 1, 0)


@every_flow
def test_flow_is_pickled(make):
    fix_rng_seed(7)
    ds = make(DataFromList(points()))
    copy = pickle.loads(pickle.dumps(ds))
    wanted = list(ready(ds))
    fix_rng_seed(7)
    assert_same_points(list(ready(copy)), wanted)


def too_small():
    return DataFromList([points(1)[0], [np.zeros((2, 2, 3), np.uint8), *points(1)[0][1:]], points(1)[0]], shuffle=False)


@every_flow
def test_failing_augmentor_ends_the_iteration(make):
    with pytest.raises(DataPointError, match="expected at least 5 x 6"):
        list(ready(make(too_small())))


def test_failing_augmentor_may_drop_the_point(log_dir):
    ds = AugmentImageComponent(too_small(), augmentors(), catch_exceptions=True)
    assert len(list(ready(ds))) == 2
    text = (log_dir / "log.log").read_text()
    assert "AugmentImageComponent dropped data point 1 of this pass, 1 in all" in text
    assert "expected at least 5 x 6" in text


def test_many_failures_are_logged_now_and_then(log_dir):
    bad = DataFromList([[np.zeros((2, 2), np.uint8)]] * 250, shuffle=False)
    assert list(ready(AugmentImageComponent(bad, augmentors(), catch_exceptions=True))) == []
    assert (log_dir / "log.log").read_text().count("AugmentImageComponent dropped") == 12


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda ds: AugmentImageComponent(ds, augmentors(), 9), DataPointError, "data point 0 has no component 9"),
        (lambda ds: AugmentImageCoordinates(ds, augmentors(), 0, 9), DataPointError, "has no component 9"),
        (lambda ds: AugmentImageCoordinates(ds, augmentors(), 0, 1), DataPointError, r"real numbers of shape \(N, 2\)"),
        (lambda ds: AugmentImageComponents(ds, augmentors(), ()), ConfigError, "at least one component with an image"),
        (lambda ds: AugmentImageComponent(ds, [3]), ConfigError, r"got augmentors\[0\]=3: expected an Image"),
        (lambda ds: AugmentImageComponent(list(ds), augmentors()), ConfigError, "got ds=a list of 9: expected a Data"),
    ],
)
def test_misuse_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        list(ready(make(DataFromList(points(), shuffle=False))))
