"""The contract under load, faults and bad input: the goals R1 to R27 as figures.

Each goal is a function that makes one trial, told its number and whom it is about, and raises if it
fails. `make test` makes a few trials of each, `make stress` all of them:

    python -m reliability --help      (with src and tests on the PYTHONPATH)
"""
