"""The one package that uses undocumented parts of TensorFlow and Keras; it alone changes when a release moves them."""

from tpack.utils.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {"runtime": ("get_tf_version_tuple", "is_tfv2", "tfv1")})
