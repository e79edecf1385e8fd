"""Whatever a public constructor that brings data is given: it works, or an error of ours names the argument.

For each of them an example that works is written down; each argument in turn is then replaced by what it should not be.
"""

import inspect

import numpy as np
import pytest

from tests.helpers.flows import Counting
from tpack import dataflow, input_source
from tpack.dataflow import dataset, imgaug
from tpack.errors import ConfigError, TpackError

SECRET = 987654321
DATA = np.full([3, 50], SECRET)
WRONG = {
    "nothing": None,
    "text": "x",
    "empty text": "",
    "boolean": True,
    "negative": -1,
    "zero": 0,
    "fraction": 0.5,
    "nan": float("nan"),
    "infinity": float("inf"),
    "huge": 10**30,
    "object": object(),
    "class": Counting,
    "points": [(DATA, 1)] * 9,
    "dict": {"data": DATA},
    "array": DATA,
    "empty list": [],
}


def flow():
    return Counting(6)


def same(value):
    return value


# An example of each, by its name; what needs no argument is made without.
EXAMPLES = {
    **dict.fromkeys(["ProxyDataFlow", "CacheData", "PrintData", "TestDataSpeed"], {"ds": flow()}),
    "AdaptedData": {"iterable": [[1]]},
    **dict.fromkeys(
        ["AugmentImageComponent", "AugmentImageComponents", "AugmentImageCoordinates"],
        {"ds": flow(), "augmentors": [imgaug.Identity()]},
    ),
    "BatchData": {"ds": flow(), "batch_size": 2},
    "BatchDataByShape": {"ds": flow(), "batch_size": 2, "idx": 0},
    **dict.fromkeys(["ConcatData", "JoinData", "RandomChooseData", "RandomMixData"], {"df_lists": [flow()]}),
    "DataFromGenerator": {"gen": flow},
    "DataFromIterable": {"iterable": [[1]]},
    "DataFromList": {"lst": [[1]]},
    "DataFromArrays": {"arrays": np.zeros([4, 2])},
    "ShardData": {"ds": flow(), "rank": 0, "size": 2},
    "shard_files": {"files": ["a", "b"], "rank": 0, "size": 2},
    "DataFromQueue": {"queue": None},
    "FakeData": {"shapes": [[2]]},
    "FixedSizeData": {"ds": flow(), "size": 2},
    "ImageFromFile": {"files": ["a.png"]},
    "LocallyShuffleData": {"ds": flow(), "buffer_size": 2},
    "MapData": {"ds": flow(), "func": same},
    "MapDataComponent": {"ds": flow(), "func": same},
    "FlatMapData": {"ds": flow(), "func": list},
    "TarData": {"path": "a.tar"},
    **dict.fromkeys(["CutMix", "MixUp"], {"ds": flow(), "num_classes": 3}),
    "MultiProcessMapAndBatchData": {"ds": flow(), "num_proc": 1, "map_func": same, "batch_size": 2},
    "MultiProcessMapData": {"ds": flow(), "num_proc": 1, "map_func": same},
    "MultiProcessRunner": {"ds": flow(), "num_prefetch": 1, "num_proc": 1},
    "MultiProcessRunnerZMQ": {"ds": flow()},
    "MultiThreadMapData": {"ds": flow(), "num_thread": 1, "map_func": same},
    "MultiThreadRunner": {"get_df": flow, "num_prefetch": 1, "num_thread": 1},
    "RemoteDataZMQ": {"addr1": "ipc:///tmp/tpack"},
    "RepeatedData": {"ds": flow(), "num": 2},
    "RepeatedDataPoint": {"ds": flow(), "num": 2},
    "SelectComponent": {"ds": flow(), "idxs": [0]},
    "as_dataflow": {"obj": [[1]]},
    "start_workers_by": {"method": "spawn"},
    **dict.fromkeys(["HDF5Data"], {"filename": "a", "data_paths": ["x"]}),
    **dict.fromkeys(["TFRecordData"], {"path": "a"}),
    "LMDBData": {"lmdb_path": "a"},
    "LMDBDataDecoder": {"lmdb_data": flow(), "decoder": same},
    "SVMLightData": {"filename": "a"},
    **dict.fromkeys(["Mnist", "FashionMnist", "Cifar10", "Cifar100", "CifarBase"], {"train_or_test": "test"}),
    **dict.fromkeys(["BSDS500", "Caltech101Silhouettes", "SVHNDigit"], {"name": "test"}),
    "Digits": {"train_or_test": "test"},
    **dict.fromkeys(["ILSVRC12", "ILSVRC12Files", "Places365Standard", "TinyImageNet"], {"dir": "a", "name": "val"}),
    "AugmentorList": {"augmentors": [imgaug.Identity()]},
    "Brightness": {"delta": 1},
    **dict.fromkeys(["BrightnessScale"], {"range": (0.5, 1)}),
    "Contrast": {"factor_range": (0.5, 1)},
    **dict.fromkeys(["CenterCrop", "RandomCrop"], {"crop_shape": 3}),
    **dict.fromkeys(["CenterPaste", "RandomPaste"], {"background_shape": 30}),
    "ColorSpace": {"mode": 4},
    "ConstantBackgroundFiller": {"value": 1},
    "Flip": {"horiz": True},
    "Lighting": {"std": 0.1, "eigval": [1, 2, 3], "eigvec": np.eye(3)},
    "MapImage": {"func": same},
    "RandomApplyAug": {"aug": imgaug.Identity(), "prob": 0.5},
    **dict.fromkeys(["RandomChooseAug", "RandomOrderAug"], {"aug_lists": [imgaug.Identity()]}),
    "RandomCropRandomShape": {"wmin": 1, "hmin": 1},
    "RandomCutout": {"h_range": 2, "w_range": 2},
    "RandomResize": {"xrange": (0.5, 2)},
    "Resize": {"shape": 3},
    "ResizeShortestEdge": {"size": 3},
    **dict.fromkeys(["Rotation", "RotationAndCropValid"], {"max_deg": 10}),
    "FeedInput": {"ds": flow()},
    "QueueInput": {"ds": flow()},
    "BatchQueueInput": {"ds": flow(), "batch_size": 2},
    "StagingInput": {"input": input_source.QueueInput(flow())},
    "TFDatasetInput": {"dataset": flow()},
    "TensorInput": {"get_tensor_fn": list},
    "DummyConstantInput": {"shapes": [[2]]},
    "ZMQInput": {"end_point": "ipc:///tmp/tpack"},
    "remap_input_source": {"input": input_source.QueueInput(flow()), "names": ["a"]},
}
# What makes no use of its arguments before the first image, is for subclasses, or never returns.
LEFT_OUT = {
    "make_curve_keys": "makes as many keys as it is told to",
    "send_dataflow_zmq": "never returns",
    "Albumentations": "wraps another library",
    "IAAugmentor": "wraps another library",
    "CropTransform": "is made for each image, and checks the image",
    "FlipTransform": "is made for each image, and checks the image",
    "ResizeTransform": "is made for each image, and checks the image",
    "TransformFactory": "takes functions by any name",
    "IndexedDataFlow": "is for subclasses",
    "check_labels": "tells the range of the labels",
    "CurveKeys": "is a record of make_curve_keys",
    "RemoteStats": "is a record",
}


