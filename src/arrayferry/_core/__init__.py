"""How a value is converted. The map of this folder is in its README."""
