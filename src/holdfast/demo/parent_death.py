"""Become another program that the kernel ends together with its parent, so that nothing outlives a killed demo.

Run as a script: `python -I -S parent_death.py PARENT PROGRAM ARGUMENT…`. Like `worker.parent_death`, but for
any program, and without importing Holdfast. On systems other than Linux, it only starts the program.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        sys.exit(70)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
