"""Ranks that are forked from one process: importing PyTorch takes longer than what they do."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable


def run_ranks(main: Callable[[int], None], size: int) -> None:
    """Run ``main(rank)`` in a process for each rank; exit with the number of those that failed."""
    running = []
    for rank in range(size):
        process = os.fork()
        if process == 0:
            code = 1
            try:
                main(rank)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        running.append(process)
    ends = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in running]
    sys.exit(sum(end != 0 for end in ends))
