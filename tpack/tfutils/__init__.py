"""Sessions, checkpoints, summaries, gradient processors and optimizers: what training needs around the model."""
