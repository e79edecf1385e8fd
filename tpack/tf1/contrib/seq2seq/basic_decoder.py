"""`BasicDecoder`: a cell, a helper that feeds it, and a layer on top."""

from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from tpack.errors import WrongTypeError
from tpack.tf1.contrib.seq2seq.decoder import Decoder
from tpack.tf1.contrib.seq2seq.helper import Helper
from tpack.tf1.layers.base import Layer
from tpack.tf1.rnn_cell.base import check_cell
from tpack.utils.validation import shown

__all__ = ["BasicDecoder", "BasicDecoderOutput", "check_output_layer", "output_sizes"]


class BasicDecoderOutput(NamedTuple):
    """The output of the cell, after the layer on top, and the helper's sample of it."""

    rnn_output: Any
    sample_id: Any


class BasicDecoder(Decoder):
    """Decode by a cell, with inputs from a helper.

    Args:
        helper: gives inputs and samples.
        initial_state: the state of the cell at the beginning.
        output_layer: a layer of ``tf.layers``, such as ``Dense(vocabulary)``, on each output of the cell.

    Raises:
        WrongTypeError: One of them is of another kind.
    """

    def __init__(self, cell: Any, helper: Helper, initial_state: Any, output_layer: Layer | None = None) -> None:
        check_cell(self, "cell", cell)
        if not isinstance(helper, Helper):
            raise WrongTypeError(f"BasicDecoder: helper must be a Helper, got {shown(helper)}")
        check_output_layer(self, output_layer)
        self._cell = cell
        self._helper = helper
        self._initial_state = initial_state
        self._output_layer = output_layer

    @property
    def batch_size(self) -> Any:
        """The number of sequences that the helper has."""
        return self._helper.batch_size

    @property
    def output_size(self) -> BasicDecoderOutput:
        """The sizes of the cell's or layer's output, and of a sample."""
        return BasicDecoderOutput(output_sizes(self._cell, self._output_layer), self._helper.sample_ids_shape)

    @property
    def output_dtype(self) -> BasicDecoderOutput:
        """The dtypes of the output, that of the state, and of a sample."""
        dtype = tf.nest.flatten(self._initial_state)[0].dtype
        sizes = output_sizes(self._cell, self._output_layer)
        return BasicDecoderOutput(_map_sizes(lambda size: dtype, sizes), self._helper.sample_ids_dtype)

    def initialize(self, name: str | None = None) -> Any:
        """Return who has finished, the first inputs and the first state."""
        return (*self._helper.initialize(), self._initial_state)

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> Any:
        """Make a step: the cell, the layer, a sample, and the next inputs."""
        with tf.name_scope(name, "BasicDecoderStep", (time, inputs, state)):
            cell_outputs, cell_state = self._cell(inputs, state)
            if self._output_layer is not None:
                cell_outputs = self._output_layer(cell_outputs)
            sample_ids = self._helper.sample(time=time, outputs=cell_outputs, state=cell_state)
            finished, next_inputs, next_state = self._helper.next_inputs(
                time=time, outputs=cell_outputs, state=cell_state, sample_ids=sample_ids
            )
        return BasicDecoderOutput(cell_outputs, sample_ids), next_state, next_inputs, finished


def check_output_layer(owner: object, layer: Any) -> None:
    """Refuse what is neither a layer nor None; raise WrongTypeError if it is not."""
    if layer is not None and not (isinstance(layer, Layer) or hasattr(layer, "compute_output_shape")):
        raise WrongTypeError(f"{type(owner).__name__}: output_layer must be a Layer, got {shown(layer)}")


def output_sizes(cell: Any, layer: Any) -> Any:
    """Return the sizes of what a cell gives, with a layer on top if there is one."""
    if layer is None:
        return cell.output_size
    return _map_sizes(
        lambda size: layer.compute_output_shape(tf.TensorShape([None]).concatenate(size))[1:], cell.output_size
    )


def _map_sizes(function: Any, sizes: Any) -> Any:
    if tf.nest.is_nested(sizes) and not isinstance(sizes, tf.TensorShape):
        return tf.nest.pack_sequence_as(sizes, [_map_sizes(function, size) for size in sizes])
    return function(sizes)
