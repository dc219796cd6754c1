"""One runner (`python -m benchmarks.run`), one file per case."""
