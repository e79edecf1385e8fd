"""``tf.contrib.distributions``: the distributions that TensorFlow itself has; TensorFlow Probability has all."""

from tpack.tf1.name_table import look_up

_NAMES = (
    "Bernoulli Beta Categorical Dirichlet DirichletMultinomial Distribution Exponential FULLY_REPARAMETERIZED Gamma "
    "Laplace Multinomial NOT_REPARAMETERIZED Normal RegisterKL ReparameterizationType StudentT Uniform kl_divergence"
)

__getattr__, __dir__, __all__ = look_up(__name__, {name: f"tf.distributions.{name}" for name in _NAMES.split()})
