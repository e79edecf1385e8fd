"""tf.data pipelines: what can be given, how elements are ordered, where they end."""

import numpy as np
import pytest
import tensorflow
import tensorflow.compat.v1 as tf

from tests.helpers.run_input import SIGNATURE, running
from tpack.compat.runtime import eager_mode
from tpack.dataflow import DataFromGenerator, DataFromList
from tpack.errors import ConfigError, DataExhaustedError, DataPointError, InputError, WrongTypeError
from tpack.input_source import TFDatasetInput


def elements(number=5):
    return tf.data.Dataset.range(number, output_type=tf.int32).map(lambda k: (tf.zeros([3, 2]), k))


@pytest.mark.parametrize("num_towers", [1, 2])
def test_a_dataset_of_this_graph_is_used_up_without_repetition(graph, num_towers):
    with running(TFDatasetInput(elements(4)), num_towers=num_towers) as run:
        assert run.labels(4 // num_towers) == [0, 1, 2, 3]
        with pytest.raises(DataExhaustedError, match="no more data"):
            run.step()
        run.source.reset_state()
        assert run.labels(4 // num_towers) == [0, 1, 2, 3]


def test_the_function_is_called_in_the_right_graph(graph):
    graphs = []

    def make():
        graphs.append(tf.get_default_graph())
        return elements()

    with running(TFDatasetInput(make)) as run:
        assert run.labels(2) == [0, 1]
    assert graphs == [graph]


def test_dict_elements_are_ordered_by_name(graph):
    def make():
        return elements().map(lambda image, label: {"label": label, "image": image})

    with running(TFDatasetInput(make)) as run:
        assert run.labels(2) == [0, 1]


def test_a_single_tensor_is_one_component(graph):
    with running(TFDatasetInput(lambda: tf.data.Dataset.range(3)), [tf.TensorSpec([], tf.int64, "x")]) as run:
        assert [run.step() for _ in range(3)] == [[[0]], [[1]], [[2]]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda image, label: (image,), "gives 1 tensors, the signature expects 2"),
        (lambda image, label: (image, tf.cast(label, tf.int64)), r"component 1 \('label'\) has dtype int64"),
        (lambda image, label: (image[0], label), r"component 0 \('image'\) has shape \(2,\), expected \(None, 2\)"),
        (lambda image, label: ((image, label), label), r"component 0 \('image'\) is .*, expected a tensor"),
        (lambda image, label: {"image": image, "x": label}, r"a dict with the keys \['image', 'x'\], expected"),
    ],
)
def test_elements_that_do_not_fit_are_an_error(graph, change, message):
    source = TFDatasetInput(lambda: elements().map(change))
    source.setup(SIGNATURE)
    with pytest.raises(DataPointError, match=message):
        source.get_input_tensors()


def of_arrays():
    dataset = tensorflow.data.Dataset.from_tensor_slices(
        (np.zeros([8, 3, 2], np.float32), np.arange(8, dtype=np.int32))
    )
    return dataset.shuffle(8, seed=1).map(lambda image, label: (image + 1.0, label)).take(6)


def of_python():
    signature = (tensorflow.TensorSpec([3, 2], tf.float32), tensorflow.TensorSpec([], tf.int32))
    return tensorflow.data.Dataset.from_generator(
        lambda: ((np.ones([3, 2]), k) for k in range(6)), output_signature=signature
    )


def of_a_table():
    values = tensorflow.lookup.KeyValueTensorInitializer(np.arange(6), np.arange(6, dtype=np.int32))
    table = tensorflow.lookup.StaticHashTable(values, -1)
    return tensorflow.data.Dataset.range(6).map(lambda k: (tf.ones([3, 2]), table.lookup(k)))


@pytest.mark.parametrize("make", [of_arrays, of_python, of_a_table])
def test_a_dataset_of_eager_mode_is_brought_into_the_graph(make):
    with eager_mode():
        dataset = make()
        eager = [label for _, label in dataset.as_numpy_iterator()]
    with tf.Graph().as_default(), running(TFDatasetInput(dataset)) as run:
        labels = run.labels(6)
        assert sorted(labels) == sorted(eager)
        assert labels == eager or make is of_arrays
        with pytest.raises(DataExhaustedError, match="no more data"):
            run.step()
        run.source.reset_state()
        assert sorted(run.labels(6)) == sorted(eager)


def test_the_size_of_a_dataset_of_eager_mode_is_known():
    with eager_mode():
        dataset = of_arrays().batch(2)
        endless = dataset.repeat()
    with tf.Graph().as_default():
        assert TFDatasetInput(dataset).size() == 3
        with pytest.raises(NotImplementedError):
            TFDatasetInput(endless).size()


def test_the_size_is_found_without_taking_the_memory_of_gpus(monkeypatch):
    asked, session = [], tf.Session

    def noting(*args, config=None, **kwargs):
        asked.append(config.device_count["GPU"])
        return session(*args, config=config, **kwargs)

    monkeypatch.setattr(tf, "Session", noting)
    assert TFDatasetInput(lambda: tf.data.Dataset.range(5)).size() == 5
    assert asked == [0]


def test_a_dataset_of_another_graph_is_an_error():
    with tf.Graph().as_default():
        dataset = tf.data.Dataset.range(3)
    with tf.Graph().as_default(), pytest.raises(ConfigError, match="a dataset of another graph: use a function"):
        TFDatasetInput(dataset).setup(SIGNATURE)


def test_something_else_is_an_error(graph):
    with pytest.raises(WrongTypeError, match="^TFDatasetInput got dataset="):
        TFDatasetInput([])
    with pytest.raises(
        ConfigError, match=r"the dataset function of TFDatasetInput returned \[\]: expected a tf.data.Dataset"
    ):
        TFDatasetInput(list).setup(SIGNATURE)


def test_dataflow_to_dataset_is_one_pass(graph):
    ds = DataFromList([[np.full([2, 2], k), k] for k in range(4)], shuffle=False)

    def make():
        dataset = TFDatasetInput.dataflow_to_dataset(ds, [tf.float32, tf.int32])
        return dataset.map(lambda image, label: (tf.ensure_shape(image, [2, 2]), tf.ensure_shape(label, []))).repeat(2)

    with running(TFDatasetInput(make)) as run:
        assert run.labels(8) == [0, 1, 2, 3] * 2
        with pytest.raises(DataExhaustedError, match="no more data"):
            run.step()


def test_dataflow_to_dataset_wants_a_dataflow():
    with pytest.raises(ConfigError, match="dataflow_to_dataset got ds=.*: expected a DataFlow; as_dataflow makes one"):
        TFDatasetInput.dataflow_to_dataset([], [])


def test_a_failure_is_told_with_its_traceback(graph):
    def generate():
        raise KeyError("gone")
        yield

    with (
        running(TFDatasetInput(DataFromGenerator(generate))) as run,
        pytest.raises(Exception, match="KeyError") as caught,
    ):
        run.step()
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_function_of_a_dataset_tells_what_its_dataflow_raised(graph):
    def generate():
        yield [np.zeros([3, 2], np.float32), 0]
        raise KeyError("gone")

    def make():
        return TFDatasetInput.dataflow_to_dataset(DataFromGenerator(generate), [tf.float32, tf.int32])

    with running(TFDatasetInput(make)) as run:
        run.step()
        with pytest.raises(
            InputError, match="dataset of TFDatasetInput/IteratorGetNext failed: .*at data point 1: 'gone'"
        ):
            run.step()
