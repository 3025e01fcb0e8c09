"""A device for torch whose work is late, to test what orders transfers on a real one. See late.cpp.

Registering it is for the whole process and for ever, so its tests run in a process of their own:
`make test-with NAME=late`.
"""
