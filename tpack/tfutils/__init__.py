"""Sessions, checkpoints, summaries, gradient processors and optimizers: what graph-mode training needs around the model."""
