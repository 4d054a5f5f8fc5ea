"""Become another program that the kernel ends together with the process that started it.

Run as a script: `python -I -S leash.py PARENT PROGRAM ARGUMENT…`. So nothing of the demo outlives a conductor that was
itself killed with SIGKILL. Elsewhere than on Linux it only starts the program.
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
