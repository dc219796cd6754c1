"""Options of the seeded part that the tests run; `python -m tests.conformance` runs the rest.

pytest tests/conformance --part-share=0.2 --part-limit=4 --part-seed=7
"""


def pytest_addoption(parser):
    parser.addoption("--part-share", type=float, default=0.05, help="of all (entry, kind) pairs of a suite")
    parser.addoption("--part-limit", type=int, default=1, help="most cases of one kind in one entry")
    parser.addoption("--part-seed", default="0", help="chooses other ones")
