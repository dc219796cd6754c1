"""Does a test fail when the code is wrong? `python -m tools.mutants` breaks one line at a time and looks.

faults/*.toml lists the faults: in which file which text becomes which, and the test that must fail then. faults.py
reads the list, sandbox.py is the copy of the tree in which the faults are made, __main__.py is the command.
"""
