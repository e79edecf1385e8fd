"""A trainer for models with two costs, a generator's and a discriminator's, and what it asks of such a model.

It is what to write when a model has more than one cost and optimizer: derive from `TowerTrainer`, build the towers, and
make a train op of all updates. `dcgan.py`, `wgan_gp.py` and `image2image.py` train by it.
"""

import tensorflow.compat.v1 as tf

from tpack import DataParallelBuilder, LeastLoadedDeviceSetter, ModelDescBase, StagingInput, TowerTrainer
from tpack.tower import TowerFunc


class GANModel(ModelDescBase):
    """A model with two costs.

    Its ``build_graph`` sets ``g_loss`` and ``d_loss``; the variables of the two are in the scopes ``gen`` and
    ``discrim``.
    """

    def get_optimizers(self):
        """Return the optimizers of the generator and of the discriminator, the same ones at each call."""
        raise NotImplementedError


class GANTrainer(TowerTrainer):
    """Trains a `GANModel`, both networks in each step, on K towers that share their variables.

    Args:
        data: an input source.
        model: the model.
        num_towers: K.
    """

    def __init__(self, data, model, num_towers=1):
        super().__init__()
        data = StagingInput(data)
        self.register_callback(data.setup(model.get_input_signature()))

        def costs(*inputs):
            model.build_graph(*inputs)
            return [model.g_loss, model.d_loss]

        self.tower_func = TowerFunc(costs, model.get_input_signature())
        devices = [f"/gpu:{k}" for k in range(num_towers)]
        setters = [LeastLoadedDeviceSetter(device, devices) for device in devices]
        of_towers = DataParallelBuilder.build_on_towers(
            list(range(num_towers)), lambda: self.tower_func(*data.get_input_tensors()), setters
        )
        with tf.name_scope("optimize"):
            g_loss, d_loss = (tf.add_n(losses) / num_towers for losses in zip(*of_towers, strict=True))
            g_optimizer, d_optimizer = model.get_optimizers()
            # First one network and then the other, each by its own optimizer.
            self.train_op = minimize(g_optimizer, g_loss, "gen")
            with tf.control_dependencies([self.train_op]):
                self.train_op = minimize(d_optimizer, d_loss, "discrim")


def minimize(optimizer, loss, scope):
    """Return the operation that improves the trainable variables of a scope."""
    variables = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, f"{scope}/")
    return optimizer.minimize(loss, var_list=variables, colocate_gradients_with_ops=True)
