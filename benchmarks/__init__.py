"""Benchmarks: `python -m benchmarks.NAME`, each printing ratios from one interleaved run."""
