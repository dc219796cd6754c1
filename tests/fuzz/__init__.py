"""Differential fuzzing: random programs on CPU and on the device, compared step by step.

    python -m tests.fuzz --seconds 60 --seed 1 --mode adaptive --target embedded --tier auto

`program` is what a program is; `generate` makes one from a seed; `lockstep` runs it on both devices and compares
(`compare`); `shrink` makes a failing one small and `reproducer` prints it as Python of its own; `worker` does all
that in a process of its own and `__main__` watches it, so that a crash or a hang is a failure with a seed, too.
"""