def public():
    """Return what is public and takes arguments, by its name."""
    found = {}
    for package in (dataflow, imgaug, dataset, input_source):
        for name in package.__all__:
            value = getattr(package, name)
            is_error = inspect.isclass(value) and issubclass(value, BaseException)
            if not inspect.ismodule(value) and not is_error and inspect.signature(value).parameters:
                found[value.__name__] = value
    return found


def cases():
    """Return (what to call, the name of the argument that is to be wrong)."""
    for name, called in public().items():
        for parameter in inspect.signature(called).parameters.values():
            if name not in LEFT_OUT and parameter.kind is not inspect.Parameter.VAR_KEYWORD:
                yield pytest.param(called, parameter.name, id=f"{name}-{parameter.name}")


@pytest.mark.parametrize(("called", "parameter"), list(cases()))
def test_wrong_argument_is_named_and_not_printed(called, parameter):
    unclear, names = {}, list(inspect.signature(called).parameters)
    with dataflow.start_workers_by("spawn"):
        for kind, value in WRONG.items():
            try:
                called(**{**EXAMPLES.get(called.__name__, {}), parameter: value})
            except TpackError as error:
                is_named = any(name in str(error) for name in names) or not isinstance(error, ConfigError)
                if not is_named or str(SECRET) in str(error) or len(str(error)) > 600:
                    unclear[kind] = str(error)
            except Exception as error:
                unclear[kind] = repr(error)
    assert not unclear


def test_examples_name_what_there_is():
    assert not (set(EXAMPLES) | set(LEFT_OUT)) - set(public())
