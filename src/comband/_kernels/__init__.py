"""The hot loops, compiled by numba and cached, one file per user of them. Each has a plain numpy twin in the tests."""

from comband._kernels import announcing as announcing  # from the first loop on
