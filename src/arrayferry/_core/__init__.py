"""How a value crosses. The map of this folder is in its README."""
