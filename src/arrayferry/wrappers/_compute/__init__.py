"""What the wrappers that compute share: arrays in their own framework, running statistics, batches."""
