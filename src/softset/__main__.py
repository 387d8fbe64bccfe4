"""``python -m softset`` and ``torchrun -m softset``: the command line."""

from softset.cli import main

if __name__ == "__main__":
    main()
