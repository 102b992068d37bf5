"""The hot loops, compiled by numba and cached, one file per user of them. Each has a plain numpy twin in the tests."""
