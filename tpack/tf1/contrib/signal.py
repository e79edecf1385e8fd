"""``tf.contrib.signal``: what became ``tf.signal``."""

from tpack.tf1.name_table import look_up

_NAMES = (
    "frame hamming_window hann_window inverse_stft inverse_stft_window_fn linear_to_mel_weight_matrix "
    "mfccs_from_log_mel_spectrograms overlap_and_add stft"
)

__getattr__, __dir__, __all__ = look_up(__name__, {name: f"tf.signal.{name}" for name in _NAMES.split()})
