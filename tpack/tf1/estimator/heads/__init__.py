"""Heads: what a model's logits mean, and so its loss, metrics, predictions and export outputs."""

__all__: list[str] = []
