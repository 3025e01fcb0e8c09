"""Environments of other interfaces as Gymnasium environments, which `arrayferry.wrap` calls by itself."""
